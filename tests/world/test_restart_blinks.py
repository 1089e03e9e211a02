"""A restarted container was away for 1.4 s, most of it the pause before the first check's second
run: its program had needed a tenth of a second longer than the agent.

Source: tracker #45, C.8; podman and docker restart of a container whose entry point is the agent.
"""

import os
import signal
import unittest

from berth import AgentTest, exists, wait_until

TRIES = 20  # of which one has a machine that does what it is asked for within a second


class Blink(AgentTest):
    def test_a_program_that_needs_a_moment_is_looked_at_again_soon(self):
        runs = self.folder / "runs"
        command = f"/bin/sh -c 'echo >>{runs}; test $(wc -l <{runs}) -ge 4'"
        agent = self.web_agent(check=None, extra={"check fourth": {"type": "command",
            "command": command, "fall": "2", "interval": "1h"}})
        for _ in range(TRIES):
            runs.unlink(missing_ok=True)
            agent.start()
            agent.wait_state("registered")
            history = agent.get("/v1/agent/history").json
            agent.stop()
            if all(event["to"] != "down" for event in history):
                return
            (agent.folder / "state/history").unlink(missing_ok=True)
        self.fail("two failures of the schedule came before the fourth look")

    def test_a_program_that_could_not_come_up_in_time_is_not_down_sooner(self):
        gate = self.folder / "gate"
        agent = self.web_agent(check=None, extra={"check slow": {"type": "command",
            "command": exists(gate), "fall": "3", "interval": "1h"}}).start()
        wait_until(lambda: agent.check_named("slow")["state"] == "down", "it is down")
        check = agent.check_named("slow")
        self.assertEqual(check["consecutive"]["bad"], 3)
        self.assertGreaterEqual(check["counts"]["failing"], 3)

    def test_a_main_process_that_was_started_again_is_looked_at_at_once(self):
        gate = self.folder / "gate"
        agent = self.web_agent(check=None, command=["/bin/sleep", "1000"], extra={
            "agent": {"restart": "always", "pre_start": f"/bin/touch {gate}"},
            "check late": {"type": "command", "command": exists(gate), "fall": "1",
                "interval": "100ms", "down_interval": "1h"}}).start()
        agent.wait_state("registered")
        gate.unlink()
        wait_until(lambda: agent.check_named("late")["state"] == "down", "it is down")
        os.kill(agent.status()["main_process"]["pid"], signal.SIGKILL)
        agent.wait_state("registered")


if __name__ == "__main__":
    unittest.main()
