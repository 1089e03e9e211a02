"""A client of berth-xds follows as many names as it can get: the others find room for theirs, and
learn what is missing when there is none."""

import http.client
import json
import socket
import unittest

import http2
from berth import PATIENCE, Answer, UnixConnection, wait_until
from http2 import DATA, END_STREAM, HEADERS, RST_STREAM, Client, frame, message
from ports import reserve_port
from xds import ENDPOINTS, NAME, XdsTest

WATCHERS = 400
GRANTED = WATCHERS // 4 * 3
STEP = 20


class Names(XdsTest):
    def setUp(self):
        super().setUp()
        self.members.put("c1", 8001)
        self.port = reserve_port(self)
        self.agent_of_xds = self.agent(agent={"max_watchers": WATCHERS},
            xds={"listen": f"127.0.0.1:{self.port}"}).start()

    def connect(self, last):
        """As a client of its own, for each last byte of the address."""
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE,
            (f"127.0.0.{last}", 0))
        self.addCleanup(connection.close)
        return connection

    def follows(self, last, names):
        """Whether a stream that asks for these names goes on; it stays open."""
        client = Client(None, connection=self.connect(last))
        client.open(1)
        client.send(frame(DATA, 0, 1, message(*(http2.text(3, name) for name in names),
            http2.text(4, ENDPOINTS))))
        while True:
            kind, flags, stream, _ = client.next()
            if stream == 1 and kind == DATA:
                return True
            if stream == 1 and (kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM)):
                return False

    def take_all(self, last):
        """All names that the client gets, in steps; how many."""
        count = 0
        while count < 2 * WATCHERS and self.follows(last,
                [f"/c{last}/n{i}" for i in range(count, count + STEP)]):
            count += STEP
        return count

    def rest(self, last, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.sock = self.connect(last)
        connection.request("POST", "/v3/discovery:endpoints",
            json.dumps({"resource_names": [name]}), {"Content-Type": "application/json"})
        return Answer(connection.getresponse())

    def test_the_others_have_room(self):
        first = self.take_all(2)
        self.assertLess(first, GRANTED)
        self.assertGreater(first, GRANTED / 2)
        for last in 3, 4:
            answer = self.rest(last, NAME if last == 3 else f"/other{last}")
            self.assertEqual((answer.status, len(answer.json["resources"])), (200, 1), answer.body)
        self.assertTrue(self.follows(5, [f"/another/n{i}" for i in range(STEP)]))

    def test_a_client_that_finds_none_hears_full_and_not_away(self):
        """Others of its user have taken the agent's share for it."""
        streams = []
        for i in range(GRANTED):
            streams.append(UnixConnection(self.agent_of_xds.socket))
            self.addCleanup(streams[-1].close)
            streams[-1].request("GET", f"/v1/watch/taken/n{i}")
            if streams[-1].getresponse().status != 200:
                break
        answer = self.rest(3, "/late/name")
        self.assertEqual(answer.status, 503)
        self.assertIn(b"full", answer.body)
        self.assertNotIn(b"away", answer.body)
        for stream in streams:
            stream.close()
        wait_until(lambda: self.rest(3, "/late/name").status == 200, "there is room again")


if __name__ == "__main__":
    unittest.main()
