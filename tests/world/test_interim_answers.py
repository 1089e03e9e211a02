"""A server sends 103 Early Hints (or 100, 102), and its answer a moment later: the check says that
the answer is not HTTP/1, and takes a component out whose application is well. A proxy between a
client and the agent may do the same.

Source: RFC 9110 15.2, RFC 8297; snoyberg/http-client #521, nginx #1241
"""

import json
import socket
import threading
import time
import unittest

from berth import AgentTest, berth, wait_until
from hosting import WEB, BridgeTest
from odd_server import OddServer
from outputs import Members
from xds import NAME

HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
LONG = b"HTTP/1.1 103 Early Hints\r\n" + b"Link: <%s>\r\n" % (b"x" * 1000) * 12 + b"\r\n"
MANY = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n", HINTS)
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nUP"
BAD = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
PAUSE = 0.05  # seconds: each piece is a segment of its own


def in_pieces(*pieces):
    def answer(connection):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(PAUSE)
    return answer


class Checks(AgentTest):
    ANSWERS = {
        "hints": (in_pieces(HINTS, GOOD), "status 200"),
        "matched": (in_pieces(HINTS, GOOD), "status 200"),
        "split": (in_pieces(HINTS[:30], HINTS[30:] + GOOD[:12], GOOD[12:]), "status 200"),
        "long": (in_pieces(LONG, GOOD), "status 200"),
        "many": (in_pieces(*MANY * 5, GOOD), "status 200"),
        "bad": (in_pieces(HINTS, BAD), "status 503"),
        "alone": (in_pieces(HINTS), "the server closed after an interim answer"),
        "endless": (in_pieces(HINTS * 100), "no status: it has too many interim answers"),
        "upgrade": (in_pieces(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
            "no status: it switches to another protocol without a request"),
    }

    def test_the_final_answer_decides(self):
        checks = {}
        for name, (answer, _) in self.ANSWERS.items():
            server = OddServer(answer)
            self.addCleanup(server.close)
            checks[f"check {name}"] = {"type": "http", "timeout": "30s",
                "target": f"http://127.0.0.1:{server.port}/", "interval": "1h"}
        checks["check matched"]["match"] = "^UP$"
        agent = self.web_agent(check="", extra=checks).start()
        for name, (_, said) in self.ANSWERS.items():
            wait_until(lambda name=name: agent.check_named(name).get("last"), f"{name} has run")
            check = agent.check_named(name)
            self.assertIn(said, json.dumps(check), name)
            self.assertEqual(check["state"] == "up", said == "status 200", name)


class Relay:
    """A proxy on a Unix socket that sends an interim answer before what it forwards."""

    def __init__(self, path, target):
        self.path, self.target = str(path), str(target)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.sent = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            agent = socket.socket(socket.AF_UNIX)
            agent.connect(self.target)
            asked = threading.Event()
            for job in (self.ask, self.answer):
                threading.Thread(target=job, args=(client, agent, asked), daemon=True).start()

    @staticmethod
    def ask(client, agent, asked):
        try:
            while data := client.recv(65536):
                asked.set()
                agent.sendall(data)
            agent.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def answer(self, client, agent, asked):
        try:
            while data := agent.recv(65536):
                if asked.is_set():
                    asked.clear()
                    client.sendall(LONG)
                    self.sent += 1
                    time.sleep(PAUSE)
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Clients(BridgeTest):
    """Those who ask an agent: commands, streams, berth-xds, the agent of a container."""

    def relay(self, path, target):
        relay = Relay(path, target)
        self.addCleanup(relay.close)
        return relay

    def test_commands_and_streams(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        relay = self.relay(self.folder / "relay", agent.socket)
        for words in (("resolve", agent.PATH), ("status",), ("watch", "--once", agent.PATH)):
            done = berth("--socket", relay.path, *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertIn("web-1", done.stdout)
        self.assertGreaterEqual(relay.sent, 3)

    def test_xds(self):
        Members(self.registry).put("c1", 8001)
        agent = self.agent("agent").start()
        relay = self.relay(self.folder / "relay", agent.socket)
        done = berth("--socket", relay.path, "xds-dump", NAME)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("8001", done.stdout)
        self.assertGreaterEqual(relay.sent, 1)

    def test_the_agent_of_a_container(self):
        host = self.host()
        registry = self.container("web-1")
        folder = self.folder / "mount"
        folder.mkdir()
        (folder / "registry").symlink_to(registry)
        relay = self.relay(folder / "berth.sock", registry.parent / "berth.sock")
        inside = self.agent("inside", registry=f"host:{folder}").start()
        self.put(f"{WEB}/c9", {"type": "JSONServiceRecord", "description": "elsewhere"},
            host.registry)
        wait_until(lambda: inside.get(f"/v1/resolve{WEB}/c9").status == 200, "it looks up")
        self.assertGreaterEqual(relay.sent, 1)


if __name__ == "__main__":
    unittest.main()
