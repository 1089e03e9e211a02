"""The host's agent: records of containers in the host's session, and what a container may do."""

import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import unittest

from berth import (PROGRAMS, Answer, UnixConnection, berth, descriptors_of, service_record,
    wait_until)
from figures import figure, seconds
from hosting import WEB, BridgeTest, serves
from lifecycle import Shared, on_both
from rights import needs

F_OFD_SETLK = 37
SOURCE = pathlib.Path(os.environ["BERTH_SRC_DIR"]).resolve()
FLOOD = """
import os, sys
while not os.path.exists(sys.argv[1]):
    for _ in range(1000):
        open("x", "w").close()
        os.rename("x", "y")
"""


class Records(BridgeTest):
    """What becomes of a record."""

    def test_a_record_lives_as_long_as_its_owner(self):
        host = self.host()
        owner = self.register(self.container("web-1"), f"{WEB}/c1")
        record = self.await_record(f"{WEB}/c1")
        self.assertEqual(record["external"][0]["addresses"], [{"host": "10.0.0.1", "port": "80"}])
        self.assertTrue(self.is_ephemeral(f"{WEB}/c1"))
        self.await_state(host, "web-1", f"{WEB}/c1", "registered")
        shown = berth("--socket", host.socket, "bridge").stdout
        self.assertRegex(shown, rf"web-1 +served.*\n +{WEB}/c1 +registered")
        metrics = host.get("/metrics").body.decode()
        self.assertIn('berth_bridge_records{state="registered"} 1', metrics)
        begin = time.monotonic()
        owner.kill()
        self.await_gone(f"{WEB}/c1")
        figure(self, f"gone {seconds(time.monotonic() - begin)} after the kill")
        wait_until(lambda: self.part(host, "web-1")["records"] == [], "nothing is left of it")

    @needs("users", "reading")
    def test_the_capabilities_of_the_systemd_drop_in_are_enough(self):
        """Its user is root; the container's records are another user's, who lets nobody read."""
        text = (SOURCE / "deploy/host/bridge.conf").read_text()
        names = re.search("^CapabilityBoundingSet=(.+)$", text, re.M)[1].lower().split()
        kept = ",".join(["-all", *(name.replace("cap_", "+") for name in names)])
        agent = self.agent("host", bridge={"containers": self.containers},
            **{"container *": {"allow": "/users/joe/web/**", "owner": "65534:65534"}})
        program = self.folder / "berthd"
        program.write_text(
            f'#!/bin/sh\nexec setpriv --bounding-set={kept} {PROGRAMS}/berthd "$@"\n')
        program.chmod(0o755)
        agent.program = program
        agent.start()
        status = pathlib.Path(f"/proc/{agent.process.pid}/status").read_text()
        capabilities = int(re.search(r"^CapEff:\s+(\w+)$", status, re.M)[1], 16)
        self.assertEqual(capabilities.bit_count(), len(names))
        registry = self.container("web-1")
        wait_until(lambda: registry.stat().st_uid == 65534, "it belongs to its user")
        registry.chmod(0o700)
        file = self.record_file()
        file.chmod(0o644)
        for folder in (self.folder, self.containers):
            folder.chmod(0o755)
        owner = subprocess.Popen([PROGRAMS / "berth", "--registry", f"dir:{registry}", "bind", "-p",
            "--ephemeral", f"{WEB}/c1", "--file", file], user=65534, group=65534, extra_groups=[],
            umask=0o077, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        self.await_record(f"{WEB}/c1")
        owner.kill()
        self.await_gone(f"{WEB}/c1")

    def test_a_frozen_owner_keeps_its_record(self):
        self.host()
        owner = self.register(self.container("web-1"), f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        before = self.identity(f"{WEB}/c1")
        owner.send_signal(signal.SIGSTOP)
        other = self.container("web-2")
        for _ in range(3):
            neighbour = self.register(other, f"{WEB}/c2")
            self.await_record(f"{WEB}/c2")
            neighbour.kill()
            self.await_gone(f"{WEB}/c2")
        self.assertEqual(self.identity(f"{WEB}/c1"), before)
        figure(self, "the same node, while 3 records of a neighbour came and went")

    def test_a_container_that_was_there_before_the_agent(self):
        registry = self.containers / "web-1/registry"
        registry.mkdir(parents=True)
        self.register(registry, f"{WEB}/c1")
        self.host()
        self.await_record(f"{WEB}/c1")

    def test_a_record_that_is_withdrawn(self):
        host = self.host(bridge={"linger": "60s"})
        registry = self.container("web-1")
        owner = self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        owner.send_signal(signal.SIGTERM)
        owner.wait()
        self.await_gone(f"{WEB}/c1")  # in spite of linger: it was withdrawn
        self.assertIsNone(self.state(host, "web-1", f"{WEB}/c1"))

    def test_linger_outlives_a_restart_in_the_container(self):
        host = self.host(bridge={"linger": "60s"})
        registry = self.container("web-1")
        owner = self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        before = self.identity(f"{WEB}/c1")
        owner.kill()
        self.await_state(host, "web-1", f"{WEB}/c1", "lingering")
        self.assertEqual(self.identity(f"{WEB}/c1"), before)
        self.register(registry, f"{WEB}/c1")
        self.await_state(host, "web-1", f"{WEB}/c1", "registered")
        self.assertEqual(self.identity(f"{WEB}/c1"), before)
        figure(self, "the same node before, between and after")

    def test_linger_ends(self):
        self.host(bridge={"linger": "100ms"})
        owner = self.register(self.container("web-1"), f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        owner.kill()
        self.await_gone(f"{WEB}/c1")

    def test_a_subdirectory_that_goes_takes_its_records_along(self):
        host = self.host(bridge={"linger": "60s"})
        registry = self.container("web-1")
        self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        registry.parent.rename(self.folder / "away")
        self.await_gone(f"{WEB}/c1")
        wait_until(lambda: self.part(host, "web-1") is None, "the container has gone")
        (self.folder / "away").rename(registry.parent)
        self.await_record(f"{WEB}/c1")

    def test_the_containers_directory_is_removed_and_made_again(self):
        self.host()
        self.register(self.container("web-1"), f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        self.containers.rename(self.folder / "away")
        self.await_gone(f"{WEB}/c1")
        wait_until(self.containers.is_dir, "the host's agent has made it again")
        self.register(self.container("web-2"), f"{WEB}/c2")
        self.await_record(f"{WEB}/c2")

    def test_a_registry_that_takes_another_ones_place(self):
        """A file system is mounted on registry/ after the agent has made it: here a rename."""
        host = self.host()
        registry = self.container("web-1")
        owner = self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        owner.send_signal(signal.SIGSTOP)  # else it would bind its record again, in the new one
        registry.rename(self.folder / "old")
        self.await_gone(f"{WEB}/c1")
        wait_until(registry.is_dir, "another one is made")
        self.register(registry, f"{WEB}/c2")
        self.await_state(host, "web-1", f"{WEB}/c2", "registered")


on_both(globals(), Records)


class Restarts(BridgeTest):
    """The host's agent ends and comes back; its session lives on."""

    registry_kind = Shared

    def setUp(self):
        super().setUp()
        self.agent_of_host = self.host()
        self.inside = self.container("web-1")
        self.lives = self.register(self.inside, f"{WEB}/lives")
        self.dies = self.register(self.inside, f"{WEB}/dies")
        for name in ("lives", "dies"):
            self.await_state(self.agent_of_host, "web-1", f"{WEB}/{name}", "registered")
        self.witnesses = [self.witness(f"{WEB}/lives"), self.witness(f"{WEB}/dies")]

    def seen(self):
        return [len(witness.end()) for witness in self.witnesses]

    def test_an_upgrade_shows_nobody(self):
        for _ in range(3):
            self.agent_of_host.upgrade()
            self.await_state(self.agent_of_host, "web-1", f"{WEB}/lives", "registered")
        self.assertEqual(self.seen(), [1, 1])
        figure(self, "3 upgrades: 2 records, 0 events")

    @needs("processes")
    def test_an_upgrade_holds_nothing_of_containers_that_have_gone(self):
        agent, elsewhere = self.agent_of_host, self.folder / "elsewhere"
        elsewhere.mkdir()
        sections = {"bridge": {"containers": elsewhere}, "container *": {"allow": "/users/**"}}
        agent.write_config(sections)
        agent.upgrade()
        held = descriptors_of(agent.process.pid)
        lines = map(str.split, pathlib.Path("/proc/net/unix").read_text().splitlines())
        self.assertEqual({line[7] for line in lines if f"socket:[{line[6]}]" in held and line[7:]},
            {str(agent.socket)})

    def test_a_kill_shows_nobody_and_who_died_meanwhile_goes(self):
        self.agent_of_host.kill()
        self.dies.kill()
        self.dies.wait()
        begin = time.monotonic()
        self.agent_of_host.start()
        self.await_gone(f"{WEB}/dies")
        gone = seconds(time.monotonic() - begin)
        self.await_state(self.agent_of_host, "web-1", f"{WEB}/lives", "registered")
        self.assertEqual(self.seen(), [1, 2])
        figure(self, f"the dead one's record gone {gone} after the start, the other one: 0 events")

    def test_a_container_that_came_while_nobody_looked(self):
        self.agent_of_host.kill()
        (self.containers / "web-2/registry").mkdir(parents=True)
        self.register(self.containers / "web-2/registry", f"{WEB}/new")
        self.agent_of_host.start()
        self.await_record(f"{WEB}/new")
        self.assertEqual(self.seen(), [1, 1])

    def test_more_records_than_the_rate_outlive_a_kill(self):
        sections = {"bridge": {"containers": self.containers},
            "container *": {"allow": "/users/joe/web/**", "rate": 1}}
        self.agent_of_host.write_config(sections)
        self.agent_of_host.kill()
        self.agent_of_host.start()
        for name in ("lives", "dies"):
            self.await_state(self.agent_of_host, "web-1", f"{WEB}/{name}", "registered")
        self.assertEqual(self.seen(), [1, 1])

    def test_a_directory_that_others_can_write_is_refused(self):
        self.containers.chmod(0o777)
        self.agent_of_host.kill()
        self.assertNotEqual(self.agent_of_host.start(wait=False).wait(), 0)

    def test_without_a_bridge_what_it_left_goes(self):
        self.agent_of_host.kill()
        self.agent_of_host.config.write_text(
            f"[agent]\nsocket = {self.agent_of_host.socket}\n"
            f"state_dir = {self.agent_of_host.folder}/state\n"
            f"[registry]\nurl = {self.registry}\nsession_timeout = 30s\n")
        self.agent_of_host.start()
        self.await_gone(f"{WEB}/dies")
        self.await_gone(f"{WEB}/lives")

    def standby(self):
        """The host's agent again, with a second one that waits for its end."""
        self.agent_of_host.kill()
        self.agent_of_host.write_config({
            "bridge": {"containers": self.containers, "standby": "yes"},
            "container *": {"allow": "/users/joe/web/**"},
        })
        self.agent_of_host.start()
        second = self.agent("second")
        second.socket = self.agent_of_host.socket
        second.config = self.agent_of_host.config
        second.start(wait=False)
        wait_until(lambda: "standby: another agent uses" in second.read_log(), "it waits")
        return second

    def test_a_standby_takes_over(self):
        second = self.standby()
        begin = time.monotonic()
        self.agent_of_host.kill()
        try:
            wait_until(lambda: second.starts() == 1, "it has taken over")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{second.read_log()}") from None
        wait_until(second.answers, "it answers")
        took = seconds(time.monotonic() - begin)
        self.await_state(second, "web-1", f"{WEB}/lives", "registered")
        self.dies.kill()
        self.await_gone(f"{WEB}/dies")
        self.assertEqual(self.seen(), [1, 2])
        figure(self, f"it answered {took} after the kill, a living record: 0 events")

    def test_a_standby_that_waits_can_be_stopped(self):
        second = self.standby()
        second.signal(signal.SIGTERM)
        self.assertEqual(second.wait(), 0)
        self.await_state(self.agent_of_host, "web-1", f"{WEB}/lives", "registered")
        self.assertEqual(self.seen(), [1, 1])

    def test_a_path_that_two_containers_want_stays_with_the_first_one(self):
        second = self.container("web-0")
        self.register(second, f"{WEB}/lives")
        self.await_state(self.agent_of_host, "web-0", f"{WEB}/lives", "conflict")
        self.agent_of_host.kill()
        self.agent_of_host.start()
        self.await_state(self.agent_of_host, "web-1", f"{WEB}/lives", "registered")
        self.await_state(self.agent_of_host, "web-0", f"{WEB}/lives", "conflict")
        self.assertEqual(self.seen(), [1, 1])
        figure(self, "the second one says conflict, also after a kill of the bridge: 0 events")

    def test_the_session_is_over(self):
        """Another one is made, and all that lives is registered in it."""
        begin = time.monotonic()
        self.agent_of_host.expire_session(self.server)
        for name in ("lives", "dies"):
            self.await_record(f"{WEB}/{name}")
            self.await_state(self.agent_of_host, "web-1", f"{WEB}/{name}", "registered")
        took = seconds(time.monotonic() - begin)
        figure(self, f"2 records registered again {took} after its end")


class Policy(BridgeTest):
    """What the host allows."""

    def test_a_path_that_is_not_allowed(self):
        host = self.host()
        registry = self.container("web-1")
        self.register(registry, "/services/db")
        why = self.await_state(host, "web-1", "/services/db", "refused")
        self.assertIn("`allow` of [container *] does not have the path", why)
        self.assertIn("container dir/web-1 /services/db: absent -> refused", host.read_log())
        self.assertIsNone(self.record("/services/db"))

    def test_the_first_section_that_matches_counts(self):
        host = self.host(**{
            "container web-*": {"allow": "/users/joe/web/**"},
            "container *": {"allow": "/services/*"},
        })
        web = self.container("web-1")
        other = self.container("other")
        self.register(web, "/services/db")
        self.register(other, "/services/db")
        self.await_state(host, "web-1", "/services/db", "refused")
        self.await_state(host, "other", "/services/db", "registered")

    def test_without_a_section_nothing_is_allowed(self):
        host = self.host(**{"container web-*": {"allow": "/users/joe/web/**"}})
        self.register(self.container("other"), f"{WEB}/c1")
        why = self.await_state(host, "other", f"{WEB}/c1", "refused")
        self.assertIn("no [container] matches other", why)

    def test_pinned_attributes(self):
        self.host(**{"container *": {"allow": "/users/joe/**", "attribute.yarn:ip": "10.9.9.9",
            "attribute.yarn:id": "host-1"}})
        self.register(self.container("web-1"), f"{WEB}/c1",
            **{"yarn:ip": "1.2.3.4", "yarn:id": "forged", "kept": "yes"})
        record = self.await_record(f"{WEB}/c1")
        self.assertEqual((record["yarn:ip"], record["yarn:id"], record["kept"]),
            ("10.9.9.9", "host-1", "yes"))

    def test_a_reload_that_takes_a_path_away_and_gives_it_back(self):
        host = self.host()
        registry = self.container("web-1")
        self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        for allow, there in (("/services/*", False), ("/users/joe/**", True)):
            host.write_config({"bridge": {"containers": self.containers},
                "container *": {"allow": allow}})
            self.assertEqual(host.request("POST", "/v1/agent/reload").status, 200)
            wait_until(lambda there=there: bool(self.record(f"{WEB}/c1")) == there, "as allowed")

    def test_limits(self):
        host = self.host(**{"container *": {"allow": "/users/joe/web/**", "max_records": 1}})
        registry = self.container("web-1")
        self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        second = self.register(registry, f"{WEB}/c2")
        why = self.await_state(host, "web-1", f"{WEB}/c2", "refused")
        self.assertIn("max_records = 1 of [container *]", why)
        self.assertIsNotNone(self.record(f"{WEB}/c1"))
        second.kill()

    def test_bytes(self):
        host = self.host(**{"container *": {"allow": "/users/joe/web/**", "max_bytes": "100"}})
        self.register(self.container("web-1"), f"{WEB}/c1")
        self.assertIn("max_bytes = 100",
            self.await_state(host, "web-1", f"{WEB}/c1", "refused"))

    def test_a_path_of_another_container(self):
        host = self.host()
        first = self.register(self.container("web-1"), f"{WEB}/c1", **{"yarn:id": "one"})
        self.await_state(host, "web-1", f"{WEB}/c1", "registered")
        before = self.identity(f"{WEB}/c1")
        self.register(self.container("web-2"), f"{WEB}/c1", **{"yarn:id": "two"})
        why = self.await_state(host, "web-2", f"{WEB}/c1", "conflict")
        self.assertEqual(why, f"another container of this host has {WEB}/c1")
        self.assertEqual(self.identity(f"{WEB}/c1"), before)
        first.kill()
        self.await_state(host, "web-2", f"{WEB}/c1", "registered")
        self.assertEqual(json.loads(self.record(f"{WEB}/c1"))["yarn:id"], "two")

    def test_a_path_of_the_host_itself(self):
        agent = self.agent("host")
        sections = agent.component(check=None)
        agent.write_config({**sections, "bridge": {"containers": self.containers},
            "container *": {"allow": "/users/**"}})
        agent.start().wait_state("registered")
        before = self.identity()
        self.register(self.container("web-1"), agent.PATH)
        why = self.await_state(agent, "web-1", agent.PATH, "conflict")
        self.assertEqual(why, f"a component of the host's agent has {agent.PATH}")
        self.assertEqual(self.identity(), before)


on_both(globals(), Policy)


class Hostile(BridgeTest):
    """What a container puts into its registry."""

    def setUp(self):
        super().setUp()
        self.agent_of_host = self.host(**{"container *": {"allow": "/users/joe/web/**"}})
        self.bad = self.container("bad")
        self.good = self.container("good")

    def hold(self, path, record=None):
        """A live node, past our own code; the folder, and the file whose lock is its life."""
        folder = self.node(path)
        owner = open(folder / "_owner", "w", encoding="ascii")
        self.addCleanup(owner.close)
        owner.write("pid 1\n")
        owner.flush()
        fcntl.fcntl(owner, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        self.write(folder / "_record", record or json.dumps(service_record("10.0.0.1", 80)))
        return folder, owner

    def write(self, file, text):
        new = self.folder / "new"
        new.write_text(text)
        new.rename(file)

    def others_live(self):
        """A record of another container comes and goes."""
        owner = self.register(self.good, f"{WEB}/good")
        self.await_record(f"{WEB}/good")
        begin = time.monotonic()
        owner.kill()
        self.await_gone(f"{WEB}/good")
        figure(self, f"a neighbour's record gone {seconds(time.monotonic() - begin)} after its end")

    def node(self, path):
        folder = pathlib.Path(f"{self.bad}{path}")
        folder.mkdir(parents=True)
        return folder

    def test_links_lead_nowhere(self):
        owner = self.register(self.good, f"{WEB}/victim")
        self.await_record(f"{WEB}/victim")
        (self.bad / "users").symlink_to(self.good / "users")
        inner = self.node("/services")
        (inner / "db").symlink_to(self.good / "users/joe/web/prod/components/victim")
        self.others_live()
        self.assertEqual(self.part(self.agent_of_host, "bad")["records"], [])
        self.assertIsNotNone(self.record(f"{WEB}/victim"))
        owner.kill()

    def test_a_record_that_is_a_link_to_a_secret(self):
        secret = self.folder / "secret"
        secret.write_text(json.dumps(service_record("6.6.6.6", 66)))
        folder, _ = self.hold(f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        (folder / "_link").symlink_to(secret)
        (folder / "_link").rename(folder / "_record")
        why = self.await_state(self.agent_of_host, "bad", f"{WEB}/c1", "refused")
        self.assertIn("cannot be opened as a regular file", why)
        self.await_gone(f"{WEB}/c1")

    def test_files_of_other_kinds(self):
        """FIFOs and sockets hold nobody up."""
        fifo = self.node(f"{WEB}/fifo")
        os.mkfifo(fifo / "_owner")
        os.mkfifo(fifo / "_record")
        os.mknod(self.node(f"{WEB}/sock") / "_owner", stat.S_IFSOCK | 0o600)
        (self.node(f"{WEB}/directory") / "_owner").mkdir()
        folder, _ = self.hold(f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        os.mkfifo(folder / "_fifo")
        (folder / "_fifo").rename(folder / "_record")
        self.await_state(self.agent_of_host, "bad", f"{WEB}/c1", "refused")
        self.others_live()

    def test_no_service_record(self):
        folder, _ = self.hold(f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        for text, why in (("{", "InvalidRecord"), ('{"type": "JSONServiceRecord"', "InvalidRecord"),
                ("x" * 200_000, "LimitExceeded")):
            self.write(folder / "_record", text)
            wait_until(lambda why=why: why in str(self.part(self.agent_of_host, "bad")), why)
        self.await_gone(f"{WEB}/c1")

    def test_a_record_that_changes(self):
        """Not hostile at all: written again in place, it keeps its node."""
        folder, _ = self.hold(f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        before = self.identity(f"{WEB}/c1")
        self.write(folder / "_record", json.dumps(service_record("10.0.0.2", 81)))
        wait_until(lambda: "10.0.0.2" in self.record(f"{WEB}/c1"), "the change is there")
        self.assertEqual(self.identity(f"{WEB}/c1"), before)

    def test_thousands_of_nodes(self):
        for i in range(5000):
            (self.node(f"/a/n{i}") / "_owner").write_text("")
        self.others_live()
        wait_until(lambda: self.part(self.agent_of_host, "bad")["more"], "the bound is reported")

    def test_changes_without_end(self):
        folder = self.node("/a/b")
        done = self.folder / "done"
        flood = subprocess.Popen([sys.executable, "-c", FLOOD, done], cwd=folder)
        self.addCleanup(flood.wait)
        self.addCleanup(flood.kill)
        wait_until(lambda: "changes its registry too fast" in self.agent_of_host.read_log(),
            "the container is throttled")
        self.others_live()
        done.touch()
        flood.wait()
        self.register(self.bad, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")

    def test_a_registry_that_goes_and_comes(self):
        for _ in range(20):
            self.bad.rmdir()
            wait_until(self.bad.is_dir, "it is made again")
        self.others_live()

    def test_a_registry_that_is_a_link(self):
        linked = False
        while not linked:  # the host's agent makes it again
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                self.bad.rmdir()
                self.bad.symlink_to(self.good)
                linked = True
        self.others_live()
        self.assertEqual(self.part(self.agent_of_host, "bad")["records"], [])

    def test_a_subdirectory_that_others_can_write(self):
        self.bad.parent.chmod(0o777)
        self.register(self.bad, f"{WEB}/c1")
        wait_until(lambda: self.part(self.agent_of_host, "bad")["state"] == "refused", "refused")
        self.assertIn("written by others", self.part(self.agent_of_host, "bad")["why"])
        self.assertIsNone(self.record(f"{WEB}/c1"))
        self.others_live()


class Socket(BridgeTest):
    """berth.sock: look-ups for one container, and nothing else."""

    def setUp(self):
        super().setUp()
        self.agent_of_host = self.host()
        self.inside = self.container("web-1")
        self.socket = self.inside.parent / "berth.sock"
        wait_until(lambda: serves(self.socket), "its socket is there")

    def ask(self, method, path, socket=None, body=None, **headers):
        connection = UnixConnection(socket or self.socket)
        try:
            connection.request(method, path, body=body, headers=headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def test_look_ups(self):
        self.put("/services/db", service_record("10.0.0.9", 5432))
        for path in ("/v1/resolve/services/db", "/v1/list/services", "/v1/records/services",
                "/v1/endpoints/services/db", "/v1/targets/services/db", "/v1/stat/services/db",
                "/v1/find", "/v1/names/db.services.berth"):
            self.assertEqual(self.ask("GET", path).status, 200, path)
        answer = self.ask("GET", "/v1/resolve/services/db")
        self.assertEqual((answer.headers["X-Cache"], answer.headers["Age"]), ("HIT", "0"))
        shown = berth("--socket", self.socket, "endpoints", "--plain", "/services/db").stdout
        self.assertEqual(shown, "10.0.0.9:5432\n")

    def test_a_stream(self):
        connection = UnixConnection(self.socket)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/watch/services?recursive=yes",
            headers={"Accept": "application/x-ndjson"})
        stream = connection.getresponse()
        self.assertEqual(json.loads(stream.readline())["type"], "SUBSCRIBED")
        self.put("/services/db", service_record("10.0.0.9", 5432))
        while json.loads(stream.readline()).get("path") != "/services/db":
            pass

    def test_all_else_is_404_even_for_root(self):
        for method, path in (("GET", "/"), ("GET", "/v1/agent"), ("GET", "/v1/agent/checks"),
                ("GET", "/v1/agent/history"), ("GET", "/v1/agent/watch"),
                ("POST", "/v1/agent/drain"), ("DELETE", "/v1/agent/drain"),
                ("POST", "/v1/agent/reload"), ("PUT", "/v1/agent/checks/a"),
                ("GET", "/metrics"), ("GET", "/ready"), ("GET", "/live")):
            answer = self.ask(method, path)
            self.assertEqual(answer.status, 404, (method, path, answer.body))
        self.assertFalse(self.agent_of_host.status()["drain"]["active"])

    def test_its_own_part_of_the_bridge(self):
        other = self.container("web-2")
        self.register(other, f"{WEB}/other")
        self.register(self.inside, "/services/forbidden")
        self.await_state(self.agent_of_host, "web-2", f"{WEB}/other", "registered")
        self.await_state(self.agent_of_host, "web-1", "/services/forbidden", "refused")
        parts = self.ask("GET", "/v1/bridge").json["containers"]
        self.assertEqual([part["name"] for part in parts], ["web-1"])
        self.assertEqual(parts[0]["records"][0]["path"], "/services/forbidden")
        self.assertIn("refused", berth("--socket", self.socket, "bridge").stdout)

    def test_a_socket_that_was_removed_is_made_again(self):
        self.socket.unlink()
        wait_until(lambda: serves(self.socket), "it is there again")
        wait_until(lambda: self.ask("GET", "/v1/bridge").status == 200, "it is served")

    def test_an_upgrade_keeps_it(self):
        before = self.socket.stat().st_ino
        failures = []
        done = threading.Event()

        def ask_on():
            while not done.is_set():
                try:
                    if self.ask("GET", "/v1/bridge").status != 200:
                        failures.append("refused")
                except OSError as error:
                    failures.append(repr(error))

        asker = threading.Thread(target=ask_on)
        asker.start()
        try:
            for _ in range(3):
                self.agent_of_host.upgrade()
                wait_until(self.agent_of_host.answers, "the new program answers")
        finally:
            done.set()
            asker.join()
        self.assertEqual(self.socket.stat().st_ino, before)
        self.assertEqual(failures, [])

    def test_a_restart_makes_another_one(self):
        self.agent_of_host.kill()
        self.agent_of_host.start()
        self.assertEqual(self.ask("GET", "/v1/bridge").status, 200)

    def test_a_container_has_its_share_and_no_more(self):
        """It holds what it can get; another container, and the host, still get theirs."""
        self.agent_of_host.kill()
        self.agent_of_host.write_config({"agent": {"max_watchers": 10},
            "bridge": {"containers": self.containers}})
        self.agent_of_host.start()
        self.container("web-2")
        hoard = []
        self.addCleanup(lambda: [connection.close() for connection in hoard])
        refused = False
        while not refused and len(hoard) < 3000:
            hoard.append(UnixConnection(self.socket))
            try:  # a refusal may come before the request
                hoard[-1].request("GET", "/v1/bridge")
                answer = hoard[-1].getresponse()
                answer.read()
                refused = answer.status == 503
            except (BrokenPipeError, ConnectionResetError):
                refused = True
        self.assertTrue(refused)
        other = self.containers / "web-2/berth.sock"
        wait_until(lambda: serves(other), "the other one has a socket")
        self.assertEqual(self.ask("GET", "/v1/bridge", other).status, 200)
        self.assertEqual(self.agent_of_host.get("/live").status, 200)

    def test_a_container_that_goes_takes_its_connections_along(self):
        connection = UnixConnection(self.socket)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/watch/services", headers={"Accept": "application/x-ndjson"})
        stream = connection.getresponse()
        self.assertEqual(json.loads(stream.readline())["type"], "SUBSCRIBED")
        self.inside.parent.rename(self.folder / "away")
        with contextlib.suppress(http.client.IncompleteRead):
            stream.read()  # to the end


del BridgeTest

if __name__ == "__main__":
    unittest.main()
