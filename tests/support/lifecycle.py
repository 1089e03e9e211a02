"""For tests of the agent's life: registries to run them on, independent witnesses of a record,
clients that never stop asking."""

import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import select
import struct
import subprocess
import threading
import time
import uuid

from berth import PATIENCE, Agent, AgentTest, Answer, UnixConnection, wait_until
from zookeeper import ZooKeeper, share_zookeeper

F_OFD_GETLK = 36
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "0"))


def rounds(default):
    """How often a test repeats what may go wrong once in many times: $BERTH_ROUNDS instead, if it
    is set."""
    return ROUNDS or default


class Directory:
    """The dir: registry."""

    name = "dir"

    def __init__(self, folder):
        self.root = pathlib.Path(folder) / "registry"
        self.url = f"dir:{self.root}"

    def stop(self):
        pass

    def identity(self, path=Agent.PATH):
        """What tells a node from an earlier one at its path, or None: by the kernel's word, not by
        ours."""
        owner = pathlib.Path(f"{self.root}{path}/_owner")
        try:
            with open(owner, "rb") as file:
                query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind = struct.unpack("hhqqi4x", fcntl.fcntl(file, F_OFD_GETLK, query))[0]
                return os.fstat(file.fileno()).st_ino if kind != fcntl.F_UNLCK else None
        except FileNotFoundError:
            return None

    def watch(self, path=Agent.PATH):
        return DirectoryWitness(self, path)


class DirectoryWitness:
    """Looks at the node every millisecond; `seen`: its identities one after another, None for an
    absence."""

    def __init__(self, registry, path):
        self.seen = [registry.identity(path)]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(registry, path))
        self._thread.start()

    def _look(self, registry, path):
        while not self._done.wait(0.001):
            identity = registry.identity(path)
            if identity != self.seen[-1]:
                self.seen.append(identity)

    def end(self):
        self._done.set()
        self._thread.join()
        return self.seen


class Server(ZooKeeper):
    """A ZooKeeper server of its own, whose sessions last as long as their clients wish."""

    def __init__(self):
        super().__init__("maxSessionTimeout=3600000\n")


class Shared:
    """The ZooKeeper server of the run, for tests that do it no harm."""


class ServerWitness:
    """zk-probe watch: `seen` as above, with a watch on the node that misses nothing which lasts."""

    def __init__(self, server, path):
        self.process = subprocess.Popen(
            server.probe_command("watch", path, "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1
        )
        self.seen = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        wait_until(lambda: self.seen, "the witness has seen the node")

    def _read(self):
        for line in self.process.stdout:
            _, state, *fields = line.split()
            identity = int(fields[0].partition("=")[2], 0) if state == "present" else None
            if not self.seen or self.seen[-1] != identity:
                self.seen.append(identity)

    def end(self):
        """All that was to be seen until now: the answer to the last question comes after every
        event before it."""
        if self.process.returncode is None:
            self.process.stdin.close()
            self._thread.join()
            self.process.stdout.close()
            if self.process.wait() != 0:
                raise AssertionError("the witness has looked away")
        return self.seen


class Client:
    """Looks a record up every millisecond until end(). `keep`: over one connection, or over a new
    one each time."""

    def __init__(self, socket, keep, path=Agent.PATH):
        self.socket = socket
        self.path = path
        self.keep = keep
        self.answers = 0
        self.failures = []
        self.seconds = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask_on)
        self._thread.start()

    def _ask(self, connection):
        connection.request("GET", f"/v1/resolve{self.path}")
        answer = Answer(connection.getresponse())
        if answer.status != 200:
            self.failures.append((answer.status, answer.body))

    def _ask_on(self):
        connection = UnixConnection(self.socket)
        while not self._done.wait(0.001):
            begin = time.monotonic()
            try:
                self._ask(connection)
                self.answers += 1
            except (OSError, http.client.HTTPException) as problem:
                self.failures.append(repr(problem))
                connection.close()
            self.seconds.append(time.monotonic() - begin)
            if not self.keep:
                connection.close()
        connection.close()

    def end(self):
        self._done.set()
        self._thread.join()
        return self.failures


