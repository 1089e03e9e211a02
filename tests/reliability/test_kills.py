"""The agent is killed at random moments, while it starts, runs, reloads, upgrades itself and
writes; $BERTH_ROUNDS says how often, $BERTH_SEED repeats a choice of moments."""

import os
import random
import signal
import time
import unittest

from berth import wait_until
from figures import figure
from lifecycle import LifeTest, Server, rounds


class Kills(LifeTest):
    registry_kind = Server

    def registered(self):
        wait_until(self.agent.answers, "the agent answers")
        self.agent.wait_state("registered")

    # The moments. Each begins something and returns the longest time until the kill, in seconds.

    def start(self):
        return 0.25

    def run_on(self):
        self.registered()
        return 0.2

    def reload(self):
        self.registered()
        self.agent.signal(signal.SIGHUP)
        return 0.05

    def upgrade(self):
        self.registered()
        self.agent.signal(signal.SIGUSR2)
        return 0.2

    def write(self):
        """Its record changes."""
        self.registered()
        self.changes += 1
        self.agent.sections["component"]["description"] = f"number {self.changes}"
        self.agent.write_config(self.agent.sections)
        self.agent.signal(signal.SIGHUP)
        return 0.05

    MOMENTS = [start, start, run_on, reload, upgrade, write]

    def test_500_kills_at_random_moments(self):
        seed = int(os.environ.get("BERTH_SEED", random.randrange(1 << 32)))
        print(f"seed {seed}")
        dice = random.Random(seed)
        self.changes = 0
        self.agent = self.web_agent().start()
        self.registered()
        witness = self.witness()
        counts = dict.fromkeys((moment.__name__ for moment in self.MOMENTS), 0)
        for _ in range(rounds(500)):
            moment = dice.choice(self.MOMENTS)
            counts[moment.__name__] += 1
            time.sleep(dice.random() * moment(self))
            self.agent.kill()
            self.agent.start(wait=False)
        self.registered()
        self.assertEqual(len(witness.end()), 1, (seed, witness.seen))
        self.assertEqual(self.in_registry()["description"],
            f"number {self.changes}" if self.changes else "a test")
        figure(self, f"{sum(counts.values())} kills, {counts['start']} of them at its start, "
            f"{counts['reload'] + counts['write']} at a reload, {counts['upgrade']} at an upgrade: "
            f"record absent 0 times, the last of {self.changes} changes in it")


if __name__ == "__main__":
    unittest.main()
