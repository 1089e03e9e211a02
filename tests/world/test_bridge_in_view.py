"""An operator looks for what became of a container's record, and finds no trace of it on the host:
no line of the log, nothing in the history, in `berth status` or on the page; a container whose
process has died is shown as served, and `berthd -t` says "0 components" of a host's agent.

Source: this project's tracker #45, from an operator's day with podman and Docker.
"""

import subprocess
import unittest

from berth import PROGRAMS, berth, wait_until
from hosting import WEB, BridgeTest


class InView(BridgeTest):
    def setUp(self):
        super().setUp()
        self.agent_of_host = self.host()
        self.inside = self.container("web-1")

    def entries(self, path):
        return [(item["from"], item["to"], item["why"])
            for item in self.agent_of_host.get("/v1/agent/history").json
            if item["subject"] == f"container dir/web-1 {path}"]

    def logged(self, path, word):
        return [line for line in self.agent_of_host.read_log().splitlines()
            if f"container dir/web-1 {path}: " in line and f"-> {word}" in line]

    def metric(self, name):
        for line in self.agent_of_host.get("/metrics").body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return None

    def test_a_record_that_came_and_went(self):
        path = f"{WEB}/c1"
        owner = self.register(self.inside, path)
        self.await_state(self.agent_of_host, "web-1", path, "registered")
        registered = 'berth_bridge_registered{container="dir/web-1"}'
        self.assertEqual((self.metric(registered), self.metric("berth_bridge_containers")), (1, 1))
        owner.kill()
        owner.wait()
        wait_until(lambda: len(self.entries(path)) == 2, "the history has both")
        (came, went) = self.entries(path)
        self.assertEqual(came[:2], ("absent", "registered"))
        self.assertEqual(went, ("registered", "withdrawn", "its owner has died"))
        wait_until(lambda: self.logged(path, "registered") and self.logged(path, "withdrawn"),
            "so has the log")
        self.assertEqual(self.metric(registered), 0)
        for word in "registered", "withdrawn":
            self.assertEqual(self.metric(
                f'berth_bridge_transitions_total{{container="dir/web-1",to="{word}"}}'), 1)

    def test_a_record_that_is_refused(self):
        self.register(self.inside, "/services/db")
        self.await_state(self.agent_of_host, "web-1", "/services/db", "refused")
        wait_until(lambda: self.entries("/services/db"), "the history has it")
        ((_, state, why),) = self.entries("/services/db")
        self.assertEqual((state, "does not have the path" in why), ("refused", True))
        wait_until(lambda: self.logged("/services/db", "refused"), "so has the log")

    def test_a_container_whose_process_has_died(self):
        owner = self.register(self.inside, f"{WEB}/c1")
        wait_until(lambda: self.part(self.agent_of_host, "web-1")["state"] == "served", "it lives")
        owner.kill()
        owner.wait()
        wait_until(lambda: self.part(self.agent_of_host, "web-1")["state"] == "empty", "it is dead")
        shown = berth("--socket", self.agent_of_host.socket, "bridge").stdout
        self.assertRegex(shown, r"web-1 +empty")
        self.assertIn("no process of it holds a record", shown)

    def test_the_status_and_the_page_know_the_bridge(self):
        self.register(self.inside, f"{WEB}/c1")
        self.await_state(self.agent_of_host, "web-1", f"{WEB}/c1", "registered")
        self.register(self.container("web-2"), "/services/db")
        self.await_state(self.agent_of_host, "web-2", "/services/db", "refused")
        bridge = self.agent_of_host.status()["bridge"]
        self.assertEqual((bridge["state"], bridge["containers"], bridge["records"]),
            ("served", {"served": 2}, {"registered": 1, "refused": 1}))
        shown = berth("--socket", self.agent_of_host.socket, "status").stdout
        self.assertIn("containers: 2 served; records: 1 registered, 1 refused", shown)

    def test_the_verdict_on_its_configuration_names_it(self):
        verdict = subprocess.run([PROGRAMS / "berthd", "-t", "-c", self.agent_of_host.config],
            capture_output=True, text=True, check=True).stdout
        self.assertIn(f"good: bridge of {self.containers}, 1 container rule, registry", verdict)


class WithoutOne(BridgeTest):
    def test_another_agent_says_nothing_of_it(self):
        agent = self.agent().start()
        self.assertNotIn("bridge", agent.status())
        self.assertNotIn("containers:", berth("--socket", agent.socket, "status").stdout)
        self.assertNotIn("\nberth_bridge_containers", agent.get("/metrics").body.decode())


if __name__ == "__main__":
    unittest.main()
