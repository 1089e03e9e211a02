"""How long a container is not where it should be: start to registered, next to a bare client that
connects and creates a node, and TERM to gone, also where each request takes 20 ms; and what the
agent costs in memory, and in wake-ups while it has nothing to do."""

import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

from berth import BUILD, Agent, wake_ups
from wire import Wire
from zk_client import ZkClient
from zookeeper import ZooKeeper

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "20"))
IDLE_SECONDS = int(os.environ.get("BERTH_IDLE_SECONDS", "60"))
SETTLED_SECONDS = 40  # a directory looks at a new record again until then, less and less often
FAR_S = 0.01  # each way
NODE = f"/registry{Agent.PATH}"
PROBE = BUILD / "tests/support/zk-probe"


def registered_in_directory(registry):
    return os.path.exists(f"{registry.removeprefix('dir:')}{Agent.PATH}/_record")


def pss(pid):
    fields = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            if name in ("Rss", "Pss"):
                fields[name] = int(rest.split()[0])
    return fields


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as text:
        return [int(child) for child in text.read().split()]


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.0002)


def create_bare(server, witness, number):
    """From the start of a program to the node that it creates, in seconds."""
    node = f"/bare-{number}"
    begin = time.monotonic()
    with subprocess.Popen([PROBE, server.hosts, "create", node, "x"]):
        until(lambda: witness.get(node) is not None)
        return time.monotonic() - begin


def measure(name, registry, is_there, folder, bare=None):
    """`bare`: a function that does without the agent what a start does, and returns its time."""
    starts, stops, memory, ratios = [], [], [], []
    with contextlib.ExitStack() as stack:
        for number in range(ROUNDS):
            agent = Agent(folder / f"{name}{number}", registry, command=())
            stack.callback(agent.end)
            agent.write_config({**agent.component("true"), "agent": {"log_level": "info"}})
            begin = time.monotonic()
            agent.start(wait=False)
            until(is_there)
            starts.append(time.monotonic() - begin)
            if bare:
                ratios.append(starts[-1] / bare(number))
            if number == 0:
                until(agent.answers)
                for pid in [agent.process.pid, *children(agent.process.pid)]:
                    with contextlib.suppress(OSError):
                        memory.append((pathlib.Path(f"/proc/{pid}/comm").read_text().strip(),
                            pss(pid)))
            begin = time.monotonic()
            agent.signal(signal.SIGTERM)
            until(lambda: not is_there())
            stops.append(time.monotonic() - begin)
            agent.wait()
    for what, values in (("start to registered", starts), ("TERM to gone", stops)):
        print(f"{name:10} {what:20} median {statistics.median(values) * 1000:7.1f} ms   max "
              f"{max(values) * 1000:7.1f} ms")
    if ratios:
        print(f"{name:10} {'start to registered':20} median {statistics.median(ratios):7.2f} times "
              f"a bare client's")
    for program, fields in memory:
        print(f"{name:10} {program:20} resident {fields['Rss']:6} kB   proportional "
              f"{fields['Pss']:6} kB")


def measure_idle(registries, folder):
    """Agents with a registered component, without checks, that nobody asks."""
    with contextlib.ExitStack() as stack:
        agents = {}
        for name, registry in registries.items():
            agents[name] = agent = Agent(folder / f"{name}-idle", registry, command=(),
                session_timeout="30s")
            stack.callback(agent.end)
            agent.write_config({**agent.component(""), "agent": {"log_level": "info"}})
            agent.start().wait_state("registered")
        time.sleep(SETTLED_SECONDS)
        pids = {pid: name for name, agent in agents.items()
            for pid in [agent.process.pid, *children(agent.process.pid)]}
        before = {pid: wake_ups(pid) for pid in pids}
        time.sleep(IDLE_SECONDS)
        for pid, name in pids.items():
            program = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            rate = (wake_ups(pid) - before[pid]) / IDLE_SECONDS
            print(f"{name:10} {program:20} wakes up {rate:5.2f} times a second while idle")


def main():
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        ZooKeeper("maxSessionTimeout=60000\n") as server,
    ):
        folder = pathlib.Path(name)
        registry = f"dir:{folder}/registry"
        measure("dir", registry, lambda: registered_in_directory(registry), folder)
        # It stays connected: a witness that starts anew for each look takes a processor.
        with ZkClient(server.hosts) as witness:
            measure("zookeeper", server.url, lambda: witness.get(NODE) is not None, folder,
                lambda number: create_bare(server, witness, number))
            with Wire(server.hosts, delay=FAR_S) as wire:
                measure("far away", f"zookeeper://{wire.hosts}/registry",
                    lambda: witness.get(NODE) is not None, folder)
        measure_idle({"dir": registry, "zookeeper": server.url}, folder)


if __name__ == "__main__":
    main()
