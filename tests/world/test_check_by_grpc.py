"""A user's gRPC server listens and answers nothing: a tcp check is content with it. With a check by
grpc_health_probe he needs a program more in the image, and odd servers hold it up.

Source: consul #3073, kubernetes #21493, nomad #4251, registrator #665 (gRPC health)
"""

import os
import pathlib
import time
import unittest

from berth import AgentTest, amount, wait_until
from certificates import TlsServer
from h2_server import (END_HEADERS, END_STREAM, GOAWAY, PING, RST_STREAM, SETTINGS, H2Server, frame,
    head, message, trailers)

SERVING, NOT_SERVING, UNKNOWN, SERVICE_UNKNOWN = (message(b"\x08" + bytes((status,)))
    for status in (1, 2, 0, 3))
GREAT = b"x" * 16000
SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "."))


def sends(*frames):
    def answer(connection):
        connection.sendall(b"".join(frames))
    return answer


def endless(connection):
    """1 GB, so its frame says."""
    connection.sendall(head() + frame(0, b"\0" + (1 << 30).to_bytes(4, "big")))
    while True:
        connection.sendall(frame(0, GREAT))


def pings(connection):
    while True:
        connection.sendall(frame(PING, b"12345678", stream=0) + frame(SETTINGS, stream=0))
        time.sleep(0.001)


def plain_http(connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


class Grpc(AgentTest):
    ANSWERS = {
        "serving": (sends(head(), SERVING, trailers(0)), "passing", "SERVING"),
        "not-serving": (sends(head(), NOT_SERVING, trailers(0)), "failing",
            "NOT_SERVING: so the application says of \"app.Greeter\""),
        "unknown": (sends(head(), UNKNOWN, trailers(0)), "failing",
            "has not set the status of \"app.Greeter\" yet"),
        "empty": (sends(head(), message(b""), trailers(0)), "failing", "UNKNOWN: "),
        "service-unknown": (sends(head(), SERVICE_UNKNOWN, trailers(0)), "failing",
            "SERVICE_UNKNOWN: register \"app.Greeter\" with the health service"),
        "more-fields": (sends(head(), message(b"\x12\x03abc\x08\x01\x1d1234"), trailers(0)),
            "passing", "SERVING"),
        "trailers-only": (sends(head(("grpc-status", "5"), flags=END_HEADERS | END_STREAM)),
            "failing", "does not know \"app.Greeter\": register it there"),
        "no-method": (sends(head(("grpc-status", "12"), flags=END_HEADERS | END_STREAM)),
            "failing", "has no health service: register grpc.health.v1.Health"),
        "unavailable": (sends(head(), trailers(14, ("grpc-message", "out of order"))), "failing",
            "gRPC status 14 UNAVAILABLE: out of order"),
        "no-status": (sends(head(), SERVING, frame(0, flags=END_STREAM)), "failing",
            "the answer has no gRPC status"),
        "not-protobuf": (sends(head(), message(b"\xff\xff"), trailers(0)), "failing",
            "not a HealthCheckResponse"),
        "two": (sends(head(), SERVING, SERVING, trailers(0)), "failing", "more than one message"),
        "packed": (sends(head(), frame(0, b"\1\0\0\0\2\x08\x01"), trailers(0)), "failing",
            "compressed"),
        "reset": (sends(frame(RST_STREAM, b"\0\0\0\x07")), "failing",
            "the server refuses the stream (REFUSED_STREAM"),
        "reset-late": (sends(head(), SERVING, frame(RST_STREAM, b"\0\0\0\x02")), "failing",
            "the server resets the stream (INTERNAL_ERROR"),
        "goaway": (sends(frame(GOAWAY, b"\0\0\0\0\0\0\0\x0b", stream=0)), "failing", ""),
        "great": (endless, "failing", "its message is longer than any of the health service"),
        "hang": (lambda connection: time.sleep(60), "timed-out", "no answer within 1s"),
        "pings": (pings, "timed-out", "no answer within 1s"),
        "garbage": (sends(b"\xff" * 64), "failing", ""),
    }

    def agent_of(self, ports, **keys):
        agent = self.web_agent(check="", extra={f"check {name}": {"type": "grpc",
            "target": f"localhost:{port}", "service": "app.Greeter", "interval": "1h",
            "timeout": "1s" if name in ("hang", "pings") else "30s", **keys}
            for name, port in ports.items()}).start()
        wait_until(lambda: all(agent.check_named(name).get("last") for name in ports), "all ran")
        return agent

    def test_each_answer_has_its_outcome_and_remedy(self):
        servers = {}
        for name, (answer, _, _) in self.ANSWERS.items():
            servers[name] = H2Server(answer)
            self.addCleanup(servers[name].close)
        agent = self.agent_of({name: server.port for name, server in servers.items()})
        for name, (_, verdict, words) in self.ANSWERS.items():
            last = agent.check_named(name)["last"]
            self.assertEqual(last["verdict"], verdict, (name, last))
            self.assertIn(words, last["detail"], name)
        self.assertIn(b"\0\0\0\0\x0d\x0a\x0bapp.Greeter", servers["serving"].requests)

    def test_another_server_than_one_of_grpc_is_named(self):
        plain = TlsServer(None, plain_http)
        closes = TlsServer(None, lambda connection: None)
        for server in (plain, closes):
            self.addCleanup(server.close)
        agent = self.agent_of({"plain": plain.port, "closes": closes.port})
        for name in ("plain", "closes"):
            last = agent.check_named(name)["last"]
            self.assertEqual(last["verdict"], "failing", last)
            self.assertIn("name the port of a gRPC server, or set tls = yes", last["detail"])

    def test_the_template_of_deploy_registers_a_server_that_serves(self):
        server = H2Server(sends(head(), SERVING, trailers(0)))
        self.addCleanup(server.close)
        agent = self.agent()
        text = (SOURCE / "deploy" / "grpc.ini").read_text().replace(
            "127.0.0.1:50051", f"127.0.0.1:{server.port}")
        agent.config.write_text(agent.config.read_text() + text)
        verdict = agent.verdict("--strict")
        self.assertEqual(verdict.returncode, 0, verdict.stderr)
        agent.start().wait_state("registered")
        record = agent.get(f"/v1/resolve{agent.status()['components'][0]['path']}").json
        self.assertEqual((record["external"][0]["protocol"], record["weight"]), ("grpc", "1"))

    def test_a_state_follows_the_servers(self):
        serves = [True]
        server = H2Server(lambda connection: connection.sendall(
            head() + (SERVING if serves[0] else NOT_SERVING) + trailers(0)))
        self.addCleanup(server.close)
        agent = self.agent_of({"app": server.port}, interval="20ms", fall="1")
        for _ in range(amount(10)):
            serves[0] = False
            wait_until(lambda: agent.check_named("app")["state"] == "down", "it is down")
            serves[0] = True
            wait_until(lambda: agent.check_named("app")["state"] == "up", "it is up")


if __name__ == "__main__":
    unittest.main()
