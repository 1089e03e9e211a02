"""Connections to ZooKeeper that are cut, slow or lead nowhere, servers that have gone, and sessions
that end."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

from berth import BUILD, Agent, AgentTest, preloaded, wait_until
from figures import figure, seconds
from lifecycle import ServerWitness
from ports import reserve_port
from rights import needs
from wire import DOWN, UP, Wire, deafen
from zookeeper import ZooKeeper

OTHER = "/services/other"


def others_record(number):
    return {"type": "JSONServiceRecord", "description": str(number)}


class Reader(threading.Thread):
    """Looks OTHER up all the time. A lie: a HIT with a value that had been replaced more than
    `confirm` before the question."""

    def __init__(self, agent, confirm):
        super().__init__(daemon=True)
        self.agent, self.confirm = agent, confirm
        self.replaced_at = {}  # value: when another one had been written
        self.answers, self.failures, self.lies, self.stale_at = 0, [], [], None
        self.done = threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.005):
            asked_at = time.monotonic()
            answer = self.agent.get(f"/v1/resolve{OTHER}")
            self.answers += 1
            if answer.status != 200:
                self.failures.append((answer.status, answer.body))
                continue
            value, kind = answer.json["description"], answer.headers["X-Cache"]
            replaced_at = self.replaced_at.get(value)
            true_at = asked_at - float(answer.headers["Age"]) - 1  # whole seconds, rounded down
            bound = asked_at - self.confirm if kind == "HIT" else true_at
            if replaced_at and replaced_at < bound:
                self.lies.append((kind, value, asked_at - replaced_at, answer.headers["Age"]))
            if kind == "STALE" and self.stale_at is None:
                self.stale_at = time.monotonic()

    def finish(self):
        self.done.set()
        self.join()
        return self


class LinkTest(AgentTest):
    session_s = 6

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = ZooKeeper("maxSessionTimeout=60000\n")
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        # Tests share the server: each begins with an empty registry.
        self.root = uuid.uuid4().hex
        self.registry = f"zookeeper://{self.server.hosts}/{self.root}"
        self.node = f"/{self.root}{Agent.PATH}"
        self.values = 0

    def on(self, hosts, name="agent", **options):
        """An agent that reaches the server by `hosts`."""
        extra = {"registry": {"session_timeout": f"{self.session_s}s"}, "cache": {"warm": OTHER}}
        return self.web_agent(name, registry=f"zookeeper://{hosts}/{self.root}", extra=extra,
            **options)

    def write_other(self, reader=None):
        self.values += 1
        self.put(OTHER, others_record(self.values))
        if reader:
            reader.replaced_at[str(self.values - 1)] = time.monotonic()

    def witness(self):
        witness = ServerWitness(self.server, self.node)
        self.addCleanup(witness.end)
        return witness

    def reader(self, agent):
        wait_until(lambda: agent.get(f"/v1/resolve{OTHER}").headers["X-Cache"] == "HIT",
            "the cache is warm")
        reader = Reader(agent, self.session_s / 3)
        self.addCleanup(reader.finish)
        return reader

    def registered(self, hosts, **options):
        self.write_other()
        agent = self.on(hosts, **options).start()
        agent.wait_state("registered")
        return agent

    def registry_state(self, agent):
        return agent.status()["registry"]["state"]

    def owned(self, agent):
        """The node at the agent's path belongs to its present session."""
        stat = self.server.stat(self.node)
        return stat and stat["ephemeralOwner"] == int(agent.status()["registry"]["session"] or "0",
            16)

    def back(self, agent, since):
        wait_until(lambda: self.registry_state(agent) == "connected", "it is connected")
        agent.wait_state("registered")
        wait_until(lambda: self.owned(agent), "the node is the session's")
        return time.monotonic() - since

    def back_from_restart(self, agent):
        """The server starts; when the agent is registered there again, in words."""
        begun = time.monotonic()
        self.server.restart()
        served = time.monotonic() - begun
        return (f"{seconds(self.back(agent, begun))} after the start of the server, which takes "
                f"{seconds(served)}")

    def assert_true(self, reader):
        reader.finish()
        self.assertEqual((reader.failures, reader.lies), ([], []))
        self.assertGreater(reader.answers, 0)


