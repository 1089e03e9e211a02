"""A user wants a command of his own to learn when his component goes and comes, and gets polling, a
state that is no longer true, or a stop that waits for the command.

Source: containerpilot #227 (hooks on a service's own state)
"""

import signal
import unittest

from berth import Agent, AgentTest, amount, berth, exists, wait_until

HOOK = """#!/bin/sh
# Fails, or hangs, while a file says so.
echo "begin $BERTH_STATE" >>{log}
test -e {hang} && exec sleep 1000
test -e {fail} && {{ echo "not today"; exit 3; }}
echo "end $BERTH_STATE $BERTH_COMPONENT $BERTH_PATH: $BERTH_WHY" >>{log}
"""


class OnChange(AgentTest):
    def setUp(self):
        super().setUp()
        self.healthy, self.log, self.hang, self.fail_ = (
            self.folder / name for name in ("healthy", "told", "hang", "refuse"))
        self.healthy.touch()
        self.hook = self.folder / "hook"
        self.hook.write_text(HOOK.format(log=self.log, hang=self.hang, fail=self.fail_))
        self.hook.chmod(0o755)

    def hooked(self, **extra):
        return self.web_agent(check=exists(self.healthy), on_change=self.hook,
            damping="no", extra={"check alive": {"fall": 1}, **extra})

    def told(self):
        return [line for line in self.log.read_text().splitlines() if line.startswith("end ")] \
            if self.log.exists() else []

    def states(self):
        return [line.split()[1] for line in self.told()]

    def hook_state(self, agent):
        return agent.status()["components"][0]["on_change"]

    def test_each_lasting_state_is_told_and_the_last_one_behind_the_deregistration(self):
        agent = self.hooked().start()
        wait_until(lambda: self.states()[-1:] == ["registered"], "it is told of the registration")
        self.assertIn(f"web-1 {Agent.PATH}: ", self.told()[-1])
        self.healthy.unlink()
        wait_until(lambda: self.states()[-1:] == ["withdrawn"], "it is told of the failure")
        self.healthy.touch()
        wait_until(lambda: self.states()[-1:] == ["registered"], "it is told that it is back")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.states()[-1], "withdrawn")
        self.assertIn("the agent is stopping", self.told()[-1])

    def test_of_many_changes_the_last_one_is_told_one_run_at_a_time(self):
        agent = self.hooked().start()
        agent.wait_state("registered")
        for _ in range(amount(500)):
            for method in ("POST", "DELETE"):
                self.assertEqual(agent.request(method, "/v1/agent/drain").status, 204)
        berth("-s", agent.socket, "drain", "--wait")
        wait_until(lambda: self.hook_state(agent)["state"] == "idle"
            and self.states()[-1:] == ["withdrawn"], "the last state is told")
        marks = [line.split()[0] for line in self.log.read_text().splitlines()]
        self.assertEqual(marks, ["begin", "end"] * (len(marks) // 2))

    def test_a_command_that_hangs_holds_no_deregistration(self):
        agent = self.hooked(agent={"hook_timeout": "2s"}).start()
        wait_until(lambda: self.states()[-1:] == ["registered"], "it is told of the registration")
        self.hang.touch()
        self.healthy.unlink()
        wait_until(lambda: self.in_registry() is None, "the record goes")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.wait(), 0)
        self.assertIn("did not take the last state", agent.read_log())

    def test_a_failure_is_shown_and_tried_again(self):
        self.fail_.touch()
        agent = self.hooked().start()
        wait_until(lambda: self.hook_state(agent)["state"] == "failed", "the failure is seen")
        agent.wait_state("registered")
        self.assertIn("on_change failed: exit status 3: not today",
            berth("-s", agent.socket, "status").stdout)
        self.assertIn('berth_hook_runs_total{component="web-1",result="failed"}',
            agent.get("/metrics").body.decode())
        self.fail_.unlink()
        wait_until(lambda: self.states()[-1:] == ["registered"], "it is told after all")
        wait_until(lambda: self.hook_state(agent)["state"] == "idle", "the failure is over")

    def test_an_upgrade_keeps_what_was_told_and_what_was_not(self):
        agent = self.hooked().start()
        wait_until(lambda: self.states()[-1:] == ["registered"], "it is told of the registration")
        before = len(self.told())
        agent.upgrade()
        agent.wait_state("registered")
        self.fail_.touch()
        self.healthy.unlink()
        wait_until(lambda: self.hook_state(agent)["state"] == "failed", "the failure is seen")
        agent.upgrade()
        self.fail_.unlink()
        wait_until(lambda: self.states()[before:] == ["withdrawn"],
            "the successor tells what is left, and nothing twice")

    def test_a_component_that_is_no_longer_configured_is_told_of(self):
        agent = self.hooked().start()
        wait_until(lambda: self.states()[-1:] == ["registered"], "it is told of the registration")
        agent.write_config({})
        self.assertTrue(agent.request("POST", "/v1/agent/reload").json["reloaded"])
        wait_until(lambda: self.states()[-1:] == ["withdrawn"], "it is told of the end")


if __name__ == "__main__":
    unittest.main()
