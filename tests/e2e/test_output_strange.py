"""Endpoints and servers that a format or a proxy would refuse: the good ones go in all the same."""

import json
import re
import subprocess
import unittest

from berth import wait_until
from outputs import FROM, Members, OutputTest, record
from proxies import HAProxy, Nginx, Server, get, missing, shares

BAD_HOSTS = (".", "-", "a..b", "-a", "1.2.3.4:99", "1.2.3", "0x7f.1", "999.1.1.1", "_a.b", "a b",
    "a;b", "x" * 64, "é")


class StrangeTest(OutputTest):
    def setUp(self):
        super().setUp()
        self.members = Members(self.registry)

    def serve(self):
        server = Server()
        self.addCleanup(server.stop)
        return server.port

    def why(self, agent):
        return self.output(agent)["why"]


@unittest.skipIf(missing("haproxy"), missing("haproxy"))
class HAProxyRuntime(StrangeTest):
    def start(self, lines="", **options):
        self.haproxy = HAProxy(self.folder / "haproxy", lines)
        self.addCleanup(self.haproxy.end)
        return self.output_agent(
            format="haproxy-runtime", path=None, quiet=None, socket=self.haproxy.socket,
            backend="web", **options
        )

    def test_servers_of_others_are_not_touched(self):
        """A record is called like the operator's own server, which is out of service."""
        first, second = self.serve(), self.serve()
        agent = self.start(f"    server static-main 127.0.0.1:{first} disabled\n"
                           f"    server gone 127.0.0.1:{first} weight 3\n")
        self.haproxy.start()
        before = self.haproxy.servers()
        self.members.put("static-main", second)
        agent.start()
        wait_until(lambda: self.haproxy.servers().get("berth:static-main") ==
            (f"127.0.0.1:{second}", True), "the record's server serves")
        self.wait_state(agent, "current")
        self.members.put("static-zz", second)
        wait_until(lambda: "berth:static-zz" in self.haproxy.servers(), "the second one is there")
        self.members.remove("static-main")
        self.members.remove("static-zz")
        self.members.put("c1", second)
        wait_until(lambda: self.haproxy.servers().keys() == {*before, "berth:c1"}, "both are gone")
        after = self.haproxy.servers()
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertEqual(set(shares(self.haproxy.port, 8)), {first, second})

    def test_a_server_of_an_earlier_version_is_named(self):
        port = self.serve()
        agent = self.start(f"    server c1 127.0.0.1:{port}\n")
        self.haproxy.start()
        self.members.put("c1", port)
        agent.start()
        wait_until(lambda: "\"c1\" twice" in self.why(agent), "the server is named")
        self.wait_state(agent, "current")
        self.assertEqual(self.haproxy.servers().keys(), {"c1", "berth:c1"})
        self.haproxy.ask("set server web/c1 state maint")
        self.haproxy.ask("del server web/c1")
        wait_until(lambda: self.why(agent) == "", "it is gone")
        self.assertEqual(get(self.haproxy.port), port)

    def test_addresses_in_other_forms_and_names_beyond_64_bytes(self):
        long = "/".join("a" * 63 for _ in range(6))
        port = self.serve()
        agent = self.start(**{"from": f"{FROM}/**"})
        self.haproxy.start()
        self.members.put("six", port, host="0:0::0:1")
        for last in ("x", "y"):
            self.members.put(f"{long}/{last}", port)
        agent.start()
        self.wait_state(agent, "current")
        servers = self.haproxy.servers()
        name = long.replace("/", ".")
        self.assertEqual(servers.keys(), {"berth:six", f"berth:{name}.x", f"berth:{name}.y"})
        self.assertEqual(servers["berth:six"][0], f"::1:{port}")
        self.assertEqual((self.output(agent)["failures"], self.output(agent)["writes"]), (0, 1))
        wait_until(lambda: get(self.haproxy.port) == port, "requests are answered")

    def test_hosts_that_cannot_be_servers_are_named(self):
        port = self.serve()
        agent = self.start()
        self.haproxy.start()
        for number, host in enumerate(BAD_HOSTS):
            self.members.put(f"a{number}", port, host=host)
        self.members.put("name", port, host="localhost")
        self.members.put("z", port)
        agent.start()
        wait_until(lambda: self.haproxy.servers().keys() == {"berth:z"}, "the good one is in")
        wait_until(lambda: self.why(agent).startswith("left out: "), "the others are named")
        self.assertIn(f"{FROM}/a0 \".:{port}\" names neither", self.why(agent))
        self.assertTrue(self.why(agent).endswith(f"and {len(BAD_HOSTS) - 2} more"), self.why(agent))
        self.assertEqual(get(self.haproxy.port), port)

    def test_2500_addresses(self):
        agent = self.start()
        self.haproxy.start()
        many = record(1)
        for number in range(25):
            many["external"][0]["addresses"] = [{"host": f"127.1.{number}.{last}", "port": "9"}
                for last in range(1, 51)]
            for half in "ab":
                self.members.put_content(f"m{number}{half}", many)
        agent.start()
        wait_until(lambda: len(self.haproxy.servers()) == 2500, "all are there", patience=120)
        self.wait_state(agent, "current")
        self.assertEqual(self.why(agent), "")
        for number in range(25):
            self.members.remove(f"m{number}a")
        wait_until(lambda: len(self.haproxy.servers()) == 1250, "half of them", patience=120)
        port = self.serve()
        self.members.put("z", port)
        wait_until(lambda: get(self.haproxy.port) == port, "the one that serves is found")


