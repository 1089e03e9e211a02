"""Real agents for tests: berthd in a directory of its own, asked over its socket, ended with the
test."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ.get("BERTH_BUILD_DIR", "build")).resolve()
# The build's programs where every user may run them: tests/run puts them there.
PROGRAMS = pathlib.Path(os.environ.get("BERTH_PROGRAMS_DIR", BUILD)).resolve()
PATIENCE = 60.0  # seconds; for what takes a fraction of one on an idle machine
# what one round of waiting counts at most: when all was stopped, nobody could do what is waited for
LONGEST_TURN = 0.5
SHORTEST_REST, LONGEST_REST = 0.01, 0.05


def amount(whole):
    """How much a test does. A sanitized build is several times slower and looks for other mistakes:
    it does a fifth."""
    return whole // 5 if os.environ.get("BERTH_SANITIZER") else whole


def wait_until(condition, what, patience=PATIENCE):
    """Waits until condition() is true and returns its value; fails the test with `what`
    otherwise."""
    left = patience
    began = before = time.monotonic()
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        left -= min(now - before, LONGEST_TURN)
        before = now
        if left < 0:
            raise AssertionError(f"after {patience:g} s it still is not so that {what}")
        # Many tests wait at a time: a long wait, and a question that costs much, are asked less.
        rest = max(SHORTEST_REST, now - asked, (now - began) / 20)
        time.sleep(min(rest, LONGEST_REST))


def state_of(pid):
    """R, S, Z …; Z also for a process that is gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "Z"
    return stat.rpartition(")")[2].split()[0]


def has_ended(pid):
    """The process is gone, or a zombie: an orphan stays one until its new parent looks for it, and
    the runner of the tests looks when one of its programs ends."""
    return state_of(pid) == "Z"


def descriptors_of(pid):
    """What a process has open, but for what it closes meanwhile."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def log_writers(pid):
    """The processes berth-log below one."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            if pathlib.Path(f"/proc/{child}/comm").read_text() == "berth-log\n":
                yield int(child)
            else:
                yield from log_writers(child)
    except OSError:
        return  # one that has just ended


def wait_for_log(process):
    """Until all is written that the program below has logged: berth-log sleeps then."""
    if process and process.poll() is None:
        # The kernel's list may lack a child if another one ends just then.
        writers = {pid for _ in range(3) for pid in log_writers(process.pid)}
        wait_until(lambda: all(state_of(pid) in "SZ" for pid in writers), "its log is written")


FAILS = "/bin/sh -c 'exit 1'"


def wake_ups(pid):
    """How often the threads of a process have slept until now."""
    count = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            name, _, value = line.partition(":")
            count += int(value) if name == "voluntary_ctxt_switches" else 0
    return count


def exists(path):
    """A health command that passes while a file exists."""
    return f"/bin/sh -c 'test -e {path} || exit 2'"


