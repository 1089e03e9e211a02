"""The host's agent, its containers and the way between them and ZooKeeper fail: what becomes of the
records of the living, and of the dead."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from berth import PROGRAMS, UnixConnection, amount, berth, preloaded, service_record, wait_until
from control_groups import ControlGroup
from figures import figure, seconds
from hosting import WEB, BridgeTest
from lifecycle import Shared, rounds
from manager import Manager
from rights import needs
from wire import Wire

LIVES, DIES = f"{WEB}/lives", f"{WEB}/dies"
DAY_S = 86400
HEARD_S = 5  # of a session of 30 s
WATCHDOG_S = 2
# $1: where to make a node, as libberth does; it takes memory once a line comes.
OWNER = """
import fcntl, os, struct, sys
os.makedirs(sys.argv[1])
owner = open(sys.argv[1] + "/_owner", "w")
owner.write("pid 1\\n")
owner.flush()
fcntl.fcntl(owner, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))  # F_OFD_SETLK
with open(sys.argv[1] + "/_new", "w") as record:
    record.write(sys.stdin.readline())
os.rename(record.name, sys.argv[1] + "/_record")
sys.stdin.readline()
held = []
while True:
    held.append(bytearray(1 << 20))
"""


class BridgeFaults(BridgeTest):
    registry_kind = Shared

    def begin(self, **start):
        """A host with two records in one container, each of a process of its own, and a witness for
        each."""
        self.agent_of_host = self.agent("host", bridge={"containers": self.containers},
            **{"container *": {"allow": "/users/joe/web/**"}})
        self.agent_of_host.start(**start)
        self.inside = self.container("web-1")
        self.lives = self.register(self.inside, LIVES)
        self.dies = self.register(self.inside, DIES)
        self.await_both()
        self.witnesses = [self.witness(LIVES), self.witness(DIES)]

    def wire(self):
        """The host's agent reaches the server by it."""
        hosts = self.server.hosts
        wire = Wire(hosts)
        self.registry = self.registry.replace(hosts, wire.hosts)
        return wire

    def await_both(self, host=None):
        for path in (LIVES, DIES):
            self.await_state(host or self.agent_of_host, "web-1", path, "registered")

    def seen(self):
        """How many states of the two records the witnesses saw, one after another."""
        return [len(witness.end()) for witness in self.witnesses]

    def await_seen(self, count):
        """A witness misses what comes and goes before it has looked."""
        wait_until(lambda: all(len(witness.seen) == count for witness in self.witnesses),
            f"both witnesses have seen {count} states")

    def kill_the_dying(self):
        self.dies.kill()
        self.dies.wait()

    def neighbour_comes_and_goes(self, count):
        """Records of another container; the longest time from an owner's end to its record's."""
        other = self.container("web-2") if not (self.containers / "web-2").exists() else (
            self.containers / "web-2/registry")
        longest = 0
        for _ in range(count):
            neighbour = self.register(other, f"{WEB}/neighbour")
            self.await_record(f"{WEB}/neighbour")
            begin = time.monotonic()
            neighbour.kill()
            self.await_gone(f"{WEB}/neighbour")
            longest = max(longest, time.monotonic() - begin)
        return longest


