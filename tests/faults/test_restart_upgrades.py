"""Upgrades that nobody notices: a witness of the record and clients of the socket look on all the
while."""

import unittest

from berth import wait_until
from figures import figure
from lifecycle import LifeTest, on_both, rounds


class Upgrades(LifeTest):
    def test_100_upgrades_cost_no_lookup_and_no_event(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.version()
        witness = self.witness()
        clients = [self.client(agent, keep=True), self.client(agent, keep=False)]
        pid = agent.process.pid
        for _ in range(rounds(100)):
            agent.upgrade()
            answers = [client.answers for client in clients]
            wait_until(lambda: all(client.answers > before for client, before in zip(clients,
                answers)), "all have asked again")
        agent.wait_state("registered")
        failures = [client.end() for client in clients]
        self.assertEqual(failures, [[], []])
        self.assertEqual(len(witness.end()), 1)
        self.assertEqual(self.version(), before)
        self.assertEqual(agent.status()["pid"], pid)
        figure(self, f"{self.store.name}: {rounds(100)} upgrades, 0 of "
            f"{sum(client.answers for client in clients)} look-ups failed, record untouched")


on_both(globals(), Upgrades)

if __name__ == "__main__":
    unittest.main()
