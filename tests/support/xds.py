"""Agents with berth-xds at their side, run by hand as a user would, and a registry of members."""

import os
import subprocess

from berth import PROGRAMS, AgentTest, wait_for_log, wait_until
from outputs import FROM, Members

NAME = "prod.web.joe"
TYPES = "type.googleapis.com/envoy.config."
LISTENER = f"{TYPES}listener.v3.Listener"
CLUSTER = f"{TYPES}cluster.v3.Cluster"
ENDPOINTS = f"{TYPES}endpoint.v3.ClusterLoadAssignment"
ACCEPTS = "00010000"  # the flags of a socket that listens, in /proc/net/unix


class Xds:
    """One berth-xds that listens on a Unix socket."""

    def __init__(self, agent, *arguments, listen=None):
        self.agent = agent
        self.socket = listen or agent.folder / "xds.sock"
        self.arguments = [str(argument) for argument in arguments]
        self.log = agent.folder / "xds.log"
        self.process = None

    def start(self, **keywords):
        # A sanitizer keeps freed memory, which tests of memory would take for ours.
        sanitizer = f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=1"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                # Its own socket last: when that listens, all do.
                [PROGRAMS / "berth-xds", "--socket", self.agent.socket, *self.arguments,
                    "--listen", self.socket],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "ASAN_OPTIONS": sanitizer.lstrip(":")}, **keywords,
            )
        wait_until(self.listens, f"berth-xds listens: {self.read_log()}")
        return self

    def listens(self):
        if self.process.poll() is not None:
            raise AssertionError(f"berth-xds ended: {self.read_log()}")
        with open("/proc/net/unix", encoding="ascii") as sockets:
            # Between bind() and listen() it is there, and refuses connections.
            return any(line.split()[3] == ACCEPTS and line.split()[-1] == str(self.socket)
                for line in sockets)

    def read_log(self):
        wait_for_log(self.process)
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)


def dump(agent, name, *arguments):
    """What berth-xds would send for a name."""
    return subprocess.run(
        [PROGRAMS / "berth-xds", "--socket", agent.socket, *map(str, arguments), "--dump", name],
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )


class XdsTest(AgentTest):
    """An agent with the members of NAME in a directory, and berth-xds."""

    def setUp(self):
        super().setUp()
        self.members = Members(self.registry, FROM)

    def xds(self, agent, *arguments, **keywords):
        xds = Xds(agent, *arguments, **keywords)
        self.addCleanup(xds.end)
        return xds