class Containers(BridgeFaults):
    """What befalls a container."""

    session_timeout = "30s"

    def group(self, controller):
        group = ControlGroup(controller)
        self.addCleanup(group.end)
        return group

    @needs("freezer")
    def test_a_container_is_frozen_by_its_control_group(self):
        self.begin()
        group = self.group("freezer")
        group.take(self.lives.pid)
        begin = time.monotonic()
        group.freeze()
        self.addCleanup(group.thaw)
        self.await_gone(LIVES)
        gone = time.monotonic() - begin
        longest = self.neighbour_comes_and_goes(3)
        self.kill_the_dying()
        self.await_gone(DIES)
        begin = time.monotonic()
        group.thaw()
        self.await_record(LIVES)
        back = time.monotonic() - begin
        self.lives.kill()
        self.await_gone(LIVES)
        self.assertEqual(self.seen(), [4, 2])
        figure(self, f"frozen: its record gone {seconds(gone)} later, a neighbour's "
            f"{seconds(longest)} at most after its end; thawed: back after {seconds(back)}")

    @needs("memory limits")
    def test_a_container_runs_out_of_memory(self):
        self.begin()
        group = self.group("memory")
        group.limit_memory(96 << 20)
        path = f"{WEB}/eats"
        owner = subprocess.Popen([sys.executable, "-c", OWNER, f"{self.inside}{path}"],
            stdin=subprocess.PIPE, text=True)
        self.addCleanup(owner.communicate)
        self.addCleanup(owner.kill)
        group.take(owner.pid)
        owner.stdin.write(json.dumps(service_record("10.0.0.1", 80)) + "\n")
        owner.stdin.flush()
        self.await_record(path)
        owner.stdin.write("eat\n")
        owner.stdin.flush()
        self.assertEqual(owner.wait(), -signal.SIGKILL)
        begin = time.monotonic()
        self.await_gone(path)
        took = time.monotonic() - begin
        self.assertEqual(group.oom_kills(), 1)
        self.assertEqual(self.seen(), [1, 1])
        figure(self, f"gone {seconds(took)} after the kernel had killed its owner; others: "
            "0 events")

    @needs("mounts")
    def test_a_container_fills_its_file_system(self):
        registry = self.containers / "web-1/registry"
        registry.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "berth", registry],
            check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", registry], check=False)
        host = self.host()
        self.register(registry, LIVES)
        self.await_state(host, "web-1", LIVES, "registered")
        self.assertFalse(self.part(host, "web-1")["unbounded"])
        witness = self.witness(LIVES)
        ballast = registry / "users/ballast"
        with open(ballast, "wb", buffering=0) as file, self.assertRaises(OSError):
            while True:
                file.write(b"x" * 4096)
        late = berth("--registry", f"dir:{registry}", "bind", "-p", f"{WEB}/late", "--file",
            self.record_file(**{"yarn:persistence": "permanent"}))
        self.assertNotEqual(late.returncode, 0)
        self.assertIn("No space left on device", late.stderr)
        longest = self.neighbour_comes_and_goes(3)
        doubt = ": registry/ is not a file system of its own"
        self.assertIn(f"container web-2{doubt}", host.read_log())
        self.assertNotIn(f"container web-1{doubt}", host.read_log())
        ballast.unlink()
        begin = time.monotonic()
        self.register(registry, f"{WEB}/late")
        self.await_record(f"{WEB}/late")
        took = time.monotonic() - begin
        self.assertEqual(len(witness.end()), 1)
        figure(self, f"full: its record 0 events, a neighbour's gone {seconds(longest)} at most "
            f"after its end; with room again a new one after {seconds(took)}")

    def test_clocks_jump(self):
        """The host's wall clock, and what the container says of its files' times."""
        clock = self.folder / "clock"
        clock.write_bytes(bytes(8))
        self.begin(env=preloaded(BERTH_CLOCK=str(clock)))
        node = pathlib.Path(f"{self.inside}{LIVES}")
        for jump_s in (DAY_S, -DAY_S, 0):
            with open(clock, "r+b", buffering=0) as file:
                file.write(jump_s.to_bytes(8, sys.byteorder, signed=True))
            for file in (node / "_record", node / "_owner", node):
                os.utime(file, (time.time() + 40 * jump_s, time.time() + 40 * jump_s))
            self.neighbour_comes_and_goes(1)
        begin = time.monotonic()
        self.kill_the_dying()
        self.await_gone(DIES)
        took = seconds(time.monotonic() - begin)
        self.assertEqual(self.seen(), [1, 2])
        figure(self, "a day ahead, a day back and home: 0 events; who is killed then is gone "
            f"after {took}")

    def test_subdirectories_are_removed_and_made_again(self):
        self.begin()
        slowest, times = 0, 5
        for i in range(times):
            self.inside.parent.rename(self.folder / "away")
            for path in (LIVES, DIES):
                self.await_gone(path)
            self.await_seen(2 * i + 2)
            begin = time.monotonic()
            (self.folder / "away").rename(self.inside.parent)
            for path in (LIVES, DIES):
                self.await_record(path)
            slowest = max(slowest, time.monotonic() - begin)
            self.await_seen(2 * i + 3)
        self.await_both()
        self.assertEqual(self.seen(), [1 + 2 * times, 1 + 2 * times])
        figure(self, f"{times} times: registered again {seconds(slowest)} at most after it was "
            "there again")


