"""More lives of an agent, each with one more part of it: DNS, a main process, ZooKeeper's
worker."""

import contextlib
import itertools
import json
import os
import pathlib
import select
import signal
import socket
import threading
import time

import dns.exception
from berth import Agent, wait_until
from life import Defect, Life
from lifecycle import Server
from names import ask, free_port, texts

NAME = "other.services.berth"


class Names(Life):
    """DNS over UDP and TCP."""

    PHASES = ("start", "names", "stop")
    FAILING = ("names",)
    REPEATED = ("names",)

    def prepare(self):
        self.port = free_port()  # another program may have that of the life before
        super().prepare()

    def sections(self, description):
        return {**super().sections(description), "dns": {"listen": f"127.0.0.1:{self.port}"}}

    def names(self):
        port = self.bind_other()
        self.until(lambda: self.finds(port), "the other record is found")
        for kind, wanted in ("A", "A 127.0.0.1"), ("SRV", f"SRV 0 1 {port} {NAME}."):
            for tcp in (False, True):
                self.until(lambda: self.is_answered(kind, wanted, tcp),
                    f"{kind} of {NAME} is answered")
        self.registered()

    def is_answered(self, kind, wanted, tcp):
        try:
            reply = ask(self.port, NAME, kind, tcp=tcp, patience=1)
        except (dns.exception.DNSException, EOFError):
            return False
        found = texts(reply)
        if reply.rcode() == 0 and (not found or wanted not in found):
            raise Defect(f"{kind} of {NAME} is answered with {found}")
        if reply.rcode() not in (0, 2):
            raise Defect(f"{kind} of {NAME} is answered with the code {reply.rcode()}")
        return reply.rcode() == 0


class Main(Life):
    """A main process that lasts as long as the agent, and leaves when it is told to."""

    PHASES = ("start", "stop")

    def prepare(self):
        super().prepare()
        self.pid_file = self.folder / "main"
        self.agent.command = ["/bin/sh", "-c",
            f"trap 'exit 0' TERM; echo $$ >{self.pid_file}; while :; do sleep 0.02; done"]

    def main_pid(self):
        try:
            return int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def lives(self):
        try:
            state = pathlib.Path(f"/proc/{self.main_pid()}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        return state.rpartition(")")[2].split()[0] not in "ZX"

    def start(self):
        super().start()
        self.until(self.lives, "the main process runs")

    def judge_end(self, phase, point):
        super().judge_end(phase, point)
        # The end of a container kills its processes.
        if self.lives():
            os.kill(self.main_pid(), signal.SIGKILL)

    def stop(self):
        super().stop()
        if self.lives():
            raise Defect("the main process is left behind")


class Relay:
    """A server's port, and a way to cut its connections."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        self.accepted = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                pair = (client, socket.create_connection(("127.0.0.1", self.target)))
                self.accepted = time.monotonic()
                self.pairs.append(pair)
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    @staticmethod
    def _carry(client, server):
        other = {client: server, server: client}
        with contextlib.suppress(OSError, ValueError), client, server:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    other[ready].sendall(data)

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for end in itertools.chain(*pairs):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def is_used_again(self):
        """For a second since the cut."""
        return self.pairs and time.monotonic() - self.accepted > 1

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # which ends accept() in the other thread
        self.listener.close()
        self.cut()


class Worker(Life):
    """The calls of berth-zookeeper: the agent starts another worker when one ends, and the session
    lives on."""

    PHASES = ("start", "write", "lost", "stop")
    REPEATED = ("write", "lost")
    PROGRAM = "berth-zookeeper"
    PROBING = False
    # on a busy machine a worker may need some seconds to end and begin again
    SESSION_TIMEOUT = "20s"
    PATIENCE = 60  # the agent replaces a worker that says nothing for a part of that time
    numbers = itertools.count(1)
    server = None

    def prepare(self):
        Worker.server = Worker.server or Server()
        self.relay = Relay(self.server.port)
        super().prepare()

    @classmethod
    def close(cls):
        if cls.server:
            cls.server.stop()

    def make_registry(self):
        """A tree of its own for each run."""
        self.root = f"/run-{next(self.numbers)}"
        self.store = self
        return f"zookeeper://127.0.0.1:{self.relay.port}{self.root}"

    def identity(self):
        stat = self.server.stat(f"{self.root}{Agent.PATH}")
        return stat["czxid"] if stat else None

    def stored(self):
        return json.loads(self.server.probe("get", f"{self.root}{Agent.PATH}").stdout)

    def write(self):
        """The record goes and comes, and a change that another client makes is seen."""
        for method, state in ("POST", "withdrawn"), ("DELETE", "registered"):
            self.until(lambda: self.agent.request(method, "/v1/agent/drain").status in (200, 204),
                "a drain begins or ends")
            self.until(lambda: self.agent.component_state() == state, f"the component is {state}")
            if (self.identity() is None) != (state == "withdrawn"):
                raise Defect(f"the component is {state}, and the registry says otherwise")
        self.ask("/v1/list/users")
        self.registered()

    def go_back(self):
        self.until(lambda: self.agent.request("DELETE", "/v1/agent/drain").status in (200, 204),
            "a drain ends")

    def is_withdrawn(self):
        """At once, or with the session when the worker could not send the removal."""
        return super().is_withdrawn() or (self.page.fired and wait_until(super().is_withdrawn,
            "the session is over"))

    def lost(self):
        before = self.identity()
        away = self.agent.read_log().count("connected -> away")
        self.relay.cut()
        # Without such a line: its write failed, or the connection was lost already.
        self.until(lambda: self.agent.read_log().count("connected -> away") > away
            or self.relay.is_used_again(), "the agent has noticed")
        self.until(lambda: self.agent.status()["registry"]["state"] == "connected",
            "the connection is back")
        self.registered()
        if self.identity() != before:
            raise Defect("the record went for a moment")

    def end(self):
        super().end()
        self.relay.close()


class OnZooKeeper(Worker):
    """The agent's own calls, on ZooKeeper."""

    PHASES = ("start", "write", "lost", "upgrade", "stop")
    PROGRAM = "berthd"
    PROBING = True


LIVES = {"life": Life, "names": Names, "main": Main, "worker": Worker, "zookeeper": OnZooKeeper}
