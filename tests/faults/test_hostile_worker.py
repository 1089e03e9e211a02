"""A worker of the ZooKeeper backend that was taken over by a hostile server: it floods the agent
with frames and lines, and does not end. The agent serves, replaces it, and ends when it has to."""

import collections
import os
import pathlib
import signal
import sys
import unittest

from berth import AgentTest, wait_until
from rights import require

WORKER = pathlib.Path(__file__).resolve().parents[1] / "support/hostile_worker.py"
LINES_A_SECOND = 20  # lib/registry/zookeeper/zookeeper.c
TOO_MUCH = "the ZooKeeper worker sends more than it was asked for"
MOST_LOG_BYTES = 400_000  # of 140 MB that such a worker has to say


class HostileWorker(AgentTest):
    def start(self, mode):
        agent = self.web_agent(registry="zookeeper://127.0.0.1:1",
            extra={"registry": {"session_timeout": "60s"}})
        folder = agent.folder / "libexec"
        folder.mkdir()
        (folder / "mode").write_text(mode)
        worker = folder / "berth-zookeeper"
        worker.write_text(f"#!{sys.executable}\n{WORKER.read_text(encoding='utf-8')}")
        worker.chmod(0o755)
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(folder)})
        return agent

    def assert_serves(self, agent):
        """It answers a hundred look-ups, one after another, while the worker does its worst."""
        for _ in range(100):
            self.assertEqual(agent.get("/live").status, 200)
        self.assertLess((agent.folder / "log").stat().st_size, MOST_LOG_BYTES)

    def flood(self, mode, words=TOO_MUCH):
        agent = self.start(mode)
        wait_until(lambda: words in agent.read_log(), "it is replaced")
        self.assert_serves(agent)
        self.assertEqual(agent.stop(), 0)

    def test_one_that_sends_events_without_end_is_replaced(self):
        self.flood("events")

    def test_one_that_sends_lines_without_end_is_replaced(self):
        self.flood("lines")

    def test_one_that_connects_without_end_is_replaced(self):
        self.flood("connections", "the ZooKeeper worker reports a second connection")

    def test_its_lines_go_through_the_agent_and_are_bounded(self):
        agent = self.start("writes")
        wait_until(lambda: "the ZooKeeper worker writes without end" in agent.read_log(),
            "it is replaced")
        self.assert_serves(agent)
        self.assertNotIn("\na library's line\n", agent.read_log())
        # They pass the same gate as lines in frames: so many in a second, which may lie in two of
        # the clock's.
        seconds = collections.Counter(line[:19] for line in agent.read_log().splitlines()
            if "a library's line" in line)
        self.assertTrue(seconds)
        self.assertLessEqual(max(seconds.values()), 2 * LINES_A_SECOND)

    def test_one_that_goes_on_talking_does_not_hold_the_agents_end(self):
        agent = self.start("talks")
        wait_until(lambda: agent.status()["registry"]["state"] == "connected", "connected")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.wait(), 0)

    def test_its_environment_holds_nothing_of_the_agents(self):
        agent = self.web_agent(registry="zookeeper://127.0.0.1:1")
        agent.start(env={**os.environ, "SECRET_TOKEN": "x", "KRB5_CONFIG": "/k", "SASL_PATH": "/s"})
        worker = wait_until(agent.worker, "a worker")
        require(self, "processes")
        found = wait_until(pathlib.Path(f"/proc/{worker}/environ").read_bytes, "it is executed")
        names = {entry.split(b"=")[0].decode() for entry in found.split(b"\0") if entry}
        self.assertTrue({"KRB5_CONFIG", "SASL_PATH"} <= names, names)
        self.assertEqual({name for name in names if not name.startswith(("KRB5", "LD_"))
            and not name.endswith("SAN_OPTIONS")}, {"SASL_PATH", "BERTH_NSS"})


if __name__ == "__main__":
    unittest.main()
