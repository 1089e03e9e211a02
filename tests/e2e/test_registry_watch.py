"""What the registry's state and pace mean for those who look: watches and lookups while ZooKeeper
is away, and how often a record is written."""

import json
import os
import time
import unittest

from berth import Agent, AgentTest, berth, wait_until
from kazoo_client import kazoo
from test_cli import Watch
from zookeeper import ZooKeeper

NODE = f"/registry{Agent.PATH}"


class WhileZooKeeperIsAway(AgentTest):
    def setUp(self):
        super().setUp()
        # A server that is stopped for a while is not away: clients report that, and its sessions
        # end, later.
        self.server = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(self.server.stop)
        self.registry = self.server.url

    def bind(self, path, uri):
        result = berth("--registry", self.registry, "bind", "-p", path, "--webui", uri,
            "--overwrite")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_watch_of_the_registry_tells_when_it_is_stale_and_fresh_again(self):
        self.bind("/a/web", "http://one/")
        watch = Watch(self, "--registry", self.registry, "-r", "/a")
        first = watch.next()
        self.assertEqual((first["type"], list(first["snapshot"])), ("SUBSCRIBED", ["/a", "/a/web"]))
        self.bind("/a/web", "http://two/")
        event = watch.next()
        self.assertEqual((event["type"], event["path"]), ("UPDATED", "/a/web"))
        self.server.kill()
        self.assertEqual(watch.next()["type"], "STALE")
        self.server.restart()
        self.assertEqual(watch.next()["type"], "FRESH")
        self.bind("/a/other", "http://three/")
        event = watch.next()
        self.assertEqual((event["type"], event["path"]), ("UPDATED", "/a/other"))
        self.assertEqual(event["record"]["external"][0]["addresses"], [{"uri": "http://three/"}])

    def test_a_node_that_is_no_longer_ephemeral_may_get_children(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        self.bind("/b", "http://one/")
        with kazoo(self.server.hosts) as client:
            record = client.get("/registry/b")[0]
            client.ensure_path("/registry/a")
            client.create("/registry/a/web", record, ephemeral=True)
            watch = Watch(self, "--socket", agent.socket, "-r", "/a")
            self.assertEqual(list(watch.next()["snapshot"]), ["/a", "/a/web"])
            both = client.transaction()
            both.delete("/registry/a/web")
            both.create("/registry/a/web", record)
            both.commit()
            client.create("/registry/a/web/below", record)
            event = watch.next()
            while event.get("path") != "/a/web/below":
                event = watch.next()
        self.assertEqual(event["type"], "UPDATED")

    def test_a_stale_answer_comes_with_a_note_of_its_age(self):
        agent = self.web_agent(extra={"registry": {"session_timeout": "60s"}}).start()
        agent.wait_state("registered")
        parent = os.path.dirname(Agent.PATH)
        lookups = ["resolve", Agent.PATH], ["endpoints", "--first", parent], ["ls",
            parent], ["records", parent]
        for lookup in lookups:
            fresh = berth("--socket", agent.socket, *lookup)
            self.assertEqual((fresh.returncode, fresh.stderr), (0, ""))
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected", "the agent notices")
        for lookup in lookups:
            with self.subTest(lookup):
                stale = berth("--socket", agent.socket, *lookup)
                self.assertEqual(stale.returncode, 0, stale.stderr)
                self.assertRegex(stale.stderr,
                    r"^note: the registry is away; this answer is \d+ m?s old\n$")
        self.assertEqual(berth("--socket", agent.socket, "resolve", "/unknown").returncode, 4)

    def test_a_record_that_changes_all_the_time_is_written_now_and_then_and_the_last_wins(self):
        endpoint = {"api": "http://example.org/d", "protocol": "REST", "address_type": "uri",
            "dynamic": "yes"}
        registry = {"update_interval": "1s", "session_timeout": "60s"}
        agent = self.web_agent(extra={"endpoint late": endpoint, "registry": registry}).start()
        agent.wait_state("registered")
        before = self.server.stat(NODE)["version"]
        started = time.monotonic()
        changes = 200
        for number in range(changes + 1):
            answer = agent.request("PUT", "/v1/agent/endpoints/late",
                {"addresses": [f"http://h:{number}/"]})
            self.assertIn(answer.status, (200, 204), answer.body)

        def standing():
            external = json.loads(self.server.probe("get", NODE).stdout)["external"]
            return external[-1]["addresses"]

        wait_until(lambda: standing() == [{"uri": f"http://h:{changes}/"}],
            "the last change is written")
        writes = self.server.stat(NODE)["version"] - before
        # Each interval has one write at most, and the first and the last are not whole ones.
        self.assertLessEqual(writes, time.monotonic() - started + 2)
        self.assertGreaterEqual(writes, 1)


if __name__ == "__main__":
    unittest.main()
