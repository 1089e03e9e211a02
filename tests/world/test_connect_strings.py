"""A connect string in another program's form, with the root behind each server or with parameters,
is taken for one server and an odd root: the records lie where nobody looks.

Source: node-zookeeper-client #25, karafka #59, kyuubi #1359
"""

import unittest

from berth import AgentTest, berth

REFUSED = [
    ("h1:2181/a,h2:2181/a", "behind the last server alone: h1:2181,h2:2181/a"),
    ("h1/a,h2/a", "behind the last server alone: h1,h2/a"),
    ("h1:2181/a/b,h2:2181", "behind the last server alone: h1:2181,h2:2181/a/b"),
    ("h1,h2/a,[::1]:2181/a", "behind the last server alone: h1,h2,[::1]:2181/a"),
    ("h1:2181/a?timeout=5", "has no parameters"),
    ("h1:2181?timeout=5", "1 to 65535"),
]
TAKEN = ["h1:2181,h2:2181/a", "h1/a,b", "h1/a,b/c", "h1,h2"]


class ConnectStrings(AgentTest):
    def test_the_meant_form_is_in_the_message(self):
        for servers, said in REFUSED:
            for scheme in "zookeeper", "zookeeper+tls":
                done = berth("--registry", f"{scheme}://{servers}", "ls", "/")
                self.assertNotEqual(done.returncode, 0, servers)
                self.assertIn(said, done.stderr, servers)

    def test_the_configuration_says_the_same(self):
        done = self.agent(registry=f"zookeeper://{REFUSED[0][0]}").verdict()
        self.assertEqual(done.returncode, 1)
        self.assertIn(REFUSED[0][1], done.stderr)

    def test_roots_with_a_comma_are_taken(self):
        for servers in TAKEN:
            done = self.agent(registry=f"zookeeper://{servers}").verdict()
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