class Files(StrangeTest):
    def put_bad_ones(self):
        for number, host in enumerate(BAD_HOSTS):
            self.members.put(f"a{number}", 9, host=host)
        self.members.put("unknown", 9, host="no-such-host.invalid")

    @unittest.skipIf(missing("haproxy"), missing("haproxy"))
    def test_haproxy_takes_the_file_with_all_good_servers(self):
        port = self.serve()
        self.put_bad_ones()
        self.members.put("named", port, host="localhost")
        self.members.put("six", port, host="0:0:0::1")
        haproxy = HAProxy(self.folder / "haproxy", more_files=[self.file])
        self.addCleanup(haproxy.end)
        agent = self.output_agent(
            format="haproxy", backend="web",
            check=f"/usr/sbin/haproxy -c -q -f {haproxy.config} -f {{}}").start()
        self.wait_state(agent, "current")
        lines = set(self.file.read_text().splitlines()[1:])
        self.assertEqual(lines, {
            f"    server berth:named localhost:{port} init-addr last,libc,none",
            f"    server berth:six [::1]:{port}",
            "    server berth:unknown no-such-host.invalid:9 init-addr last,libc,none"})
        self.assertIn(f"; and {len(BAD_HOSTS) - 3} more", self.why(agent))
        haproxy.start()
        self.assertIn(f"127.0.0.1:{port}", {place for place, _ in haproxy.servers().values()})
        wait_until(lambda: get(haproxy.port) == port, "requests are answered")

    @unittest.skipIf(missing("nginx"), missing("nginx"))
    def test_nginx_takes_the_file_with_all_good_servers(self):
        port = self.serve()
        self.put_bad_ones()
        self.members.put("named", port, host="localhost", weight=3)
        nginx = Nginx(self.folder / "nginx", self.file)
        self.addCleanup(nginx.end)
        agent = self.output_agent(format="nginx").start()
        self.wait_state(agent, "current")
        self.assertEqual(self.file.read_text(),
            f"server 127.0.0.1:{port} weight=3;\nserver [::1]:{port} weight=3;\n")
        self.assertIn(f"; and {len(BAD_HOSTS) - 2} more", self.why(agent))
        nginx.start()
        self.assertEqual(get(nginx.port), port)
        self.members.put("four", port, host="127.0.0.2")
        wait_until(lambda: "127.0.0.2" in self.file.read_text(), "a change comes in")

    def test_lines_hold_no_control_characters(self):
        for name, path in (("bell", "/a\abc"), ("escape", "/\33[2J"), ("c1", "/\x9b2J"),
                ("bidi", "/\u202e"), ("delete", "/\x7f"), ("line", "/a\u2028b"), ("good", "/é")):
            content = record(1)
            content["external"][0] = {"api": "x", "addressType": "path", "protocol": "",
                "addresses": [{"path": path}]}
            self.members.put_content(name, content)
        agent = self.output_agent().start()
        self.wait_state(agent, "current")
        self.assertEqual(self.file.read_text(), "/é\n")
        self.assertIn("holds control characters", self.why(agent))
        answer = agent.get(f"/v1/endpoints{FROM}", Accept="text/plain")
        self.assertEqual(answer.body.decode(), "/é\n")


class Commands(StrangeTest):
    def test_a_render_command_gets_no_control_characters(self):
        injection = "6.6.6.6 port=5432\n[pgbouncer]\nadmin_users=joe"
        content = record(5432, host=injection, description="two\nlines \x9b\u202e\x7f",
            **{"a\nb": ["\u2028\t"]})
        content["external"][0]["addresses"].append({"host": "0:0::1", "port": "5433"})
        self.members.put_content("c1", content)
        self.members.put("c2", 1, host="a..b")
        copy = self.folder / "copy"
        agent = self.output_agent(format=None,
            render=self.script(f"cat >{copy}.new; mv {copy}.new {copy}; echo")).start()
        self.wait_state(agent, "current")
        text = copy.read_text()
        got = json.loads(text)
        self.assertNotRegex(json.dumps(got, ensure_ascii=False).replace("\\\\", ""),
            "[\0-\x1f\x7f-\x9f\u2028\u202e]|\\\\[bfnrtu]")
        self.assertEqual([(item.get("host"), item.get("port")) for item in got["endpoints"]],
            [("::1", 5433), (None, None)])
        self.assertEqual(got["records"][f"{FROM}/c1"]["description"], "two\ufffdlines " +
            "\ufffd" * 3)
        self.assertIn("6.6.6.6", self.why(agent))
        self.assertNotIn("\n", self.why(agent))


if __name__ == "__main__":
    unittest.main()
