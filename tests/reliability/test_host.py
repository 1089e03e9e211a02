"""A host that runs out of something, breaks, or is full of what no test of a single fault brings
together."""

import contextlib
import itertools
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from berth import PATIENCE, Agent, AgentTest, berth, preloaded, wait_until
from figures import figure, seconds
from rights import needs

SANITIZER = os.environ.get("BERTH_SANITIZER", "")


def descendants(pid):
    found = []
    with contextlib.suppress(OSError):
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


class Disk(AgentTest):
    def test_every_write_to_the_state_directory_fails(self):
        agent = self.web_agent()
        state = agent.folder / "state"
        state.mkdir()
        agent.start(env=preloaded(BERTH_BROKEN=str(state)))
        agent.wait_state("registered")
        (state / "broken").touch()
        self.assertEqual(berth("--socket", agent.socket, "drain").returncode, 0)
        agent.wait_state("withdrawn")
        self.assertEqual(berth("--socket", agent.socket, "undrain").returncode, 0)
        agent.wait_state("registered")
        self.assertIn("Input/output error", agent.read_log())
        agent.kill()
        agent.start(env=preloaded(BERTH_BROKEN=str(state)))
        agent.wait_state("registered")
        (state / "broken").unlink()
        self.assertEqual(agent.stop(), 0)
        self.assertIsNone(self.in_registry())
        figure(self, "drained, undrained, killed and started while each write failed: 4 of 4 "
            "wanted states, and the log says why nothing is kept")


@needs("users")
class Processes(AgentTest):
    @staticmethod
    def limit(agent, count):
        """The soft limit; the agent's own user may set it."""
        command = ["prlimit", f"--pid={agent.process.pid}", f"--nproc={count}:"]
        subprocess.run(command, check=True, user=65534, group=65534, extra_groups=[])

    def test_no_process_can_be_started_for_a_while(self):
        folder = self.folder / "agent"
        agent = self.web_agent()
        os.chmod(self.folder, 0o755)
        shutil.chown(folder, 65534, 65534)
        root = pathlib.Path(self.registry.removeprefix("dir:"))
        root.mkdir()
        shutil.chown(root, 65534, 65534)
        agent.start(user=65534, group=65534, extra_groups=[])
        agent.wait_state("registered")
        soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        self.limit(agent, 0)
        wait_until(lambda: (agent.check_named("alive")["last"] or {}).get("verdict")
            == "could-not-run", "the check cannot run")
        agent.wait_state("withdrawn")
        self.assertIn("Resource temporarily unavailable", agent.status()["components"][0]["reason"])
        self.limit(agent, "unlimited" if soft == resource.RLIM_INFINITY else soft)
        begun = time.monotonic()
        agent.wait_state("registered")
        figure(self,
            f"the reason is named; registered {seconds(time.monotonic() - begun)} after the limit "
            "was lifted")
        self.assertEqual(agent.stop(), 0)


