"""An agent whose ZooKeeper lies in every way that a server can: the agent lives, stays small, says
what is wrong, and recovers."""

import concurrent.futures
import os
import time

from berth import BUILD, Agent, AgentTest, wait_until
from fake_zookeeper import HOSTILE, FakeZooKeeper
from figures import figure, seconds

AGENTS = 4  # at once: they wait most of the time
MOST_KB = 192 * 1024


def most_resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


class Victim:
    """An agent on a server of its own, which tells it the lies of `modes` one after another."""

    def __init__(self, test, name, modes):
        self.fake = FakeZooKeeper()
        test.addCleanup(self.fake.stop)
        self.agent = test.web_agent(name, registry=self.fake.url,
            extra={"registry": {"session_timeout": "2s"}, "cache": {"warm": "/users/**"}})
        self.modes = modes
        self.failures = []
        self.slowest = 0.0  # to register again

    def worker_folder(self):
        """
        The worker with its sanitizer's reports in the agent's log: the client library's mistakes,
        which end the worker, are why it is a process of its own, and no finding.
        """
        folder = self.agent.folder / "libexec"
        folder.mkdir()
        worker = folder / "berth-zookeeper"
        worker.write_text(
            '#!/bin/sh\nASAN_OPTIONS="$ASAN_OPTIONS:log_path=stderr" '
            'UBSAN_OPTIONS="$UBSAN_OPTIONS:log_path=stderr" '
            f'exec {BUILD}/berth-zookeeper "$@"\n'
        )
        worker.chmod(0o755)
        return folder

    def state(self):
        return self.agent.status()["registry"]["state"]

    def go_through(self):
        """Returns how many kB it had in memory at most."""
        self.agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(self.worker_folder())})
        self.agent.wait_state("registered")
        for mode in self.modes:
            try:
                self.suffer(mode)
            except AssertionError as failure:
                self.failures.append(f"{mode}: {failure}")
        return most_resident_kb(self.agent.process.pid)

    def suffer(self, mode):
        seen = len(self.agent.read_log())
        self.fake.set_mode(mode)
        wait_until(self.fake.lied.is_set, f"the agent has met {mode}")
        # Long enough for some workers, connections or sessions to end by it.
        until = time.monotonic() + 1.5
        undisturbed = True
        while time.monotonic() < until:
            live = self.agent.get("/live").status
            assert live == 200, live
            self.agent.get(f"/v1/records{Agent.PATH.rsplit('/', 1)[0]}")
            undisturbed = undisturbed and self.state() == "connected"
            time.sleep(0.05)
        words = self.agent.read_log()[seen:]
        assert undisturbed or "registry" in words, words
        self.fake.set_mode("honest")
        begun = time.monotonic()
        wait_until(lambda: self.state() == "connected", f"connected again after {mode}")
        self.agent.wait_state("registered")
        wait_until(lambda: Agent.PATH in "".join(self.fake.tree.nodes), "the node is there")
        self.slowest = max(self.slowest, time.monotonic() - begun)


class HostileServer(AgentTest):
    def test_the_agent_survives_every_lie(self):
        victims = [Victim(self, f"agent{number}", list(HOSTILE)[number::AGENTS])
            for number in range(AGENTS)]
        with concurrent.futures.ThreadPoolExecutor(AGENTS) as pool:
            most_kb = max(pool.map(Victim.go_through, victims))
        self.assertEqual([failure for victim in victims for failure in victim.failures], [])
        self.assertLess(most_kb, MOST_KB)
        slowest = max(victim.slowest for victim in victims)
        figure(self,
            f"{len(HOSTILE)} kinds of lies: 0 crashes, {most_kb // 1024} MiB at most, registered "
            f"{seconds(slowest)} at most after the last lie")

    def test_a_server_that_closes_each_connection_is_left_alone_for_longer_and_longer(self):
        """One connection for each worker, and each worker later than the one before."""
        with FakeZooKeeper() as fake:
            fake.set_mode("connect_close")
            agent = self.web_agent(registry=fake.url, extra={"agent": {"log_level": "debug"},
                "registry": {"session_timeout": "6s"}})
            agent.start()
            wait_until(lambda: agent.read_log().count("worker's cage: ") >= 5, "five workers")
            self.assertLessEqual(fake.accepted, 2 * agent.read_log().count("worker's cage: "))
            fake.set_mode("honest")
            wait_until(lambda: agent.status()["registry"]["state"] == "connected", "connected")
