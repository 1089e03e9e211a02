"""Further registries at /net/NAME: what they show, and that one that is away, slow, wiped or rolled
back touches no other."""

import http.client
import json
import pathlib
import shutil
import signal
import socket
import time
import unittest

from berth import PATIENCE, AgentTest, berth, service_record, wait_until
from kazoo_client import kazoo, make_digest_acl
from names import ask, reserve_names_port, texts
from streams import Stream
from zookeeper import ZooKeeper, share_zookeeper

COMPONENTS = "/users/joe/web/prod/components"
EAST = f"/net/east{COMPONENTS}"
CROWD = 300  # look-ups that wait; 256 may


def port_of(record):
    return int(record["external"][0]["addresses"][0]["port"])


class Further(AgentTest):
    def setUp(self):
        super().setUp()
        self.east = f"dir:{self.folder}/east"

    def start(self, **sections):
        sections.setdefault("registry east", {"url": self.east})
        return self.agent(**sections).start()

    def get(self, agent, request, **headers):
        answer = agent.get(request, **headers)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def wait_json(self, agent, request, expected):
        wait_until(lambda: agent.get(request).json == expected, f"{request} answers {expected}")

    def wait_cache(self, agent, request, expected):
        wait_until(lambda: agent.get(request).headers["X-Cache"] == expected,
            f"{request} is {expected}")


class WhatIsSeen(Further):
    def test_every_kind_of_lookup_reads_the_registry_of_its_path(self):
        self.put(f"{COMPONENTS}/c1", service_record("10.0.0.1", 80), self.east)
        self.put(f"{COMPONENTS}/own", service_record("10.0.0.9", 90))
        agent = self.start()
        self.assertEqual(self.get(agent, "/v1/list/net").json, ["/net/east"])
        self.assertEqual(self.get(agent, "/v1/list/net/east").json, ["/net/east/users"])
        self.assertEqual(self.get(agent, f"/v1/list{EAST}").json, [f"{EAST}/c1"])
        self.assertEqual(port_of(self.get(agent, f"/v1/resolve{EAST}/c1").json), 80)
        self.assertEqual(list(self.get(agent, f"/v1/records{EAST}").json), [f"{EAST}/c1"])
        plain = self.get(agent, f"/v1/endpoints{EAST}", accept="text/plain").body.decode()
        self.assertIn("10.0.0.1:80", plain)
        self.assertIn("10.0.0.1:80", self.get(agent, f"/v1/targets{EAST}").json[0]["targets"])
        self.assertEqual(self.get(agent, f"/v1/stat{EAST}").json["children"], 1)
        self.assertEqual(list(self.get(agent, "/v1/find?under=/net/east").json), [f"{EAST}/c1"])
        cached = self.get(agent, f"/v1/resolve{EAST}/c1")
        self.assertEqual((cached.headers["X-Cache"], cached.headers["Age"]), ("HIT", "0"))
        self.assertEqual(agent.get("/v1/resolve/net/west/a").status, 404)
        shown = berth("--socket", agent.socket, "ls", "/net")
        self.assertEqual(shown.stdout.split(), ["/net/east"], shown.stderr)
        status = berth("--socket", agent.socket, "status").stdout
        self.assertRegex(status, r"/net/east +connected")

    def test_nothing_goes_there_from_above_and_what_the_own_registry_has_at_net_is_hidden(self):
        self.put("/a", service_record("10.0.0.1", 80), self.east)
        self.put("/net/east/b", service_record("10.0.0.2", 80))
        self.put("/c", service_record("10.0.0.3", 80))
        agent = self.start()
        self.assertEqual(self.get(agent, "/v1/list/").json, ["/c"])
        self.assertEqual(self.get(agent, "/v1/stat/").json["children"], 1)
        self.assertEqual(list(self.get(agent, "/v1/records/").json), ["/c"])
        self.assertEqual(list(self.get(agent, "/v1/find").json), ["/c"])
        self.assertEqual(self.get(agent, "/v1/find?under=/net").json, {})
        self.assertEqual(self.get(agent, "/v1/records/net").json, {})
        self.assertEqual(self.get(agent, "/v1/list/net/east").json, ["/net/east/a"])
        self.assertEqual(agent.get("/v1/resolve/net/east/b").status, 404)
        for path, tree in (("/", ["/", "/c"]), ("/net", ["/net", "/net/east"]),
                ("/net/east", ["/net/east", "/net/east/a"])):
            with Stream(agent.socket, f"/v1/watch{path}?recursive=yes") as stream:
                stream.until(lambda event: event["type"] == "SUBSCRIBED")
                self.assertEqual(sorted(stream.tree), tree)
        wait_until(lambda: "has a node at /net" in agent.read_log(), "the log says so")

    def test_names_outputs_and_streams_follow_it(self):
        port = reserve_names_port(self)
        written = self.folder / "written"
        agent = self.start(dns={"listen": f"127.0.0.1:{port}"}, cache={"warm": "/net/east/**"},
            **{"output far": {"from": EAST, "format": "lines", "path": written,
                "quiet": "10ms", "max_wait": "50ms"}})
        with Stream(agent.socket, "/v1/watch/net/east?recursive=yes") as stream:
            stream.until(lambda event: event["type"] == "SUBSCRIBED")
            self.put(f"{COMPONENTS}/c1", service_record("10.0.0.1", 80), self.east)
            stream.until(lambda event: event.get("path") == f"{EAST}/c1")
        wait_until(lambda: written.exists() and "10.0.0.1:80" in written.read_text(),
            "the output names it")
        name = "prod.web.joe.east.net.berth"
        self.assertEqual([line.split()[-1] for line in texts(ask(port, name))], ["10.0.0.1"])
        target = texts(ask(port, f"_http._tcp.{name}", "SRV"))[0].split()[-1]
        self.assertEqual(target, "c1.components.prod.web.joe.users.east.net.berth.")
        self.assertEqual([line.split()[-1] for line in texts(ask(port, target))], ["10.0.0.1"])
        self.assertEqual(self.get(agent, f"/v1/names/{name}").json["paths"], [f"{EAST}/c1"])
        self.assertEqual(agent.get("/v1/names/prod.web.joe.berth").status, 404)
        metrics = agent.get("/metrics").body.decode()
        self.assertIn('berth_registry_connected{registry="east"} 1', metrics)
        self.assertIn("berth_registry_connected 1", metrics)
        self.assertIn("registry east: connecting -> connected", agent.read_log())


