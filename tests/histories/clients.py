"""Clients of a registry that record what they ask and hear."""

import http.client
import json
import os
import random
import struct
import subprocess
import threading
import time

import history
from berth import BUILD, UnixConnection
from history import Call
from zk_client import BAD_VERSION, NO_NODE, NODE_EXISTS, ZkClient, ZkError

PATIENCE_S = 2.0  # for an answer of ZooKeeper
WRITER_MS = 4000  # libberth's, for each step of a call
REFUSALS = {NO_NODE: history.ABSENT, NODE_EXISTS: history.EXISTS, BAD_VERSION: history.VERSION}
ROOT = "/registry"

now = time.monotonic


def record_of(value):
    record = {"type": "JSONServiceRecord", "description": value, "external": [], "internal": []}
    return json.dumps(record).encode()


class Client(threading.Thread):
    """Takes a turn again and again, until finish()."""

    def __init__(self, name, paths, seed, pause_s):
        super().__init__(daemon=True)
        self.name = name
        self.paths = paths
        self.random = random.Random(f"{seed} {name}")
        self.pause_s = pause_s
        self.calls = []
        self.count = 0
        self.problem = None
        self.over = threading.Event()

    def run(self):
        try:
            while not self.over.wait(self.pause_s):
                self.turn()
        except Exception as error:
            self.problem = f"{self.name}: {error!r}"

    def new_value(self):
        self.count += 1
        return f"{self.name}.{self.count}"

    def record(self, kind, path, invoked, result, **fields):
        """`result`: UNKNOWN has no answer."""
        answered = None if result == history.UNKNOWN else now()
        self.calls.append(Call(self.name, kind, path, invoked, answered, result, **fields))

    def finish(self):
        self.over.set()
        self.join()


class ZooKeeperWriter(Client):
    """Speaks ZooKeeper's protocol. `hosts`: servers, one of which it takes at random."""

    def __init__(self, name, paths, seed, hosts):
        super().__init__(name, paths, seed, pause_s=0.02)
        self.hosts = hosts
        self.client = None

    def drop(self):
        if self.client:
            self.client.close()
        self.client = None

    def ask(self, kind, path, request, **fields):
        """`request`: returns what is known besides."""
        invoked = now()
        try:
            fields |= request()
            result = history.OK
        except (OSError, ValueError, struct.error):  # cut, or cut short
            self.drop()
            result = history.UNKNOWN
        except ZkError as error:
            result = REFUSALS.get(error.code, history.UNKNOWN)
        if kind != history.READ or result == history.OK:
            self.record(kind, path, invoked, result, **fields)
        return fields

    def read(self, path, **fields):
        def request():
            data, version = self.client.get_version(ROOT + path)
            return {"value": data and json.loads(data)["description"], "made": version}

        return self.ask(history.READ, path, request, **fields)

    def create(self, path, value):
        def request():
            self.client.create(ROOT + path, record_of(value))
            return {"made": 0}

        self.ask(history.CREATE, path, request, value=value)

    def set(self, path, value, version):
        def request():
            wanted = -1 if version is None else version
            return {"made": self.client.set(ROOT + path, record_of(value), wanted)}

        self.ask(history.SET, path, request, value=value, version=version)

    def delete(self, path, version):
        def request():
            self.client.delete(ROOT + path, -1 if version is None else version)
            return {}

        self.ask(history.DELETE, path, request, version=version)

    def connect(self):
        try:
            self.client = ZkClient(self.random.choice(self.hosts), PATIENCE_S)
        except (OSError, ValueError, struct.error):
            return False
        return True

    def turn(self):
        if not self.client and not self.connect():
            return
        path = self.random.choice(self.paths)
        version = self.read(path).get("made") if self.random.random() < 0.5 else None
        if not self.client:
            return
        kind = self.random.choice(["create", "set", "set", "set", "delete"])
        if kind == "create":
            self.create(path, self.new_value())
        elif kind == "set":
            self.set(path, self.new_value(), version)
        else:
            self.delete(path, version)

    def finish(self):
        super().finish()
        self.drop()


