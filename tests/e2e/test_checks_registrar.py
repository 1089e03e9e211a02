"""Each fault that Registrar's health check has, and that ours must not have."""

import os
import time
import unittest

from berth import Agent, berth, wait_until
from checks import FOR_EVER, CheckTest, OnZooKeeper


class OnDirectory(CheckTest):
    def test_after_an_outage_it_takes_as_many_failures_again(self):
        scripted = self.scripted()
        agent = self.scripted_agent(scripted, {"fall": "3"}, damping="no").start()
        for _ in range(3):
            self.registered(agent)
            self.assertEqual(self.runs(agent, scripted, 2, 2), "up")
            self.assertIsNotNone(self.in_registry())
            self.assertEqual(self.runs(agent, scripted, 2), "down")
            agent.wait_state("withdrawn")
            self.assertEqual(self.runs(agent, scripted, 0), "up")

    def test_deregistering_leaves_none_of_several_components(self):
        names = ("one", "two", "three")
        agent = self.agent()
        sections = {}
        for name in names:
            sections.update(agent.component("true", name=name))
        agent.write_config(sections)
        agent.start()
        for name in names:
            self.registered(agent, name)
        parent = Agent.PATH.rsplit("/", 1)[0]
        agent.stop()
        for name in names:
            self.assertIsNone(self.in_registry(f"{parent}/{name}"))

    def test_recoveries_do_not_overlap(self):
        scripted = self.scripted()
        agent = self.scripted_agent(
            scripted, {"fall": "1"}, {"registry": {"update_interval": "0s"}}, damping="no"
        ).start()
        self.registered(agent)
        for _ in range(10):
            self.assertEqual(self.runs(agent, scripted, 2, 0), "up")
        self.registered(agent)
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        # A second registration at work would put it back, or take two steps where one is due.
        self.assertEqual(self.runs(agent, scripted, 2, 2, 2), "down")
        self.assertIsNone(self.in_registry())
        steps = self.history(agent, "component web-1")
        for before, after in zip(steps, steps[1:]):
            self.assertEqual(before["to"], after["from"])
        self.assertEqual(steps[-1]["to"], "withdrawn")

    def test_an_externally_deleted_record_comes_back(self):
        agent = self.registered(self.scripted_agent(self.scripted()).start())
        self.assertEqual(berth("--registry", self.registry, "rm", Agent.PATH).returncode, 0)
        wait_until(lambda: self.in_registry() is not None, "the record is back")
        self.registered(agent)

    def test_the_window_slides_and_is_cleared_by_every_recovery(self):
        scripted = self.scripted()
        agent = self.registered(
            self.scripted_agent(scripted, {"fall": "3", "window": "168h"}, damping="no").start()
        )
        for _ in range(3):
            for status in (2, 0, 2, 0):
                self.assertEqual(self.runs(agent, scripted, status), "up")
            self.assertEqual(self.runs(agent, scripted, 2), "down")
            self.assertEqual(self.runs(agent, scripted, 0), "up")

    def test_failures_outside_of_the_window_do_not_count(self):
        beat = {"type": "ttl", "interval": FOR_EVER, "initial": "passing", "fall": "2",
            "window": "200ms"}
        agent = self.registered(self.web_agent(check=None, extra={"check beat": beat}).start())
        for _ in range(4):
            self.assertEqual(agent.request("PUT", "/v1/agent/checks/beat",
                {"status": "failing"}).status, 204)
            self.assertEqual(agent.check_named("beat")["state"], "up")
            time.sleep(0.25)

    def test_match_invert_inverts(self):
        scripted = self.scripted()
        agent = self.scripted_agent(scripted, {"match": "refused|lost", "match_invert": "yes",
            "fall": "1"}).start()
        scripted.says(0, "all is well")
        self.assertEqual(self.run_check(agent)["last"]["verdict"], "passing")
        scripted.says(0, "connection lost")
        result = self.run_check(agent)
        self.assertEqual((result["state"], result["last"]["verdict"]), ("down", "failing"))
        self.assertIn("matches", result["last"]["detail"])

    def test_a_timeout_kills_more_than_the_shell(self):
        pid_file = self.folder / "pid"
        command = f"sleep 1000 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"
        agent = self.web_agent(
            check=None,
            extra={"check alive": {"shell": "yes", "command": command, "timeout": "300ms",
                "interval": "1h"}},
        ).start()

        def told_of_its_child():
            # A shell that was slow to start is killed before it has one, and that proves nothing.
            self.assertEqual(self.run_check(agent)["last"]["verdict"], "timed-out")
            return pid_file.exists()

        wait_until(told_of_its_child, "a run has come so far as to have a child")
        child = int(pid_file.read_text())
        wait_until(lambda: not os.path.exists(f"/proc/{child}"), "the shell's child is gone")

    def test_nothing_is_registered_before_the_first_check_has_passed(self):
        gate = self.folder / "gate"
        command = f"while ! test -e {gate}; do sleep 0.01; done"
        agent = self.web_agent(
            check=None, extra={"check alive": {"shell": "yes", "command": command,
                "timeout": "50s"}}
        ).start()
        wait_until(lambda: agent.check_named("alive")["running"], "the first run is under way")
        agent.wait_state("withdrawn")
        self.assertIsNone(self.in_registry())
        gate.touch()
        self.registered(agent)
        self.assertEqual(self.history(agent, "check alive")[0]["to"], "up")


