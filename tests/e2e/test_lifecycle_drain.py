"""Maintenance: out of the registry for a reason, perhaps for a time, whatever happens to the
process meanwhile."""

import signal
import socket
import time
import unittest

from berth import FAILS, Agent, berth, wait_until
from lifecycle import LifeTest, Server, on_both


class Drain(LifeTest):
    def registered(self, **keywords):
        agent = self.web_agent(**keywords).start()
        agent.wait_state("registered")
        return agent

    def drain(self, agent, **body):
        answer = agent.request("POST", "/v1/agent/drain", body)
        self.assertEqual(answer.status, 204, answer.body)

    def drain_of(self, agent):
        return agent.status()["drain"]

    def wait_done(self, agent):
        wait_until(lambda: self.drain_of(agent).get("done"), "the drain is done")

    def test_takes_out_says_why_and_is_done_when_the_registry_confirms(self):
        agent = self.registered()
        self.drain(agent, reason="new kernel")
        self.wait_done(agent)
        self.assertIsNone(self.identity())
        drain = self.drain_of(agent)
        self.assertEqual((drain["active"], drain["reason"], drain["until"]),
            (True, "new kernel", None))
        self.assertIn("new kernel", agent.status()["components"][0]["reason"])
        self.assertEqual(agent.get("/ready").status, 503)
        self.assertIn("new kernel", agent.get("/ready").body.decode())
        self.assertEqual(agent.request("DELETE", "/v1/agent/drain").status, 204)
        agent.wait_state("registered")
        self.assertEqual(self.drain_of(agent), {"active": False, "done": False})

    def test_without_a_reason_it_is_just_draining(self):
        agent = self.registered()
        self.drain(agent)
        self.wait_done(agent)
        self.assertEqual(agent.status()["components"][0]["reason"], "draining")
        self.assertIn("serving -> draining\n", agent.read_log())

    def test_term_waits_for_no_more_than_what_is_left_of_drain_delay(self):
        agent = self.registered(extra={"agent": {"drain_delay": "1s"}})
        self.drain(agent)
        self.wait_done(agent)
        self.assertEqual(agent.stop(), 0)
        self.assertNotIn("staying for", agent.read_log())

    def test_term_does_not_wait_when_nothing_stood(self):
        failing = self.web_agent("failing", check=FAILS, extra={"agent": {"drain_delay": "1h"}})
        for agent in failing, self.agent("empty", agent={"drain_delay": "1h"}):
            agent.start()
            if agent is failing:
                wait_until(lambda: failing.check_named("alive")["state"] == "down", "it is down")
                agent.wait_state("withdrawn")
            self.assertEqual(agent.stop(), 0)

    def test_done_only_after_drain_delay(self):
        agent = self.registered(extra={"agent": {"drain_delay": "1s"}})
        begin = time.monotonic()
        self.drain(agent, reason="slow")
        self.wait_done(agent)
        self.assertGreaterEqual(time.monotonic() - begin, 1.0)
        self.assertIsNone(self.identity())

    def test_for_3s_across_a_restart_ends_by_itself(self):
        for way in (signal.SIGKILL, signal.SIGTERM, signal.SIGQUIT, None):
            with self.subTest(way=way):
                agent = self.registered()
                least = time.time() + 3
                self.drain(agent, reason="short", **{"for": "3s"})
                # Its own end may come before any of our looks at it.
                until = self.drain_of(agent).get("until", least)
                self.assertGreaterEqual(until, least)
                wait_until(lambda: self.drain_of(agent)["done"] or time.time() > until,
                    "the drain is done")
                if way:
                    agent.signal(way)
                    agent.wait()
                    agent.start()
                else:
                    agent.upgrade()
                drain, there = self.drain_of(agent), self.identity()
                if time.time() < until:
                    self.assertEqual((drain["active"], drain["reason"], drain["until"]),
                        (True, "short", until))
                    self.assertIsNone(there)
                agent.wait_state("registered")
                self.assertGreaterEqual(time.time(), until)
                self.assertFalse(self.drain_of(agent)["active"])
                wait_until(lambda: not (agent.folder / "state/drain").exists(),
                    "nothing is left of it")
                agent.stop()

    def test_one_that_ended_while_the_agent_was_away_is_over(self):
        agent = self.registered()
        self.drain(agent, reason="very short", **{"for": "300ms"})
        until = time.time() + 0.3  # it ends no later
        agent.kill()
        wait_until(lambda: time.time() > until, "its time is over")
        agent.start()
        agent.wait_state("registered")
        self.assertFalse(self.drain_of(agent)["active"])

    def test_a_second_one_replaces_reason_and_end(self):
        agent = self.registered()
        while True:
            begin = time.time()
            self.drain(agent, reason="disk", **{"for": "5s"})
            since = self.drain_of(agent).get("since")
            self.drain(agent, reason="network")
            drain = self.drain_of(agent)
            if time.time() < begin + 5:
                break
            # The first may have been over before the second came.
            self.assertEqual(agent.request("DELETE", "/v1/agent/drain").status, 204)
        self.assertEqual((drain["reason"], drain["until"], drain["since"]),
            ("network", None, since))
        # The first one's end must not end the second.
        wait_until(lambda: time.time() > begin + 6, "the first would be over")
        self.assertTrue(self.drain_of(agent)["active"])
        self.assertIn("network", agent.status()["components"][0]["reason"])
        self.drain(agent, reason="network", **{"for": "100ms"})
        agent.wait_state("registered")

    def test_a_damaged_file_is_said_and_ignored(self):
        agent = self.registered()
        self.drain(agent, reason="lost")
        agent.kill()
        (agent.folder / "state/drain").write_text("{")
        agent.start()
        agent.wait_state("registered")
        self.assertIn("the saved drain cannot be read and is ignored", agent.read_log())

    def test_the_command_waits_until_it_is_visible(self):
        agent = self.registered()
        result = berth("--socket", agent.socket, "drain", "--reason", "by hand", "--wait")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIsNone(self.identity())
        self.assertEqual(berth("--socket", agent.socket, "undrain").returncode, 0)
        agent.wait_state("registered")
        history = [item for item in agent.get("/v1/agent/history").json
            if item["subject"] == "component web-1"]
        gone = max(number for number, item in enumerate(history) if item["to"] == "withdrawn")
        self.assertEqual([item for item in history[gone + 1:] if "draining" in item["why"]], [],
            "it comes back for no drain")

    def test_a_failing_component_is_drained_too(self):
        agent = self.web_agent(check="/bin/sh -c 'exit 2'").start()
        wait_until(lambda: agent.check_named("alive")["state"] == "down", "it is down")
        self.drain(agent, reason="anyway")
        self.wait_done(agent)

    def test_reloading_while_drained_stays_drained(self):
        agent = self.registered()
        self.drain(agent, reason="first")
        self.wait_done(agent)
        agent.write_config(agent.component("true", name="two"))
        agent.signal(signal.SIGHUP)
        wait_until(lambda: "reloaded" in agent.read_log() or "refused" in agent.read_log(),
            "it has read it")
        self.wait_done(agent)
        self.assertIsNone(self.identity(Agent.PATH.replace("web-1", "two")))


