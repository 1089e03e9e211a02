"""GET /v1/set: who serves a path or a name, in order, with what every form has; as a stream; what
stays while fewer than enough are there."""

import contextlib
import json
import os
import socket
import tempfile
import threading
import unittest

from berth import AgentTest, berth, wait_until
from outputs import record
from streams import NDJSON, Stream
from zookeeper import ZooKeeper

WEB = "/users/joe/web/prod/components"
FAR = "/far"


@contextlib.contextmanager
def older_agent(kind, body):
    """Answers each connection in the same way."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(directory, "socket")
        listener.bind(path)
        listener.listen()

        def serve():
            while True:
                try:
                    peer = listener.accept()[0]
                except OSError:
                    return
                with peer:
                    peer.recv(65536)
                    head = (f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n"
                        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
                    peer.sendall((head + body).encode())

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)


class Sets(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url
        self.put_member(f"{WEB}/c1", 1, **{"berth:zone": "us/b"})
        self.put_member(f"{WEB}/c2", 2, track="canary", weight=3, **{"berth:zone": "eu/a"})
        self.put_member(f"{WEB}/c3", 3, protocol="sql", **{"berth:health": "warning"})
        self.put_member(f"{FAR}{WEB}/f1", 4)
        self.put_member("/users/ann/services/app/x1/components/h1", 5, description="main")
        self.asked = self.agent(agent={"zone": "eu/a"}).start()

    def put_member(self, path, port, protocol="http", **attributes):
        self.put(path, record(port, "10.0.0.1", protocol, **attributes))

    def set(self, what, **headers):
        return self.asked.get(f"/v1/set{what}", **headers)

    def ports(self, what):
        answer = self.set(what)
        return [member["port"] for member in answer.json["members"]] \
            if answer.status == 200 else answer.status

    def test_an_answer_has_what_every_form_needs(self):
        answer = self.set(f"{WEB}?near=self&attribute.track=canary")
        self.assertEqual(answer.json, {"kind": "path", "path": WEB,
            "filter": {"attributes": {"track": "canary"}}, "exists": True,
            "paths": [f"{WEB}/c2"],
            "members": [{"path": f"{WEB}/c2", "scope": "external", "api": "http://example.org/rest",
                "protocol": "http", "addressType": "host/port",
                "address": {"host": "10.0.0.1", "port": "2"}, "host": "10.0.0.1", "port": 2,
                "weight": 3, "health": "passing", "zone": "eu/a", "tier": 0,
                "attributes": {"track": "canary", "weight": 3, "berth:zone": "eu/a",
                    "yarn:persistence": "permanent"}}]})
        self.assertEqual(self.ports(f"{WEB}?near=self"), [2, 1, 3])
        self.assertEqual([member["health"] for member in self.set(WEB).json["members"]],
            ["passing", "passing", "warning"])
        again = self.set(WEB)
        self.assertEqual((again.headers["X-Cache"], again.headers["Age"]), ("HIT", "0"))
        self.assertEqual(self.set(WEB, If_None_Match=again.headers["ETag"]).status, 304)
        text = self.set(WEB, Accept="text/plain")
        self.assertEqual(text.body, b"10.0.0.1:1\n10.0.0.1:2\n10.0.0.1:3\n")

    def test_names_mean_what_they_mean_in_DNS(self):
        for name, ports in (("prod.web.joe", [1, 2, 3]), ("prod.web.joe.berth", [1, 2, 3]),
                ("PROD.web.joe.", [1, 2, 3]), ("_sql._tcp.prod.web.joe", [3]),
                ("canary.track._attr.prod.web.joe", [2]), ("main.x1.ann", [5]),
                ("h1.x1.app.ann", [5]), ("none.web.joe", 404), ("a_b.web.joe", 404),
                ("_tcp.prod.web.joe", [])):
            self.assertEqual(self.ports(f"/{name}"), ports, name)
        self.put_member("/one", 9)
        wait_until(lambda: self.ports("/one?as=name") == [9], "the name is known")
        self.assertEqual(self.set("/users?as=names").json["names"], ["prod.web.joe", "x1.app.ann"])

    def test_an_attribute_filters_what_a_name_means(self):
        answer = self.asked.get("/v1/names/prod.web.joe.berth?attribute.track=canary&type=SRV")
        self.assertEqual([item["port"] for item in answer.json["targets"]], [2])
        self.assertEqual(answer.headers["X-Filter"], "attribute.track=canary")
        for name, status in (("prod.web.joe", 404), ("ctr-e50-1-1-1-2.berth", 404),
                ("1.0.0.10.in-addr.arpa", 404)):
            answer = self.asked.get(f"/v1/names/{name}?attribute.track=canary")
            self.assertEqual(answer.status, status, name)
        answer = self.asked.get("/v1/names/prod.web.joe.berth?attribute.track=none")
        self.assertEqual(answer.status, 404)
        self.assertEqual(self.asked.get(f"/v1/list{WEB}?attribute.track=canary").status, 400)

    def test_a_stream_has_the_records_with_an_attribute_alone(self):
        target = f"/v1/watch{WEB}?recursive=yes&attribute.track=canary"
        one = f"/v1/watch{WEB}/c2?attribute.track=canary"
        with Stream(self.asked.socket, target) as stream, Stream(self.asked.socket, one) as node:
            self.assertEqual(list(stream.event()["snapshot"]), [f"{WEB}/c2"])
            self.assertIn("X-Filter: attribute.track=canary", stream.head)
            self.assertEqual(list(node.event()["snapshot"]), [f"{WEB}/c2"])
            self.put_member(f"{WEB}/c3", 9)  # means nothing to either
            self.put_member(f"{WEB}/c1", 1, track="canary")
            event = stream.event()
            self.assertEqual((event["type"], event["path"], event["record"]["track"]),
                ("UPDATED", f"{WEB}/c1", "canary"))
            self.put_member(f"{WEB}/c2", 2, track="stable")
            for follower in (stream, node):
                event = follower.event()
                self.assertEqual((event["type"], event["path"]), ("DELETED", f"{WEB}/c2"))
            self.server.pause()
            self.assertEqual(stream.event()["type"], "STALE")
            self.server.resume()
            self.assertEqual(stream.event()["type"], "FRESH")
        with Stream(self.asked.socket, f"{target}&after=1-1-1") as stream:
            event = stream.event()
            self.assertEqual((event["type"], list(event["snapshot"])), ("RESYNC", [f"{WEB}/c1"]))

    def test_an_attribute_that_there_cannot_be_is_refused(self):
        for target in (f"/v1/watch{WEB}", f"/v1/records{WEB}", f"/v1/endpoints{WEB}",
                f"/v1/targets{WEB}", f"/v1/set{WEB}", "/v1/find", "/v1/names/prod.web.joe.berth"):
            for name in ("", "a%20b", "a/b"):
                self.assertEqual(self.asked.get(f"{target}?attribute.{name}=x").status, 400,
                    (target, name))
        for target in (f"/v1/resolve{WEB}", f"/v1/stat{WEB}", "/v1/agent/watch"):
            self.assertEqual(self.asked.get(f"{target}?attribute.a=x").status, 400, target)

    def test_a_question_that_is_none(self):
        for what in (f"{WEB}?as=thing", f"{WEB}?min=x", f"{WEB}?min=-1", f"{WEB}?failover=far",
                f"{WEB}?hold=x", f"{WEB}?near=/", f"{WEB}?scope=x", "/Users", "//",
                f"/{'a.' * 130}b"):
            self.assertEqual(self.set(what).status, 400, what)
        self.assertEqual(self.ports("/absent"), 404)

    def test_enough_stay(self):
        with Stream(self.asked.socket, f"/v1/set{WEB}?min=2&protocol=http", NDJSON) as few, \
                Stream(self.asked.socket, f"/v1/set{WEB}?protocol=http") as all:
            for stream in (few, all):
                self.assertEqual(len(stream.event()["snapshot"]["members"]), 2)
            self.remove(f"{WEB}/c1")
            self.assertEqual(len(all.event()["snapshot"]["members"]), 1)
            self.put_member(f"{WEB}/c4", 7)
            members = few.event()["snapshot"]["members"]
            self.assertEqual([member["port"] for member in members], [2, 7])

    def test_a_further_path_comes_in_and_goes(self):
        what = f"{WEB}?protocol=http&failover={FAR}&hold=200ms"
        with Stream(self.asked.socket, f"/v1/set{what}") as stream:
            self.assertEqual(len(stream.event()["snapshot"]["members"]), 2)
            self.remove(f"{WEB}/c1")
            self.put_member(f"{WEB}/c2", 2, weight=0)

            def follow(ports):
                while True:
                    event = stream.event()
                    if [item["port"] for item in event["snapshot"]["members"]] == ports:
                        return event["snapshot"]

            self.assertEqual([item["tier"] for item in follow([2, 4])["members"]], [0, 1])
            self.put_member(f"{WEB}/c2", 2, weight=1)
            follow([2])
        self.assertEqual(self.ports(what), [2])

    def test_nothing_changes_while_the_registry_is_away(self):
        with Stream(self.asked.socket, f"/v1/set{WEB}") as stream:
            self.assertEqual(stream.event()["type"], "SUBSCRIBED")
            self.assertEqual(self.ports("/prod.web.joe"), [1, 2, 3])
            self.server.pause()
            self.assertEqual(stream.event()["type"], "STALE")
            answer = self.set(WEB)
            self.assertEqual((answer.headers["X-Cache"], len(answer.json["members"])),
                ("STALE", 3))
            self.assertEqual(self.set("/never.web.joe").status, 503)
            self.server.resume()
            self.assertEqual(stream.event()["type"], "FRESH")
        wait_until(lambda: self.set("/never.web.joe").status == 404, "it is known to be absent")

    def test_many_sets_come_by_one_stream(self):
        with Stream(self.asked.socket, "/v1/follow") as stream:
            name = stream.event()["stream_id"]

            def ask(**body):
                self.assertEqual(
                    self.asked.request("POST", f"/v1/follow/{name}", body).status, 204)

            def next_event():
                while "id" not in (event := stream.event()):
                    pass  # of the stream itself
                return event

            def next_set():
                event = next_event()
                return event["id"], event.get("error") or [
                    member["port"] for member in event["set"]["members"]]

            ask(sets=[{"id": 7, "target": f"/v1/set{WEB}?attribute.track=canary"},
                {"id": 8, "target": "/v1/set/_sql._tcp.prod.web.joe"},
                {"id": 9, "target": "/v1/set/Odd"}, {"id": 10, "target": "/v1/list/users"}])
            found = {}
            while len(found) < 4:
                found.update([next_set()])
            self.assertEqual(found, {7: [2], 8: [3], 9: "InvalidPathname", 10: "Failed"})
            self.put_member(f"{WEB}/c1", 1, track="canary")
            while (event := next_set()) != (7, [1, 2]):
                self.assertEqual(event, (8, [3]))  # confirmed, perhaps
            self.server.pause()
            events = [next_event() for _ in range(2)]
            self.assertEqual({(event["type"], event["id"]) for event in events},
                {("STALE", 7), ("STALE", 8)})
            ask(sets=[{"id": 8, "target": "/v1/set/never.web.joe"}])
            self.server.resume()
            events = []
            while not events or ("FRESH", 7) not in events or ("SET", 8, False) not in events:
                event = next_event()
                events.append((event["type"], event["id"], *(
                    [event["set"]["exists"]] if "set" in event else [])))
            ask(drops=[{"id": 7}])
            self.put_member(f"{WEB}/c2", 2, track="stable")
            ask(sets=[{"id": 11, "target": "/v1/set/cart.services?as=name"}])
            self.assertEqual(next_set(), (11, []))  # and nothing of 7
            self.assertEqual(self.asked.request("POST", "/v1/follow/0", {}).status, 404)

    def test_a_long_poll_gets_the_next_set(self):
        etag = self.set(WEB).headers["ETag"]
        with Stream(self.asked.socket, f"/v1/set{WEB}") as stream:
            stream.event()
            self.put_member(f"{WEB}/c1", 11)
            stream.event()
        answer = self.set(WEB, If_None_Match=etag, Prefer="wait=60")
        self.assertEqual(answer.json["members"][0]["port"], 11)

    def test_the_shell_picks_one_and_filters_by_attributes(self):
        def run(*arguments):
            return berth("--socket", self.asked.socket, *arguments)

        for arguments, port in ((["--attribute", "track=canary", WEB], 2),
                (["--protocol", "sql", "prod.web.joe"], 3), (["--near", "self", WEB], 2),
                (["prod.web.joe.berth", "--attribute", "weight=3", "--attribute",
                    "track=canary"], 2)):
            self.assertEqual(run("pick", *arguments).stdout, f"10.0.0.1:{port}\n", arguments)
        self.assertEqual(json.loads(run("pick", "--json", f"{FAR}{WEB}").stdout), {
            "path": f"{FAR}{WEB}/f1", "host": "10.0.0.1", "port": 4, "tier": 0, "weight": 1,
            "health": "passing", "attributes": {"yarn:persistence": "permanent"}})
        self.assertEqual(run("endpoints", "--plain", "--attribute", "track=canary", WEB).stdout,
            "10.0.0.1:2\n")
        for status, words, *arguments in ((3, "nobody serves", "pick", "/absent"),
                (3, "nobody serves", "pick", "--attribute", "track=none", WEB),
                (3, "no node at /absent", "endpoints", "--attribute", "a=b", "/absent"),
                (3, "no endpoint matches", "endpoints", "--attribute", "a=b", WEB),
                (2, "NAME=VALUE", "pick", "--attribute", "track", WEB),
                (1, "neither a path nor a name", "pick", "a b")):
            result = run(*arguments)
            self.assertIn(words, result.stderr, arguments)
            self.assertEqual(result.returncode, status, arguments)

    def test_the_shell_finds_and_watches_by_attributes(self):
        def run(*arguments):
            return berth("--socket", self.asked.socket, *arguments)

        canary = ("--attribute", "track=canary")
        both = (*canary, "--attribute", "weight=3")
        found = json.loads(run("find", *both, "--json").stdout)
        self.assertEqual(list(found), [f"{WEB}/c2"])
        self.assertEqual(run("find", *canary, "--protocol", "sql").returncode, 3)
        watch = run("watch", "-r", "--once", "--json", *both, "/users")
        self.assertEqual(list(json.loads(watch.stdout)["snapshot"]), [f"{WEB}/c2"])
        for verb in ("find", "watch"):
            place = [] if verb == "find" else [WEB]
            done = run(verb, "--attribute", "a b=c", *place)
            self.assertIn("must be NAME=VALUE", done.stderr)
            done = berth("--registry", self.registry, verb, *canary, *place)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--attribute is for an agent", done.stderr)

    def test_an_agent_that_overlooks_attributes_is_an_error(self):
        event = json.dumps({"type": "SUBSCRIBED", "snapshot": {WEB: None}})
        answers = {"find": ("application/json", "{}"),
            "watch": ("application/recordio", f"{len(event)}\n{event}")}
        for verb, (kind, body) in answers.items():
            with older_agent(kind, body) as socket:
                done = berth("--socket", socket, verb, *([] if verb == "find" else [WEB]),
                    "--once" if verb == "watch" else "--json")
                self.assertNotEqual(done.returncode, 1, verb)
                done = berth("--socket", socket, verb, "--attribute", "a=b",
                    *([] if verb == "find" else [WEB]))
                self.assertEqual((done.returncode, done.stdout), (1, ""), verb)
                self.assertIn("this agent is older", done.stderr)

    def test_a_reload_does_not_hold_what_is_followed(self):
        with Stream(self.asked.socket, f"/v1/set{WEB}") as stream:
            stream.event()
            self.asked.upgrade()
        self.assertEqual(self.ports(WEB), [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
