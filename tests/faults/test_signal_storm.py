"""Signals in every phase of the agent's life, as a random sequence that a seed repeats: no crash,
no hang, nothing left behind."""

import collections
import contextlib
import os
import random
import signal
import time
import unittest

from berth import Agent, wait_until
from figures import figure_of_all
from lifecycle import LifeTest, Server, on_both, rounds

SEED = int(os.environ.get("BERTH_SEED", "6"))
STORM = [signal.SIGHUP, signal.SIGUSR2, signal.SIGUSR1, signal.SIGWINCH]
ENDS = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]
COUNTS = collections.Counter()


def tearDownModule():
    figure_of_all(f"{COUNTS['signals']} signals, {COUNTS['ends']} agents ended: 0 crashes, 0 "
        "hangs, 0 records left")


class Storm(LifeTest):
    """Each test is one storm; `dice` decides all of it."""

    def storm(self, agent, dice, signals, count):
        for _ in range(count):
            if agent.process.poll() is not None:
                return
            agent.signal(dice.choice(signals))
            COUNTS["signals"] += 1
            time.sleep(dice.choice([0, 0, 0.001, 0.005, 0.02]))

    def assert_clean_end(self, agent, allowed):
        status = agent.wait()
        COUNTS["ends"] += 1
        self.assertIn(status, allowed, agent.read_log()[-4000:])
        log = agent.read_log()
        for word in ("Assertion", "AddressSanitizer", "runtime error"):
            self.assertNotIn(word, log)

    def test_a_storm_does_not_end_a_running_agent(self):
        dice = random.Random(SEED)
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.version()
        witness = self.witness()
        client = self.client(agent, keep=False)
        self.storm(agent, dice, STORM, rounds(100) * 2)
        wait_until(agent.answers, "it answers")
        agent.wait_state("registered")
        self.assertEqual(client.end(), [])
        self.assertEqual(witness.end(), [witness.seen[0]])
        self.assertEqual(self.version(), before)
        self.assertEqual(agent.stop(), 0)
        self.assert_gone(agent)

    def test_signals_from_the_first_moment_on(self):
        dice = random.Random(SEED)
        for number in range(rounds(30)):
            with self.subTest(number=number, seed=SEED):
                agent = self.web_agent().start(wait=False)
                time.sleep(dice.random() * 0.02)
                self.storm(agent, dice, STORM, 5)
                agent.signal(dice.choice(ENDS))
                self.storm(agent, dice, STORM + ENDS, 3)
                # Before the agent handles signals, the signal itself ends the process.
                self.assert_clean_end(agent, {0, *(-number for number in (*STORM, *ENDS))})

    def test_signals_while_it_stops(self):
        dice = random.Random(SEED)
        for number in range(rounds(20)):
            with self.subTest(number=number, seed=SEED):
                agent = self.web_agent(extra={"agent": {"drain_delay": "50ms"}}).start()
                agent.wait_state("registered")
                agent.signal(signal.SIGTERM)
                self.storm(agent, dice, [*STORM, signal.SIGTERM, signal.SIGINT], 20)
                self.assert_clean_end(agent, {0})
                self.assert_gone(agent)

    def test_signals_with_a_main_process(self):
        dice = random.Random(SEED)
        for number in range(rounds(15)):
            with self.subTest(number=number, seed=SEED):
                ready = self.folder / f"ready{number}"
                script = (
                    f"trap '' USR1 WINCH; trap 'exit 5' TERM; touch {ready}; while :; do sleep "
                    "0.01; done")
                agent = self.web_agent(command=["/bin/sh", "-c", script],
                    extra={"agent": {"stop_timeout": "60s"}}).start()
                wait_until(ready.exists, "the traps are set")
                agent.wait_state("registered")
                self.storm(agent, dice, [signal.SIGHUP, signal.SIGUSR2], 10)
                agent.signal(dice.choice(ENDS))
                self.storm(agent, dice, [*STORM, *ENDS], 10)
                self.assert_clean_end(agent, {5})

    def test_reloads_and_upgrades_with_configurations_that_come_and_go(self):
        dice = random.Random(SEED)
        agent = self.agent()
        every = {**agent.component("true", name="one"), **agent.component("true", name="two")}
        choices = [every, agent.component("true", name="one"), {}, {"nonsense": {"key": "value"}}]
        agent.write_config(every)
        agent.start()
        for _ in range(rounds(100)):
            agent.write_config(dice.choice(choices))
            agent.signal(dice.choice([signal.SIGHUP, signal.SIGHUP, signal.SIGUSR2]))
            time.sleep(dice.choice([0, 0.002, 0.01]))
        agent.write_config(every)
        wait_until(agent.answers, "it answers")
        wait_until(lambda: agent.request("POST", "/v1/agent/reload").status < 300, "it reloads")
        for name in ("one", "two"):
            agent.wait_state("registered", name)
            wait_until(lambda: self.record(Agent.PATH.replace("web-1", name)),
                "the record is there")
        self.assertEqual(agent.stop(), 0)
        for name in ("one", "two"):
            self.assert_gone(agent, Agent.PATH.replace("web-1", name))


on_both(globals(), Storm)


class WhileTheRegistryIsAway(LifeTest):
    registry_kind = Server

    def test_signals(self):
        dice = random.Random(SEED)
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.identity()
        self.server.kill()
        for _ in range(rounds(60)):
            agent.signal(dice.choice(STORM))
            time.sleep(dice.choice([0, 0.005, 0.02]))
        wait_until(agent.answers, "it answers")
        self.server.restart()
        agent.wait_state("registered")
        self.assertEqual(self.identity(), before)
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected",
            "the registry is away")
        agent.signal(signal.SIGTERM)
        for _ in range(20):
            with contextlib.suppress(ProcessLookupError):
                agent.signal(dice.choice(STORM))
        self.assertEqual(agent.wait(), 0)
        self.server.restart()


del LifeTest

if __name__ == "__main__":
    unittest.main()
