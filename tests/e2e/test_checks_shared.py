"""One check for several components: it runs once, and its verdict counts in each of them."""

import json
import subprocess
import unittest

from berth import BUILD, berth, wait_until
from lifecycle import LifeTest


class SharedCheck(LifeTest):
    def setUp(self):
        super().setUp()
        self.flag = self.folder / "flag"
        self.flag.touch()
        self.runs = self.folder / "runs"

    def sections(self, agent, guarded, **options):
        """Components a, b and c; the check "alive" guards some of them."""
        sections = {}
        for name in "abc":
            sections.update(agent.component(check="", name=name, id=f"c_{name}"))
            sections[f"component {name}"]["damping"] = "no"
        sections["check alive"] = {
            "component": guarded, "type": "command", "shell": "yes", "interval": "100ms",
            "timeout": "60s", "fall": "1",
            "command": f'echo "$BERTH_COMPONENT" >>{self.runs}; [ -e {self.flag} ]', **options,
        }
        return sections

    def start(self, guarded, **options):
        agent = self.agent()
        agent.write_config(self.sections(agent, guarded, **options))
        agent.start()
        for name in "abc":
            agent.wait_state("registered", name)
        return agent

    def reload(self, agent, guarded, **options):
        agent.write_config(self.sections(agent, guarded, **options))
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)

    def states(self, agent):
        # r: registered, w: withdrawn
        return "".join(item["state"][0] for item in agent.status()["components"])

    def wait_states(self, agent, states):
        wait_until(lambda: self.states(agent) == states, f"the components are {states}")

    def test_its_verdict_counts_in_every_component_that_it_names(self):
        agent = self.start("a, b")
        self.flag.unlink()
        self.wait_states(agent, "wwr")
        for component in agent.status()["components"][:2]:
            self.assertIn("check alive", component["reason"])
        # One check in every view, one line of history, one series.
        checks = agent.get("/v1/agent/checks").json
        self.assertEqual([(item["name"], item["component"], item["components"]) for item in checks],
            [("alive", "a b", ["a", "b"])])
        self.assertIn("a b", berth("--socket", agent.socket, "checks").stdout)
        downs = [item for item in agent.get("/v1/agent/history").json
            if item["subject"] == "check alive" and item["to"] == "down"]
        self.assertEqual([item["component"] for item in downs], ["a b"])
        metrics = agent.get("/metrics").body.decode()
        self.assertEqual(metrics.count('berth_check_up{check="alive"} 0'), 1)
        self.flag.touch()
        self.wait_states(agent, "rrr")

    def test_one_process_runs_for_all(self):
        agent = self.start("a, b, c", interval="1h")
        self.assertEqual(self.runs.read_text(), "a b c\n")
        self.assertEqual(berth("--socket", agent.socket, "run-check", "alive").returncode, 0)
        self.assertEqual(self.runs.read_text(), "a b c\n" * 2)
        self.assertEqual(agent.check_named("alive")["counts"]["passing"], 2)

    def test_a_reload_adds_and_removes_components(self):
        agent = self.start("a")
        self.flag.unlink()
        self.wait_states(agent, "wrr")
        # Its state goes on: what joins a failing check is out at once, what leaves it is free.
        self.reload(agent, "a, b")
        self.wait_states(agent, "wwr")
        self.reload(agent, "b, c")
        self.wait_states(agent, "rww")
        self.assertEqual(agent.check_named("alive")["components"], ["b", "c"])
        self.flag.touch()
        self.wait_states(agent, "rrr")

    def test_it_outlives_a_component_and_an_upgrade(self):
        agent = self.start("a, b", interval="1h")
        sections = self.sections(agent, "b", interval="1h")
        del sections["component a"], sections["endpoint resta"]
        agent.write_config(sections)
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.states(agent), "rr")
        self.assertEqual(agent.check_named("alive")["state"], "up")
        agent.upgrade()
        self.assertEqual(agent.check_named("alive")["state"], "up")
        self.assertEqual(agent.check_named("alive")["counts"]["passing"], 1)

    def test_it_may_guard_endpoints_of_several(self):
        agent = self.start("a, b", endpoints="resta, restb")
        self.flag.unlink()
        states = lambda: [item["endpoints"][f"rest{item['name']}"]
            for item in agent.status()["components"]]
        wait_until(lambda: states() == ["out", "out", "in"], "two endpoints are out")
        for name, count in ("a", 0), ("c", 1):
            path = f"/users/joe/org-example-web/test/components/{name}"
            wait_until(lambda: len(json.loads(self.record(path)).get("external", [])) == count,
                f"{name} has {count} endpoints")
        self.wait_states(agent, "rrr")

    def test_an_unknown_name_is_an_error_with_file_and_line(self):
        agent = self.agent()
        agent.write_config(self.sections(agent, "a, nobody"))
        result = subprocess.run([BUILD / "berthd", "-t", "-c", agent.config], capture_output=True,
            text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"berth\.ini:\d+: there is no \[component nobody\]")


if __name__ == "__main__":
    unittest.main()
