"""Restarts over and over, which nobody notices: a witness of the record looks on all the while."""

import signal
import time
import unittest

from berth import Agent, wait_until
from figures import figure
from lifecycle import SessionTest, rounds

PART_OF_SESSION = 1.5  # of 5 s


class Restarts(SessionTest):
    def repeat(self, number):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.version()
        witness = self.witness()
        heard = time.monotonic()
        for _ in range(rounds(100)):
            self.restart(agent, number)
            # On a slow machine none of many in a row comes to reconnect, and the session ends.
            if time.monotonic() - heard > PART_OF_SESSION:
                wait_until(lambda: agent.status()["registry"]["state"] == "connected",
                    "it is connected")
                heard = time.monotonic()
        agent.wait_state("registered")
        self.assertEqual(len(witness.end()), 1, witness.seen)
        self.assertEqual(self.version(), before)
        self.assertEqual(self.session_paths(), [Agent.PATH])

    def test_100_kills_show_no_event(self):
        self.repeat(signal.SIGKILL)
        figure(self, f"{rounds(100)} kills: record absent 0 times, written 0 times")
        self.assertEqual(self.session_file().stat().st_mode & 0o777, 0o600)

    def test_100_quits_show_no_event(self):
        self.repeat(signal.SIGQUIT)


if __name__ == "__main__":
    unittest.main()
