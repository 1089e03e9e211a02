"""A server that refuses the agent's credentials: the agent says so, asks again slowly, and at once
when it is reloaded."""

import json

from berth import Agent, AgentTest, wait_until
from fake_zookeeper import FakeZooKeeper

AGAIN = "the refused credentials are tried again"


class Denied(AgentTest):
    def setUp(self):
        super().setUp()
        self.fake = FakeZooKeeper()
        self.addCleanup(self.fake.stop)
        self.fake.credential = "joe:secret"
        self.file = self.folder / "auth"
        self.file.touch(mode=0o600)

    def start(self, credential):
        self.file.write_text(f"{credential}\n")
        options = {"auth": "digest", "auth_file": self.file, "session_timeout": "4s"}
        return self.web_agent(registry=self.fake.url, extra={"registry": options}).start()

    @staticmethod
    def wait_registry(agent, state):
        wait_until(lambda: agent.status()["registry"]["state"] == state, f"the registry is {state}")

    def registered(self, agent):
        agent.wait_state("registered")
        self.assertIn("/registry" + Agent.PATH, self.fake.tree.nodes)

    def test_a_reload_tries_the_file_at_once(self):
        agent = self.start("joe:guess")
        self.wait_registry(agent, "denied")
        self.assertIn("the next attempt is in", agent.read_log())
        self.file.write_text("joe:secret\n")
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.registered(agent)
        self.assertNotIn(AGAIN, agent.read_log())
        for text in agent.read_log(), json.dumps(agent.status()):
            self.assertNotIn("guess", text)
            self.assertNotIn("secret", text)

    def test_a_reload_tries_refused_credentials_again(self):
        agent = self.start("joe:other")
        self.wait_registry(agent, "denied")
        self.fake.credential = "joe:other"
        agent.request("POST", "/v1/agent/reload")
        self.registered(agent)
        self.assertNotIn(AGAIN, agent.read_log())

    def test_it_tries_again_by_itself(self):
        agent = self.start("joe:guess")
        self.wait_registry(agent, "denied")
        self.file.write_text("joe:secret\n")
        self.wait_registry(agent, "connected")
        self.registered(agent)
        self.assertIn(AGAIN, agent.read_log())
        states = [item["to"] for item in agent.get("/v1/agent/history").json
            if item["subject"] == "registry"]
        self.assertEqual(states[-2:], ["denied", "connected"])
        # Before the first refusal a connection may break and come back: the server refuses by
        # closing it.
        refused = states[states.index("denied") :]
        self.assertEqual(refused.count("connected"), 1,
            "an attempt that is refused does not connect")

    def test_credentials_that_change_are_used_in_the_same_session(self):
        agent = self.start("joe:secret")
        self.registered(agent)
        node = self.fake.tree.nodes["/registry" + Agent.PATH]
        self.fake.credential = "joe:fresh"
        self.file.write_text("joe:fresh\n")
        agent.request("POST", "/v1/agent/reload")
        wait_until(lambda: "away" in self.states(agent), "another connection")
        self.wait_registry(agent, "connected")
        self.registered(agent)
        self.assertEqual(self.fake.tree.nodes["/registry" + Agent.PATH], node)
        self.assertEqual(self.fake.refused, 0)

    @staticmethod
    def states(agent):
        return [item["to"] for item in agent.get("/v1/agent/history").json
            if item["subject"] == "registry"]

    def test_a_file_that_cannot_be_used_changes_nothing(self):
        agent = self.start("joe:secret")
        self.registered(agent)
        self.file.write_text("nonsense\n")
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 422)
        self.assertEqual(self.states(agent), ["connected"])
        self.registered(agent)
