"""A machine that is suspended: what it knew when it fell asleep is old when it wakes up."""

import json
import os
import signal
import sys
import unittest

from berth import AgentTest, preloaded, service_record, wait_until
from figures import figure
from wire import Wire
from zk_client import ZkClient
from zookeeper import ZooKeeper

PATH = "/services/db"
ASLEEP_S = 20
SESSION = {"session_timeout": "30s"}  # so look-ups ask after 10 s whether the server lives


class Suspend(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(self.server.stop)
        self.clock = self.folder / "suspended"
        self.clock.write_bytes(bytes(8))

    def put(self, number):
        with ZkClient(self.server.hosts) as client:
            client.make(f"/registry{PATH}")
            client.set(f"/registry{PATH}", json.dumps(service_record("a", 80, number=number)))

    def suspend(self, agent, meanwhile):
        """The agent and its worker are stopped, and their clock goes on."""
        pids = agent.process.pid, agent.worker()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            meanwhile()
            with open(self.clock, "r+b", buffering=0) as file:
                file.write(ASLEEP_S.to_bytes(8, sys.byteorder, signed=True))
        finally:
            for pid in reversed(pids):
                os.kill(pid, signal.SIGCONT)

    def known(self, agent, number):
        answer = agent.get(f"/v1/resolve{PATH}")
        return (answer.status == 200 and answer.json["number"] == number
            and answer.headers["X-Cache"] == "HIT")

    def test_nothing_is_a_hit_before_the_server_was_heard_again(self):
        self.put(1)
        with Wire(self.server.hosts) as wire:
            agent = self.agent(registry=f"zookeeper://{wire.hosts}/registry")
            agent.write_config({"registry": SESSION})
            agent.start(env=preloaded(BERTH_SUSPENDED=str(self.clock)))
            wait_until(lambda: self.known(agent, 1), "the record is known")

            def meanwhile():
                wire.cut()
                self.put(2)

            self.suspend(agent, meanwhile)
            answers = [agent.get(f"/v1/resolve{PATH}") for _ in range(20)]
            for answer in answers:
                self.assertEqual(answer.json["number"], 1)
                self.assertEqual(answer.headers["X-Cache"], "STALE")
                self.assertGreaterEqual(int(answer.headers["Age"]), ASLEEP_S)
            wire.mend()
            wait_until(lambda: self.known(agent, 2), "the present record is known")
        figure(self, f"suspended for {ASLEEP_S} s: {len(answers)} of {len(answers)} answers stale "
            "until the server was heard, each with its age")


if __name__ == "__main__":
    unittest.main()