class LibraryWriter(Client):
    """Writes through libberth, in a process that may be killed."""

    def __init__(self, name, paths, seed, url):
        super().__init__(name, paths, seed, pause_s=0.02)
        self.command = [BUILD / "tests/histories/writer", url, str(WRITER_MS)]
        self.process = None

    def begin(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)}, text=True)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def ask(self, line):
        """What it answers; "" when it was killed."""
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()
        except OSError:
            return ""

    def turn(self):
        if not self.process:
            self.begin()
        verb, kind = self.random.choice(
            [("bind", history.CREATE), ("put", history.PUT), ("put", history.PUT),
             ("remove", history.REMOVE)])
        path = self.random.choice(self.paths)
        value = None if verb == "remove" else self.new_value()
        invoked = now()
        answer = self.ask(f"{verb} {path} {value or ''}\n")
        results = {"ok": history.OK, "RegistryUnavailable": history.NOTHING}
        if kind == history.CREATE:
            results["FileAlreadyExists"] = history.EXISTS
        result = results.get(answer, history.UNKNOWN)
        self.record(kind, path, invoked, result, value=value, again=True)
        if not answer:
            self.process.kill()
            self.end_killed()

    def end_killed(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass  # what was written to it last
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def kill(self):
        process = self.process
        if process:
            process.kill()

    def finish(self):
        super().finish()
        if self.process:
            self.end()


class Lookups(Client):
    """
    Looks paths and their directory up through an agent, and records which process answered:
    `agent.runs` counts them, and is counted up after the end of one and before the next one starts.
    """

    def __init__(self, name, setting, seed, agent):
        super().__init__(name, setting.paths, seed, pause_s=0.02)
        self.directory = setting.directory
        self.agent = agent
        self.connection = None
        self.process = 0

    def connect(self):
        """False when the agent is away."""
        while not self.connection:
            run, connection = self.agent.runs, UnixConnection(self.agent.socket)
            try:
                connection.connect()
            except OSError:
                return False
            if run == self.agent.runs:
                self.connection, self.process = connection, run
            else:
                connection.close()
        return True

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    @staticmethod
    def meaning(kind, status, body):
        """(result, value) of an answer."""
        content = json.loads(body)
        if status == 404 and content["title"] == "PathNotFound":
            return history.OK, None
        if status in (503, 504):
            return history.NOTHING, None
        if status != 200:
            return history.OK, f"status {status} {content}"
        if kind == history.LOOKUP:
            return history.OK, content["description"]
        return history.OK, {path: record["description"] for path, record in content.items()}

    def look(self, kind, path, headers=None, bound=None):
        """Returns the Call, or None without an answer."""
        if not self.connect():
            return None
        invoked = now()
        try:
            request = "resolve" if kind == history.LOOKUP else "records"
            self.connection.request("GET", f"/v1/{request}{path}", headers=headers or {})
            answer = self.connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self.drop()
            return None
        result, value = self.meaning(kind, answer.status, body)
        call = Call(
            f"{self.name}.{self.process}", kind, path, invoked, now(), result, value, bound=bound,
            cache=answer.headers["X-Cache"], age=int(answer.headers["Age"] or 0))
        self.calls.append(call)
        return call

    def turn(self):
        chance = self.random.random()
        path = self.random.choice(self.paths)
        if chance < 0.2:
            self.look(history.RECORDS, self.directory)
        elif chance < 0.3:
            self.look(history.LOOKUP, path, {"Cache-Control": "max-age=0"}, bound=0)
        elif chance < 0.35:
            self.look(history.LOOKUP, path, {"Cache-Control": "no-cache"}, bound=0)
        else:
            self.look(history.LOOKUP, path)

    def finish(self):
        super().finish()
        self.drop()
