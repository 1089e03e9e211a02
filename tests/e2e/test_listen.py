"""The TCP listeners: the names by which clients come to them, and what each shows."""

import http.client
import json
import socket
import unittest

from berth import AgentTest
from ports import reserve_port


class Hosts(AgentTest):
    def setUp(self):
        super().setUp()
        self.port = reserve_port(self)

    def start(self, **options):
        return self.agent(agent={"listen": f"127.0.0.1:{self.port}", **options}).start()

    def status(self, host, target="/v1/agent"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.addCleanup(connection.close)
        connection.putrequest("GET", target, skip_host=True)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def test_a_foreign_name_reads_nothing(self):
        self.start(listen_hosts="proxy.example.org")
        own = [f"127.0.0.1:{self.port}", "10.9.8.7", "[::1]:80", "localhost", "LocalHost:80",
            socket.gethostname(), socket.gethostname().partition(".")[0], "proxy.example.org"]
        for host in own:
            self.assertEqual(self.status(host), 200, host)
        for host in ("evil.example.com", f"evil.example.com:{self.port}", "localhost.example.com",
                "127.0.0.1.example.com"):
            for target in ("/v1/agent", "/", "/metrics", "/live", "/nowhere"):
                self.assertEqual(self.status(host, target), 421, (host, target))
        # The host in the target counts before the field.
        self.assertEqual(self.status("localhost", "http://evil.example.com/v1/agent"), 421)
        self.assertEqual(self.status("evil.example.com", "http://localhost/v1/agent"), 200)

    def test_the_unix_socket_takes_every_name_and_a_star_makes_listen_do_so(self):
        agent = self.start(listen_hosts="*")
        self.assertEqual(self.status("evil.example.com"), 200)
        self.assertEqual(
            agent.request("GET", "/v1/agent", headers={"Host": "evil.example.com"}).status, 200)

    def test_a_reload_adds_a_name(self):
        agent = self.start()
        self.assertEqual(self.status("proxy.example.org"), 421)
        text = agent.config.read_text()
        agent.config.write_text(
            text.replace("[agent]", "[agent]\nlisten_hosts = proxy.example.org"))
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.status("proxy.example.org"), 200)
        agent.config.write_text(text.replace("[agent]", "[agent]\nlisten_hosts = a/b"))
        problem = agent.request("POST", "/v1/agent/reload")
        self.assertIn("is not a host name", problem.body.decode())


RECORD = {
    "type": "JSONServiceRecord", "description": "a web server",
    "external": [{"api": "http", "addressType": "uri", "protocol": "REST", "protocolType": "REST",
        "addresses": [{"uri": "http://www.example.org/"}]}],
    "internal": [{"api": "classified", "addressType": "host/port", "protocol": "tcp",
        "protocolType": "tcp", "addresses": [{"host": "10.1.2.3", "port": "99"}]}],
}
PUBLIC = "/users/joe/web"


