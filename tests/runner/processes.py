"""Everything that the tests start: found below the runner, and ended with it."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

PR_SET_CHILD_SUBREAPER = 36


def process_table():
    """{pid: (parent, state, command line)} of the whole machine."""
    table = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text(errors="replace")
            command = pathlib.Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        words = command.replace(b"\0", b" ").decode(errors="replace").strip()
        table[int(entry)] = (int(parent), state, words or stat.partition("(")[2].partition(")")[0])
    return table


def below(table, roots):
    """The pids of `roots` and of everything below them."""
    found = set(roots)
    grown = True
    while grown:
        more = {pid for pid, (parent, _, _) in table.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def environment_of(pid):
    try:
        return pathlib.Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    except OSError:
        return []


class Processes:
    """Everything that the tests start: as subreaper we inherit whatever a test forgets."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            sys.exit("cannot become a subreaper: " + os.strerror(ctypes.get_errno()))

    def start(self, *arguments, **options):
        with self.lock:
            process = subprocess.Popen(*arguments, **options)
            self.running.add(process.pid)
            return process

    @contextlib.contextmanager
    def knows(self, process):
        """A process of the runner's own, which is nobody's orphan."""
        with self.lock:
            self.running.add(process.pid)
        try:
            yield
        finally:
            process.kill()
            process.wait()
            self.ended(process)

    def ended(self, process):
        with self.lock:
            self.running.discard(process.pid)

    def orphans(self, label=None):
        """{pid: command line} of living processes that no running program is above of; with a
        label, only those that carry it in their environment."""
        with self.lock:
            table = process_table()
            roots = set()
            for pid, (parent, state, _) in table.items():
                if parent != os.getpid() or pid in self.running:
                    continue
                if state == "Z":
                    try:
                        os.waitpid(pid, os.WNOHANG)
                    except ChildProcessError:
                        pass
                else:
                    roots.add(pid)
        mark = b"BERTH_TEST=" + (label or "").encode()
        return {
            pid: table[pid][2]
            for pid in below(table, roots)
            if table.get(pid, (0, "Z", ""))[1] != "Z" and (not label or mark in environment_of(pid))
        }

    def settle(self, label=None, seconds=2.0):
        """Waits for orphans to end by themselves, kills and returns those that do not."""
        deadline = time.monotonic() + seconds
        left = self.orphans(label)
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = self.orphans(label)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while left.keys() & self.orphans().keys():
            time.sleep(0.02)
        return left

    def kill_all(self):
        """Again until none lives: a process may start another one before its own turn comes."""
        while True:
            table = process_table()
            left = below(table, {os.getpid()}) - {os.getpid()}
            living = [pid for pid in left if table[pid][1] != "Z"]
            if not living:
                return
            for pid in living:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
