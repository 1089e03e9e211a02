"""The service manager is busy, and the queue of its notification socket is full: READY=1 was lost,
and the manager ended a good service for not having started in time.

Source: tracker #45, B.1, the notify socket; a queue holds ten messages (net.unix.max_dgram_qlen).
"""

import contextlib
import os
import socket
import unittest

from berth import PROGRAMS, AgentTest, wait_until


class ManagerIsBusy(AgentTest):
    def setUp(self):
        super().setUp()
        self.path = str(self.folder / "notify")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(self.manager.close)
        self.manager.bind(self.path)
        self.received = []

    def fill(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as others:
            with contextlib.suppress(BlockingIOError):
                while True:
                    others.sendto(b"OTHER=1", self.path)

    def got(self, word):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.received.append(self.manager.recv(4096).decode().partition("=")[0])
        return word in self.received

    def test_it_hears_of_all_once_it_listens(self):
        agent = self.web_agent()
        self.fill()
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS),
            "NOTIFY_SOCKET": self.path})
        agent.wait_state("registered")
        wait_until(lambda: self.got("READY") and self.got("STATUS"), "the agent is ready")
        self.received.clear()
        self.fill()
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        wait_until(lambda: self.got("READY"), "the reload is over")
        changes = [word for word in self.received if word in ("RELOADING", "READY")]
        self.assertEqual(changes, ["RELOADING", "READY"])


if __name__ == "__main__":
    unittest.main()