class Answer:
    """An HTTP answer, read whole."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=PATIENCE):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def pack_ini(sections):
    """{"agent": {"key": "value"}} as an INI file."""
    lines = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {value}" for key, value in options.items()]
        lines.append("")
    return "\n".join(lines)


class Agent:
    """One berthd. `sections` are added to, or replace options of, a configuration that works by
    itself."""

    PATH = "/users/joe/org-example-web/test/components/web-1"

    def __init__(self, folder, registry, sections=None, command=(), session_timeout="5s"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.registry = registry
        self.session_timeout = session_timeout
        self.socket = self.folder / "berth.sock"
        self.config = self.folder / "berth.ini"
        self.log = self.folder / "log"
        self.command = list(command)
        self.program = PROGRAMS / "berthd"
        self.process = None
        self.write_config(sections or {})

    def write_config(self, sections):
        config = {
            "agent": {"socket": self.socket, "state_dir": self.folder / "state",
                "log_level": "debug"},
            "registry": {"url": self.registry, "session_timeout": self.session_timeout},
        }
        for section, options in sections.items():
            config.setdefault(section, {}).update(options)
        # At once, as whoever changes the configuration of a running agent should.
        written = self.config.with_suffix(".new")
        written.write_text(pack_ini(config))
        written.replace(self.config)

    def component(self, check="true", name="", **options):
        """Sections of one component with an endpoint and a fast command check."""
        suffix = f" {name}" if name else ""
        belongs = {"component": name} if name else {}
        sections = {
            f"component{suffix}": {
                "user": "joe",
                "service_class": "org-example-web",
                "instance": "test",
                "name": name or "web-1",
                "id": "container_1_0001_01_000001",
                "description": "a test",
                **options,
            },
            f"endpoint rest{name}": {
                "api": "http://example.org/rest/v1",
                "protocol": "REST",
                "address_type": "uri",
                "address": "http://127.0.0.1:8080/",
                **belongs,
            },
        }
        if check:
            sections[f"check alive{name}"] = {
                "type": "command",
                "command": check,
                "interval": "100ms",
                "timeout": "60s",  # a check that only stood still must not fail
                **belongs,
            }
        return sections

    def start(self, wait=True, **keywords):
        environment = {**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS)}
        arguments = ["--", *self.command] if self.command else []
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "-c", self.config, *arguments],
                env=keywords.pop("env", environment),
                stdin=keywords.pop("stdin", subprocess.DEVNULL), stdout=log,
                stderr=keywords.pop("stderr", log), **keywords,
            )
        if wait:
            wait_until(self.answers, f"the agent answers; its log:\n{self.read_log()}")
        return self

    def verdict(self, *options):
        """What `berthd -t` says of the configuration; a CompletedProcess."""
        return subprocess.run([self.program, "-t", *options, "-c", self.config],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS)})

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(
                f"the agent ended with {self.process.returncode}:\n{self.read_log()}")
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.get("/live").status == 200
        return False

    def read_log(self):
        wait_for_log(self.process)
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def request(self, method, path, body=None, headers=None):
        connection = UnixConnection(self.socket)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body),
                headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers={name.replace("_", "-"): value
            for name, value in headers.items()})

    def worker(self):
        """The pid of the agent's ZooKeeper worker, or None while there is none."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                encoding="ascii") as children:
            for pid in children.read().split():
                try:
                    with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                        if name.read().startswith("berth-zookeeper"[:15]):
                            return int(pid)
                except (FileNotFoundError, ProcessLookupError):
                    continue  # a health command that has ended, before the file was opened or since
        return None

    def expire_session(self, server):
        """Ends the agent's session by a second client with its id and password; returns when the
        agent has another one."""
        text = (self.folder / "state" / "session").read_text()
        session = json.loads(text.split("\n", 1)[1])["session"]

        def has_another():
            if self.status()["registry"]["session"] not in ("", session["id"]):
                return True
            # The agent may take it back between the other client's connect and its close.
            server.probe("kill-session", session["id"], session["password"])
            return False

        wait_until(has_another, "the agent has another session")

    def status(self):
        return self.get("/v1/agent").json

    def component_state(self, name=None):
        components = self.status()["components"]
        if name is None:
            return components[0]["state"]
        return next(item["state"] for item in components if item["name"] == name)

    def check_named(self, name):
        return next(item for item in self.get("/v1/agent/checks").json if item["name"] == name)

    def wait_state(self, state, name=None):
        try:
            wait_until(lambda: self.component_state(name) == state, f"the component is {state}")
        except AssertionError as error:
            raise AssertionError(
                f"{error}; {self.status()['components']}\n{self.read_log()[-4000:]}") from None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Waits for the end and returns the exit status."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the agent does not end:\n{self.read_log()[-4000:]}") from None

    def starts(self):
        """How often a program began to run here, by its log."""
        return self.read_log().count(" runs, pid ")

    def upgrade(self):
        """USR2, and waits until the new program runs."""
        before = self.starts()
        self.signal(signal.SIGUSR2)
        wait_until(lambda: self.starts() > before, "the new program runs")

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        writers = list(log_writers(self.process.pid))
        self.process.kill()
        self.process.wait()
        wait_until(lambda: all(map(has_ended, writers)), "its log is written")

    def end(self):
        """For the clean-up: whatever state it is in."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def preloaded(**variables):
    """An environment for a program that is to run with tests/support/preload.c and these variables
    of it."""
    library = BUILD / "tests/support/preload.so"
    sanitizer = os.environ.get("ASAN_OPTIONS", "")
    return {
        **os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS), "LD_PRELOAD": str(library),
        "ASAN_OPTIONS": f"{sanitizer}{':' if sanitizer else ''}verify_asan_link_order=0",
        **variables,
    }


def berth(*arguments, **keywords):
    """Runs the CLI; returns its CompletedProcess with text output."""
    environment = {**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS),
        **keywords.pop("environment", {})}
    return subprocess.run(
        [PROGRAMS / "berth", *map(str, arguments)], env=environment, capture_output=True, text=True,
        timeout=PATIENCE, check=False, stdin=keywords.pop("stdin", subprocess.DEVNULL), **keywords,
    )


def service_record(host, port, protocol="http", **attributes):
    return {
        "type": "JSONServiceRecord",
        "external": [
            {
                "api": "http://example.org/rest",
                "addressType": "host/port",
                "protocol": protocol,
                "addresses": [{"host": host, "port": str(port)}],
            }
        ],
        "yarn:persistence": "permanent",
        **attributes,
    }


class AgentTest(unittest.TestCase):
    """A test with a folder of its own; agents that it starts end with it."""

    session_timeout = "5s"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.registry = f"dir:{self.folder}/registry"

    def agent(self, name="agent", command=(), registry=None, **sections):
        agent = Agent(self.folder / name, registry or self.registry, sections, command,
            self.session_timeout)
        self.addCleanup(agent.end)
        return agent

    def web_agent(self, name="agent", check="true", extra=None, command=(), registry=None,
            **options):
        """An agent with one component, not started yet."""
        agent = self.agent(name, command, registry)
        agent.sections = agent.component(check, **options)
        for section, more in (extra or {}).items():
            agent.sections.setdefault(section, {}).update(more)
        agent.write_config(agent.sections)
        return agent

    def in_registry(self, path=Agent.PATH):
        """The record as another process sees it, past any agent; None when there is none."""
        result = berth("--registry", self.registry, "--format", "json", "resolve", path)
        if result.returncode == 3:
            return None
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def put(self, path, content, registry=None):
        file = self.folder / "record.json"
        file.write_text(json.dumps(content))
        result = berth("--registry", registry or self.registry, "bind", "-p", path, "--file", file,
            "--overwrite")
        self.assertEqual(result.returncode, 0, result.stderr)

    def remove(self, path, registry=None):
        result = berth("--registry", registry or self.registry, "rm", "-r", path)
        self.assertEqual(result.returncode, 0, result.stderr)
