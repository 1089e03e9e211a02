"""Groups of nodes that programs of other naming schemes write, seen as records through an agent
that imports them."""

import json
import unittest

from berth import AgentTest, berth, wait_until
from foreign_nodes import InDirectory, OnZooKeeper
from names import ask, reserve_names_port, texts
from streams import Stream
from zk_client import ZkClient

AS = "/services/shop"
GROUP = "/Discovery/my shop"


def member(host, port, status="ALIVE"):
    endpoint = {"host": host, "port": port}
    return {"serviceEndpoint": endpoint, "additionalEndpoints": {"http": endpoint},
        "status": status}


def master(host):
    return {"address": {"hostname": host, "ip": "10.0.0.1", "port": 5050}, "hostname": host,
        "id": host, "port": 5050}


class Imports:
    def setUp(self):
        super().setUp()
        self.prepare()

    def start(self, kind="serverset", **sections):
        imports = {"import shop": {"type": kind, "from": GROUP, "as": AS}}
        agent = self.agent(**{**imports, **sections}).start()
        return agent

    def get(self, agent, request, **headers):
        answer = agent.get(request, **headers)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def wait_children(self, agent, names):
        paths = [f"{AS}/{name}" for name in names]
        wait_until(lambda: agent.get(f"/v1/list{AS}").json == paths, f"the members are {names}")

    def test_every_kind_of_lookup_sees_the_members_as_records(self):
        self.write(f"{GROUP}/member_0000000001", member("10.0.0.1", 8001))
        self.write(f"{GROUP}/member_0000000002", member("10.0.0.2", 8002))
        self.write(f"{GROUP}/vector_0000000001", {"vector": []})
        port = reserve_names_port(self)
        agent = self.start(dns={"listen": f"127.0.0.1:{port}"})
        first, second = f"{AS}/member--0000000001", f"{AS}/member--0000000002"
        self.assertEqual(self.get(agent, f"/v1/list{AS}").json, [first, second])
        self.assertEqual(self.get(agent, "/v1/list/services").json, [AS])
        record = self.get(agent, f"/v1/resolve{first}").json
        self.assertEqual((record["type"], record["yarn:id"]),
            ("JSONServiceRecord", "member_0000000001"))
        self.assertEqual(list(self.get(agent, f"/v1/records{AS}").json), [first, second])
        plain = self.get(agent, f"/v1/endpoints{AS}?api=http", accept="text/plain").body.decode()
        self.assertEqual(plain.split(), ["10.0.0.1:8001", "10.0.0.2:8002"])
        self.assertEqual(list(self.get(agent, "/v1/find?id=member_0000000002").json), [second])
        stat = self.get(agent, f"/v1/stat{second}").json
        self.assertEqual((stat["path"], stat["children"]), (second, 0))
        cached = self.get(agent, f"/v1/resolve{first}")
        self.assertEqual((cached.headers["X-Cache"], cached.headers["Age"]), ("HIT", "0"))
        shown = berth("--socket", agent.socket, "endpoints", "--plain", AS)
        self.assertEqual((shown.returncode, "10.0.0.2:8002" in shown.stdout), (0, True),
            shown.stderr)
        name = "member--0000000002.shop.services.berth"
        self.assertEqual([item.split()[1] for item in texts(ask(port, name))], ["10.0.0.2"])
        targets = texts(ask(port, f"_http._tcp.{name}", "SRV"))
        self.assertIn("8002", targets[0].split())

    def test_a_stream_and_the_cache_follow_the_members(self):
        agent = self.start("nerve")
        self.wait_children(agent, [])
        with Stream(agent.socket, f"/v1/watch{AS}?recursive=yes") as stream:
            stream.until(lambda event: event["type"] == "SUBSCRIBED")
            self.assertEqual(list(stream.tree), [AS])
            self.write(f"{GROUP}/web_1", {"host": "10.0.0.1", "port": 1})
            path = f"{AS}/web--1"
            stream.until(lambda _: stream.tree.get(path))
            self.write(f"{GROUP}/web_1", {"host": "10.0.0.1", "port": 2})
            address = {"host": "10.0.0.1", "port": "2"}
            stream.until(lambda _: stream.tree[path]["external"][0]["addresses"] == [address])
            self.write(f"{GROUP}/web_1", "rubbish")
            stream.until(lambda _: path in stream.tree and stream.tree[path] is None)
            self.erase(f"{GROUP}/web_1")
            stream.until(lambda _: path not in stream.tree)
        self.wait_children(agent, [])

    def test_a_member_that_cannot_be_read_says_why_and_hides_nobody(self):
        self.write(f"{GROUP}/bad", {"type": "host", "host": {"address": None}})
        self.write(f"{GROUP}/good", {"type": "host", "host": {"address": "10.0.0.1"}})
        agent = self.start("registrar")
        self.wait_children(agent, ["bad", "good"])
        answer = agent.get(f"/v1/resolve{AS}/bad")
        self.assertEqual((answer.status, answer.json["title"]), (502, "InvalidRecord"))
        self.assertIn("there is no address", answer.json["detail"])
        self.assertEqual(list(self.get(agent, f"/v1/records{AS}").json), [f"{AS}/good"])
        shown = berth("--socket", agent.socket, "resolve", f"{AS}/bad")
        self.assertEqual(shown.returncode, 1)
        self.assertIn("there is no address", shown.stderr)

    def test_the_leading_master_is_one_and_the_others_are_the_rest(self):
        for number in (3, 5, 9):
            self.write(f"{GROUP}/json.info_000000000{number}", master(f"m{number}"))
        self.write(f"{GROUP}/log_replicas")
        agent = self.start("mesos")
        self.wait_children(agent, ["leader", "master-0000000005", "master-0000000009"])
        self.assertEqual(self.get(agent, f"/v1/resolve{AS}/leader").json["yarn:hostname"], "m3")
        self.erase(f"{GROUP}/json.info_0000000003")
        self.wait_children(agent, ["leader", "master-0000000009"])
        wait_until(
            lambda: agent.get(f"/v1/resolve{AS}/leader").json["yarn:hostname"] == "m5",
            "the next master leads"
        )
        self.assertEqual(agent.get(f"/v1/resolve{AS}/master-0000000005").status, 404)

    def test_an_import_changes_with_a_reload_and_outlives_an_upgrade(self):
        self.write(f"{GROUP}/member_0000000001", member("10.0.0.1", 8001))
        agent = self.start()
        self.wait_children(agent, ["member--0000000001"])
        agent.write_config({"import shop": {"type": "serverset", "from": GROUP,
            "as": "/other/shop"}})
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        wait_until(
            lambda: agent.get("/v1/list/other/shop").json == ["/other/shop/member--0000000001"],
            "it has moved"
        )
        wait_until(lambda: agent.get(f"/v1/list{AS}").status == 404, "nothing is left where it was")
        agent.upgrade()
        self.assertEqual(self.get(agent, "/v1/list/other/shop").json,
            ["/other/shop/member--0000000001"])


