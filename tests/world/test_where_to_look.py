"""A newcomer asks for the wrong thing and gets an answer that is right and no help: no endpoint at
an instance whose components have some, a path without a slash for a name, a component that waits
for a report of which nobody knows.

Source: a newcomer's first day with Berth 0.2.0
"""

import unittest

from berth import Agent, AgentTest, berth, wait_until


class WhereToLook(AgentTest):
    def test_no_endpoint_here_names_the_node_that_has_more_below(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        instance = Agent.PATH.rpartition("/components/")[0]
        service = instance.rpartition("/")[0]
        found = berth("-s", agent.socket, "endpoints", instance)
        self.assertEqual(found.returncode, 3)
        self.assertIn(f"more below {instance}/components", found.stderr)
        found = berth("-s", agent.socket, "endpoints", service)
        self.assertIn(f"more below {instance}", found.stderr)

    def test_no_endpoint_at_a_leaf_names_nothing(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        found = berth("-s", agent.socket, "endpoints", Agent.PATH, "--protocol", "gopher")
        self.assertEqual(found.stderr, "berth: NoRecord: no endpoint matches\n")

    def test_a_name_in_place_of_a_path_is_told_its_verb(self):
        agent = self.agent().start()
        for verb in "endpoints", "resolve", "ls":
            found = berth("-s", agent.socket, verb, "web.joe.berth")
            self.assertNotEqual(found.returncode, 0)
            self.assertIn("berth host", found.stderr, verb)

    def test_a_ttl_check_that_waits_says_for_what(self):
        agent = self.web_agent(check="", extra={"check beat": {"type": "ttl"}}).start()
        wait_until(lambda: agent.status()["components"][0]["state"] == "withdrawn",
            "the component waits")
        status = berth("-s", agent.socket, "status").stdout
        self.assertIn("berth report beat passing", status)
        self.assertEqual(berth("-s", agent.socket, "report", "beat", "passing").returncode, 0)
        agent.wait_state("registered")


if __name__ == "__main__":
    unittest.main()
