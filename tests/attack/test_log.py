"""Containers and clients that cause line after line of the log, and records that play with the
terminal of whoever reads it."""

import itertools
import json
import socket
import threading
import unittest

from berth import AgentTest, UnixConnection, wait_until
from hosting import WEB, BridgeTest, serves
from hostile_container import HostileContainer
from http2 import DATA, Client, frame, message, text
from xds import ENDPOINTS, NAME, XdsTest

HIDDEN = "\u202e"


def lines(agent, *words):
    return [line for line in agent.read_log().splitlines() if all(word in line for word in words)]


class Flood:
    """Does something over and over, until its end."""

    def __init__(self, do, threads=1):
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._go_on, args=(do,)) for _ in range(threads)]
        self.count = 0
        for thread in self._threads:
            thread.start()

    def _go_on(self, do):
        while not self._ended.is_set():
            do()
            self.count += 1

    def end(self):
        self._ended.set()
        for thread in self._threads:
            thread.join()


class Bridge(BridgeTest):
    def test_streams_of_a_container_that_push_each_other_out(self):
        host = self.host()
        self.container("web-1")
        other = self.container("web-2")
        inside = self.containers / "web-1/berth.sock"
        wait_until(lambda: serves(inside), "the container has its socket")
        held = []

        def follow():
            connection = UnixConnection(inside)
            connection.request("GET", "/v1/follow")
            connection.getresponse()
            held.append(connection)
            if len(held) > 64:
                held.pop(0).close()

        flood = Flood(follow)
        wait_until(lambda: flood.count >= 500, "500 streams were opened")
        flood.end()
        for connection in held:
            connection.close()
        cut_off = lines(host, "web-1", "cut off")
        self.assertTrue(cut_off)
        self.assertLess(len(cut_off), flood.count / 4)
        # Those of another one are not among what is left out.
        connections = [UnixConnection(other.parent / "berth.sock") for _ in range(12)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.request("GET", "/v1/follow")
            connection.getresponse()
        wait_until(lambda: lines(host, "web-2", "cut off"), "the log has the other one")

    def test_a_record_with_hidden_characters_does_not_play_with_the_log(self):
        host = self.host()
        container = HostileContainer(self.container("web-1"))
        self.addCleanup(container.close)
        container.hold(f"{WEB}/c1", (
            '{"type":"JSONServiceRecord","a":' + HIDDEN + 'gnp.exe}').encode())
        self.await_state(host, "web-1", f"{WEB}/c1", "refused")
        wait_until(lambda: lines(host, f"{WEB}/c1", "refused"), "the log has it")
        self.assertNotIn(HIDDEN, host.read_log())


class Clients(AgentTest):
    def test_reports_of_a_check_that_change_it_again_and_again(self):
        agent = self.agent(**{"check app": {"type": "ttl", "interval": "60s", "fall": 1},
            **self.agent().component(check=None)})
        agent.start()
        connection = UnixConnection(agent.socket)
        self.addCleanup(connection.close)
        words = itertools.cycle(["passing", "failing"])

        def report(count):
            for word in itertools.islice(words, count):
                connection.request("PUT", "/v1/agent/checks/app", json.dumps({"status": word}))
                answer = connection.getresponse()
                answer.read()
                self.assertEqual(answer.status, 204)

        report(1000)
        self.assertLess(len(lines(agent, "check app:", " -> ")), 250)

        def is_said():
            report(2)
            return lines(agent, "check app:", "are left out")

        wait_until(is_said, "the log says how many there were")
        history = agent.get("/v1/agent/history").json
        self.assertTrue(any(item["subject"] == "check app" for item in history))

    def test_a_client_that_takes_all_connections_and_lets_one_go(self):
        """Each time that it has too many again is a refusal."""
        agent = self.agent(agent={"max_watchers": 1}).start()
        held = []
        asking = UnixConnection(agent.socket)
        self.addCleanup(asking.close)

        def connect():
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(agent.socket))
            held.append(client)

        def ask():
            asking.request("GET", "/live")
            asking.getresponse().read()

        ask()
        share = "has its share of the connections"
        while not lines(agent, share):
            connect()
        for _ in range(200):
            for client in held[:8]:
                client.close()
            del held[:8]
            ask()
            for _ in range(10):
                connect()
            ask()
        for client in held:
            client.close()
        self.assertLess(len(lines(agent, share)), 50)


class XdsClients(XdsTest):
    def test_refusals_with_ever_other_reasons(self):
        self.members.put("c1", 8001)
        server = self.xds(self.agent().start()).start()
        client = Client(server.socket)
        self.addCleanup(client.close)
        client.open(1)
        for i in range(400):
            error = text(2, f"reason {i} {HIDDEN}")
            client.send(frame(DATA, 0, 1,
                message(text(3, NAME), text(4, ENDPOINTS), text(6, error))))
            client.drain()
        wait_until(lambda: "refuses" in server.read_log(), "the log has one")
        self.assertLess(server.read_log().count("refuses"), 100)
        self.assertNotIn(HIDDEN, server.read_log())


if __name__ == "__main__":
    unittest.main()