class Host(BridgeFaults):
    """What befalls the host's agent."""

    session_timeout = "30s"

    def test_100_kills_show_no_event(self):
        self.begin()
        count, heard = rounds(amount(100)), time.monotonic()
        for _ in range(count):
            self.agent_of_host.kill()
            self.agent_of_host.start()
            # On a slow machine none of many in a row comes to reconnect, and the session ends.
            if time.monotonic() - heard > HEARD_S:
                wait_until(lambda: self.agent_of_host.status()["registry"]["state"] == "connected",
                    "it is connected")
                heard = time.monotonic()
        self.await_both()
        self.kill_the_dying()
        self.await_gone(DIES)
        self.assertEqual(self.seen(), [1, 2])
        figure(self, f"{count} kills: 0 events for a living record")

    def test_a_frozen_one_is_killed_by_its_watchdog_and_a_standby_takes_over(self):
        """The service manager is the test: no sign of life for WatchdogSec is the end."""
        self.begin()
        sections = {"bridge": {"containers": self.containers, "standby": "yes"},
            "container *": {"allow": "/users/joe/web/**"}}
        self.agent_of_host.kill()
        self.agent_of_host.write_config(sections)
        manager = Manager(self.folder / "notify")
        self.addCleanup(manager.close)
        self.agent_of_host.start(env=manager.environment(BERTH_LIBEXECDIR=str(PROGRAMS),
            WATCHDOG_USEC=str(WATCHDOG_S * 1000000)))
        second = self.agent("second")
        second.socket, second.config = self.agent_of_host.socket, self.agent_of_host.config
        second.start(wait=False)
        wait_until(lambda: "standby: another agent uses" in second.read_log(), "it waits")
        manager.wait_for("WATCHDOG", 2)
        begin = time.monotonic()
        self.agent_of_host.signal(signal.SIGSTOP)
        wait_until(lambda: time.monotonic() - manager.messages[-1][0] > WATCHDOG_S,
            "the watchdog has had enough")
        self.agent_of_host.signal(signal.SIGABRT)  # as systemd does: both
        self.agent_of_host.signal(signal.SIGCONT)
        self.agent_of_host.wait()
        killed = time.monotonic()
        wait_until(lambda: second.starts() == 1 and second.answers(), "the standby serves")
        took = time.monotonic() - killed
        self.await_both(second)
        self.kill_the_dying()
        self.await_gone(DIES)
        self.assertEqual(self.seen(), [1, 2])
        figure(self, f"WatchdogSec={WATCHDOG_S}s: killed {seconds(killed - begin)} after it froze, "
            f"the standby answered {seconds(took)} later: 0 events for a living record")


class Sessions(BridgeFaults):
    """Silence for longer than the session of the host, and for less."""

    session_timeout = "4s"

    def back(self, begin):
        self.await_both()
        for path in (LIVES, DIES):
            self.await_record(path)
        return seconds(time.monotonic() - begin)

    def test_a_frozen_one_keeps_no_record(self):
        self.begin()
        begin = time.monotonic()
        self.agent_of_host.signal(signal.SIGSTOP)
        self.addCleanup(self.agent_of_host.signal, signal.SIGCONT)
        self.await_gone(LIVES)
        self.await_gone(DIES)
        gone = seconds(time.monotonic() - begin)
        begin = time.monotonic()
        self.agent_of_host.signal(signal.SIGCONT)
        figure(self, f"session of 4 s: its records absent after {gone}, registered "
            f"{self.back(begin)} after it went on")

    def test_it_is_away_for_longer_than_its_session(self):
        self.begin()
        begin = time.monotonic()
        self.agent_of_host.kill()
        self.await_gone(LIVES)
        self.await_gone(DIES)
        gone = seconds(time.monotonic() - begin)
        begin = time.monotonic()
        self.agent_of_host.start()
        figure(self, f"session of 4 s: its records absent after {gone}, registered "
            f"{self.back(begin)} after its start")

    def test_the_network_is_cut_for_longer_than_the_session(self):
        with self.wire() as wire:
            self.begin()
            begin = time.monotonic()
            wire.cut()
            self.await_gone(LIVES)
            self.await_gone(DIES)
            gone = seconds(time.monotonic() - begin)
            begin = time.monotonic()
            wire.mend()
            figure(self, f"session of 4 s: its records absent after {gone}, registered "
                f"{self.back(begin)} after the mend")
            self.agent_of_host.stop()


class Cut(BridgeFaults):
    session_timeout = "20s"

    def test_the_network_is_cut_for_less_than_the_session(self):
        with self.wire() as wire:
            self.put("/services/db", service_record("10.0.0.9", 5432))
            self.begin()
            wait_until(lambda: self.look_up() == (200, "HIT"), "a container looks up")
            wire.cut()
            self.kill_the_dying()
            wait_until(lambda: self.look_up() == (200, "STALE"), "a container is told")
            self.assertEqual(self.seen_by_witness(DIES), 1)
            begin = time.monotonic()
            wire.mend()
            self.await_gone(DIES)
            took = seconds(time.monotonic() - begin)
            self.await_state(self.agent_of_host, "web-1", LIVES, "registered")
            self.assertEqual(self.seen(), [1, 2])
            figure(self, "STALE in the containers meanwhile; who died meanwhile is gone "
                f"{took} after the mend, a living record: 0 events")
            self.agent_of_host.stop()

    def seen_by_witness(self, path):
        return len(self.witnesses[(LIVES, DIES).index(path)].seen)

    def look_up(self):
        """Of a process in the container."""
        connection = UnixConnection(self.inside.parent / "berth.sock")
        try:
            connection.request("GET", "/v1/resolve/services/db")
            answer = connection.getresponse()
            json.loads(answer.read())
            return answer.status, answer.headers["X-Cache"]
        finally:
            connection.close()


del BridgeTest, BridgeFaults

if __name__ == "__main__":
    unittest.main()
