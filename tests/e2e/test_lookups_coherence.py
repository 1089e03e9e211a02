"""The cache against a busy ZooKeeper: readers never go back in time, replayed streams are the tree,
and so is the cache."""

import json
import multiprocessing
import os
import random
import time
import unittest

from berth import PATIENCE, AgentTest, UnixConnection, wait_until
from streams import NDJSON, RECORDIO, Stream
from zk_client import ZkClient
from zookeeper import ZooKeeper

TREE = "/users/joe/web"
READERS = 8
PATHS = 150
WINDOW = 16
LOOKUPS = 1000  # at least, between the first change and the last
CHANGES = int(os.environ.get("BERTH_CHANGES", "20000"))


def path_of(index):
    return f"{TREE}/n{index % 10}/c{index}" if index >= 10 else f"{TREE}/n{index}"


def record_of(version):
    return json.dumps({"type": "JSONServiceRecord", "external": [], "internal": [],
        "version": version}).encode()


def read_for_ever(socket_path, seed, stop, counts, outcome):
    """Looks up paths and whole levels over one connection, and counts; what it saw last of each
    path must never get older."""
    choice = random.Random(seed)
    connection = UnixConnection(socket_path)
    newest = {}

    def get(target):
        connection.request("GET", target)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (200, 404), (answer.status, body)
        return json.loads(body) if answer.status == 200 else None

    def see(path, record):
        assert record["version"] >= newest.get(path,
            0), f"{path}: {record['version']} after {newest[path]}"
        newest[path] = record["version"]

    try:
        while not stop.is_set():
            index = choice.randrange(PATHS)
            if choice.random() < 0.1:
                for path, record in (get(f"/v1/records{TREE}/n{index % 10}") or {}).items():
                    see(path, record)
            else:
                record = get(f"/v1/resolve{path_of(index)}")
                if record:
                    see(path_of(index), record)
            counts[seed] += 1
        outcome.put(None)
    except Exception as error:
        outcome.put(repr(error))
    finally:
        connection.close()


def versions(tree):
    return {path: record["version"] for path, record in tree.items() if record}


def replay_until(socket_path, accept, goal, outcome):
    """Replays a stream until its tree is what comes out of `goal`, which is empty at
    first."""
    wanted = None
    try:
        with Stream(socket_path, f"/v1/watch{TREE}?recursive=yes", accept) as stream:
            stream.next()
            outcome.put("subscribed")
            while wanted is None or versions(stream.tree) != wanted:
                if wanted is None and not goal.empty():
                    wanted = goal.get()
                    continue
                stream.next(heartbeats=True, patience=60 if wanted is None else 20)
                count = stream.sequence
            outcome.put(count)
    except BaseException as error:
        differing = sorted(set(versions(stream.tree).items()) ^ set(
            wanted.items())) if wanted else ""
        outcome.put(f"{accept}: {error!r} {differing}")


class Writer:
    """Random creations, changes and deletions, many under way; `tree` is what remains."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.client = None
        with ZkClient(hosts) as client:
            client.make(f"/registry{TREE}")
        self.random = random.Random(7)
        self.tree = {}
        self.version = 0

    def change(self):
        index = self.random.randrange(PATHS)
        path = path_of(index)
        self.version += 1
        if path not in self.tree:
            if index >= 10 and path_of(index % 10) not in self.tree:
                return self.change()
            self.client.send_create(f"/registry{path}", record_of(self.version))
            self.tree[path] = self.version
        elif index >= 10 and self.random.random() < 0.2:
            self.client.send_delete(f"/registry{path}")
            del self.tree[path]
        else:
            self.client.send_set(f"/registry{path}", record_of(self.version))
            self.tree[path] = self.version
        return None

    def run(self, changes):
        # A session of its own: nothing keeps one alive between two runs.
        with ZkClient(self.hosts) as self.client:
            self.make(changes)

    def make(self, changes):
        for _ in range(min(WINDOW, changes)):
            self.change()
        for number in range(changes):
            self.client.receive()
            if number + WINDOW < changes:
                self.change()


class Coherence(AgentTest):
    def setUp(self):
        super().setUp()
        # A server that is stopped for a while must not seem to be away: then what was never
        # looked up is not known.
        self.zookeeper = ZooKeeper("maxSessionTimeout=60000\n")
        self.addCleanup(self.zookeeper.stop)
        self.writer = Writer(self.zookeeper.hosts)
        self.server = self.agent(registry=self.zookeeper.url)
        self.server.write_config({
            "agent": {"log_level": "warn", "heartbeat_interval": "500ms"},
            "registry": {"session_timeout": "60s"},
        })
        self.server.start()
        wait_until(lambda: self.server.get("/v1/list/").status == 200, "the agent is connected")
        self.fork = multiprocessing.get_context("fork")
        self.stop = self.fork.Event()

    def start(self, function, *arguments):
        process = self.fork.Process(target=function, args=(self.server.socket, *arguments),
            daemon=True)
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(process.terminate)

    def test_under_random_changes(self):
        read, replayed = self.fork.Queue(), self.fork.Queue()
        goals = [self.fork.Queue(), self.fork.Queue()]
        counts = self.fork.RawArray("l", READERS)
        for seed in range(READERS):
            self.start(read_for_ever, seed, self.stop, counts, read)
        for accept, goal in zip((RECORDIO, NDJSON), goals):
            self.start(replay_until, accept, goal, replayed)
        for _ in goals:
            self.assertEqual(replayed.get(timeout=60), "subscribed")
        begin = time.monotonic()
        self.writer.run(CHANGES)
        changes = CHANGES
        while sum(counts) <= LOOKUPS and read.empty() and time.monotonic() < begin + PATIENCE:
            self.writer.run(CHANGES // 10)
            changes += CHANGES // 10
        answers = sum(counts)
        expected = self.writer.tree
        took = time.monotonic() - begin
        for goal in goals:
            goal.put(expected)
        events = [replayed.get(timeout=120) for _ in goals]
        for count in events:
            self.assertIsInstance(count, int, count)
        self.stop.set()
        for _ in range(READERS):
            self.assertIsNone(read.get(timeout=60))
        self.assertGreater(answers, LOOKUPS)
        print(f"# {changes} changes in {took:.1f} s, {answers} lookups by {READERS} readers and "
              f"{events} events meanwhile")
        for index in range(PATHS):
            path = path_of(index)
            wait_until(
                lambda: self.server.get(f"/v1/resolve{path}").json.get("version")
                == expected.get(path),
                f"{path} is {expected.get(path)} in the cache",
            )


if __name__ == "__main__":
    unittest.main()
