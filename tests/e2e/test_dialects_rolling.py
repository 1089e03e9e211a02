"""A rolling change of twenty agents under a client that watches each scheme's group, as its readers
do."""

import unittest

from berth import AgentTest, wait_until
from kazoo_client import Group, kazoo
from zookeeper import ZooKeeper

COUNT = 20
GROUPS = {"registrar": "/org/example/web", "serverset": "/members", "curator": "/curator/app",
    "spring": "/spring/app", "nerve": "/nerve"}


class Rolling(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url

    def sections(self, number, version):
        address = f"10.9.8.7:{9000 + number}"
        instance = {"endpoint": "http", "instance_id": f"i{number}"}
        return {
            "endpoint http": {"api": "http", "protocol": "http", "address_type": "host/port",
                "address": address},
            "dialect binder": {
                "type": "registrar", "endpoint": "http", "domain": "web.example.org",
                "host_name": f"h{number}",
                "host_type": "load_balancer", "ttl": f"{700 + version}", "service": "http",
                "ports": str(9000 + number),
            },
            "dialect members": {"type": "serverset", "endpoint": "http", "path": "/members",
                "metadata.v": f"{700 + version}"},
            "dialect curator": {"type": "curator", **instance, "base": "/curator", "service": "app",
                "payload": f"{700 + version}"},
            "dialect spring": {"type": "spring", **instance, "base": "/spring", "service": "app",
                "metadata.v": f"{700 + version}"},
            "dialect nerve": {"type": "nerve", **instance, "path": "/nerve",
                "weight": f"{700 + version}"},
        }

    def configure(self, agent, number, version):
        agent.sections = agent.component(None)
        agent.sections["component"].update({"name": f"web-{number}", "id": f"container_{number}"})
        agent.sections.update(self.sections(number, version))
        agent.write_config(agent.sections)

    def wait_registered(self, agent):
        dialects = lambda: agent.status()["components"][0]["dialects"]
        wait_until(lambda: {item["state"] for item in dialects()} == {"registered"},
            "all dialects are registered")

    def test_no_group_ever_has_fewer_than_nineteen(self):
        agents = [self.agent(f"agent-{number}") for number in range(COUNT)]
        for number, agent in enumerate(agents):
            self.configure(agent, number, 1)
            agent.start()
        for agent in agents:
            self.wait_registered(agent)
        with kazoo(self.server.hosts) as reader:
            groups = {kind: Group(reader, path) for kind, path in GROUPS.items()}
            has = lambda version: all(sum(f"{700 + version}" in text for text in group.texts())
                == COUNT for group in groups.values())
            wait_until(lambda: has(1), "the reader has every member of every group")
            for group in groups.values():
                group.begin()
            for number, agent in enumerate(agents):
                if number % 2:
                    self.assertEqual(agent.stop(), 0)
                self.configure(agent, number, 2)
                if number % 2:
                    agent.start()
                else:
                    self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
                mark = f"{9000 + number}"
                changed = lambda: all(
                    any(mark in text and "702" in text for text in group.texts())
                    for group in groups.values()
                )
                wait_until(changed, "the reader has the changed member of every group")
                self.wait_registered(agent)
            wait_until(lambda: has(2), "every member has changed, and none is there twice")
            fewest = {kind: group.fewest for kind, group in groups.items()}
            self.assertTrue(all(count >= COUNT - 1 for count in fewest.values()), fewest)


if __name__ == "__main__":
    unittest.main()
