"""An agent that keeps a hundred thousand records warm is upgraded, and every look-up hangs for
seconds: the old program wrote its cache before it made way, and the new one read it before it gave
an answer. An agent that is started again in an outage does the same.

Source: this project's tracker #44, a fleet whose agents keep 100,600 paths
"""

import contextlib
import json
import os
import pathlib
import signal
import time
import unittest

from berth import PATIENCE, AgentTest, amount, service_record, wait_until
from zk_client import ZkClient
from zookeeper import ZooKeeper

RECORDS = amount(50000)
FOLDERS = 100
TRIES = 20


def path(number):
    return f"/services/large/g{number % FOLDERS}/n{number}"


def record(number):
    return service_record("10.0.0.1", 1 + number % 60000, number=str(number))


class LargeCache(AgentTest):
    session_timeout = "30s"

    def setUp(self):
        super().setUp()
        self.server = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(self.server.stop)
        with ZkClient(self.server.hosts) as client:
            client.make("/registry/services/large")
            client.create_many((f"/registry/services/large/g{group}", b"")
                for group in range(FOLDERS))
            client.create_many((f"/registry{path(number)}", json.dumps(record(number)).encode())
                for number in range(RECORDS))
        self.subject = self.agent(registry=self.server.url, cache={"max_size": "1G"}).start()
        wait_until(lambda: self.subject.status()["registry"]["state"] == "connected", "connected")
        for group in range(FOLDERS):
            answer = self.subject.get(f"/v1/records/services/large/g{group}")
            self.assertEqual(answer.status, 200, answer.body)

    def look_up(self, number):
        answer = self.subject.get(f"/v1/resolve{path(number)}")
        return answer.json if answer.status == 200 else answer.status

    def entries(self):
        text = self.subject.get("/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines()
            if line.startswith("berth_cache_entries "))

    def stop_writer(self, tested):
        """Stops the child that writes the cache, and returns its pid; None: it was too fast.
        `tested`: behind a child that tests the configuration."""
        agent = self.subject.process
        arguments = pathlib.Path(f"/proc/{agent.pid}/cmdline").read_bytes()
        children = pathlib.Path(f"/proc/{agent.pid}/task/{agent.pid}/children")
        before = self.subject.starts()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                for child in map(int, children.read_text().split()):
                    found = pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
                    tested = tested or b"-t" in found.split(b"\0")
                    if tested and found == arguments:
                        os.kill(child, signal.SIGSTOP)
                        self.addCleanup(self.go_on, child)
                        return child
            if agent.poll() is not None or self.subject.starts() > before:
                return None
        raise AssertionError(self.subject.read_log())

    def go_on(self, child):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGCONT)

    def outage(self):
        self.server.stop()
        wait_until(lambda: self.subject.status()["registry"]["state"] != "connected", "away")

    def test_a_start_in_an_outage_answers_before_it_has_read_all(self):
        whole = self.entries()
        self.assertEqual(self.subject.stop(), 0)
        self.server.stop()
        for _ in range(TRIES):
            self.subject.start()
            self.assertEqual(self.look_up(RECORDS - 1), record(RECORDS - 1))
            absent = self.subject.get("/v1/resolve/services/large/g1/none")
            self.assertEqual(absent.status, 404, absent.body)
            if self.entries() < whole:
                break
            self.subject.kill()
        else:
            self.fail("all was read before the first answer, each time")
        wait_until(lambda: self.entries() == whole, "all is read")
        for number in range(0, RECORDS, 97):
            self.assertEqual(self.look_up(number), record(number))

    def test_an_upgrade_answers_while_it_saves_and_passes_on_what_changes_meanwhile(self):
        for _ in range(TRIES):
            before = self.subject.starts()
            self.subject.signal(signal.SIGUSR2)
            writer = self.stop_writer(tested=False)
            if writer:
                break
            wait_until(lambda: self.subject.starts() > before, "the new program runs")
        else:
            self.fail("the cache was written before anybody could look, each time")
        new = record(RECORDS)
        with ZkClient(self.server.hosts) as client:
            client.set(f"/registry{path(1)}", json.dumps(new).encode())
            client.delete(f"/registry{path(2)}")
        wait_until(lambda: self.look_up(1) == new and self.look_up(2) == 404, "it changes")
        self.assertEqual(self.subject.starts(), before)
        self.outage()
        self.go_on(writer)
        wait_until(lambda: self.subject.starts() > before, "the new program runs")
        self.assertEqual(self.look_up(1), new)
        self.assertEqual(self.look_up(2), 404)
        for number in range(3, RECORDS, 97):
            self.assertEqual(self.look_up(number), record(number))

    def test_a_stop_answers_until_all_is_saved(self):
        for _ in range(TRIES):
            self.subject.signal(signal.SIGTERM)
            writer = self.stop_writer(tested=True)
            if writer:
                break
            self.subject.wait()
            self.subject.start()
        else:
            self.fail("the cache was written before anybody could look, each time")
        self.assertEqual(self.look_up(0), record(0))
        self.assertIsNone(self.subject.process.poll())
        self.go_on(writer)
        self.assertEqual(self.subject.wait(), 0)
        self.server.stop()
        self.subject.start()
        self.assertEqual(self.look_up(1), record(1))


if __name__ == "__main__":
    unittest.main()