class Changes(Further):
    def test_a_reload_adds_changes_and_removes_one_and_does_not_touch_the_others(self):
        west, other = f"dir:{self.folder}/west", f"dir:{self.folder}/other"
        written = self.folder / "written"
        self.put("/a", service_record("10.0.0.1", 80), self.east)
        self.put("/w", service_record("10.0.0.2", 80), west)
        self.put("/o", service_record("10.0.0.3", 80), other)
        agent = self.start()
        output = {"output far": {"from": "/net/west/**", "format": "lines", "path": written,
            "quiet": "10ms", "max_wait": "50ms"}}
        with Stream(agent.socket, "/v1/watch/net/east?recursive=yes") as stays, \
                Stream(agent.socket, "/v1/watch/net?recursive=yes") as names:
            stays.until(lambda event: event["type"] == "SUBSCRIBED")
            names.until(lambda event: event["type"] == "SUBSCRIBED")
            east = {"registry east": {"url": self.east}}
            agent.write_config({**east, "registry west": {"url": west}, **output})
            agent.signal(signal.SIGHUP)
            names.until(lambda event: event.get("path") == "/net/west")
            self.wait_json(agent, "/v1/list/net/west", ["/net/west/w"])
            wait_until(lambda: written.exists() and "10.0.0.2:80" in written.read_text(),
                "the output follows the new one")
            agent.write_config({**east, "registry west": {"url": other}, **output})
            agent.signal(signal.SIGHUP)
            self.wait_json(agent, "/v1/list/net/west", ["/net/west/o"])
            wait_until(lambda: "10.0.0.3:80" in written.read_text(), "and the changed one")
            agent.write_config(east)
            agent.signal(signal.SIGHUP)
            names.until(lambda event: event["type"] == "DELETED")
            self.assertEqual(agent.get("/v1/list/net/west").status, 404)
            self.assertNotIn('registry="west"', agent.get("/metrics").body.decode())
            self.put("/b", service_record("10.0.0.4", 80), self.east)
            after = stays.until(lambda event: event.get("path") == "/net/east/b")
            self.assertEqual(after["sequence"], 2, "the stream of the other had no event")

    def test_an_upgrade_and_a_restart_answer_from_the_snapshot(self):
        self.put("/a", service_record("10.0.0.1", 80), self.east)
        agent = self.start(cache={"warm": "/net/east/**"})
        self.wait_json(agent, "/v1/list/net/east", ["/net/east/a"])
        agent.upgrade()
        self.assertEqual(self.get(agent, "/v1/list/net/east").json, ["/net/east/a"])
        agent.stop()
        shutil.rmtree(self.folder / "east")
        agent.write_config({"registry east": {"url": "zookeeper://127.0.0.1:1/registry"}})
        agent.start()
        self.assertEqual(self.get(agent, "/ready").status, 200)
        self.assertEqual(agent.get("/v1/list/").status, 200)
        self.assertIn("of another registry", agent.read_log())