class Cuts(LinkTest):
    def cut_one_way(self, direction):
        with Wire(self.server.hosts) as wire:
            agent = self.registered(wire.hosts)
            reader = self.reader(agent)
            begun = time.monotonic()
            wire.cut(direction)
            self.write_other(reader)
            wait_until(lambda: self.registry_state(agent) != "connected", "the silence is noticed")
            self.write_other(reader)
            wait_until(lambda: reader.stale_at, "answers are STALE")
            time.sleep(max(0, begun + 1.5 * self.session_s - time.monotonic()))
            mended = time.monotonic()
            wire.mend()
            back = self.back(agent, mended)
            wait_until(lambda: agent.get(f"/v1/resolve{OTHER}").json["description"]
                == str(self.values), "the last value is read")
            self.assert_true(reader)
            figure(self, f"cut for {seconds(mended - begun)}, session {self.session_s} s: STALE "
                f"after {seconds(reader.stale_at - begun)}, 0 of {reader.answers} answers wrong, "
                f"registered {seconds(back)} after the mend")
            agent.stop()

    def test_nothing_reaches_the_server(self):
        self.cut_one_way(UP)

    def test_nothing_comes_back(self):
        self.cut_one_way(DOWN)


class Slow(LinkTest):
    session_s = 15

    def test_two_seconds_an_operation(self):
        with Wire(self.server.hosts, delay=1.0) as wire:
            begun = time.monotonic()
            agent = self.registered(wire.hosts)
            took = time.monotonic() - begun
            witness = self.witness()
            until = time.monotonic() + 1.5 * self.session_s
            while time.monotonic() < until:
                self.assertEqual(self.registry_state(agent), "connected")
                time.sleep(0.1)
            self.assertEqual(len(witness.end()), 1, witness.seen)
            figure(self,
                f"registered after {seconds(took)}, absent 0 times in "
                f"{seconds(1.5 * self.session_s)}")
            self.assertEqual(agent.stop(), 0)
        wait_until(lambda: self.server.stat(self.node) is None, "the record has gone")


class Hole:
    """A port from which no answer comes: the kernel drops what would connect, because the backlog
    is full."""

    def __init__(self, test):
        listener = socket.create_server(("127.0.0.1", 0))
        test.addCleanup(listener.close)
        self.hosts = "127.0.0.1:%d" % listener.getsockname()[1]
        for client in deafen(listener):
            test.addCleanup(client.close)


class Holes(LinkTest):
    def test_two_of_three_servers_drop_everything_at_the_start(self):
        slowest = 0
        for place in range(3):
            hosts = [Hole(self).hosts for _ in range(2)]
            hosts.insert(place, self.server.hosts)
            begun = time.monotonic()
            agent = self.registered(",".join(hosts), name=f"agent{place}")
            slowest = max(slowest, time.monotonic() - begun)
            agent.stop()
        figure(self, f"registered after {seconds(slowest)} at most, in each of 3 orders")

    def two_of_three_later(self, deaf):
        """Three ways to one server, as to an ensemble."""
        wires = [Wire(self.server.hosts) for _ in range(3)]
        for wire in wires:
            self.addCleanup(wire.stop)
        agent = self.registered(",".join(wire.hosts for wire in wires))
        witness, reader = self.witness(), self.reader(agent)
        longest = 0
        for spared in range(3):
            begun = time.monotonic()
            for number, wire in enumerate(wires):
                wire.mend() if number == spared else wire.cut(deaf=deaf)
            self.write_other(reader)
            wanted = str(self.values)
            wait_until(
                lambda: (answer := agent.get(f"/v1/resolve{OTHER}")).json["description"] == wanted
                and answer.headers["X-Cache"] == "HIT",
                "the change arrives by the way that is left")
            longest = max(longest, time.monotonic() - begun)
        self.assert_true(reader)
        self.back(agent, 0)
        absences = witness.end().count(None)
        figure(self,
            f"live again after {seconds(longest)} at most, 0 of {reader.answers} answers wrong, "
            f"{absences} sessions of 3 ended")
        self.assertEqual(absences, 0)

    def test_two_of_three_servers_say_nothing_later(self):
        self.two_of_three_later(deaf=False)

    def test_two_of_three_servers_drop_everything_later(self):
        self.two_of_three_later(deaf=True)


