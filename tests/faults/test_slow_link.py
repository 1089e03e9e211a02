"""Behind a slow link: every answer about the registry is as young as it says, by what a client at
the server has written, and when."""

import json
import threading
import time

from berth import AgentTest, service_record, wait_until
from figures import figure
from wire import DOWN, Wire
from zk_client import ZkClient
from zookeeper import ZooKeeper

TIMEOUT_S = 10
CONFIRM_S = TIMEOUT_S / 3
DELAY_S = 0.2
HELD_S = 3.0  # more than a quarter of the timeout, and with the delays less than a third
PATH = "/services/counter"
CYCLES, QUESTIONS = 5, 8


class SlowLink(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(self.server.stop)
        self.over = {}  # number: when the record certainly held it no more
        self.answers = []

    def write(self, client, number):
        client.set(f"/registry{PATH}", json.dumps(service_record("a", 80, number=number)))
        self.over[number - 1] = time.monotonic()

    def ask_until(self, agent, until):
        while time.monotonic() < until:
            asked = time.monotonic()
            answer = agent.get(f"/v1/resolve{PATH}")
            if answer.status == 200:
                self.answers.append((answer.headers["X-Cache"], int(answer.headers["Age"]),
                    asked - self.over.get(answer.json["number"], asked)))
            time.sleep(0.01)

    def ask_for_nothing(self, agent, name):
        """A path that nobody knows takes two requests, the second one at the moment when the first
        one is answered."""
        threads = [threading.Thread(target=agent.get, args=(f"/v1/resolve/services/{name}{i}",))
            for i in range(QUESTIONS)]
        for thread in threads:
            thread.start()
            self.addCleanup(thread.join)

    def test_no_answer_is_older_than_it_says(self):
        """What the server sends is held back for longer than the quiet after which the agent asks
        whether the server lives, and then comes all at once: answers, and news of a change that
        was made in between."""
        with Wire(self.server.hosts, delay=DELAY_S) as wire, ZkClient(self.server.hosts) as client:
            client.make(f"/registry{PATH}")
            self.write(client, 1)
            agent = self.agent(registry=f"zookeeper://{wire.hosts}/registry")
            agent.write_config({"registry": {"session_timeout": f"{TIMEOUT_S}s"}})
            agent.start()
            wait_until(lambda: agent.get(f"/v1/resolve{PATH}").status == 200, "the record is read")
            for cycle in range(CYCLES):
                wire.cut(DOWN)
                self.ask_for_nothing(agent, f"nobody{cycle}-")
                self.ask_until(agent, time.monotonic() + HELD_S)
                for change in range(2):
                    wire.mend()
                    passing = time.monotonic()
                    self.ask_until(agent, passing + 1.5 * DELAY_S)
                    wire.cut(DOWN)  # before anything that follows from it is answered
                    self.ask_until(agent, passing + 3 * DELAY_S)
                    self.write(client, 2 * cycle + change + 2)
                    self.ask_until(agent, passing + HELD_S)
                wire.mend()
                wait_until(lambda: agent.get(f"/v1/resolve{PATH}").headers.get("X-Cache") == "HIT",
                    "all is as it should be")
        lies = [(source, age, round(older, 3)) for source, age, older in self.answers
            if older > (age if source == "STALE" else CONFIRM_S)]
        self.assertLessEqual({"HIT", "STALE"}, {source for source, _, _ in self.answers})
        figure(self, f"{len(lies)} of {len(self.answers)} answers older than they say")
        self.assertEqual(lies, [], f"of {len(self.answers)} answers")
