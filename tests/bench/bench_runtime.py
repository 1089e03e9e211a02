"""Containers that know nothing of Berth: from the kill of a container's process, past its runtime,
until another host's look-up lacks its record, with a real ZooKeeper between the two hosts' agents;
BERTH_ROUNDS kills (default 500) under Docker, and as many while dockerd is frozen. Then what
BERTH_CONTAINERS of them (default 500) cost the host's agent and berth-runtime in memory and
wake-ups, and what health checks of a second in BERTH_CHECKED (default 100) cost in processor, of
Docker's events and podman's, which tells each run; with a runtime of the bench's own.

Root, dockerd, gcc, and control groups that root can make.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import tempfile
import time

from berth import Agent, Answer, UnixConnection, wait_until, wake_ups
from fake_runtime import FakeRuntime
from runtimes import Docker
from zookeeper import ZooKeeper

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "500"))
CONTAINERS = int(os.environ.get("BERTH_CONTAINERS", "500"))
CHECKED = int(os.environ.get("BERTH_CHECKED", "100"))
AT_A_TIME = 20  # containers that are started, and then killed one after another
BASE = "/services/bench/components"
IDLE_S = int(os.environ.get("BERTH_IDLE_SECONDS", "60"))
SETTLED_S = 70  # the first list behind the starts has been compared, a minute later
PATIENCE_S = 600


def labels(name):
    return {"berth.path": f"{BASE}/{name}", "berth.endpoint.http.port": "80"}


def host(folder, url, socket, stack):
    agent = Agent(folder / "host", url, {
        "agent": {"log_level": "warn"},
        "runtime bench": {"socket": socket, "address": "192.0.2.7"},
        "container *": {"allow": f"{BASE}/**", "rate": "1000"},
    }, session_timeout="30s")
    stack.callback(agent.end)
    return agent.start()


class Follower:
    """The agent of another host, with a stream of all and a connection for look-ups."""

    def __init__(self, folder, url, stack):
        self.agent = Agent(folder / "other", url, {"agent": {"log_level": "warn"}},
            session_timeout="30s")
        stack.callback(self.agent.end)
        self.agent.start()
        stream = UnixConnection(self.agent.socket, timeout=PATIENCE_S)
        stack.callback(stream.close)
        stream.request("GET", f"/v1/watch{BASE}?recursive=yes",
            headers={"Accept": "application/x-ndjson"})
        self.events = stream.getresponse()
        self.connection = UnixConnection(self.agent.socket)
        stack.callback(self.connection.close)

    def wait(self, kind, paths):
        """Until each of them has had such an event."""
        paths = set(paths)
        while paths:
            event = json.loads(self.events.readline())
            if event["type"] == kind:
                paths.discard(event.get("path"))

    def status(self, path):
        self.connection.request("GET", f"/v1/resolve{path}")
        return Answer(self.connection.getresponse()).status


def kills_ms(docker, follower, frozen):
    names = [f"c{number}" for number in range(min(AT_A_TIME, ROUNDS))]
    for begin in range(0, ROUNDS, AT_A_TIME):
        batch = names[:ROUNDS - begin]
        for name in batch:
            docker.order(name, "start")
        follower.wait("UPDATED", [f"{BASE}/{name}" for name in batch])
        pids = [docker.pid(name) for name in batch]
        if frozen:
            docker.process.send_signal(signal.SIGSTOP)
        for name, pid in zip(batch, pids):
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            follower.wait("DELETED", [f"{BASE}/{name}"])
            if follower.status(f"{BASE}/{name}") != 404:
                raise AssertionError("a look-up still has the record")
            yield (time.monotonic() - began) * 1e3
        if frozen:
            docker.process.send_signal(signal.SIGCONT)
        for name in batch:
            wait_until(lambda name=name: not docker.inspect(name)["State"]["Running"],
                "Docker knows")


def show(what, values):
    values = sorted(values)
    print(f"{what}: p50 {values[len(values) // 2]:.2f} ms, p99 "
          f"{values[len(values) * 99 // 100]:.2f} ms, worst {values[-1]:.2f} ms", flush=True)


def under_docker(folder, server, stack):
    docker = Docker(folder / "docker")
    stack.callback(docker.end)
    docker.start()
    docker.take_image()
    agent = host(folder, server.url, docker.socket, stack)
    follower = Follower(folder, server.url, stack)
    for number in range(min(AT_A_TIME, ROUNDS)):
        docker.create(f"c{number}", labels(f"c{number}"))
    for frozen in (False, True):
        show(f"kill of a container's process to gone, {ROUNDS} kills"
            f"{', dockerd is frozen' if frozen else ''}", kills_ms(docker, follower, frozen))
    agent.stop()


def cpu_s(pid):
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3)


def pss_kb(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"(?m)^Pss: +(\d+)", text)[1])


def helper_of(pid):
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "berth-runtime":
            return int(child)
    raise AssertionError("there is no berth-runtime")


class Many:
    """Containers of a runtime of the bench's own, at one agent."""

    def __init__(self, folder, server, stack):
        self.runtime = FakeRuntime(folder / "api.sock")
        stack.callback(self.runtime.end)
        self.server = server
        self.runtime.run("first", labels("first"))
        self.agent = host(folder, server.url, self.runtime.path, stack)
        self.await_count(1)
        wait_until(lambda: self.runtime.streams, "the agent hears events")
        self.pids = (self.agent.process.pid, helper_of(self.agent.process.pid))

    def await_count(self, count):
        """By another client than ours, and without a question to the agent."""
        wait_until(lambda: (self.server.stat(f"/registry{BASE}") or {}).get("numChildren") == count,
            f"{count} are registered", PATIENCE_S)

    def measure(self):
        before = [wake_ups(pid) for pid in self.pids]
        time.sleep(IDLE_S)
        rates = [(wake_ups(pid) - count) / IDLE_S for pid, count in zip(self.pids, before)]
        return [pss_kb(pid) for pid in self.pids], rates

    def compare(self):
        time.sleep(SETTLED_S)
        few_kb, few = self.measure()
        for number in range(CONTAINERS):
            self.runtime.run(f"c{number}", labels(f"c{number}"))
        self.await_count(1 + CONTAINERS)
        time.sleep(SETTLED_S)
        many_kb, many = self.measure()
        for name, *figures in zip(("agent", "berth-runtime"), few_kb, many_kb, few, many):
            print(f"{name}: {figures[0]} KiB (PSS) with one container, {figures[1]} KiB with "
                f"{1 + CONTAINERS}, {(figures[1] - figures[0]) / CONTAINERS:.2f} KiB each; wakes "
                f"up {figures[2]:.2f} times a second, and {figures[3]:.2f} times", flush=True)

    def check_health(self):
        """CHECKED runs of a check a second."""
        checked = list(self.runtime.containers.values())[:CHECKED]
        for one in checked:
            one.health = "healthy"
            self.runtime.event("health_status: healthy", one)
        time.sleep(5)
        for what, actions in (
                ("Docker", ("exec_create: check", "exec_start: check", "exec_die")),
                ("podman", ("exec_create: check", "exec_died", "health_status"))):
            told, used = self.runtime.told, sum(map(cpu_s, self.pids))
            began = time.monotonic()
            for number in itertools.count():
                left = began + number / len(checked) - time.monotonic()
                time.sleep(max(0, left))
                if time.monotonic() - began > IDLE_S:
                    break
                for action in actions:
                    self.runtime.event(action, checked[number % len(checked)],
                        health_status="healthy")
            passed = time.monotonic() - began
            used = sum(map(cpu_s, self.pids)) - used
            print(f"{number} runs of health checks in {passed:.0f} s, {len(actions) * number} "
                f"events of {what}, {self.runtime.told - told} of them to the agent: agent and "
                f"berth-runtime take {100 * used / passed:.2f} % of a processor", flush=True)


def main():
    with ZooKeeper("maxSessionTimeout=60000\n") as server:
        for part in ("docker", "many"):
            with tempfile.TemporaryDirectory(prefix="bench-") as name, \
                    contextlib.ExitStack() as stack:
                folder = pathlib.Path(name)
                if part == "docker":
                    under_docker(folder, server, stack)
                else:
                    many = Many(folder, server, stack)
                    many.compare()
                    many.check_health()


if __name__ == "__main__":
    main()
