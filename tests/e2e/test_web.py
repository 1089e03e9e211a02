"""berth web: the agent's answers on a port of 127.0.0.1, for those who know its whole address, and
nothing else."""

import http.client
import json
import re
import signal
import socket
import subprocess
import unittest
import urllib.parse

from berth import BUILD, PATIENCE, Agent, AgentTest, Answer, berth, wait_until
from ports import reserve_port

PLACES = 64  # connections at a time


class Web(AgentTest):
    def setUp(self):
        super().setUp()
        self.agent = self.web_agent(check="/bin/sh -c 'echo secret words'").start()
        self.agent.wait_state("registered")

    def open(self, *words):
        process = subprocess.Popen([BUILD / "berth", "--socket", self.agent.socket, "web",
            *map(str, words)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.web = process
        url = process.stdout.readline().strip()
        if url.startswith("{"):
            url = json.loads(url)["url"]
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$")
        parts = urllib.parse.urlsplit(url)
        self.port, self.base = parts.port, parts.path
        return url

    def connection(self):
        made = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.addCleanup(made.close)
        return made

    def ask(self, target, method="GET", body=None, **fields):
        connection = self.connection()
        connection.request(method, target, body,
            {name.replace("_", "-"): value for name, value in fields.items()})
        return Answer(connection.getresponse())

    def send(self, text):
        """Sends raw bytes and reads to the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as made:
            made.sendall(text)
            answer = b""
            while piece := made.recv(65536):
                answer += piece
        return answer

    def test_it_answers_as_the_socket_does(self):
        self.open()
        page = self.ask(self.base, Accept="text/html")
        self.assertEqual((page.status, page.headers["Content-Type"]),
            (200, "text/html; charset=utf-8"))
        self.assertIn("script-src 'sha256-", page.headers["Content-Security-Policy"])
        for target in ("v1/resolve" + Agent.PATH, "v1/list/",
                "v1/endpoints" + Agent.PATH + "?scope=external", "v1/resolve/no/such", "live"):
            with self.subTest(target=target):
                here, there = self.ask(self.base + target), self.agent.get("/" + target)
                self.assertEqual((here.status, here.body), (there.status, there.body))
        tag = self.ask(self.base + "v1/resolve" + Agent.PATH).headers["ETag"]
        self.assertEqual(self.ask(self.base + "v1/resolve" + Agent.PATH, If_None_Match=tag).status,
            304)
        head = self.ask(self.base + "v1/list/", "HEAD")
        self.assertEqual((head.status, head.body), (200, b""))
        # The user of `berth web` may write, so sees what checks print.
        wait_until(lambda: b"secret words" in self.ask(self.base + "v1/agent/checks").body,
            "the check's output is shown")

    def test_without_the_secret_name_there_is_nothing(self):
        self.open()
        other = "/" + "0" * 32 + "/"
        for target in ("/", "/live", "/v1/agent", other, other + "v1/agent", self.base[:-1],
                self.base[:-2] + "/", self.base[:-1] + "x/", "//" + self.base):
            with self.subTest(target=target):
                answer = self.ask(target)
                self.assertEqual(answer.status, 404)
                self.assertNotIn(b"web-1", answer.body)
        self.assertNotEqual(self.base, urllib.parse.urlsplit(self.open()).path)

    def test_another_host_s_name_is_refused(self):
        self.open()
        for host in ("evil.example.org", f"evil.example.org:{self.port}", "127.0.0.1",
                "localhost:1", f"127.0.0.1.evil.example.org:{self.port}", f"[::2]:{self.port}"):
            with self.subTest(host=host):
                self.assertEqual(self.ask(self.base + "live", Host=host).status, 421)
        for host in (f"localhost:{self.port}", f"LOCALHOST:{self.port}", f"127.0.0.1:{self.port}",
                f"[::1]:{self.port}"):
            with self.subTest(host=host):
                self.assertEqual(self.ask(self.base + "live", Host=host).status, 200)

    def test_nothing_can_be_changed(self):
        self.open()
        for method, target in (("POST", "v1/agent/drain"), ("DELETE", "v1/agent/drain"),
                ("PUT", "v1/agent/checks/alive"), ("POST", "v1/agent/reload"),
                               ("OPTIONS", ""), ("get", "live")):
            with self.subTest(method=method, target=target):
                answer = self.ask(self.base + target, method, body="{}" if method in ("POST", "PUT")
                    else None)
                self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"))
        self.assertEqual(self.ask(self.base + "v1/agent", body="{}").status, 400)
        self.assertFalse(self.agent.get("/v1/agent").json["drain"]["active"])

    def test_bytes_that_are_no_request_are_refused(self):
        self.open()
        host = f"Host: 127.0.0.1:{self.port}\r\n"
        self.assertIn(b" 400 ", self.send(b"nonsense\r\n\r\n"))
        self.assertIn(b" 400 ",
            self.send(f"GET {self.base}live HTTP/1.1\r\n{host}{host}\r\n".encode()))
        self.assertIn(b" 431 ",
            self.send(f"GET {self.base}live HTTP/1.1\r\n{host}X: {'x' * 9000}\r\n\r\n".encode()))
        self.assertIn(b" 414 ",
            self.send(f"GET {self.base}{'x' * 9000} HTTP/1.1\r\n{host}\r\n".encode()))
        # Only one request a connection: a second one behind it is not read, and nothing of it
        # reaches the agent.
        twice = self.send((f"GET {self.base}live HTTP/1.1\r\n{host}\r\n" * 2).encode())
        self.assertEqual(twice.count(b"HTTP/1.1 200"), 1)
        # HTTP/1.0 knows no chunks.
        self.assertNotIn(b"Transfer-Encoding",
            self.send(f"GET {self.base}v1/agent HTTP/1.0\r\n{host}\r\n".encode()))

    def test_a_stream_is_live(self):
        self.open()
        connection = self.connection()
        connection.request("GET", self.base + "v1/agent/watch",
            headers={"Accept": "application/x-ndjson"})
        stream = connection.getresponse()
        self.assertEqual(json.loads(stream.readline())["type"], "SUBSCRIBED")
        self.assertEqual(berth("--socket", self.agent.socket, "drain", "--reason",
            "a disk").returncode, 0)
        while json.loads(line := stream.readline())[
                "type"] != "AGENT" or "a disk" not in line.decode():
            pass

    def test_streams_that_browsers_left_are_closed_at_the_agent(self):
        self.open()

        def clients():
            return int(re.search(r"(?m)^berth_watchers (\d+)",
                self.agent.get("/metrics").body.decode()).group(1))

        streams = []
        for _ in range(3):
            made = self.connection()
            made.request("GET", self.base + "v1/agent/watch")
            streams += [made, made.getresponse()]
        wait_until(lambda: clients() == 3, "the agent has three streams")
        for made in streams:
            made.close()
        wait_until(lambda: clients() == 0, "the agent has none")

    def test_those_who_only_connect_keep_nobody_out(self):
        self.open()
        idle = [socket.create_connection(("127.0.0.1", self.port), PATIENCE)
            for _ in range(PLACES + 8)]
        for one in idle:
            self.addCleanup(one.close)
        self.assertEqual(self.ask(self.base + "live").status, 200)

    def test_it_outlives_the_agent_and_finds_it_again(self):
        self.open()
        self.assertEqual(self.agent.stop(), 0)
        answer = self.ask(self.base + "live")
        self.assertEqual(answer.status, 502)
        self.assertIn(b"cannot reach the agent", answer.body)
        self.agent.start()
        self.assertEqual(self.ask(self.base + "live").status, 200)

    def test_it_ends_with_0_when_it_is_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.open()
            held = self.connection()
            held.request("GET", self.base + "v1/agent/watch")
            held.getresponse()
            self.web.send_signal(number)
            self.assertEqual(self.web.wait(PATIENCE), 0)

    def test_a_port_of_the_user_s_choice(self):
        port = reserve_port(self)
        self.assertIn(f":{port}/", self.open("--port", port))
        again = berth("--socket", self.agent.socket, "web", "--port", port)
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"cannot listen on port {port}", again.stderr)
        self.assertEqual(berth("web", "--port", "65536").returncode, 2)
        self.open("--json")

    def test_without_an_agent_it_does_not_begin(self):
        self.assertEqual(berth("--socket", self.folder / "none", "web").returncode, 4)


del AgentTest

if __name__ == "__main__":
    unittest.main()