class Addresses(LinkTest):
    def test_one_of_two_to_five_addresses_is_alive(self):
        agents = []
        self.write_other()
        begun = time.monotonic()
        for count in range(2, 6):
            for place in range(count):
                hosts = [f"127.0.0.1:{reserve_port(self)}" for _ in range(count - 1)]
                hosts.insert(place, self.server.hosts)
                agents.append(self.on(",".join(hosts), name=f"a{count}-{place}",
                    path=f"/services/a{count}-{place}").start(wait=False))
        for agent in agents:
            wait_until(agent.answers, "the agent answers")
            agent.wait_state("registered")
        first = time.monotonic() - begun
        self.server.kill()
        for agent in agents:
            wait_until(lambda: self.registry_state(agent) != "connected", "the loss is noticed")
        begun = time.monotonic()
        self.server.restart()
        served = time.monotonic() - begun
        for agent in agents:
            wait_until(lambda: self.registry_state(agent) == "connected", "it is connected")
            agent.wait_state("registered")
        figure(self, f"{len(agents)} agents: all registered after {seconds(first)}, and "
               f"{seconds(time.monotonic() - begun)} after the start of the server again, which "
               f"takes {seconds(served)}")


class Sessions(LinkTest):
    def test_a_session_is_killed(self):
        agent = self.registered(self.server.hosts)
        slowest = 0
        for _ in range(5):
            before = self.server.stat(self.node)["ephemeralOwner"]
            wait_until(lambda: int(agent.status()["registry"]["session"], 16) == before,
                "the session is known")
            saved = agent.folder / "state/session"
            document = wait_until(lambda: self.session_of(saved, before), "the session is saved")
            begun = time.monotonic()
            result = self.server.probe("kill-session", document["id"], document["password"])
            self.assertEqual(result.returncode, 0, result.stderr)
            wait_until(lambda: (self.server.stat(self.node) or {}).get("ephemeralOwner", before)
                != before, "the record is back")
            slowest = max(slowest, time.monotonic() - begun)
            agent.wait_state("registered")
        figure(self, f"5 sessions killed, the record was back after {seconds(slowest)} at most")

    @staticmethod
    def session_of(file, owner):
        document = json.loads(file.read_text().partition("\n")[2] or "{}") if file.exists() else {}
        session = document.get("session", {})
        return session if int(session.get("id", "0"), 16) == owner else None

    def test_the_agent_is_stopped_for_longer_than_its_session(self):
        agent = self.registered(self.server.hosts)
        reader = self.reader(agent)
        pids = [agent.process.pid, *self.children(agent.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.write_other(reader)
        wait_until(lambda: self.server.stat(self.node) is None, "the session has ended")
        self.write_other(reader)
        time.sleep(self.session_s / 3)  # what was heard before is older than `confirm` for certain
        begun = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        back = self.back(agent, begun)
        wait_until(lambda: agent.get(f"/v1/resolve{OTHER}").json["description"] == str(self.values),
            "the last value is read")
        self.assert_true(reader)
        figure(self, f"registered again after {seconds(back)}, 0 of {reader.answers} answers wrong")

    @staticmethod
    def children(pid):
        return [int(child)
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Workers(LinkTest):
    session_s = 30  # the workers of one test end within one session

    # A program that is not a worker says this: shell commands.
    GARBAGE = {
        "a text": "echo 'I am no worker'",
        "random bytes": "head -c 100000 /dev/urandom",
        "zeros": "head -c 100000 /dev/zero",
        "a frame of all bits": "printf '\\377\\377\\377\\377\\377\\377\\377\\377'",
        "half a frame": "printf '\\0\\0\\0\\100ab'",
        "nothing": "exit 1",
    }

    def replaced(self, agent, ended):
        """Waits until another worker than `ended` has taken its session on."""
        wait_until(lambda: agent.worker() not in (None, ended), "another worker runs")
        self.back(agent, 0)

    def test_the_worker_is_killed(self):
        agent = self.registered(self.server.hosts)
        witness, reader = self.witness(), self.reader(agent)
        slowest, kills = 0, 20
        for _ in range(kills):
            ended = agent.worker()
            begun = time.monotonic()
            os.kill(ended, signal.SIGKILL)
            self.replaced(agent, ended)
            slowest = max(slowest, time.monotonic() - begun)
        self.assert_true(reader)
        self.assertEqual(len(witness.end()), 1, witness.seen)
        figure(self, f"{kills} workers killed: connected by another one after {seconds(slowest)} "
            f"at most, 0 of {reader.answers} answers wrong, record absent 0 times")

    def test_the_worker_says_garbage(self):
        words, said = self.folder / "words", self.folder / "said"
        worker = self.folder / "libexec/berth-zookeeper"
        worker.parent.mkdir()
        worker.write_text(f"""#!/bin/sh
[ -e {words} ] || exec {BUILD}/berth-zookeeper "$@"
echo >>{said}
. {words} >&3
read line <&3
""")
        worker.chmod(0o755)
        self.write_other()
        agent = self.on(self.server.hosts).start(env={**os.environ,
            "BERTH_LIBEXECDIR": str(worker.parent)})
        agent.wait_state("registered")
        witness, reader = self.witness(), self.reader(agent)
        slowest = 0
        for what, command in self.GARBAGE.items():
            said.write_text("")
            words.write_text(f"{command}\n")
            os.kill(agent.worker(), signal.SIGKILL)
            wait_until(lambda: len(said.read_text()) > 1, f"two workers have sent {what}")
            words.unlink()
            begun = time.monotonic()
            self.back(agent, begun)
            slowest = max(slowest, time.monotonic() - begun)
        self.assertIn("cannot be understood", agent.read_log())
        self.assert_true(reader)
        self.assertEqual(len(witness.end()), 1, witness.seen)
        figure(self, f"{len(self.GARBAGE)} kinds: connected by a worker again {seconds(slowest)} "
            f"at most after the last of a kind, 0 of {reader.answers} answers wrong, record "
            "absent 0 times")


class Gone(LinkTest):
    def test_all_of_zookeeper_is_away_for_a_minute(self):
        agent = self.registered(self.server.hosts)
        reader = self.reader(agent)
        self.server.kill()
        gone = time.monotonic()
        wait_until(lambda: reader.stale_at, "answers are STALE")
        while time.monotonic() < gone + 60:
            asked = time.monotonic()
            answer = agent.get(f"/v1/resolve{OTHER}")
            self.assertEqual((answer.status, answer.json["description"]), (200, str(self.values)))
            if asked > reader.stale_at:
                self.assertEqual(answer.headers["X-Cache"], "STALE")
                self.assertGreaterEqual(float(answer.headers["Age"]) + 1, asked - gone)
            self.assertEqual(agent.get("/v1/resolve/services/unknown").status, 503)
            time.sleep(0.1)
        back = self.back_from_restart(agent)
        self.assert_true(reader)
        figure(self, f"0 of {reader.answers} answers wrong, registered {back}")

    def test_the_registry_is_wiped(self):
        agent = self.registered(self.server.hosts)
        self.server.kill()
        shutil.rmtree(os.path.join(self.server.directory, "data/version-2"))
        figure(self, f"registered in the empty registry {self.back_from_restart(agent)}")

    def test_the_registry_is_rolled_back(self):
        """The agents know later transactions than the server that comes back, which refuses them
        for that."""
        agent = self.registered(self.server.hosts)
        data = os.path.join(self.server.directory, "data")
        self.server.kill()
        copy = tempfile.mkdtemp(dir=self.folder)
        shutil.copytree(data, f"{copy}/data")
        self.server.restart()
        self.back(agent, 0)
        for _ in range(20):
            self.write_other()
        self.server.kill()
        shutil.rmtree(data)
        shutil.copytree(f"{copy}/data", data)
        back = self.back_from_restart(agent)
        wait_until(lambda: agent.get(f"/v1/resolve{OTHER}").json["description"] == "1",
            "lookups answer with what the registry holds")
        figure(self, f"registered in the older registry {back}")


class Names(LinkTest):
    """DNS: a hosts file of the agent's own, and name servers that answer nothing."""

    @needs("mount namespace")
    def test_dns_is_down_for_longer_than_the_session(self):
        hosts, resolv = self.folder / "hosts", self.folder / "resolv.conf"
        hosts.write_text("127.0.0.1 localhost\n127.0.0.1 zk1.test\n")
        resolv.write_text("nameserver 192.0.2.1\noptions timeout:30\n")
        self.write_other()
        agent = self.on(f"zk1.test:{self.server.port}")
        mounts = "".join(f"mount --bind {file} /etc/{file.name}; " for file in (hosts, resolv))
        script = f'{mounts}exec {agent.program} "$@"'
        environment = {**os.environ, "BERTH_LIBEXECDIR": str(BUILD)}
        with open(agent.log, "ab") as log:
            agent.process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", "-c",
                    str(agent.config)],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(agent.answers, "the agent answers")
        agent.wait_state("registered")
        witness = self.witness()
        hosts.write_text("127.0.0.1 localhost\n")
        begun = time.monotonic()
        while time.monotonic() < begun + 1.5 * self.session_s:
            self.assertEqual(self.registry_state(agent), "connected")
            time.sleep(0.1)
        # Another worker has no names, either: it goes on with the addresses.
        ended = agent.worker()
        os.kill(ended, signal.SIGKILL)
        wait_until(lambda: agent.worker() not in (None, ended), "another worker runs")
        wait_until(lambda: self.registry_state(agent) == "connected", "another worker is connected")
        agent.wait_state("registered")
        absences = witness.end().count(None)
        figure(self,
            f"record absent {absences} times in {seconds(time.monotonic() - begun)} without names, "
            "and one new worker")
        self.assertEqual(absences, 0)


class Clock(LinkTest):
    def test_the_wall_clock_jumps_by_a_day(self):
        clock = self.folder / "clock"
        clock.write_bytes(bytes(8))
        self.write_other()
        agent = self.on(self.server.hosts)
        agent.start(env=preloaded(BERTH_CLOCK=str(clock)))
        agent.wait_state("registered")
        witness, reader = self.witness(), self.reader(agent)
        session = agent.status()["registry"]["session"]
        for offset in (86400, -86400, 0):
            with open(clock, "r+b", buffering=0) as file:
                file.write(offset.to_bytes(8, sys.byteorder, signed=True))
            runs = agent.check_named("alive")["counts"]
            wait_until(lambda: agent.check_named("alive")["counts"]["passing"] > runs["passing"]
                + 3, "the check runs on")
            self.write_other(reader)
            wanted = str(self.values)
            wait_until(lambda: agent.get(f"/v1/resolve{OTHER}").json["description"] == wanted,
                "the change arrives")
        self.assert_true(reader)
        self.assertEqual(agent.status()["registry"]["session"], session)
        self.assertEqual(witness.end().count(None), 0)
        self.assertEqual(len(witness.seen), 1)
        figure(self, f"3 jumps: record absent 0 times, 0 of {reader.answers} answers wrong")


if __name__ == "__main__":
    unittest.main()