class Memory(AgentTest):
    @unittest.skipIf(SANITIZER,
        "a sanitizer's shadow needs more address space than any limit leaves")
    def test_memory_runs_out_while_it_loads(self):
        for number in range(60):
            self.put(f"/services/large/n{number}", {"type": "JSONServiceRecord", "description": "x",
                "pad": "y" * 120000})
        agent = self.web_agent(extra={"cache": {"max_size": "64M"}}).start()
        agent.wait_state("registered")
        with open(f"/proc/{agent.process.pid}/status", encoding="ascii") as lines:
            size_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmSize:"))
        limit = (size_kb + 2048) * 1024
        resource.prlimit(agent.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        with contextlib.suppress(Exception):
            agent.get("/v1/records/services/large")
            agent.get("/v1/records/services/large")
        if agent.process.poll() is None:
            self.it_goes_on(agent)
        else:
            self.its_successor_registers(agent)

    def it_goes_on(self, agent):
        self.assertEqual(agent.get("/v1/records/services/large").status, 504)
        self.assertEqual(agent.get("/ready").status, 200)
        resource.prlimit(agent.process.pid, resource.RLIMIT_AS,
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        begun = time.monotonic()
        wait_until(lambda: agent.get("/v1/records/services/large").status == 200, "it has memory")
        figure(self,
            "504 for what there is no memory for, ready meanwhile; all answered "
            f"{seconds(time.monotonic() - begun)} after there was some")

    def its_successor_registers(self, agent):
        self.assertIn("memory", agent.read_log().splitlines()[-1])
        ended = agent.process.returncode
        begun = time.monotonic()
        agent.start().wait_state("registered")
        figure(self,
            f"ended with {'SIGABRT' if ended == -signal.SIGABRT else f'status {ended}'} and a "
            "clear line; "
               f"its successor was registered after {seconds(time.monotonic() - begun)}")


class Checks(AgentTest):
    WORST = [
        "/bin/sh -c 'trap \"\" TERM INT HUP; sleep 600'",
        "/bin/sh -c 'yes'",
        "/bin/sh -c 'setsid sleep 600 & exit 0'",
        "/bin/sh -c 'for i in 1 2 3 4 5; do sleep 600 & done; wait'",
        "/bin/sh -c 'kill -SEGV $$'",
        "/bin/sh -c 'exec >&- 2>&-; sleep 600'",
        "/bin/sh -c 'head -c 3000000 /dev/urandom; exit 1'",
        "/nonexistent/program",
        "/bin/sh -c 'kill -STOP $$'",
        "/bin/sh -c 'sleep 600 | cat & cat /dev/zero'",
    ]
    RUN_S = 10

    def test_fifty_of_the_worst_kind_at_once(self):
        agent = self.agent()
        sections = agent.component(check="true")
        for number in range(50):
            sections[f"check bad{number}"] = {
                "type": "command", "command": self.WORST[number % len(self.WORST)],
                "interval": "500ms", "timeout": "300ms",
                "endpoints": "rest",
            }
        sections["endpoint second"] = dict(sections["endpoint rest"])
        agent.write_config(sections)
        agent.start()
        times, until = [], time.monotonic() + self.RUN_S
        while time.monotonic() < until:
            begun = time.monotonic()
            self.assertEqual(agent.get("/v1/agent").status, 200)
            times.append(time.monotonic() - begun)
            time.sleep(0.01)
        self.assertTrue(all(check["last"] for check in agent.get("/v1/agent/checks").json),
            "each of them has run")
        started = descendants(agent.process.pid)
        self.assertEqual(agent.stop(), 0)
        left = [pid for pid in started if pathlib.Path(f"/proc/{pid}").exists()]
        times.sort()
        figure(self,
            f"{len(times)} requests answered, median {times[len(times) // 2] * 1000:.1f} ms, "
               f"slowest {times[-1] * 1000:.0f} ms; {len(left)} processes left")
        self.assertEqual(left, [])


class Configuration(AgentTest):
    """A good configuration with one thing broken, in every place."""

    LINES = [b"= nothing", b"[", b"[]", b"[nonsense]", b"no equals sign", b"x" * 70000,
        b"\xff\xfe\x00\x01 = 1", b"a\0b = c", b"[agent]]"]
    VALUES = [b"", b"${UNSET_VARIABLE}", b"${", b"-1", b"99999999999999999999", b"\xc3\x28",
        b"y" * 5000, b"$(reboot)", b"a b c", b"\0"]

    def variants(self, good):
        """Each of them as it is, and with a word of what was done."""
        lines = good.split(b"\n")
        for at, line in enumerate(lines):
            key, equals, _ = line.partition(b" = ")
            if equals and key not in (b"socket", b"state_dir"):
                for value in self.VALUES:
                    yield lines[:at] + [key + b" = " + value] + lines[at + 1:]
                yield lines[:at] + [key + b"x = 1"] + lines[at:]
                yield lines[:at] + [line, line] + lines[at + 1:]
        for broken in self.LINES:
            yield [broken, *lines]
            yield [*lines, broken]
        for length in range(0, len(good), 37):
            yield good[:length].split(b"\n")

    def test_every_line_broken_in_every_way(self):
        agent = self.web_agent(extra={"cache": {"warm": "/services/**", "max_size": "8M"}})
        good = agent.config.read_bytes()
        agent.start()
        agent.wait_state("registered")
        record = self.in_registry()
        variants = [b"\n".join(lines) for lines in self.variants(good)]
        random.Random(1).shuffle(variants)
        refused = 0
        trial = self.folder / "trial.ini"
        for text in variants:
            trial.write_bytes(text)
            done = subprocess.run([agent.program, "-t", "-c", trial], capture_output=True,
                check=False)
            self.assertIn(done.returncode, (0, 1), (text[-300:], done))
            if done.returncode == 0:
                continue
            refused += 1
            self.assertRegex(done.stderr.decode(errors="replace"), r"trial\.ini|configur")
            agent.config.write_bytes(text)
            self.assertEqual(agent.request("POST", "/v1/agent/reload").status // 100, 4,
                text[-300:])
            self.assertEqual(agent.component_state(), "registered")
        self.assertEqual(self.in_registry(), record)
        agent.config.write_bytes(good)
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        figure(self,
            f"{len(variants)} configurations, {refused} refused at start and reload, 0 crashes, "
            "record unchanged")


class Directory(AgentTest):
    def test_its_root_is_deleted(self):
        """It may be a mount that has gone: the agent does not make it again, and waits."""
        agent = self.web_agent().start()
        agent.wait_state("registered")
        self.put("/services/known", {"type": "JSONServiceRecord", "description": "known"})
        self.assertEqual(agent.get("/v1/resolve/services/known").status, 200)
        root = pathlib.Path(self.registry.removeprefix("dir:"))
        slowest = 0
        for number in range(5):
            # at once: the agent would repair what goes bit by bit
            root.rename(self.folder / f"gone{number}")
            wait_until(lambda: agent.status()["registry"]["state"] == "away", "the loss is noticed")
            self.assertIn("No such file or directory", agent.status()["components"][0]["reason"])
            answer = agent.get("/v1/resolve/services/known")
            self.assertEqual((answer.status, answer.headers["X-Cache"]), (200, "STALE"))
            root.mkdir()
            begun = time.monotonic()
            agent.wait_state("registered")
            self.assertIsNotNone(self.in_registry())
            slowest = max(slowest, time.monotonic() - begun)
            self.put("/services/known", {"type": "JSONServiceRecord", "description": "known"})
            wait_until(lambda: agent.get("/v1/resolve/services/known").headers["X-Cache"] == "HIT",
                "lookups are live again")
        figure(self,
            f"deleted 5 times, registered {seconds(slowest)} at most after it was there again")

    def test_foreign_files_lie_everywhere(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        root = pathlib.Path(self.registry.removeprefix("dir:"))
        folders = [folder for folder in root.rglob("*") if folder.is_dir()
            and not folder.name.startswith("_")]
        count = 0
        for folder in [root, *folders]:
            (folder / "README").write_text("not ours")
            (folder / ".hidden").write_bytes(b"\0" * 100)
            (folder / "link").symlink_to("/")
            (folder / "loop").symlink_to("loop")
            os.mkfifo(folder / "fifo")
            (folder / "UPPER").mkdir()
            (folder / "_record.tmp").write_text("{")
            count += 7
        record = self.in_registry()
        self.assertEqual(record["description"], "a test")
        self.assertEqual(agent.get(f"/v1/resolve{Agent.PATH}").status, 200)
        parent = os.path.dirname(Agent.PATH)
        self.assertEqual(list(agent.get(f"/v1/records{parent}").json), [Agent.PATH])
        self.assertEqual(agent.stop(), 0)
        agent.start().wait_state("registered")
        figure(self, f"{count} foreign files, 0 answers changed")

    @needs("mounts")
    def test_it_is_full(self):
        root = pathlib.Path(self.registry.removeprefix("dir:"))
        root.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", root], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", root], check=False)
        self.put("/services/known", {"type": "JSONServiceRecord", "description": "known"})
        with open(root / "ballast", "wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(b"x" * 4096)
        agent = self.web_agent().start()
        wait_until(lambda: "No space left" in agent.status()["components"][0]["reason"],
            "the reason is named")
        self.assertNotEqual(agent.component_state(), "registered")
        self.assertEqual(agent.get("/v1/resolve/services/known").status, 200)
        (root / "ballast").unlink()
        begun = time.monotonic()
        agent.wait_state("registered")
        figure(self,
            f"the reason is named, lookups go on; registered {seconds(time.monotonic() - begun)} "
            "after there was room")

    def test_two_agents_want_one_path(self):
        agents = [self.web_agent(name, id=name).start() for name in ("first", "second")]
        slowest, turns = 0, 10
        for _ in range(turns):
            wait_until(lambda: {agent.component_state() for agent in agents} == {"registered",
                "conflict"}, "one has it")
            agents.sort(key=lambda agent: agent.component_state() != "registered")
            holder, other = agents
            self.assertEqual(self.in_registry()["yarn:id"], holder.folder.name)
            begun = time.monotonic()
            holder.kill()
            other.wait_state("registered")
            slowest = max(slowest, time.monotonic() - begun)
            self.assertEqual(self.in_registry()["yarn:id"], other.folder.name)
            holder.start()
        figure(self, f"{turns} times: one is registered, the other {seconds(slowest)} at most "
            "after the kill of the first one")


class Slow(threading.Thread):
    """Sends a byte of a request to each of its connections in turn, until finish()."""

    def __init__(self, clients):
        super().__init__(daemon=True)
        self.clients = clients
        self.sent = 0
        self.done = threading.Event()
        self.start()

    def run(self):
        for byte in itertools.cycle(b"GET /v1/resolve/slow HTTP/1.1\r\n"):
            for client in self.clients:
                if self.done.wait(0.0005):
                    return
                with contextlib.suppress(OSError):
                    self.sent += client.send(bytes([byte]))

    def finish(self):
        self.done.set()
        self.join()


@needs("users")
class Crowd(AgentTest):
    """Clients of one user, while another user asks."""

    CLIENTS, STRANGER = 5000, 65534
    REQUEST = f"GET /v1/resolve{Agent.PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    # They say nothing, half a request, three of them, whose answers nobody reads, or a byte now
    # and then.
    SAID = [b"", b"GET /v1/res", REQUEST * 3, b""]
    SLOW = 3

    def connect(self, socket_path):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.settimeout(PATIENCE)
        os.seteuid(self.STRANGER)
        try:
            client.connect(str(socket_path))
        finally:
            os.seteuid(0)
        client.setblocking(False)
        return client

    @staticmethod
    def is_refused(client):
        """The agent has answered 503 and closed."""
        try:
            return client.recv(12, socket.MSG_PEEK) in (b"HTTP/1.1 503", b"")
        except BlockingIOError:
            return False
        except OSError:
            return True

    def test_five_thousand_clients_most_of_them_silent(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self.CLIENTS + 500
        if hard < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        else:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, max(hard, soft)))
        self.folder.chmod(0o755)
        agent = self.web_agent(extra={"agent": {"socket_mode": "0666"}}).start()
        agent.folder.chmod(0o755)
        agent.wait_state("registered")
        clients = []
        for number in range(self.CLIENTS):
            clients.append(self.connect(agent.socket))
            with contextlib.suppress(OSError):  # it may be refused already
                clients[-1].send(self.SAID[number % len(self.SAID)])
        slow = Slow(clients[self.SLOW::len(self.SAID)])
        self.addCleanup(slow.finish)
        times = []
        for _ in range(1000):
            begun = time.monotonic()
            self.assertEqual(agent.get(f"/v1/resolve{Agent.PATH}").status, 200)
            times.append(time.monotonic() - begun)
        slow.finish()
        refused = sum(map(self.is_refused, clients))
        with open(f"/proc/{agent.process.pid}/status", encoding="ascii") as lines:
            resident = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
        times.sort()
        figure(self,
            f"{len(clients)} connected, {refused} of them refused, {resident // 1024} MiB at most; "
            f"{len(times)} answers to another user in {seconds(times[len(times) // 2])} (median), "
            f"{seconds(times[-1])} at most")
        self.assertGreater(slow.sent, 0)
        self.assertEqual(agent.component_state(), "registered")


if __name__ == "__main__":
    unittest.main()
