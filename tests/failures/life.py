"""Lives of an agent on a directory, in each of which a call fails."""

import collections
import contextlib
import http.client
import http.server
import itertools
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import points
from berth import BUILD, Agent, UnixConnection, berth, wait_until
from lifecycle import Directory

OTHER = "/services/other"
ENDPOINT = {"api": "other", "addressType": "host/port", "protocolType": "tcp",
    "addresses": [{"host": "127.0.0.1", "port": "80"}]}
RECORD = {"type": "JSONServiceRecord", "description": "other", "external": [ENDPOINT],
    "internal": []}
LIBRARY_RECORD = {
    "type": "JSONServiceRecord", "description": "library", "internal": [],
    "external": [{"api": "a", "addressType": "uri", "protocolType": "http",
        "addresses": [{"uri": "http://127.0.0.1/"}]}],
}
# Left for good after a failure of this kind: to look up a user's groups, because the socket does
# not say them, glibc reads files and keeps the result.
ALLOCATIONS_KEPT = {"sockopt": 24, "epoll": 1}
DESCRIPTORS_KEPT = {"eventfd": 1}  # libev has a pipe instead
QUIET = re.compile(r"^\S+ (debug|info|warn) ")


class Ended(Exception):
    """The agent has ended although nobody asked it to."""


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Defect(Exception):
    pass