class WithASession(OnZooKeeper):
    def test_an_unhealthy_node_does_not_reappear_after_a_reconnect(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted, {"fall": "1"}).start())
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        self.assertIsNone(self.node())
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected",
            "the agent misses the server")
        self.server.restart()
        wait_until(lambda: agent.status()["registry"]["state"] == "connected",
            "the agent is connected again")
        agent.wait_state("withdrawn")
        self.assertEqual(self.runs(agent, scripted, 2), "down")
        self.assertIsNone(self.node())
        self.runs(agent, scripted, 0)
        self.registered(agent)
        self.assertIsNotNone(self.node())

    def test_a_failure_while_the_server_is_away_takes_it_out_afterwards(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted, {"fall": "1"}).start())
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected",
            "the agent misses the server")
        self.assertEqual(self.runs(agent, scripted, 2), "down")
        self.server.restart()
        wait_until(lambda: self.node() is None, "the record is gone")
        agent.wait_state("withdrawn")

    def test_recoveries_during_a_write_do_not_overlap(self):
        scripted = self.scripted()
        agent = self.scripted_agent(
            scripted, {"fall": "1"}, {"registry": {"update_interval": "0s"}}, damping="no"
        ).start()
        self.registered(agent)
        self.server.pause()
        try:
            for _ in range(3):
                self.assertEqual(self.runs(agent, scripted, 2), "down")
                self.assertEqual(self.runs(agent, scripted, 0), "up")
        finally:
            self.server.resume()
        self.registered(agent)
        # One write at a time, the latest wish wins: the removal that was under way, and one
        # registration.
        wait_until(lambda: self.node() is not None, "the record is back")
        node = self.node()
        self.runs(agent, scripted, 0, 0)
        self.assertEqual(self.node(), node)
        self.assertEqual(node["version"], 0)
        steps = [entry["to"] for entry in self.history(agent, "component web-1")]
        if "waiting" not in steps[1:]:  # else the pause was taken for an absence, and it began anew
            self.assertEqual((steps.count("withdrawing"), steps.count("writing")), (1, 2))

    def test_the_end_of_the_session_is_not_the_end_of_the_agent(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted, {"fall": "1"}).start())
        pid = agent.process.pid
        before = self.node()
        agent.expire_session(self.server)
        wait_until(
            lambda: (self.node() or before)["ephemeralOwner"] != before["ephemeralOwner"],
            "the record is there again, in another session",
        )
        self.registered(agent)
        self.assertEqual(agent.status()["pid"], pid)
        # And the checks go on to guard it.
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        self.assertIsNone(self.node())

    def test_an_unhealthy_node_does_not_reappear_with_a_new_session(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted, {"fall": "1"}).start())
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        agent.expire_session(self.server)
        agent.wait_state("withdrawn")
        self.assertIsNone(self.node())


if __name__ == "__main__":
    unittest.main()