class Published(AgentTest):
    """[listen NAME]: two further listeners besides `listen`, of which one shows all."""

    def setUp(self):
        super().setUp()
        self.put(f"{PUBLIC}/a", RECORD)
        self.put(f"{PUBLIC}x", RECORD)
        self.put("/users/ann/web", RECORD)
        self.outside, self.inside, self.whole = (reserve_port(self) for _ in range(3))
        self.sections = {
            "agent": {"listen": f"127.0.0.1:{self.whole}"},
            "listen outside": {"address": f"127.0.0.1:{self.outside}", "under": f"{PUBLIC}/**"},
            "listen inside": {"address": f"127.0.0.1:{self.inside}",
                "under": f"{PUBLIC}/**, /users/ann/**", "scope": "all"},
        }
        self.server = self.agent(**self.sections).start()

    def ask(self, port, target, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            connection.request(method, target, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def json(self, port, target):
        status, body = self.ask(port, target)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_it_shows_external_endpoints_of_its_paths(self):
        reduced = {**RECORD, "internal": []}
        self.assertEqual(self.json(self.outside, f"/v1/resolve{PUBLIC}/a"), reduced)
        self.assertEqual(self.json(self.outside, f"/v1/records{PUBLIC}"), {f"{PUBLIC}/a": reduced})
        self.assertEqual(self.json(self.outside, f"/v1/list{PUBLIC}"), [f"{PUBLIC}/a"])
        for target in (f"/v1/endpoints{PUBLIC}", f"/v1/endpoints{PUBLIC}?scope=external"):
            self.assertEqual([item["scope"] for item in self.json(self.outside, target)],
                ["external"])
        self.assertEqual(self.ask(self.outside, f"/v1/endpoints{PUBLIC}?scope=internal")[0], 400)
        self.assertEqual(self.json(self.outside, f"/v1/endpoints{PUBLIC}?api=classified"), [])
        # The same paths on the socket, whose answers are others.
        self.assertEqual(self.server.get(f"/v1/resolve{PUBLIC}/a").json, RECORD)
        self.assertEqual(self.server.get(f"/v1/records{PUBLIC}").json, {f"{PUBLIC}/a": RECORD})

    def test_it_says_internal_nowhere(self):
        for kind in ("resolve", "records", "endpoints", "targets", "list", "stat", "find", "watch",
                "names"):
            for path in (PUBLIC, f"{PUBLIC}/a"):
                for accept in ("*/*", "text/plain", "text/event-stream"):
                    body = self.ask(self.outside, f"/v1/{kind}{path}", Accept=accept)[1]
                    self.assertNotIn("classified", body, kind)
                    self.assertNotIn("10.1.2.3", body, kind)

    def test_other_paths_are_not_there_whether_they_are_or_not(self):
        answers = set()
        for path in (f"{PUBLIC}x", "/users/ann/web", "/users/joe", "/", "/users/nobody", "/..",
                "/users/joe/web%2fa", "/users/joe/web/../../ann/web"):
            for kind in ("resolve", "list", "records", "endpoints", "targets", "stat"):
                status, body = self.ask(self.outside, f"/v1/{kind}{path}")
                problem = json.loads(body)
                problem.pop("instance", None)
                answers.add((status, json.dumps(problem)) if status == 404 else (path, status))
        self.assertEqual(len(answers), 2, answers)  # 404 alone, and what is no path at all: 400
        self.assertEqual({answer[1] for answer in answers if answer[0] != 404}, {400}, answers)

    def test_there_is_nothing_else(self):
        for target in ("/", "/v1/agent", "/v1/agent/checks", "/v1/agent/history", "/metrics",
                "/live", "/ready", "/v1/bridge", "/v1/shared", "/v1/names/web.joe.berth",
                "/v1/agent/watch", f"/v1/find?under={PUBLIC}", f"/v1/watch{PUBLIC}"):
            self.assertEqual(self.ask(self.outside, target)[0], 404, target)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.ask(self.outside, "/v1/agent/drain", method)[0], 404)
            self.assertEqual(self.ask(self.outside, f"/v1/resolve{PUBLIC}/a", method)[0], 405)

    def test_scope_all_searches_and_streams_within_its_paths(self):
        self.assertEqual(self.json(self.inside, f"/v1/resolve{PUBLIC}/a"), RECORD)
        self.assertEqual(self.json(self.inside, "/v1/resolve/users/ann/web"), RECORD)
        found = self.json(self.inside, f"/v1/find?under={PUBLIC}&api=classified")
        self.assertEqual(list(found), [f"{PUBLIC}/a"])
        for target in ("/v1/find", "/v1/find?under=/", "/v1/find?under=/users/joe",
                "/v1/watch/?recursive=yes", "/v1/watch/users/joe?recursive=yes", "/v1/agent"):
            self.assertEqual(self.ask(self.inside, target)[0], 404, target)
        connection = http.client.HTTPConnection("127.0.0.1", self.inside)
        self.addCleanup(connection.close)
        connection.request("GET", f"/v1/watch{PUBLIC}?recursive=yes",
            headers={"Accept": "application/x-ndjson"})
        lines = connection.getresponse()
        self.assertIn(RECORD, json.loads(lines.readline())["snapshot"].values())

    def test_a_long_poll_ends_when_what_it_shows_has_changed(self):
        before = self.ask(self.outside, f"/v1/resolve{PUBLIC}/a")
        connection = http.client.HTTPConnection("127.0.0.1", self.outside)
        self.addCleanup(connection.close)
        connection.request("GET", f"/v1/resolve{PUBLIC}/a")
        answer = connection.getresponse()
        answer.read()
        etag = answer.getheader("ETag")
        connection.request("GET", f"/v1/resolve{PUBLIC}/a",
            headers={"If-None-Match": etag, "Prefer": "wait=30"})
        hidden = json.loads(json.dumps(RECORD))
        hidden["internal"][0]["addresses"] = [{"host": "10.9.9.9", "port": "1"}]
        self.put(f"{PUBLIC}/a", hidden)
        self.assertEqual(self.ask(self.outside, f"/v1/resolve{PUBLIC}/a"), before)
        self.put(f"{PUBLIC}/a", {**hidden, "description": "moved"})
        answer = connection.getresponse()
        self.assertEqual(json.loads(answer.read()),
            {**RECORD, "internal": [], "description": "moved"})

    def test_a_connection_and_the_listeners_outlive_an_upgrade(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.outside)
        self.addCleanup(connection.close)
        for _ in range(2):
            connection.request("GET", "/v1/agent")
            answer = connection.getresponse()
            answer.read()
            self.assertEqual(answer.status, 404)
            self.server.upgrade()
        self.assertEqual(self.json(self.inside, f"/v1/resolve{PUBLIC}/a"), RECORD)
        # A listener that the next program does not have ends.
        moved = reserve_port(self)
        self.sections["listen inside"]["address"] = f"127.0.0.1:{moved}"
        self.server.write_config(self.sections)
        self.server.upgrade()
        self.assertEqual(self.json(moved, f"/v1/resolve{PUBLIC}/a"), RECORD)
        with self.assertRaises(ConnectionRefusedError):
            self.ask(self.inside, f"/v1/resolve{PUBLIC}/a")

    def test_a_reload_changes_what_is_shown_and_not_where(self):
        self.sections["listen outside"]["under"] = "/users/ann/**"
        self.server.write_config(self.sections)
        self.assertEqual(self.server.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.ask(self.outside, f"/v1/resolve{PUBLIC}/a")[0], 404)
        self.assertEqual(self.ask(self.outside, "/v1/resolve/users/ann/web")[0], 200)
        for name, section in (("inside", {"address": "127.0.0.1:1", "under": "/**"}),
                ("inside", None), ("more", {"address": "127.0.0.1:1", "under": "/**"})):
            changed = {**self.sections, f"listen {name}": section}
            self.server.write_config({key: value for key, value in changed.items() if value})
            problem = self.server.request("POST", "/v1/agent/reload")
            self.assertEqual(problem.status, 422, problem.body)
            self.assertIn(f"[listen {name}] cannot come, go or change its address",
                problem.body.decode())

    def test_foreign_names_are_refused(self):
        self.assertEqual(
            self.ask(self.outside, f"/v1/list{PUBLIC}", Host="evil.example.com")[0], 421)

    def test_a_taken_address_is_named(self):
        other = self.agent("other", **{"listen again": self.sections["listen inside"]})
        other.start(wait=False)
        self.assertNotEqual(other.wait(), 0)
        self.assertIn("[listen again]: ", other.read_log())


if __name__ == "__main__":
    unittest.main()
