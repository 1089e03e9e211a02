"""A user's server is cold when it comes up, and his balancer, which has no slow start of its own,
gives it the whole share of a warm one at once; what lowers the share of a warm one is as bad.

Source: slowstart of HAProxy, slow_start of nginx (its commercial edition alone)
"""

import time
import unittest

from berth import Agent, AgentTest, exists, wait_until

WEIGHT = 17
RAMP = {"attribute.weight": str(WEIGHT), "slow_start": "2s"}


class SlowStart(AgentTest):
    def setUp(self):
        super().setUp()
        self.healthy = self.folder / "healthy"
        self.healthy.touch()

    def slow_agent(self, **options):
        return self.web_agent(check=exists(self.healthy), extra={"registry":
            {"update_interval": "0s"}, "check alive": {"fall": 1}}, damping="no",
            **{**RAMP, **options})

    def weight(self, agent):
        answer = agent.get(f"/v1/resolve{Agent.PATH}")
        return int(answer.json["weight"]) if answer.status == 200 else None

    def climb(self, agent, last=WEIGHT):
        """The weights that were seen, one behind the other, until the last one."""
        seen = []

        def reached():
            weight = self.weight(agent)
            if weight is not None and seen[-1:] != [weight]:
                seen.append(weight)
            return weight == last
        wait_until(reached, f"the weight is {last}")
        return seen

    def assert_climbed(self, seen):
        self.assertEqual(seen, sorted(seen))
        self.assertLessEqual(len(seen), 9)
        self.assertEqual(seen[-1], WEIGHT)
        self.assertGreater(len(seen), 2)

    def test_the_weight_climbs_after_the_start_and_after_each_return(self):
        agent = self.slow_agent().start()
        self.assert_climbed(self.climb(agent))
        self.healthy.unlink()
        wait_until(lambda: self.weight(agent) is None, "it is out")
        self.healthy.touch()
        self.assert_climbed(self.climb(agent))

    def test_an_upgrade_goes_on_with_the_climb(self):
        agent = self.slow_agent(slow_start="8s").start()
        seen = self.climb(agent, 5)
        agent.upgrade()
        agent.wait_state("registered")
        seen += self.climb(agent)
        self.assertEqual(seen, sorted(seen))

    def test_an_agent_that_finds_its_own_record_leaves_it_its_weight(self):
        agent = self.slow_agent(znode="persistent").start()
        self.climb(agent)
        agent.kill()
        agent.start()
        agent.wait_state("registered")
        until = time.monotonic() + 1  # half of a climb
        while time.monotonic() < until:
            self.assertEqual(self.weight(agent), WEIGHT)

    def test_without_a_weight_there_is_nothing_to_climb_to(self):
        for weight in ("", "1", "0", "x"):
            verdict = self.slow_agent(**{"attribute.weight": weight}).verdict()
            self.assertIn("`slow_start` needs `attribute.weight`, of 2 at least", verdict.stderr)


if __name__ == "__main__":
    unittest.main()
