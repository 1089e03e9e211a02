"""Commands that hang hold up all other checks: a tcp check of 500 ms noticed its dead service after
25 s, since 24 commands of another component held all 16 places, and nothing said so.

Source: tracker #45, B.5; sensu #549.
"""

import signal
import unittest

from berth import AgentTest, berth, exists, wait_until
from proxies import Server

HANGING = 24


class Starving(AgentTest):
    def test_hanging_commands_of_one_component_hold_up_no_other(self):
        self.service = Server()
        self.addCleanup(self.stop_service)
        self.gate = self.folder / "gate"
        self.gate.touch()
        agent = self.agent(**self.sections(16)).start()
        self.hangs(agent)
        for name in ("web", "other"):
            wait_until(lambda name=name: agent.component_state(name) == "registered",
                f"{name} is registered")
        runs = agent.check_named("other")["counts"]["passing"]
        wait_until(lambda: agent.check_named("other")["counts"]["passing"] > runs + 3,
            "the other component's command runs on")
        self.stop_service()
        wait_until(lambda: agent.check_named("port")["state"] == "down", "its end is noticed")
        self.gate.unlink()
        wait_until(lambda: agent.check_named("other")["state"] == "down", "that, too")
        self.says_so(agent)

    def sections(self, places):
        """`slow` has 24 commands that hang, `other` one that works, and `web` connects."""
        sections = {"agent": {"max_parallel_checks": places}}
        for name in ("slow", "web", "other"):
            sections[f"component {name}"] = {"path": f"/services/{name}"}
        often = {"interval": "500ms", "fall": 1}
        for number in range(HANGING):
            sections[f"check hangs{number}"] = {"component": "slow", "type": "command",
                "command": "/bin/sleep 1000", "timeout": "10m", **often}
        sections["check port"] = {"component": "web", "type": "tcp",
            "target": f"127.0.0.1:{self.service.port}", **often}
        sections["check other"] = {"component": "other", "type": "command",
            "command": exists(self.gate), **often}
        return sections

    def hangs(self, agent):
        running = lambda: sum(check["running"] for check in agent.get("/v1/agent/checks").json)
        wait_until(lambda: running() >= 12, "the commands hang")

    def stop_service(self):
        if self.service:
            self.service.stop()
            self.service = None

    def overdue(self, agent):
        return [check["name"] for check in agent.get("/v1/agent/checks").json if check["overdue"]]

    def says_so(self, agent):
        wait_until(lambda: len(self.overdue(agent)) == HANGING - 12, "all that wait are overdue")
        name = self.overdue(agent)[0]
        metrics = agent.get("/metrics").body.decode()
        self.assertIn(f'berth_check_overdue{{check="{name}"}} 1', metrics)
        shown = berth("--socket", agent.socket, "checks").stdout.splitlines()
        row = next(line for line in shown if line.startswith(f"{name} "))
        self.assertEqual(row.split()[-1], "overdue")
        said = [line for line in agent.read_log().splitlines() if f" {name}: overdue" in line]
        self.assertEqual(len(said), 1, "once")
        self.assertIn("12 of them of slow", said[0])
        self.service = Server()
        agent.write_config(self.sections(64))
        agent.signal(signal.SIGHUP)
        wait_until(lambda: not self.overdue(agent), "there are places for all")
        self.assertIn(f" {name}: begins ", agent.read_log())


if __name__ == "__main__":
    unittest.main()
