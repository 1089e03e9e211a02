"""A container does its worst with its records: what it leaves in the host's registry, in the host's
agent and in its log."""

import json
import os
import re
import unittest

from berth import wait_until
from hosting import WEB, BridgeTest
from hostile_container import HostileContainer
from lifecycle import Server

MOST = 8  # max_records
DEEP = "/".join("abcdefghijkl")


class Hostile(BridgeTest):
    registry_kind = Server

    def setUp(self):
        super().setUp()
        self.begin = self.znodes()
        self.agent_of_host = self.host(
            **{"container *": {"allow": "/users/joe/**", "max_records": MOST, "rate": 1000}})

    def hostile(self, name="web-1"):
        container = HostileContainer(self.container(name))
        self.addCleanup(container.close)
        # The file that keeps registry/ when what is below it goes.
        (container.registry / "stays").touch()
        return container

    def book(self):
        return (self.folder / "host/state/bridge").read_text().partition("\n")[2]

    def znodes(self):
        """All nodes of the server."""
        return int(re.search(r"zk_znode_count\s+(\d+)", self.server.command("mntr"))[1])


class Nodes(Hostile):
    def test_distinct_deep_paths_leave_nothing(self):
        """One record after another, each below twelve nodes of its own."""
        container = self.hostile()
        most = 0
        for i in range(40):
            path = f"/users/joe/r{i}/{DEEP}"
            container.hold(path)
            self.await_state(self.agent_of_host, "web-1", path, "registered")
            container.give_up(path)
            most = max(most, self.znodes() - self.begin)
        self.assertLess(most, 32 + 5 * MOST)
        container.hold(f"{WEB}/last")
        self.await_state(self.agent_of_host, "web-1", f"{WEB}/last", "registered")
        container.give_up(f"{WEB}/last")
        # The registry's root stays.
        wait_until(lambda: self.znodes() <= self.begin + 1, "nothing is left")

    def test_distinct_nodes_above_records_are_limited(self):
        container = self.hostile()
        paths = [f"/users/joe/r{i}/{DEEP}" for i in range(MOST)]
        for path in paths:
            container.hold(path)
        refused = wait_until(lambda: [path for path in paths
            if self.state(self.agent_of_host, "web-1", path) == "refused"], "one is refused")[0]
        why = self.await_state(self.agent_of_host, "web-1", refused, "refused")
        self.assertIn("nodes above them", why)
        self.assertLess(self.znodes() - self.begin, 32 + 5 * MOST)
        for path in paths:
            if path != refused:
                container.give_up(path)
        self.await_state(self.agent_of_host, "web-1", refused, "registered")

    def test_a_parent_in_which_others_have_something_stays(self):
        container = self.hostile()
        container.hold(f"{WEB}/mine")
        self.await_state(self.agent_of_host, "web-1", f"{WEB}/mine", "registered")
        self.server.probe("create", self.node("/users/joe/other"), "").check_returncode()
        self.server.probe("set", self.node("/users/joe/web"), "somebody's").check_returncode()
        container.give_up(f"{WEB}/mine")
        wait_until(lambda: not self.server.stat(self.node("/users/joe/web/prod")), "it has gone")
        container.hold("/users/joe/last")
        self.await_state(self.agent_of_host, "web-1", "/users/joe/last", "registered")
        for path in ("/users/joe/other", "/users/joe/web"):
            self.assertTrue(self.server.stat(self.node(path)), path)

    def test_parents_go_after_a_kill_of_the_agent_too(self):
        """In the same session, and when the session has ended meanwhile."""
        for expires in (False, True):
            container = self.hostile(f"web-{expires}".lower())
            path = f"/users/joe/r/{DEEP}"
            container.hold(path)
            self.await_state(self.agent_of_host, container.registry.parent.name, path, "registered")
            wait_until(lambda: path.rpartition("/")[0] in json.loads(self.book())["parents"],
                "the book has what is above the record")
            session = json.loads((self.folder / "host/state/session").read_text().split("\n", 1)[1])
            self.agent_of_host.kill()
            container.close()
            if expires:
                self.server.probe("kill-session", session["session"]["id"],
                    session["session"]["password"])
            self.agent_of_host.start()
            wait_until(lambda: not self.server.stat(self.node("/users")), "nothing is left")


class Outage(Hostile):
    session_timeout = "5s"

    def test_records_that_come_and_go_in_an_outage(self):
        """Those that were never written are forgotten, those that were count."""
        container = self.hostile()
        before = [f"{WEB}/before-{i}" for i in range(MOST)]
        for path in before:
            container.hold(path)
        for path in before:
            self.await_state(self.agent_of_host, "web-1", path, "registered")
        self.server.pause()
        self.addCleanup(self.server.resume)
        wait_until(lambda: self.agent_of_host.status()["registry"]["state"] != "connected",
            "the registry is away")
        for path in before[1:]:
            container.give_up(path)
        log = len(self.agent_of_host.read_log())
        book = self.book()
        for i in range(100):
            path = f"{WEB}/r{i}"
            container.hold(path)
            wait_until(lambda: self.state(self.agent_of_host, "web-1", path), "it was seen")
            container.give_up(path)
            self.assertLessEqual(len(self.part(self.agent_of_host, "web-1")["records"]), MOST + 1)
        self.assertEqual(self.book(), book)
        lines = [line for line in self.agent_of_host.read_log()[log:].splitlines()
            if " debug " not in line and WEB in line]
        self.assertLess(len(lines), 20, lines)
        container.hold(f"{WEB}/after")
        self.server.resume()
        self.await_state(self.agent_of_host, "web-1", f"{WEB}/after", "registered")
        self.await_state(self.agent_of_host, "web-1", before[0], "registered")
        wait_until(lambda: len(self.part(self.agent_of_host, "web-1")["records"]) == 2,
            "those that were given up have gone")
        for path in before[1:]:
            self.assertIsNone(self.record(path))


class Neighbours(Hostile):
    def test_a_conflict_does_not_name_the_other_container(self):
        first, second = self.hostile("a-secret-name"), self.hostile("web-2")
        first.hold(f"{WEB}/c1")
        self.await_state(self.agent_of_host, "a-secret-name", f"{WEB}/c1", "registered")
        second.hold(f"{WEB}/c1")
        why = self.await_state(self.agent_of_host, "web-2", f"{WEB}/c1", "conflict")
        self.assertIn("another container of this host", why)
        self.assertNotIn("a-secret-name", why)


if __name__ == "__main__":
    unittest.main()
