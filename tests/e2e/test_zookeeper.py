"""The main job on a real ZooKeeper, seen by an independent client."""

import json
import os
import signal
import time
import unittest
import uuid

from berth import BUILD, Agent, AgentTest, berth, exists, service_record, wait_until
from fake_zookeeper import FakeZooKeeper
from rights import needs
from streams import Stream
from wire import Wire
from zk_client import ZkClient
from zookeeper import ZooKeeper

NODE = f"/registry{Agent.PATH}"
SETPCAP = 1 << 8


class OnZooKeeper(AgentTest):
    # No session ends because the server is stopped for a while.
    SESSION = {"session_timeout": "60s"}

    @classmethod
    def setUpClass(cls):
        cls.server = ZooKeeper("maxSessionTimeout=60000\n")
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.registry = self.server.url
        # One server for the tests of a class: what one of them left must not meet the next.
        wait_until(lambda: self.node() is None, "the node of the test before is gone", patience=120)

    def node(self):
        return self.server.stat(NODE)

    def registered_agent(self, **keywords):
        agent = self.web_agent(extra={"registry": self.SESSION}, **keywords).start()
        agent.wait_state("registered")
        return agent

    def saved_session(self, agent):
        """The session's id and password, as the state file keeps them for a successor."""
        text = (agent.folder / "state" / "session").read_text()
        return json.loads(text.split("\n", 1)[1])["session"]

    def test_the_node_is_ephemeral_and_holds_what_the_configuration_says(self):
        self.registered_agent()
        stat = self.node()
        self.assertNotEqual(stat["ephemeralOwner"], 0)
        record = json.loads(self.server.probe("get", NODE).stdout)
        self.assertEqual(record["type"], "JSONServiceRecord")
        self.assertEqual(record["yarn:id"], "container_1_0001_01_000001")
        self.assertEqual(record["external"][0]["addresses"], [{"uri": "http://127.0.0.1:8080/"}])

    def test_the_worker_starts_before_the_checks(self):
        """Its way is the longest to the first record; the first run of a check finds it there."""
        children = self.folder / "children"
        check = (f"/bin/sh -c 'test -e {children} || for pid in $(cat /proc/$PPID/task/*/children);"
            f" do cat /proc/$pid/comm; done >{children}'")
        self.registered_agent(check=check)
        self.assertIn("berth-zookeeper", children.read_text().split())

    def test_zktriple_is_written_where_it_is_wanted_and_found_as_zookeeper(self):
        def types(endpoints):
            return sorted(endpoint["addressType"] for endpoint in endpoints)

        def written(node):
            return types(json.loads(self.server.probe("get", node).stdout)["external"])

        quorum = {"api": "x:y", "protocol": "zk", "address_type": "zktriple", "address": "z:1/x"}
        agent = self.web_agent(
            extra={"registry": self.SESSION, "endpoint quorum": quorum}).start()
        agent.wait_state("registered")
        self.assertEqual(written(NODE), ["uri", "zktriple"])
        self.assertEqual(types(agent.get(f"/v1/endpoints{Agent.PATH}").json), ["uri", "zookeeper"])
        file = self.folder / "record.json"
        file.write_text(self.server.probe("get", NODE).stdout)
        tool = ["--registry", self.registry]
        result = berth(*tool, "bind", "/bound", "--file", file)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(written("/registry/bound"), ["uri", "zktriple"])
        shown = berth(*tool, "--format", "json", "endpoints", "/bound").stdout
        self.assertEqual(types(json.loads(shown)), ["uri", "zookeeper"])

    def test_a_persistent_node_when_asked_for(self):
        agent = self.registered_agent(znode="persistent")
        self.assertEqual(self.node()["ephemeralOwner"], 0)
        agent.stop()
        self.assertIsNone(self.node())

    def test_term_removes_it_at_once(self):
        agent = self.registered_agent()
        self.assertEqual(agent.stop(), 0)
        self.assertIsNone(self.node())

    def test_kill_9_of_the_worker_leaves_the_same_node(self):
        agent = self.registered_agent()
        before = self.node()
        # The kernel may leave a child out of the list when another one ends just then.
        worker = wait_until(agent.worker, "the worker is found")
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: agent.worker() not in (None, worker), "there is a new worker")
        agent.wait_state("registered")
        self.assertEqual(self.node(), before)
        self.assertEqual(agent.process.poll(), None)

    def test_the_worker_is_in_the_cage_that_the_log_names(self):
        agent = self.registered_agent()
        log = agent.read_log()
        words = log[log.index("cage: ") :].splitlines()[0]
        with open(f"/proc/{agent.worker()}/status", encoding="ascii") as lines:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in lines)
        caged = "built without sandbox" not in words
        self.assertEqual(caged, "cage: seccomp, " in words, words)
        self.assertEqual(status["Seccomp"], "2" if caged
            else self.status_of_agent(agent)["Seccomp"])
        if caged:
            self.assertEqual(status["NoNewPrivs"], "1")
            self.assertEqual({status[name].strip("0") for name in ("CapEff", "CapPrm", "CapInh",
                "CapAmb")}, {""})
            # The kernel lets only who has CAP_SETPCAP take something out of the bounding set.
            own = self.status_of_agent(agent)
            empty = "0" * len(own["CapBnd"])
            self.assertEqual(status["CapBnd"],
                empty if int(own["CapEff"], 16) & SETPCAP else own["CapBnd"])

    def status_of_agent(self, agent):
        with open(f"/proc/{agent.process.pid}/status", encoding="ascii") as lines:
            return dict(line.rstrip("\n").split(":\t", 1) for line in lines)

    def test_an_expired_session_is_followed_by_another(self):
        agent = self.registered_agent()
        before = self.node()
        session = self.saved_session(agent)
        follower = Stream(agent.socket, f"/v1/watch{Agent.PATH}")
        self.addCleanup(follower.close)
        record = follower.next()["snapshot"][Agent.PATH]
        result = self.server.probe("kill-session", session["id"], session["password"])
        self.assertEqual(result.returncode, 0, result.stderr)
        wait_until(
            lambda: (self.node() or before)["ephemeralOwner"] != before["ephemeralOwner"],
            "the record is there again, in another session",
        )
        agent.wait_state("registered")
        # Its own stream has not ended: no LOST, whatever becomes of the registry's session.
        follower.until(lambda event: event["type"] == "STALE")
        follower.until(lambda _: not follower.stale and follower.tree == {Agent.PATH: record})

    def test_an_external_delete_is_repaired(self):
        agent = self.registered_agent()
        before = self.node()
        self.server.probe("delete", NODE)
        wait_until(lambda: (self.node() or before)["czxid"] != before["czxid"],
            "the record is back")
        agent.wait_state("registered")

    def test_an_external_change_is_repaired(self):
        agent = self.registered_agent()
        before = self.server.probe("get", NODE).stdout
        self.server.probe("set", NODE, '{"type":"JSONServiceRecord","description":"vandal"}')
        wait_until(lambda: self.server.probe("get", NODE).stdout == before,
            "the record is as it was")
        agent.wait_state("registered")

    def test_failing_takes_out_and_passing_brings_back(self):
        flag = self.folder / "healthy"
        flag.touch()
        agent = self.registered_agent(check=exists(flag))
        flag.unlink()
        agent.wait_state("withdrawn")
        self.assertIsNone(self.node())
        flag.touch()
        agent.wait_state("registered")
        self.assertIsNotNone(self.node())

    def test_a_server_that_comes_later_is_no_reason_to_fail(self):
        server = ZooKeeper()
        self.addCleanup(server.stop)
        server.kill()
        self.registry = server.url
        agent = self.web_agent().start()
        self.assertEqual(agent.get(f"/v1/resolve{Agent.PATH}").status, 503)
        server.restart()
        agent.wait_state("registered")

    def test_an_agent_makes_the_registry_and_a_question_does_not(self):
        root = f"/{uuid.uuid4().hex}"
        self.registry = self.server.url.replace("/registry", root)
        for question in ["ls", "/"], ["resolve", "/a"], ["find"]:
            answer = berth("--registry", self.registry, *question)
            self.assertEqual((answer.returncode, answer.stdout), (3, ""), answer.stderr)
        self.assertEqual(berth("--registry", self.registry, "mknode", "/a/b").returncode, 3)
        self.assertIsNone(self.server.stat(root))
        self.agent().start()
        wait_until(lambda: self.server.stat(root), "the root is made")
        self.assertEqual(berth("--registry", self.registry, "ls", "/").returncode, 0)

    def test_the_root_is_any_path_of_zookeeper(self):
        """Hadoop's own is /yarnRegistry. The rules for elements begin below it."""
        root = f"/yarnRegistry/{uuid.uuid4().hex} of Zoë"
        self.registry = self.server.url.replace("/registry", root)
        node = root + Agent.PATH
        group = {"type": "serverset", "from": f"{root}/Members", "as": "/members"}
        agent = self.web_agent(extra={"registry": self.SESSION, "import old": group}).start()
        agent.wait_state("registered")
        before = self.server.stat(node)
        self.assertNotEqual(before["ephemeralOwner"], 0)
        self.server.probe("delete", node)
        wait_until(lambda: (self.server.stat(node) or before)["czxid"] != before["czxid"],
            "the record is back")
        member = '{"serviceEndpoint":{"host":"h","port":1},"status":"ALIVE"}'
        self.server.load([(f"{root}/Members", ""), (f"{root}/Members/member_1", member)])
        wait_until(lambda: list(agent.get("/v1/records/members").json) == ["/members/member--1"],
            "the import below the root is followed")
        self.assertEqual(agent.get("/v1/agent").json["registry"]["url"], self.registry)
        tool = ["--registry", self.registry]
        self.assertEqual(berth(*tool, "resolve", Agent.PATH).returncode, 0)
        self.assertEqual(berth(*tool, "rm", "-r", "/users").returncode, 0)
        wait_until(lambda: self.server.stat(node), "the record is back")

    def test_no_cache_reads_what_was_written_before_the_request(self):
        """Also while a change is being read already: each answer of the server takes two delays."""
        delay_s, path = 0.03, "/services/counter"
        with Wire(self.server.hosts, delay=delay_s) as wire, ZkClient(self.server.hosts) as client:
            client.make(f"/registry{path}")
            agent = self.agent(registry=f"zookeeper://{wire.hosts}/registry")
            agent.write_config({"registry": self.SESSION})
            agent.start()
            wait_until(lambda: agent.get(f"/v1/resolve{path}").status == 404,
                "the agent is connected")
            for number in range(40):
                client.set(f"/registry{path}", json.dumps(service_record("a", 80, number=number)))
                # the read of this one is somewhere on its way
                time.sleep(delay_s * (number % 8) / 2)
                client.set(f"/registry{path}", json.dumps(service_record("a", 80, number=-number)))
                answer = agent.get(f"/v1/resolve{path}", Cache_Control="no-cache")
                self.assertEqual((answer.json["number"], answer.headers["X-Cache"]),
                    (-number, "MISS"))

    def test_two_agents_see_each_other(self):
        self.registered_agent()
        reader = self.agent("reader").start()
        wait_until(lambda: reader.get(f"/v1/resolve{Agent.PATH}").status == 200,
            "the other agent finds it")


@needs("mount namespace")
class MovedServer(AgentTest):
    # The cage lets no worker look a name up: this takes another worker.
    def test_is_found_by_its_name_again(self):
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 zookeeper.test\n")
        program = self.folder / "berthd"
        program.write_text(
            "#!/bin/sh\nexec unshare --mount --propagation private -- "
            f"""sh -c 'mount --bind {hosts} /etc/hosts && exec {BUILD}/berthd "$@"' sh "$@"\n"""
        )
        program.chmod(0o755)
        first = FakeZooKeeper()
        self.addCleanup(first.stop)
        port = first.listener.getsockname()[1]
        agent = self.web_agent(registry=f"zookeeper://zookeeper.test:{port}/registry")
        agent.program = program
        agent.start()
        agent.wait_state("registered")
        worker = agent.worker()
        first.stop()
        second = FakeZooKeeper(("127.0.0.2", port))
        self.addCleanup(second.stop)
        hosts.write_text("127.0.0.2 zookeeper.test\n")
        wait_until(lambda: NODE in second.tree.nodes, "the record is where the name leads now")
        agent.wait_state("registered")
        self.assertNotEqual(agent.worker(), worker)


if __name__ == "__main__":
    unittest.main()
