"""A container of a bridge is paused (podman pause, docker pause): nothing in it answers any more,
and its record stayed, since its process lives and holds the lock; clients are sent there.

Source: this project's tracker #45, from an operator's day with podman on runc.
"""

import subprocess
import unittest

from berth import BUILD, wait_until
from control_groups import ControlGroup
from hosting import WEB, BridgeTest
from rights import needs

PATH = f"{WEB}/c1"
NEIGHBOUR = f"{WEB}/c2"


class Frozen(BridgeTest):
    def begin(self, layout=None):
        self.agent_of_host = self.host()
        self.inside = self.container("web-1")
        self.owner = self.register(self.inside, PATH)
        self.register(self.container("web-2"), NEIGHBOUR)
        for name, path in ("web-1", PATH), ("web-2", NEIGHBOUR):
            self.await_state(self.agent_of_host, name, path, "registered")
        self.freeze(self.owner.pid, *((layout,) if layout else (1, 2)))

    def freeze(self, pid, *layouts):
        try:
            self.group = ControlGroup("freezer", layouts)
        except OSError as error:
            self.skipTest(f"no freezer of cgroup v{layouts}: {error}")
        self.addCleanup(self.group.end)
        self.addCleanup(self.owner.wait)
        self.addCleanup(self.owner.kill)
        self.addCleanup(self.group.thaw)
        self.group.take(pid)
        self.group.freeze()

    def withdrawn(self):
        why = self.await_state(self.agent_of_host, "web-1", PATH, "frozen")
        self.assertRegex(why, f"frozen.*{self.group.folder.name}")
        self.await_gone(PATH)
        part = self.part(self.agent_of_host, "web-1")
        self.assertEqual((part["state"], part["why"]), ("frozen", why))

    def comes_back(self):
        self.group.thaw()
        self.await_state(self.agent_of_host, "web-1", PATH, "registered")
        self.await_record(PATH)
        self.assertEqual(self.part(self.agent_of_host, "web-1")["state"], "served")

    def go_through(self, layout):
        self.begin(layout)
        witness = self.witness(NEIGHBOUR)
        self.withdrawn()
        self.comes_back()
        self.assertEqual(len(witness.end()), 1, "its neighbour notices nothing")

    @needs("freezer")
    def test_by_the_freezer_of_version_1(self):
        self.go_through(1)

    @needs("freezer")
    def test_by_the_freezer_of_version_2(self):
        self.go_through(2)

    @needs("freezer")
    def test_the_reason_is_shown_to_people(self):
        self.begin()
        self.withdrawn()
        shown = subprocess.run([BUILD / "berth", "--socket", self.agent_of_host.socket, "bridge"],
            capture_output=True, text=True, check=True).stdout
        self.assertRegex(shown, rf"(?s)web-1.*frozen.*{self.group.folder.name}.*{PATH}.*frozen")
        history = [(item["from"], item["to"])
            for item in self.agent_of_host.get("/v1/agent/history").json
            if item["subject"] == f"container dir/web-1 {PATH}"]
        self.assertEqual(history[0], ("absent", "registered"))
        self.assertEqual(history[1:].count(("registered", "frozen")), 1, history)

    @needs("freezer")
    def test_it_is_killed_while_it_is_frozen(self):
        self.begin()
        self.withdrawn()
        self.owner.kill()
        self.group.thaw()
        wait_until(lambda: self.part(self.agent_of_host, "web-1")["state"] == "empty",
            "it has no record")

    @needs("freezer")
    def test_the_host_s_agent_is_upgraded_and_killed_meanwhile(self):
        """Neither the successor nor the next one shows the record before it is thawed."""
        self.begin()
        self.withdrawn()
        witness = self.witness(f"{WEB}/c1")
        self.agent_of_host.upgrade()
        self.withdrawn()
        self.agent_of_host.kill()
        self.agent_of_host.start()
        self.withdrawn()
        self.assertEqual(len(witness.end()), 1, "it was absent all the time")
        self.comes_back()

    @needs("freezer")
    def test_it_is_frozen_while_no_agent_looks(self):
        self.begin()
        self.withdrawn()
        self.comes_back()
        self.agent_of_host.kill()
        self.group.freeze()
        self.agent_of_host.start()
        self.withdrawn()
        self.comes_back()

    @needs("freezer")
    def test_an_agent_in_the_container(self):
        self.agent_of_host = self.host()
        folder = self.containers / "web-1"
        self.container("web-1")
        self.owner = inner = self.web_agent("inner", registry=f"host:{folder}", path=PATH)
        inner.start()
        inner.wait_state("registered")
        self.owner = inner.process
        self.freeze(inner.process.pid, 1, 2)
        self.withdrawn()
        self.comes_back()
        inner.wait_state("registered")


del BridgeTest

if __name__ == "__main__":
    unittest.main()