on_both(globals(), Drain)


class Early(LifeTest):
    """drain_early: an hour of drain_delay ends when the last client has gone."""

    def setUp(self):
        super().setUp()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        port = self.listener.getsockname()[1]
        self.running = self.web_agent(
            extra={
                "agent": {"drain_delay": "1h", "drain_early": "yes"},
                "endpoint rest": {"address": f"http://127.0.0.1:{port}/"},
            }
        ).start()
        self.running.wait_state("registered")

    def connect(self):
        """A client's connection, and our end of it."""
        client = socket.create_connection(self.listener.getsockname())
        self.addCleanup(client.close)
        server, _ = self.listener.accept()
        self.addCleanup(server.close)
        return client, server

    def sees(self, text, times=1):
        wait_until(lambda: self.running.read_log().count(text) >= times, text)

    def test_a_stop_waits_for_the_last_connection(self):
        client, server = self.connect()
        self.running.signal(signal.SIGTERM)
        self.sees("or until no connection is left")
        time.sleep(2.5)  # more than two looks: with a connection it stays
        self.assertIsNone(self.running.process.poll())
        client.close()
        server.close()
        self.assertEqual(self.running.wait(), 0)
        self.assertIn("no connection is left\n", self.running.read_log())

    def test_a_drain_is_done_with_the_last_connection_and_a_stop_then_waits_no_more(self):
        client, server = self.connect()
        self.running.request("POST", "/v1/agent/drain", {"reason": "early"})
        wait_until(lambda: self.identity() is None, "it is out")
        self.assertFalse(self.running.status()["drain"]["done"])
        client.close()
        server.close()
        wait_until(lambda: self.running.status()["drain"]["done"], "the drain is done")
        self.assertEqual(self.running.stop(), 0)

    def test_a_component_alone_is_done_early_too(self):
        done = berth("--socket", self.running.socket, "drain", "web-1")
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_until(lambda: self.running.status()["components"][0].get("drain", {}).get("done"),
            "the drain is done")

    def test_a_port_that_nobody_listens_on_says_nothing(self):
        self.listener.close()
        self.running.signal(signal.SIGTERM)
        self.sees("or until no connection is left")
        time.sleep(2.5)  # more than two looks
        self.assertIsNone(self.running.process.poll())
        self.running.kill()


class WhileTheRegistryIsAway(LifeTest):
    registry_kind = Server

    def test_is_applied_when_it_is_back(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected",
            "the registry is away")
        answer = agent.request("POST", "/v1/agent/drain", {"reason": "while away"})
        self.assertEqual(answer.status, 204)
        self.assertFalse(agent.status()["drain"]["done"])
        self.server.restart()
        wait_until(lambda: agent.status()["drain"]["done"], "the drain is done")
        self.assertIsNone(self.identity())


del LifeTest

if __name__ == "__main__":
    unittest.main()
