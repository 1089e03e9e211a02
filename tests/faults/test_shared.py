"""Readers of the agent's shared memory, while the agent is stopped, killed and upgraded at random
moments: no answer from memory is older than `confirm`, no reader hangs or goes without answers for
good. BERTH_FAULTS sets how many times."""

import importlib.util
import json
import os
import pathlib
import random
import signal
import threading
import time
import unittest

from berth import AgentTest, amount, service_record, wait_until

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DB = "/services/db"
TARGET = f"/v1/resolve{DB}"
CONFIRM_S = 0.5
# A change that the kernel has announced and the loop has not seen yet is as old as one turn of it.
TURN_S = 0.5
FAULTS = int(os.environ.get("BERTH_FAULTS", amount(25)))


def load_reader():
    specification = importlib.util.spec_from_file_location(
        "shared", SOURCE / "docs/examples/shared.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Faults(AgentTest):
    def put_version(self, version):
        self.put(DB, service_record("h", version))
        self.written.append((now(), version))

    def least_version(self, at):
        """The version that was there for sure at a time."""
        return max((version for when, version in list(self.written) if when <= at), default=0)

    def read_on(self):
        client = self.reader.Client(str(self.agent_under_test.socket))
        while not self.ends.is_set():
            least = self.least_version(now() - CONFIRM_S - TURN_S)
            try:
                _, body = client.get(TARGET)
            except OSError:
                continue
            if client.from_memory:
                version = int(json.loads(body)["external"][0]["addresses"][0]["port"])
                self.hits += 1
                if version < least:
                    self.wrong.append((version, least))

    def test_no_answer_from_memory_is_older_than_it_may_be(self):
        choice = random.Random(FAULTS)
        self.reader = load_reader()
        self.written, self.wrong, self.hits = [], [], 0
        self.ends = threading.Event()
        agent = self.agent_under_test = self.agent(cache={"confirm": f"{CONFIRM_S * 1000:.0f}ms"})
        agent.start()
        self.put_version(1)
        threads = [threading.Thread(target=self.read_on) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(FAULTS):
                before = self.hits
                wait_until(lambda before=before: self.hits > before, "readers hit")
                fault = choice.choice(["stop", "kill", "upgrade"])
                if fault == "stop":
                    agent.signal(signal.SIGSTOP)
                    self.put_version(2 + turn)
                    time.sleep(choice.random() * 2 * CONFIRM_S)
                    agent.signal(signal.SIGCONT)
                elif fault == "kill":
                    agent.kill()
                    self.put_version(2 + turn)
                    time.sleep(choice.random() * 2 * CONFIRM_S)
                    agent.start()
                else:
                    self.put_version(2 + turn)
                    agent.upgrade()
        finally:
            agent.signal(signal.SIGCONT)
            self.ends.set()
            for thread in threads:
                thread.join()
        self.assertEqual(self.wrong, [])
        self.assertGreater(self.hits, FAULTS)


if __name__ == "__main__":
    unittest.main()
