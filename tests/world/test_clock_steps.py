"""The machine's clock is set while the agent runs, by an administrator or by NTP after a boot
without a battery: `berth status` says "running for -172790486 ms", streams have no heartbeat until
the old time is reached again, and a drain does not end.

Source: this project's tracker #45, from an operator's day.
"""

import sys
import unittest

from berth import AgentTest, berth, preloaded
from streams import Stream

DAY_S = 86400


class Clock(AgentTest):
    def begin(self, **options):
        self.clock = self.folder / "clock"
        self.clock.write_bytes(bytes(8))
        self.environment = preloaded(BERTH_CLOCK=str(self.clock))
        self.subject = self.web_agent(extra={"agent": options})
        self.subject.start(env=self.environment)
        self.subject.wait_state("registered")

    def step(self, seconds):
        with open(self.clock, "r+b", buffering=0) as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    def runs_for(self):
        said = berth("--socket", self.subject.socket, "status").stdout
        self.assertRegex(said, r"running for \d+(\.\d+)? ?(ms|s)\b")
        uptime = self.subject.status()["uptime"]
        self.assertTrue(0 <= uptime < DAY_S / 2, uptime)

    def test_how_long_it_runs(self):
        self.begin()
        for seconds in -2 * DAY_S, 2 * DAY_S, -DAY_S:
            with self.subTest(seconds=seconds):
                self.step(seconds)
                self.runs_for()
                self.subject.upgrade()
                self.runs_for()

    def test_a_stream_s_heartbeats_go_on(self):
        self.begin(heartbeat_interval="1s")
        with Stream(self.subject.socket, f"/v1/watch{self.subject.PATH}") as stream:
            stream.until(lambda event: event["type"] == "HEARTBEAT")
            self.step(-DAY_S)
            for _ in range(3):
                self.assertEqual(stream.next(heartbeats=True)["type"], "HEARTBEAT")

    def test_a_drain_ends(self):
        """Of the agent, and of one component: both stay out for drain_delay."""
        self.begin(drain_delay="2s")
        for words in (), (self.subject.status()["components"][0]["name"],):
            with self.subTest(words=words):
                self.step(0)
                self.order("drain", *words)
                self.step(-DAY_S)
                self.order("drain", *words, "--wait")
                self.order("undrain", *words)
                self.subject.wait_state("registered")

    def order(self, *words):
        result = berth("--socket", self.subject.socket, *words)
        self.assertEqual(result.returncode, 0, result.stderr)


del AgentTest

if __name__ == "__main__":
    unittest.main()
