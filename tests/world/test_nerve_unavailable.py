"""A service that BlaBlaCar's nerve has found down gets requests all the same: its node stays, with
`available: false`, and an import reads its address.

Source: blablacar/go-nerve, "exposeOnUnavailable"
"""

import unittest

from berth import AgentTest, wait_until
from foreign_nodes import InDirectory

GROUP = "/services/api"
AS = "/services/shop"


class NerveUnavailable(InDirectory, AgentTest):
    def setUp(self):
        super().setUp()
        self.prepare()

    def report(self, name, port, **more):
        self.write(f"{GROUP}/{name}", {"host": "10.0.0.1", "port": port, "name": name, **more})

    def test_a_service_that_is_down_has_no_endpoint_until_it_is_up(self):
        self.report("up_1", 8001, available=True)
        self.report("down_2", 8002, available=False, unavailable_reason="http status 503")
        self.report("old_3", 8003)
        agent = self.agent(**{"import shop": {"type": "nerve", "from": GROUP, "as": AS}}).start()
        endpoints = f"/v1/endpoints{AS}"
        self.assertEqual(sorted(agent.get(endpoints, accept="text/plain").body.split()),
            [b"10.0.0.1:8001", b"10.0.0.1:8003"])
        why = agent.get(f"/v1/resolve{AS}/down--2").json["nerve:unavailable_reason"]
        self.assertEqual(why, "http status 503")
        self.report("down_2", 8002, available=True)
        wait_until(lambda: b"10.0.0.1:8002" in agent.get(endpoints, accept="text/plain").body,
            "it serves again")


if __name__ == "__main__":
    unittest.main()
