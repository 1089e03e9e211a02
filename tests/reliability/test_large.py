"""100,000 nodes under one path: tests/e2e/test_large_directory.py with as many, and the same on
ZooKeeper."""

import os
import pathlib
import sys
import unittest

os.environ.setdefault("BERTH_CHILDREN", "100000")
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]

# The number is read when this is imported.
import test_large_directory
from berth import AgentTest
from figures import figure, seconds
from zk_client import ZkClient
from zookeeper import ZooKeeper

CHILDREN, Clock = test_large_directory.CHILDREN, test_large_directory.Clock
RECORD = b'{"type":"JSONServiceRecord","external":[],"internal":[]}'


class OnZooKeeper(AgentTest):
    def test_is_refused_and_the_session_lives(self):
        server = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(server.stop)
        with ZkClient(server.hosts) as client:
            client.make("/registry/large")
            client.create("/registry/small", RECORD)
            client.create_many((f"/registry/large/a-name-of-usual-length-{number:06}", b"")
                for number in range(CHILDREN))
        agent = self.web_agent(registry=server.url, extra={"cache": {"max_size": "2M"}}).start()
        agent.wait_state("registered")
        session = agent.status()["registry"]["session"]
        with Clock(agent) as clock:
            listed = agent.get("/v1/list/large")
            self.assertEqual((listed.status, len(listed.json)), (200, CHILDREN))
            for _ in range(5):
                for kind in ("records", "endpoints"):
                    answer = agent.get(f"/v1/{kind}/large")
                    self.assertEqual((answer.status, answer.json["title"]), (422, "LimitExceeded"))
                answer = agent.get("/v1/watch/large?recursive=yes")
                self.assertEqual((answer.status, answer.json["title"]), (503, "LimitExceeded"))
        self.assertEqual(agent.status()["registry"]["session"], session)
        self.assertEqual(agent.component_state(), "registered")
        figure(self, f"listed, 15 times refused; another client's slowest answer took "
            f"{seconds(clock.longest)} of {clock.count}; the session lives")


def load_tests(loader, tests, _):
    found = [loader.loadTestsFromName("test_is_refused_and_nobody_waits", case)
        for case in vars(test_large_directory).values()
        if isinstance(case, type) and hasattr(case, "test_is_refused_and_nobody_waits")]
    return unittest.TestSuite([*found, loader.loadTestsFromTestCase(OnZooKeeper)])


if __name__ == "__main__":
    unittest.main()