def serve_health():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Life:
    """Phases one after another; the failure belongs to one of them."""

    PHASES = ("start", "look_up", "reload", "upgrade", "stop")
    FAILING = None  # the phases in which a call fails, if not in all
    REPEATED = ("look_up", "reload")  # those that an agent can go through many times
    PROGRAM = "berthd"
    PROBING = True  # the program has one thread, and ends without memory
    SESSION_TIMEOUT = "5s"
    PATIENCE = 20
    PROBING_PATIENCE = 200  # with a fork at each allocation
    LONGEST_TIMER = 6  # of the agent, in seconds: it saves its history that often

    def __init__(self, folder, library, health):
        self.folder = pathlib.Path(folder)
        self.library = library
        self.health = health
        self.rounds = itertools.count(1)
        # how many descriptors are open after a phase without a failure, and the allocations left
        # after a life
        self.limits = {}

    # ---- the stage ----

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.page = points.Page(self.folder, self.PROGRAM)
        self.registry = self.make_registry()
        self.agent = Agent(self.folder, self.registry, session_timeout=self.SESSION_TIMEOUT)
        self.configure("a test")
        self.allowed = [self.expected("a test")]
        self.has_ended = False
        self.lingers = False
        self.patience = self.PATIENCE
        self.failed = {""}  # the kinds of calls that did

    def make_registry(self):
        self.store = Directory(self.folder)
        return self.store.url

    def configure(self, description):
        self.agent.write_config(self.sections(description))

    def sections(self, description):
        sections = self.agent.component(description=description, damping="no")
        quick = {"interval": "1h", "fast_interval": "20ms", "down_interval": "20ms",
            "timeout": "20s"}
        sections["check alive"].update(quick)
        sections["check web"] = {"type": "http", "target": f"http://127.0.0.1:{self.health}/",
            "expect_status": "204", **quick}
        sections["agent"] = {"log_level": "info"}
        sections["registry"] = {"update_interval": "1ms"}
        sections["cache"] = {"warm": "/services/**"}
        sections["output others"] = {"from": "/services/**", "format": "lines",
            "path": self.folder / "output", "quiet": "1ms"}
        return sections

    @staticmethod
    def expected(description):
        return {"description": description, "yarn:id": "container_1_0001_01_000001",
            "yarn:persistence": "container"}

    def matches(self, record):
        return any(all(record.get(key) == value for key, value in wanted.items())
            for wanted in self.allowed)

    # ---- asking ----

    def alive(self):
        if self.agent.process.poll() is not None:
            raise Ended

    def until(self, condition, what):
        def tried():
            self.alive()
            with contextlib.suppress(OSError, http.client.HTTPException):
                return condition()
            return False

        try:
            return wait_until(tried, what, patience=self.patience)
        except AssertionError as error:
            raise Defect(str(error)) from None

    def ask(self, path):
        """The body of an answer, that is 200 within the second try: one call fails once."""

        def answered():
            answer = self.agent.get(path)
            return answer if answer.status == 200 else None

        return self.until(answered, f"{path} answers 200")

    def registered(self):
        self.until(lambda: self.agent.component_state() == "registered",
            "the component is registered")
        self.right()

    def stored(self):
        return json.loads(pathlib.Path(f"{self.folder}/registry{Agent.PATH}/_record").read_text(
            encoding="utf-8"))

    def wrong(self, what):
        """A record whose agent is ending at this moment is no longer held."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.agent.process.wait(1)
            raise Ended
        raise Defect(what)

    def right(self):
        """The record as another process finds it, and as the agent says it."""
        stored = self.stored()
        if not self.matches(stored) or self.store.identity() is None:
            self.wrong(f"a wrong record is in the registry: {stored}")
        told = self.ask(f"/v1/resolve{Agent.PATH}").json
        if not self.matches(told):
            self.wrong(f"the agent answers with a wrong record: {told}")

    # ---- phases ----

    def launch(self, failing):
        environment = {**points.environment(self.page, self.library),
            "BERTH_LIBEXECDIR": str(BUILD)}
        self.agent.start(wait=False, env=environment if failing
            else {**environment, "LD_PRELOAD": ""})

    def start(self):
        self.launch(True)
        self.registered()

    def bind_other(self):
        """Another program writes a record; returns the port in it, which is another one each
        time."""
        port = str(next(self.rounds))
        other = self.folder / "other.json"
        other.write_text(json.dumps({**RECORD,
            "external": [{**ENDPOINT, "addresses": [{"host": "127.0.0.1", "port": port}]}]}))
        if berth("--registry", self.registry, "bind", "-p", OTHER, "--file", other,
                "--overwrite").returncode:
            raise Defect("another program cannot write")
        return port

    def finds(self, port):
        record = self.agent.get(f"/v1/resolve{OTHER}").json
        return record.get("description") == "other" and record["external"][0]["addresses"] == [
            {"host": "127.0.0.1", "port": port}]

    def has_output(self, port):
        output = self.folder / "output"
        return output.exists() and f"127.0.0.1:{port}" in re.split(r"\s", output.read_text())

    def look_up(self):
        port = self.bind_other()
        for path in ("/v1/list/services", "/v1/records/services", f"/v1/endpoints{Agent.PATH}",
                "/v1/find?under=/services",
                     f"/v1/stat{Agent.PATH}", "/v1/agent/checks", "/v1/agent/history", "/metrics",
                     "/ready"):
            self.ask(path)
        self.until(lambda: self.finds(port), "the other record is found")
        self.until(lambda: self.has_output(port), "the output is written")
        self.until(self.streams, "a stream begins")
        self.until(lambda: self.agent.request("POST", "/v1/agent/checks/alive/run").status == 200,
            "a check runs on demand")
        self.registered()

    def streams(self):
        connection = UnixConnection(self.agent.socket, timeout=2)
        with contextlib.closing(connection):
            connection.request("GET", f"/v1/watch{OTHER}",
                headers={"Accept": "application/x-ndjson"})
            answer = connection.getresponse()
            line = answer.readline()
            return answer.status == 200 and bool(line) and json.loads(line)["type"] == "SUBSCRIBED"

    def reload(self):
        text = f"another text {next(self.rounds)}"
        self.allowed = [self.allowed[-1], self.expected(text)]
        self.configure(text)
        self.until(lambda: self.agent.request("POST", "/v1/agent/reload").status == 200,
            "a reload succeeds")
        self.allowed.pop(0)
        self.until(lambda: self.agent.get(f"/v1/resolve{Agent.PATH}").json.get("description")
            == text, "the record is new")
        self.registered()

    def upgrade(self):
        before = self.agent.starts()
        begun = time.monotonic()
        self.agent.signal(signal.SIGUSR2)

        def done():
            # the write that failed was that of the line
            silent = "write" in self.failed and time.monotonic() - begun > 5
            return (
                silent
                or self.agent.starts() > before
                or "upgrading -> running" in self.agent.read_log()
            )

        self.until(done, "the agent upgrades, or says that it does not")
        if self.agent.starts() == before:
            self.agent.signal(signal.SIGUSR2)
            self.until(lambda: self.agent.starts() > before, "the next upgrade succeeds")
        self.registered()

    def stop(self):
        self.agent.signal(signal.SIGTERM)
        try:
            status = self.agent.process.wait(30)
        except subprocess.TimeoutExpired:
            raise Defect("it does not stop") from None
        if status:
            raise Ended
        if not self.is_withdrawn():
            raise Defect("the record is still there")

    def is_withdrawn(self):
        return self.store.identity() is None

    def open_descriptors(self):
        text = self.ask("/metrics").body.decode()
        found = re.search(r"^process_open_fds (\S+)", text, re.M)
        return int(float(found.group(1))) if found else None

    def measure(self, phase):
        """After a phase without a failure. Connections and commands may be about to end: the fewest
        of some answers."""
        if phase != "stop":
            fewest = min(self.open_descriptors() for _ in range(5))
            self.limits[phase] = max(fewest, self.limits.get(phase, 0))

    def compare(self, phase):
        """Compares an agent that has had a failure with an agent that has not."""
        if phase != "stop":
            # An upgrade that cannot hand over ends in a start.
            limit = max(self.limits[phase], self.limits["start"]) + max(DESCRIPTORS_KEPT.get(kind,
                0) for kind in self.failed)
            self.until(lambda: (self.open_descriptors() or limit + 1) <= limit,
                f"it has {limit} descriptors open again")

    def compare_memory(self):
        left = self.page.live
        limit = self.limits["memory"] + max(ALLOCATIONS_KEPT.get(kind, 0) for kind in self.failed)
        if self.PROBING and not self.has_ended and left > limit:
            raise Defect(f"{left} allocations are left at the end, and {limit} without a failure")

    # ---- one life ----

    def judge_end(self, phase, point):
        """An agent may end in two ways: without memory, and when it cannot start; it says why."""
        status = self.agent.process.wait()
        last = self.agent.read_log().splitlines()[-40:]
        if not point:
            raise Defect(f"it ended with {status}, although no call failed")
        if point.kind in ("alloc",
                "mmap") and status == -signal.SIGABRT and any("out of memory" in line
                        for line in last):
            return
        if status > 0 and phase in ("start", "upgrade", "stop") and any(not QUIET.match(line)
                for line in last):
            return
        raise Defect(f"it ended with {status} while it was to {phase.replace('_', ' ')}")

    def go_back(self):
        """Takes back what a phase has told the agent, and what the agent keeps over its end."""

    def recover(self):
        """What a supervisor does."""
        self.launch(False)
        self.go_back()
        self.registered()
        if len(self.PHASES) > 2:
            getattr(self, self.PHASES[1])()
        self.stop()

    def go_through(self, phase, point, failing):
        """A phase in the life of `point`, which fails now or failed before."""
        if failing:
            self.failed.add(point.kind)
            self.page.arm(point)
        try:
            getattr(self, phase)()
            if failing and self.lingers and phase != "stop":
                self.linger()
            self.page.disarm()
            if point:
                self.compare(phase)
        except Ended:
            self.page.disarm()
            self.has_ended = True
            self.judge_end(phase, point)
            self.recover()
        finally:
            self.page.disarm()

    def linger(self):
        """The call may follow from a timer."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.page.fired, "the call is made", patience=self.LONGEST_TIMER)
        self.registered()

    def course(self, phase):
        """The phases of a life in which a call of `phase` fails."""
        return [name for name in self.PHASES if name in ("start", self.PHASES[1], phase, "stop")]

    def live(self, point, lingers=False):
        """A life from the start to the stop; it may stay in the phase until the call is made.
        Raises Defect."""
        self.prepare()
        self.lingers = lingers
        try:
            for phase in self.course(point.phase):
                self.go_through(phase, point, phase == point.phase)
                if self.has_ended:
                    break
            self.compare_memory()
        finally:
            self.end()

    def live_on(self, several, report):
        """One agent goes through a phase again and again, and a call of each point fails in turn.
        Calls report(point, problem or None)."""
        left = collections.deque(several)
        while left:
            self.prepare()
            point = None
            try:
                self.start()
                while left and not self.has_ended:
                    point = left.popleft()
                    self.go_through(point.phase, point, True)
                    report(point, None)
                if not self.has_ended:
                    self.go_through("stop", point, False)
                    self.compare_memory()
            except Exception as problem:  # a defect of the scenario is to be seen like all others
                report(point, problem)
            finally:
                self.end()

    def traces(self, phase, probing):
        """The calls of the phase, each time that a life without a failure goes through it."""
        self.prepare()
        if probing:
            self.patience = self.PROBING_PATIENCE
        found = []
        try:
            for name in self.course(phase):
                for _ in range(2 if name == phase and phase in self.REPEATED else 1):
                    if name == phase:
                        self.page.trace(probing and self.PROBING)
                    self.go_through(name, None, False)
                    if name == phase:
                        found.append(list(self.page.calls()))
                self.measure(name)
            self.limits["memory"] = max(self.page.live, self.limits.get("memory", 0))
        finally:
            self.end()
        return found

    def phases(self):
        return self.FAILING or self.PHASES

    def log(self):
        return self.agent.read_log()

    def end(self):
        self.agent.end()
