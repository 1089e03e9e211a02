"""An agent that has nothing to do sleeps: on a directory, and on ZooKeeper together with its
worker."""

import time
import unittest

from berth import Agent, AgentTest, wait_until, wake_ups
from zookeeper import share_zookeeper

SECONDS = 15
# A tick a second would be 15. A look at silent connections and at one path of the cache are due,
# and what the kernel adds when it is short of memory.
AT_MOST = 10
# Each of three threads has a part in a request of the worker's, of which one may fall in the time.
AT_MOST_IN_THE_WORKER = 12


class IdleTest(AgentTest):
    def settled(self, name, registry):
        """An agent that is registered, keeps a path in its cache, and has saved its history."""
        agent = self.web_agent(name, check="", registry=registry,
            extra={"registry": {"session_timeout": "120s"}}).start()
        agent.wait_state("registered")
        self.assertEqual(agent.get(f"/v1/resolve{Agent.PATH}").status, 200)
        wait_until(lambda: '"registered"' in self.history(agent), "the history is saved")
        return agent

    def history(self, agent):
        file = agent.folder / "state" / "history"
        return file.read_text() if file.exists() else ""

    def test_nothing_ticks_that_has_nothing_to_do(self):
        with share_zookeeper() as server:
            on_directory = self.settled("directory", self.registry)
            on_zookeeper = self.settled("zookeeper", server.url)
            bounds = {
                on_directory.process.pid: AT_MOST,
                on_zookeeper.process.pid: AT_MOST,
                on_zookeeper.worker(): AT_MOST_IN_THE_WORKER,
            }
            logs = [(agent, len(agent.read_log())) for agent in (on_directory, on_zookeeper)]
            before = {pid: wake_ups(pid) for pid in bounds}
            time.sleep(SECONDS)  # the time over which wake-ups are counted
            counts = {pid: wake_ups(pid) - before[pid] for pid in bounds}
            said = "\n".join(agent.read_log()[start:] for agent, start in logs)
        for pid, bound in bounds.items():
            self.assertLessEqual(counts[pid], bound, f"wake-ups: {counts}\n{said}")


if __name__ == "__main__":
    unittest.main()