class TwoEnsembles(Further):
    """The agent's own registry on one server, a further one on another that is made to fail."""

    def setUp(self):
        super().setUp()
        main = share_zookeeper()
        self.addCleanup(main.stop)
        self.registry = main.url
        self.server = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(self.server.stop)
        self.east = self.server.url
        self.put("/own", service_record("10.0.0.1", 1))
        self.put("/far", service_record("10.0.1.1", 1), self.east)
        self.value = 1

    def start_both(self, session_timeout="3s"):
        agent = self.start(agent={"listen": ""},
            **{"registry east": {"url": self.east, "session_timeout": session_timeout},
                "import group": {"type": "nerve", "from": "/Group",
                    "as": "/net/east/imported/web"}})
        self.wait_cache(agent, "/v1/resolve/own", "HIT")
        self.wait_cache(agent, "/v1/resolve/net/east/far", "HIT")
        return agent

    def assert_own_is_right(self, agent, times=5):
        """What is written to the own registry is what is read, at once and with an age of 0."""
        for _ in range(times):
            self.value += 1
            self.put("/own", service_record("10.0.0.1", self.value))
            seen = []

            def is_there():
                answer = self.get(agent, "/v1/resolve/own")
                seen.append((answer.headers["X-Cache"], answer.headers["Age"]))
                return port_of(answer.json) == self.value
            wait_until(is_there, "the own registry is followed")
            self.assertNotIn("STALE", [source for source, _ in seen])
            self.assertEqual({age for _, age in seen}, {"0"})
        self.assertEqual(agent.get("/ready").status, 200)

    def test_one_that_is_frozen_or_away_makes_its_own_answers_stale_and_no_others(self):
        agent = self.start_both()
        with Stream(agent.socket, "/v1/watch/own") as own, \
                Stream(agent.socket, "/v1/watch/net/east/far") as far:
            own.until(lambda event: event["type"] == "SUBSCRIBED")
            far.until(lambda event: event["type"] == "SUBSCRIBED")
            self.server.pause()
            self.wait_cache(agent, "/v1/resolve/net/east/far", "STALE")
            far.until(lambda event: event["type"] == "STALE")
            self.assert_own_is_right(agent)
            wait_until(lambda: int(agent.get("/v1/resolve/net/east/far").headers["Age"]) >= 2,
                "its age grows")
            self.server.resume()
            far.until(lambda event: event["type"] == "FRESH")
            self.wait_cache(agent, "/v1/resolve/net/east/far", "HIT")
            self.server.kill()
            self.wait_cache(agent, "/v1/resolve/net/east/far", "STALE")
            self.assertEqual(agent.get("/v1/resolve/net/east/unknown").status, 503)
            self.assert_own_is_right(agent)
            self.server.restart()
            self.wait_cache(agent, "/v1/resolve/net/east/far", "HIT")
            event = own.next()
            while port_of(event["record"]) < self.value:
                event = own.next()
                self.assertEqual(event["type"], "UPDATED", "and never STALE")

    def test_its_ages_are_bounds_of_the_time_since_it_was_heard(self):
        agent = self.start_both()
        confirm = agent.status()["registries"][0]["session_timeout_ms"] / 3000
        before = time.monotonic()
        self.wait_cache(agent, "/v1/resolve/net/east/far", "HIT")
        self.server.pause()
        paused = time.monotonic()
        ages = [0]
        while ages[-1] < 3:
            asked = time.monotonic()
            headers = self.get(agent, "/v1/resolve/net/east/far").headers
            answered = time.monotonic()
            ages.append(int(headers["Age"]))
            if headers["X-Cache"] == "STALE":
                self.assertGreaterEqual(ages[-1], asked - paused)
                self.assertLessEqual(ages[-1], answered - before + confirm + 1)
            else:
                self.assertEqual((headers["X-Cache"], ages[-1]), ("HIT", 0))
                self.assertLessEqual(asked - paused, confirm)
        self.assertEqual(ages, sorted(ages))
        self.server.resume()
        self.wait_cache(agent, "/v1/resolve/net/east/far", "HIT")

    def test_a_bound_that_is_written_counts_for_it_too(self):
        """Also one that is a third of the own registry's timeout, as the default would be."""
        agent = self.agent()
        agent.write_config({
            "registry": {"url": self.registry, "session_timeout": "3s"},
            "cache": {"confirm": "1s"},
            "registry east": {"url": self.east, "session_timeout": "60s"},
        })
        agent.start()
        self.wait_cache(agent, "/v1/resolve/net/east/far", "HIT")
        self.server.pause()
        stale = wait_until(lambda: next((answer for answer in
            [agent.get("/v1/resolve/net/east/far")] if answer.headers["X-Cache"] == "STALE"), None),
            "it is stale")
        self.server.resume()
        self.assertLess(int(stale.headers["Age"]), 20, "a third of its own timeout")

    def test_one_that_is_rolled_back_or_wiped_is_believed_for_itself(self):
        agent = self.start_both()
        data = pathlib.Path(self.server.directory) / "data"
        kept = pathlib.Path(self.server.directory) / "kept"
        self.server.kill()
        shutil.copytree(data, kept)
        self.server.restart()
        self.put("/later", service_record("10.0.1.2", 1), self.east)
        self.wait_json(agent, "/v1/list/net/east",
            ["/net/east/far", "/net/east/imported", "/net/east/later"])
        self.server.kill()
        shutil.rmtree(data)
        kept.rename(data)
        self.server.restart()
        self.wait_json(agent, "/v1/list/net/east", ["/net/east/far", "/net/east/imported"])
        self.assert_own_is_right(agent)
        self.server.kill()
        shutil.rmtree(data)
        data.mkdir()
        self.server.restart()
        wait_until(lambda: agent.get("/v1/resolve/net/east/far").status == 404,
            "the wiped one is believed")
        self.assert_own_is_right(agent)

    def test_an_import_can_be_in_it(self):
        agent = self.start_both()
        self.server.load([("/Group", ""), ("/Group/m1", '{"host":"10.0.2.1","port":80}')])
        self.wait_json(agent, "/v1/list/net/east/imported/web", ["/net/east/imported/web/m1"])
        self.assertIn("10.0.2.1", agent.get(
            "/v1/resolve/net/east/imported/web/m1").body.decode())

    def test_a_crowd_that_waits_for_it_leaves_the_own_registry_to_others(self):
        agent = self.start_both("60s")  # all come before it is found to be away
        self.server.pause()
        waiting = []
        for _ in range(CROWD):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.addCleanup(client.close)
            client.settimeout(PATIENCE)
            client.connect(str(agent.socket))
            waiting.append(client)
        # At once: the first must still wait when the last come.
        for number, client in enumerate(waiting):
            client.sendall(f"GET /v1/list/net/east/far/x{number} HTTP/1.1\r\nHost: a\r\n"
                "Cache-Control: no-cache\r\n\r\n".encode())
        self.assert_own_is_right(agent)
        answers = {}
        for client in reversed(waiting):
            answer = http.client.HTTPResponse(client)
            answer.begin()
            answers[answer.status] = answer.read().decode()
        self.assertIn("LimitExceeded", answers.get(503, ""), "not all may wait")
        self.assertIn(504, answers, "some did")
        self.server.resume()


