"""A directory that is larger than the cache: it is refused at once, and nobody else waits for
it."""

import json
import os
import threading
import time
import unittest

from berth import AgentTest, UnixConnection, wait_until
from figures import figure
from streams import Stream

CHILDREN = int(os.environ.get("BERTH_CHILDREN", "10000"))
HALF = 2000  # fits into the cache of one test
ANSWERS = 10  # that the other client gets meanwhile
MOST = 2000  # rounds in which it gets them, on a machine however fast


class Clock(threading.Thread):
    """Another client, that asks all the time; `longest` is the time of its slowest answer."""

    def __init__(self, agent):
        super().__init__()
        self.agent = agent
        self.done = threading.Event()
        self.longest = 0
        self.count = 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()

    def run(self):
        connection = UnixConnection(self.agent.socket)
        while not self.done.is_set():
            began = time.monotonic()
            connection.request("GET", "/v1/resolve/small")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            self.longest = max(self.longest, time.monotonic() - began)
            self.count += 1
            time.sleep(0.001)
        connection.close()


class Large(AgentTest):
    def put(self, path, record=None):
        folder = self.folder / "registry" / path
        folder.mkdir(parents=True, exist_ok=True)
        if record is not None:
            (folder / "_record").write_text(json.dumps(record))

    def setUp(self):
        super().setUp()
        self.put("small", {"type": "JSONServiceRecord", "external": [], "internal": []})

    def fill(self, count, record):
        for number in range(count):
            self.put(f"large/n{number}", record)

    def cpu(self, agent):
        with open(f"/proc/{agent.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rounds(self, clock, least):
        """Counts from 1 to `least`, and on until the other client has its answers."""
        count = 0
        while count < least or clock.count < ANSWERS:
            count += 1
            self.assertLess(count, MOST, f"the other client has {clock.count} answers")
            yield count

    def test_is_refused_and_nobody_waits(self):
        self.fill(CHILDREN, None)
        agent = self.agent(agent={"log_level": "info"}, cache={"max_size": "2M"}).start()
        self.assertEqual(len(agent.get("/v1/list/large").json), CHILDREN)
        listed = self.cpu(agent)
        with Clock(agent) as clock:
            for rounds in self.rounds(clock, 20):
                for kind in ("records", "endpoints"):
                    answer = agent.get(f"/v1/{kind}/large")
                    self.assertEqual((answer.status, answer.json["title"]), (422, "LimitExceeded"))
                answer = agent.get("/v1/watch/large?recursive=yes")
                self.assertEqual((answer.status, answer.json["title"]), (503, "LimitExceeded"))
        used = self.cpu(agent) - listed
        figure(self,
            f"refused; another client's slowest answer took {clock.longest * 1000:.0f} ms of "
            f"{clock.count}")
        print(f"# {CHILDREN} children: {3 * rounds} requests took {used:.2f} s of CPU; the other "
              f"client's slowest answer {clock.longest * 1000:.0f} ms of {clock.count}")
        self.assertLess(used, 3 * rounds * 0.1)

    def test_that_just_fits_is_answered_in_slices(self):
        record = {
            "type": "JSONServiceRecord",
            "external": [{"api": "urn:x", "addressType": "uri", "protocol": "REST",
                "addresses": [{"uri": "http://10.0.0.1:8080/"}]}],
            "internal": [],
        }
        self.fill(HALF, record)
        agent = self.agent(agent={"log_level": "info"}, cache={"max_size": "16M"}).start()
        wait_until(lambda: agent.get("/v1/endpoints/large").status == 200, "all of it is loaded")
        with Clock(agent) as clock:
            for number in self.rounds(clock, 10):
                answer = agent.get(
                    "/v1/endpoints/large?protocol=REST&api=urn:x&"
                    f"scope={'external' if number % 2 else 'internal'}")
                self.assertEqual(len(answer.json), HALF if number % 2 else 0)
                self.put("large/n0", {**record, "number": number})
        print(f"# {HALF} children in one answer; the other client's slowest answer "
              f"{clock.longest * 1000:.0f} ms of {clock.count}")

    def test_a_stream_ends_when_its_directory_grows_out_of_the_cache(self):
        self.fill(10, None)
        agent = self.agent(cache={"max_size": "1M"}).start()
        with Stream(agent.socket, "/v1/watch/large?recursive=yes") as stream:
            self.assertEqual(len(stream.event()["snapshot"]), 11)
            self.fill(2500, None)
            with self.assertRaises(Exception):
                while True:
                    stream.event()
        wait_until(lambda: agent.get("/v1/resolve/small").status == 200, "everything else goes on")


if __name__ == "__main__":
    unittest.main()
