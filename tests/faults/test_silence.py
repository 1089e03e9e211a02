"""What says nothing and does not end: a frozen worker, a frozen server, a cut network. The agent
notices each in time."""

import os
import signal
import threading
import time

from berth import Agent, AgentTest, wait_until
from figures import figure, seconds
from wire import Wire
from zookeeper import ZooKeeper

NODE = f"/registry{Agent.PATH}"
SESSION = {"session_timeout": "10s"}


class Witness(threading.Thread):
    """An independent client that looks at the node over and over."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.seen = set()
        self.looks = 0
        self.done = threading.Event()

    def run(self):
        while not self.done.wait(0.1):
            stat = self.server.stat(NODE)
            self.seen.add(stat and stat["czxid"])
            self.looks += 1

    def finish(self):
        self.done.set()
        self.join()


class Silence(AgentTest):
    def setUp(self):
        super().setUp()
        self.zookeeper = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(self.zookeeper.stop)

    def registered_agent(self, hosts, session=None):
        agent = self.web_agent(registry=f"zookeeper://{hosts}/registry",
            extra={"registry": session or SESSION}).start()
        agent.wait_state("registered")
        return agent

    def registry_state(self, agent):
        return agent.status()["registry"]["state"]

    def test_a_frozen_worker_costs_no_record(self):
        agent = self.registered_agent(self.zookeeper.hosts)
        witness = Witness(self.zookeeper)
        witness.start()
        self.addCleanup(witness.finish)
        slowest = 0
        for _ in range(2):
            frozen = agent.worker()
            begun = time.monotonic()
            os.kill(frozen, signal.SIGSTOP)
            wait_until(lambda: agent.worker() not in (None, frozen),
                "another worker runs")
            wait_until(lambda: self.registry_state(agent) == "connected", "it is connected")
            slowest = max(slowest, time.monotonic() - begun)
            agent.wait_state("registered")
        looks = witness.looks
        wait_until(lambda: witness.looks > looks + 1, "the witness has looked once more")
        witness.finish()
        self.assertEqual(len(witness.seen), 1, witness.seen)
        self.assertNotIn(None, witness.seen)
        self.assertIn("does not answer", agent.read_log())
        self.assertEqual(agent.get("/ready").status, 200)
        figure(self, f"2 workers frozen: connected by another one after {seconds(slowest)} at "
            f"most, record absent in 0 of {witness.looks} looks")

    def test_a_frozen_agent_keeps_no_record(self):
        """Its worker could keep the session for ever, and with it a record that nobody repairs."""
        agent = self.registered_agent(self.zookeeper.hosts, {"session_timeout": "6s"})
        worker = agent.worker()
        before = self.zookeeper.stat(NODE)
        begun = time.monotonic()
        os.kill(agent.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, agent.process.pid, signal.SIGCONT)
        wait_until(lambda: self.zookeeper.stat(NODE) is None, "the record of the frozen agent goes")
        gone_s = time.monotonic() - begun
        with open(f"/proc/{worker}/stat", encoding="ascii") as stat:
            self.assertEqual(stat.read().rpartition(") ")[2][0], "Z", "nobody holds the session")
        os.kill(agent.process.pid, signal.SIGCONT)
        wait_until(lambda: self.zookeeper.stat(NODE), "the record is back")
        agent.wait_state("registered")
        after = self.zookeeper.stat(NODE)
        self.assertEqual("0x%x" % after["ephemeralOwner"], agent.status()["registry"]["session"])
        self.assertNotEqual(after["ephemeralOwner"], before["ephemeralOwner"])
        self.assertNotIn(agent.worker(), (None, worker))
        figure(self, f"an agent frozen, session_timeout 6 s: its record absent after "
            f"{seconds(gone_s)}")

    def test_an_agent_that_wakes_up_in_time_has_its_record(self):
        """Frozen for longer than its worker waits, and not so long that the session ends."""
        agent = self.registered_agent(self.zookeeper.hosts, {"session_timeout": "10s"})
        worker = agent.worker()
        before = self.zookeeper.stat(NODE)
        os.kill(agent.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, agent.process.pid, signal.SIGCONT)
        def has_ended():
            with open(f"/proc/{worker}/stat", encoding="ascii") as stat:
                return stat.read().rpartition(") ")[2][0] == "Z"
        wait_until(has_ended, "its worker has ended")
        self.assertEqual(self.zookeeper.stat(NODE), before)
        os.kill(agent.process.pid, signal.SIGCONT)
        wait_until(lambda: agent.worker() not in (None, worker), "another worker runs")
        wait_until(lambda: self.registry_state(agent) == "connected", "it is connected")
        agent.wait_state("registered")
        self.assertEqual(self.zookeeper.stat(NODE), before)

    def test_two_silent_servers_of_three_cost_no_session(self):
        """Both are tried before the third, in the time that the session has left."""
        wires = [Wire(self.zookeeper.hosts) for _ in range(3)]
        for wire in wires:
            self.addCleanup(wire.stop)
        agent = self.registered_agent(",".join(wire.hosts for wire in wires),
            {"session_timeout": "12s"})
        witness = Witness(self.zookeeper)
        witness.start()
        self.addCleanup(witness.finish)
        session = agent.status()["registry"]["session"]
        silent = [wire for wire in wires if not wire.in_use]
        self.assertEqual(len(silent), 2)
        for wire in silent:
            wire.cut()
        ended = agent.worker()
        os.kill(ended, signal.SIGKILL)
        wait_until(lambda: agent.worker() not in (None, ended) and self.registry_state(agent)
            == "connected", "the third server is found")
        agent.wait_state("registered")
        self.assertEqual(agent.status()["registry"]["session"], session)
        for wire in silent:
            self.assertIn(f"{wire.hosts}: no answer", agent.read_log())
        witness.finish()
        self.assertEqual(len(witness.seen), 1, witness.seen)

    def silenced_and_back(self, agent, silence, end):
        """While nothing comes from the server the agent says so, and that the session is over no
        sooner than it can be."""
        begun = time.monotonic()
        silence()
        wait_until(lambda: self.registry_state(agent) == "away", "the silence is noticed")
        self.assertEqual(agent.get("/ready").status, 503)
        away = time.monotonic()
        wait_until(lambda: self.registry_state(agent) == "lost", "the session is presumed over")
        lost = time.monotonic()
        # It was heard a quarter of the timeout earlier at the earliest.
        self.assertGreater(lost - begun, 7.0)
        end()
        ended = time.monotonic()
        wait_until(lambda: self.registry_state(agent) == "connected", "the server is heard again")
        agent.wait_state("registered")
        wait_until(lambda: agent.get("/ready").status == 200, "the agent is ready")
        owner = int(agent.status()["registry"]["session"], 16)
        wait_until(lambda: (self.zookeeper.stat(NODE) or {}).get("ephemeralOwner") == owner,
            "the node is the session's")
        figure(self, f"session of 10 s: away after {seconds(away - begun)}, lost after "
            f"{seconds(lost - begun)}, registered {seconds(time.monotonic() - ended)} after the "
            "mend")

    def test_a_frozen_server_is_away_and_then_lost(self):
        agent = self.registered_agent(self.zookeeper.hosts)
        self.silenced_and_back(agent, self.zookeeper.pause, self.zookeeper.resume)

    def test_a_cut_network_is_away_and_then_lost(self):
        with Wire(self.zookeeper.hosts) as wire:
            agent = self.registered_agent(wire.hosts)
            self.silenced_and_back(agent, wire.cut, wire.mend)
            agent.stop()