class Credentials(Further):
    """Each registry has an identity of its own."""

    def setUp(self):
        super().setUp()
        self.servers = [share_zookeeper(), share_zookeeper()]
        for server in self.servers:
            self.addCleanup(server.stop)
        self.registry, self.east = (server.url for server in self.servers)

    def login(self, user):
        file = self.folder / user
        file.touch(mode=0o600)
        file.write_text(f"{user}:secret\n")
        return {"auth": "digest", "auth_file": file}

    def statuses(self, agent, root, users):
        return [agent.get(f"/v1/resolve{root}/{user}").status for user in users]

    def test_its_nodes_are_read_as_its_own_user_and_as_no_other(self):
        for server in self.servers:
            with kazoo(server.hosts) as writer:
                writer.ensure_path("/registry")
                for user in ("ann", "joe"):
                    writer.create(f"/registry/{user}", json.dumps(service_record("h", 1)).encode(),
                        [make_digest_acl(user, "secret", all=True)])
        self.put("/all", service_record("h", 1))
        self.put("/all", service_record("h", 1), self.east)
        agent = self.agent()
        agent.write_config({
            "registry": {"url": self.registry, **self.login("joe")},
            "registry east": {"url": self.east, **self.login("ann")},
            "registry west": {"url": self.east},
        })
        agent.start()
        for root, expected in (("", [403, 200, 200]), ("/net/east", [200, 403, 200]),
                ("/net/west", [403, 403, 200])):
            self.assertEqual(self.statuses(agent, root, ("ann", "joe", "all")), expected, root)
        self.assertEqual(agent.get("/v1/resolve/net/west/ann").json["title"], "NoPathPermissions")
        self.assertEqual(agent.get("/ready").status, 200)


if __name__ == "__main__":
    unittest.main()
