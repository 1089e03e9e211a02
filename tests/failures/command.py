"""Programs that end by themselves, one call of which fails: the verbs of `berth`, and the NSS
module in getent."""

import json
import pathlib
import re
import shutil
import subprocess

import life
import points
from berth import BUILD, Agent, berth, wait_until
from names import free_port

PATH = "/services/web"
ID = "container_1_0001_01_000001"
RECORD = {
    "type": "JSONServiceRecord", "description": "one call fails", "internal": [], "yarn:id": ID,
    "yarn:persistence": "container",
    "external": [{"api": "a", "addressType": "host/port", "protocolType": "tcp",
        "addresses": [{"host": "10.0.0.1", "port": "80"}]}],
}
ADDRESSES = ["h:1", "[::1]:2", "h:3"]
PATIENCE_S = 30
NOT_THERE = 3  # what a verb says of a path that has nothing
MOVING = re.compile(r"\d+(\.\d+)?( \w+ ago| m?s\b| min\b)?|\bnow\b")  # ages and times


class Program:
    """A step runs the program once; what it does then is wholly done, or the program says why
    not."""

    PROGRAM = "berth"
    REPEATED = ()

    def __init__(self, folder, library, health):
        self.folder = pathlib.Path(folder)
        self.library = library
        self.agent = None
        self.expected = {}

    # ---- the stage: an agent that nothing happens to, and its registry ----

    def open(self):
        self.folder.mkdir(parents=True)
        self.page = points.Page(self.folder, self.PROGRAM)
        self.registry = f"dir:{self.folder}/registry"
        self.file = self.folder / "record.json"
        self.file.write_text(json.dumps(RECORD))
        self.bind()
        self.agent = Agent(self.folder / "agent", self.registry)
        sections = self.agent.component(damping="no")
        sections["registry"] = {"update_interval": "0s"}
        sections["check heart"] = {"type": "ttl", "interval": "1h"}
        sections["endpoint port"] = {"api": "urn:port", "protocol": "tcp",
            "address_type": "host/port", "dynamic": "yes"}
        sections["dns"] = {"listen": f"127.0.0.1:{free_port()}"}
        self.agent.write_config(sections)
        self.agent.start()
        self.agent.request("PUT", "/v1/agent/checks/heart", {"status": "passing"})
        self.agent.wait_state("registered")

    def end(self):
        if self.agent:
            self.agent.end()
            self.agent = None

    def log(self):
        return self.agent.read_log()

    def bind(self):
        if berth("--registry", self.registry, "bind", "-p", "--overwrite", PATH, "--file",
                self.file).returncode:
            raise life.Defect("the record cannot be written")

    def ensure(self):
        if not self.is_bound(True):
            self.bind()

    def remove(self):
        shutil.rmtree(f"{self.folder}/registry{PATH}", ignore_errors=True)

    def stored(self):
        try:
            return json.loads(pathlib.Path(f"{self.folder}/registry{PATH}/_record").read_text(
                encoding="utf-8"))
        except FileNotFoundError:
            return None

    # ---- what a step may leave ----

    def is_bound(self, done):
        stored = self.stored()
        whole = stored and all(stored[name] == RECORD[name] for name in ("description", "yarn:id",
            "yarn:persistence")) and (
            stored["external"][0]["addresses"] == RECORD["external"][0]["addresses"])
        return whole if done else whole or stored is None

    def is_removed(self, done):
        return self.stored() is None if done else self.is_bound(False)

    def is_unchanged(self, _done):
        return self.is_bound(True)

    def is_drained(self, done):
        """A drain that is to end by itself does."""
        drain = self.agent.status()["drain"]
        return bool(drain["until"]) if drain["active"] else not done

    def undrain(self):
        self.ensure()
        self.agent.request("DELETE", "/v1/agent/drain")

    def supplied(self):
        """How many addresses the component's record has of each such endpoint; None without a
        record."""
        try:
            stored = json.loads(pathlib.Path(
                f"{self.folder}/registry{Agent.PATH}/_record").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return [len(endpoint["addresses"]) for endpoint in stored["external"]
            if endpoint["api"] == "urn:port"]

    def is_supplied(self, done):
        """All addresses, or those of before."""
        if done:
            wait_until(lambda: self.supplied() == [len(ADDRESSES)],
                "the addresses are in the record")
        return self.supplied() in ([len(ADDRESSES)], [])

    def withdraw(self):
        self.undrain()
        self.agent.request("DELETE", "/v1/agent/endpoints/port")
        wait_until(lambda: self.supplied() == [], "no addresses are there")
        wait_until(lambda: self.agent.status()["components"][0]["settled"], "nothing more changes")

    def steps(self):
        """{name: (arguments, what has to be so before, how it may be afterwards)}"""
        registry = ["--registry", self.registry]
        agent = ["--socket", self.agent.socket]
        nothing = self.is_unchanged
        return {
            "bind": ([*registry, "bind", "-p", PATH, "--file", self.file], self.remove,
                self.is_bound),
            "rm": ([*registry, "rm", PATH], self.bind, self.is_removed),
            "purge": ([*registry, "purge", "--id", ID, "--persistence", "container", "--under",
                PATH], self.bind, self.is_removed),
            "resolve": ([*registry, "resolve", PATH], self.ensure, nothing),
            "ls": ([*registry, "ls", "/services"], self.ensure, nothing),
            "find": ([*registry, "--json", "find", "--under", "/services"], self.ensure, nothing),
            "endpoints": ([*registry, "endpoints", "--plain", PATH], self.ensure, nothing),
            "render": ([*registry, "render", "-f", "haproxy", "/services"], self.ensure, nothing),
            "watch": ([*registry, "--json", "watch", "--once", "-r", "/services"], self.ensure,
                nothing),
            "asked": ([*agent, "--json", "resolve", PATH], self.ensure, nothing),
            "followed": ([*agent, "watch", "--once", PATH], self.ensure, nothing),
            "status": ([*agent, "--json", "status"], self.withdraw, nothing),
            "drain": ([*agent, "drain", "--reason", "a test", "--for", "1h"], self.undrain,
                self.is_drained),
            "supply": ([*agent, "supply", "port", *ADDRESSES], self.withdraw, self.is_supplied),
            "report": ([*agent, "report", "heart", "passing", "--message", "fine"], self.undrain,
                nothing),
        }

    def command(self, arguments):
        return [BUILD / "berth", *arguments], {}

    # ---- one run ----

    def judge(self, result):
        """Whether the program has done its work."""
        if result.returncode == 0:
            return True
        if result.returncode < 0 or result.returncode == NOT_THERE or not re.search("^berth: .",
                result.stderr, re.M):
            raise life.Defect(f"it ended with {result.returncode}: {result.stdout}{result.stderr}")
        return False

    def run_step(self, name, point=None):
        arguments, before, right = self.steps()[name]
        if before:
            before()
        if point:
            self.page.arm(point)
        else:
            self.page.trace(False)
        command, environment = self.command(arguments)
        environment = {**points.environment(self.page, self.library), **environment}
        try:
            result = subprocess.run(
                list(map(str, command)), env=environment, capture_output=True, text=True,
                timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise life.Defect("it does not end") from None
        finally:
            self.page.disarm()
        done = self.judge(result)
        shown = re.sub(" +", " ", MOVING.sub("0", result.stdout))
        if done and shown != self.expected.setdefault(name, shown):
            raise life.Defect(f"it says that it has succeeded, and writes {result.stdout!r}")
        if not right(done):
            raise life.Defect(
                f"it ended with {result.returncode}, and the registry or the agent has something "
                f"else: {result.stderr}")

    # ---- as the lives do it ----

    def phases(self):
        if not self.agent:
            self.open()
        return list(self.steps())

    def traces(self, phase, probing):
        del probing  # it ends in its own way without memory, which only a run shows
        self.phases()
        self.run_step(phase)
        return [list(self.page.calls())]

    def live(self, point, lingers=False):
        del lingers  # it has no timer
        if point.phase not in self.expected:
            self.traces(point.phase, False)
        self.run_step(point.phase, point)


class Getent(Program):
    """glibc asks the module: the answer is whole, or empty."""

    PROGRAM = "getent"

    def steps(self):
        nothing = self.is_unchanged
        return {
            "ahosts": (["ahosts", "web.services.berth"], self.ensure, nothing),
            "hosts": (["hosts", "web.services.berth"], self.ensure, nothing),
            "reverse": (["hosts", "10.0.0.1"], self.ensure, nothing),
        }

    def command(self, arguments):
        return ["getent", "-s", "hosts:berth", *arguments], {"BERTH_SOCKET": str(self.agent.socket),
            "LD_LIBRARY_PATH": str(BUILD)}

    def judge(self, result):
        if result.returncode not in (0, 1, 2):
            raise life.Defect(f"it ended with {result.returncode}: {result.stderr}")
        return result.returncode == 0

    def run_step(self, name, point=None):
        """A call that the module did not make is glibc's affair: 2.36 crashes or hangs without
        memory at some places."""
        try:
            super().run_step(name, point)
        except life.Defect:
            if not point or any("libnss_berth" in frame for frame in self.page.frames()):
                raise
