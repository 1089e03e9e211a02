"""One life of an agent on a directory, during which one call fails."""

import contextlib
import http.client
import http.server
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
ENDPOINT = {"api": "other", "addressType": "host/port", "protocolType": "tcp", "addresses": [{"host": "127.0.0.1", "port": "80"}]}
RECORD = {"type": "JSONServiceRecord", "description": "other", "external": [ENDPOINT], "internal": []}
LIBRARY_RECORD = {
    "type": "JSONServiceRecord", "description": "library", "internal": [],
    "external": [{"api": "a", "addressType": "uri", "protocolType": "http", "addresses": [{"uri": "http://127.0.0.1/"}]}],
}
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
    PROGRAM = "berthd"
    SESSION_TIMEOUT = "5s"

    def __init__(self, folder, library, health):
        self.folder = pathlib.Path(folder)
        self.library = library
        self.health = health
        self.descriptors = None

    # ---- the stage ----

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.page = points.Page(self.folder, self.PROGRAM)
        self.registry = self.make_registry()
        self.agent = Agent(self.folder, self.registry, session_timeout=self.SESSION_TIMEOUT)
        self.configure("a test")
        self.allowed = [self.expected("a test")]

    def make_registry(self):
        self.store = Directory(self.folder)
        return self.store.url

    def configure(self, description):
        self.agent.write_config(self.sections(description))

    def sections(self, description):
        sections = self.agent.component(description=description, damping="no")
        quick = {"interval": "1h", "fast_interval": "20ms", "down_interval": "20ms", "timeout": "20s"}
        sections["check alive"].update(quick)
        sections["check web"] = {"type": "http", "target": f"http://127.0.0.1:{self.health}/", "expect_status": "204", **quick}
        sections["agent"] = {"log_level": "info"}
        sections["registry"] = {"update_interval": "1ms"}
        sections["cache"] = {"warm": "/services/**"}
        sections["output others"] = {"from": "/services/**", "format": "lines", "path": self.folder / "output", "quiet": "1ms"}
        return sections

    @staticmethod
    def expected(description):
        return {"description": description, "yarn:id": "container_1_0001_01_000001", "yarn:persistence": "container"}

    def matches(self, record):
        return any(all(record.get(key) == value for key, value in wanted.items()) for wanted in self.allowed)

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
            return wait_until(tried, what, patience=20)
        except AssertionError as error:
            raise Defect(str(error)) from None

    def ask(self, path):
        """The body of an answer, that is 200 within the second try: one call fails once."""

        def answered():
            answer = self.agent.get(path)
            return answer if answer.status == 200 else None

        return self.until(answered, f"{path} answers 200")

    def registered(self):
        self.until(lambda: self.agent.component_state() == "registered", "the component is registered")
        self.right()

    def stored(self):
        return json.loads(pathlib.Path(f"{self.folder}/registry{Agent.PATH}/_record").read_text(encoding="utf-8"))

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
        environment = {**points.environment(self.page, self.library), "BERTH_LIBEXECDIR": str(BUILD)}
        self.agent.start(wait=False, env=environment if failing else {**environment, "LD_PRELOAD": ""})

    def start(self):
        self.launch(True)
        self.registered()

    def look_up(self):
        other = self.folder / "other.json"
        other.write_text(json.dumps(RECORD))
        if berth("--registry", self.registry, "bind", "-p", OTHER, "--file", other, "--overwrite").returncode:
            raise Defect("another program cannot write")
        for path in ("/v1/list/services", "/v1/records/services", f"/v1/endpoints{Agent.PATH}", "/v1/find?under=/services",
                     f"/v1/stat{Agent.PATH}", "/v1/agent/checks", "/v1/agent/history", "/metrics", "/ready"):
            self.ask(path)
        self.until(lambda: self.agent.get(f"/v1/resolve{OTHER}").json.get("description") == "other", "the other record is found")
        self.until(lambda: (self.folder / "output").exists(), "the output is written")
        self.until(self.streams, "a stream begins")
        self.until(lambda: self.agent.request("POST", "/v1/agent/checks/alive/run").status == 200, "a check runs on demand")
        self.registered()

    def streams(self):
        connection = UnixConnection(self.agent.socket, timeout=2)
        with contextlib.closing(connection):
            connection.request("GET", f"/v1/watch{OTHER}", headers={"Accept": "application/x-ndjson"})
            answer = connection.getresponse()
            return answer.status == 200 and json.loads(answer.readline())["type"] == "SUBSCRIBED"

    def reload(self):
        self.allowed.append(self.expected("another text"))
        self.configure("another text")
        self.until(lambda: self.agent.request("POST", "/v1/agent/reload").status == 200, "a reload succeeds")
        self.allowed.pop(0)
        self.until(lambda: self.agent.get(f"/v1/resolve{Agent.PATH}").json.get("description") == "another text", "the record is new")
        self.registered()

    def upgrade(self):
        before = self.agent.starts()
        self.agent.signal(signal.SIGUSR2)

        def done():
            return self.agent.starts() > before or "upgrading -> running" in self.agent.read_log()

        self.until(done, "the agent upgrades, or says that it does not")
        if self.agent.starts() == before:
            self.agent.signal(signal.SIGUSR2)
            self.until(lambda: self.agent.starts() > before, "the next upgrade succeeds")
        self.registered()

    def stop(self):
        if not self.ended:
            self.compare_descriptors()
        self.agent.signal(signal.SIGTERM)
        try:
            status = self.agent.process.wait(30)
        except subprocess.TimeoutExpired:
            raise Defect("it does not stop") from None
        if status:
            raise Ended
        if self.store.identity() is not None:
            raise Defect("the record is still there")

    def open_descriptors(self):
        """The fewest of some answers: connections and commands may be about to end."""
        text = self.ask("/metrics").body.decode()
        found = re.search(r"^process_open_fds (\S+)", text, re.M)
        return int(float(found.group(1))) if found else None

    def compare_descriptors(self):
        """With a life in which nothing failed, whose number is measured first."""
        if self.descriptors is None:
            self.descriptors = min(self.open_descriptors() for _ in range(5))
        self.until(lambda: (self.open_descriptors() or self.descriptors + 1) <= self.descriptors, f"it has {self.descriptors} descriptors open again")

    # ---- one life ----

    def judge_end(self, phase, point):
        """An agent may end in two ways: without memory, and when it cannot start; it says why."""
        status = self.agent.process.wait()
        last = self.agent.read_log().splitlines()[-40:]
        if point and point.kind in ("alloc", "mmap") and status == -signal.SIGABRT and any("out of memory" in line for line in last):
            return
        if status > 0 and phase in ("start", "upgrade", "stop") and any(not QUIET.match(line) for line in last):
            return
        raise Defect(f"it ended with {status} while it was to {phase.replace('_', ' ')}")

    def recover(self):
        """What a supervisor does."""
        self.launch(False)
        self.registered()
        if len(self.PHASES) > 2:
            getattr(self, self.PHASES[1])()
        self.stop()

    def log(self):
        return self.agent.read_log()

    def end(self):
        self.agent.end()

    def run(self, point=None):
        """{phase: {kind: calls}}; raises Defect."""
        self.prepare()
        counts = {}
        self.ended = False
        try:
            for phase in self.PHASES:
                before = self.page.counts()
                if point and point.phase == phase:
                    self.page.arm(point.kind, point.number, point.error)
                try:
                    getattr(self, phase)()
                except Ended:
                    self.page.disarm()
                    self.ended = True
                    self.judge_end(phase, point)
                    self.recover()
                    break
                self.page.disarm()
                if not self.FAILING or phase in self.FAILING:
                    counts[phase] = {kind: count - before[kind] for kind, count in self.page.counts().items()}
        except Ended:
            raise Defect(f"it ended with {self.agent.process.wait()}, although no call failed") from None
        finally:
            self.agent.end()
        return counts