class LifeTest(AgentTest):
    """A test on a registry of the kind that `registry_kind` says; a class for each kind is made by
    on_both()."""

    registry_kind = Directory
    session_timeout = "30s"  # none ends because somebody stood still for some seconds

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = None
        cls.standstills = 0
        if cls.registry_kind is Shared:
            cls.server = share_zookeeper(whole=True)
        elif cls.registry_kind is Server:
            cls.server = Server()
        if cls.server:
            cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.store = self.server or Directory(self.folder)
        self.registry = self.store.url
        if self.server:
            # Tests share the server: each begins with an empty registry.
            self.registry = self.registry.replace("/registry", f"/{uuid.uuid4().hex}")

    def node(self, path=Agent.PATH):
        """The path of a record from ZooKeeper's root."""
        return "/" + self.registry.split("/", 3)[3] + path

    def identity(self, path=Agent.PATH):
        if not self.server:
            return self.store.identity(path)
        stat = self.server.stat(self.node(path))
        return stat["czxid"] if stat else None

    def assert_gone(self, agent, path=Agent.PATH):
        """The record has gone before the agent, unless the registry stood still for longer than an
        agent waits for it."""
        if "not everything could be deregistered in time" in agent.read_log().rpartition(
                "agent: stopping: ")[2]:
            type(self).standstills += 1
            self.assertLess(self.standstills, 3, "the registry cannot be stopped that often")
            wait_until(lambda: self.identity(path) is None, "the record has ended with the session")
        self.assertIsNone(self.identity(path))

    def version(self, path=Agent.PATH):
        """Changes with every write to the node."""
        if self.server:
            stat = self.server.stat(self.node(path))
            return (stat["czxid"], stat["mzxid"]) if stat else None
        try:
            return os.stat(f"{self.store.root}{path}/_record").st_ino
        except FileNotFoundError:
            return None

    def record(self, path=Agent.PATH, registry=None):
        """The bytes of a live record, past our own code; None when there is none."""
        if self.server:
            root = "/" + (registry or self.registry).split("/", 3)[3]
            answer = self.server.probe("get", root + path)
            return answer.stdout if answer.returncode == 0 else None
        store = Directory(self.folder)
        store.root = pathlib.Path((registry or self.registry).removeprefix("dir:"))
        node = pathlib.Path(f"{store.root}{path}")
        live = not (node / "_owner").exists() or store.identity(path)
        with contextlib.suppress(FileNotFoundError):
            return (node / "_record").read_text() if live else None
        return None

    def is_ephemeral(self, path=Agent.PATH, registry=None):
        """Of the node at `path`; False when there is none."""
        if self.server:
            stat = self.server.stat("/" + (registry or self.registry).split("/", 3)[3] + path)
            return bool(stat and stat["ephemeralOwner"])
        return os.path.exists(f"{(registry or self.registry).removeprefix('dir:')}{path}/_owner")

    def witness(self, path=Agent.PATH):
        witness = ServerWitness(self.server,
            self.node(path)) if self.server else self.store.watch(path)
        self.addCleanup(witness.end)
        return witness

    def client(self, agent, keep):
        client = Client(agent.socket, keep)
        self.addCleanup(client.end)
        return client


class SessionTest(LifeTest):
    """On ZooKeeper, where the session outlives the process."""

    registry_kind = Shared

    def restart(self, agent, number):
        agent.signal(number)
        agent.wait()
        agent.start()

    def session_file(self):
        return self.folder / "agent/state/session"

    def session_paths(self):
        return json.loads(self.session_file().read_bytes().partition(b"\n")[2])["paths"]


def on_both(namespace, base):
    """Makes NameOnDirectory and NameOnZooKeeper of a LifeTest and takes the base away."""
    for kind, suffix in ((Directory, "OnDirectory"), (Shared, "OnZooKeeper")):
        name = base.__name__ + suffix
        namespace[name] = type(name, (base,),
            {"registry_kind": kind, "__module__": base.__module__})
    del namespace[base.__name__]


def zombies_of(pid):
    """Children of a process that have ended and were not reaped."""
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                count += fields[0] == "Z" and int(fields[1]) == pid
    return count


def read_line(stream, patience=PATIENCE):
    """A line of a pipe that must come."""
    ready, _, _ = select.select([stream], [], [], patience)
    if not ready:
        raise AssertionError("nothing to read in time")
    return stream.readline()