class ImportsFromDirectory(Imports, InDirectory, AgentTest):
    pass


class ImportsFromZooKeeper(Imports, OnZooKeeper, AgentTest):
    def test_members_go_with_their_session_and_answers_outlive_an_outage(self):
        self.client.make(GROUP)
        agent = self.start()
        with ZkClient(self.server.hosts) as other:
            path = other.create_sequential(f"{GROUP}/member_",
                json.dumps(member("10.0.0.7", 7)).encode())
            label = path.rsplit("/", 1)[1].replace("_", "--")
            self.wait_children(agent, [label])
            other.delete(path)
            self.wait_children(agent, [])
            other.create_sequential(f"{GROUP}/member_", json.dumps(member("10.0.0.8", 8)).encode())
            self.wait_children(agent, ["member--0000000001"])
            request = f"/v1/resolve{AS}/member--0000000001"
            record = self.get(agent, request).json
            self.server.kill()
            wait_until(lambda: agent.get(request).headers["X-Cache"] == "STALE",
                "the answer is stale")
            self.assertEqual(self.get(agent, request).json, record)
            # The list of members is known, and says so; nothing is known of what is elsewhere.
            absent = agent.get(f"/v1/resolve{AS}/unknown")
            self.assertEqual((absent.status, absent.headers["X-Cache"]), (404, "STALE"))
            self.assertEqual(agent.get("/v1/resolve/unknown/path").status, 503)
            for verb in "ls", "resolve", "stat", "exists", "endpoints":
                said = berth("--socket", agent.socket, verb, f"{AS}/unknown")
                self.assertEqual(said.returncode, 3, said.stderr)
                self.assertRegex(said.stderr,
                    r"(?m)^note: the registry is away; this answer is .* old$")
            unknown = berth("--socket", agent.socket, "ls", "/unknown/path")
            self.assertEqual(unknown.returncode, 4)
            self.assertRegex(unknown.stderr, "^berth: RegistryUnavailable: [^\n]*\n$")
        self.server.restart()
        wait_until(lambda: agent.get(f"/v1/list{AS}").headers["X-Cache"] != "STALE",
            "the registry is back")
        # Its session has nobody left, and ends.
        self.wait_children(agent, [])


if __name__ == "__main__":
    unittest.main()
