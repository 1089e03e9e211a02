"""The memory of berth-xds with a client of 100 names of three records each, by mapping; and how
long a change of the registry takes to 1,000 clients of the same name."""

import collections
import os
import pathlib
import re
import statistics
import tempfile
import time

from berth import Agent, wait_until
from http2 import DATA, Client, frame, message, text
from outputs import Members
from xds import CLUSTER, ENDPOINTS, LISTENER, Xds

NAMES = int(os.environ.get("BERTH_XDS_NAMES", "100"))
CHANGES = int(os.environ.get("BERTH_XDS_CHANGES", "200"))


def memory(pid):
    """kB by kind, and proportional ones by mapping. What is resident is what would be proportional
    if nobody else mapped a library that the program uses, not even the agent."""
    kinds, mappings, name = collections.Counter(), collections.Counter(), None
    with open(f"/proc/{pid}/smaps", encoding="ascii") as lines:
        for line in lines:
            if mapping := re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+ *(.*)", line):
                name = f"{os.path.basename(mapping[2]) or 'anonymous'} {mapping[1]}"
            elif amount := re.match(r"(Rss|Pss|Private_Clean|Private_Dirty): +(\d+) kB", line):
                kinds[amount[1].partition("_")[0]] += int(amount[2])
                mappings[name] += int(amount[2]) if amount[1] == "Pss" else 0
    return kinds, mappings


def show_memory(pid, when):
    time.sleep(3)  # it gives memory back once a second
    kinds, mappings = memory(pid)
    print(f"berth-xds {when}: {kinds['Pss']} kB proportional, of which it has {kinds['Private']} "
        f"for itself; {kinds['Rss']} resident")
    return mappings


def ask(client, kind, names):
    client.send(frame(DATA, 0, 1, message(*(text(3, name) for name in names), text(4, kind))))


def until_known(client, count):
    """Reads answers until that many sets of endpoints have come."""
    seen = b""
    while seen.count(b"127.0.0.1") < count:
        seen += client.wait(DATA, 1)


def measure_memory(folder, registry):
    for number in range(NAMES):
        members = Members(registry, f"/users/joe/web/n{number}/components")
        for port in range(3):
            members.put(f"c{port}", 8000 + port)
    socket = folder / "xds.sock"
    agent = Agent(folder / "agent", registry, {"xds": {"listen": socket}})
    try:
        agent.start()
        wait_until(lambda: agent.status()["xds"]["running"], "berth-xds runs")
        pid = agent.status()["xds"]["pid"]
        show_memory(pid, "without a client")
        client = Client(socket)
        client.open(1)
        names = [f"n{number}.web.joe" for number in range(NAMES)]
        for kind in (LISTENER, CLUSTER, ENDPOINTS):
            ask(client, kind, names)
        until_known(client, 3 * NAMES)
        mappings = show_memory(pid, f"with a client of {NAMES} names")
        for name, amount in mappings.most_common(10):
            print(f"    {amount:6} kB {name}")
        client.close()
    finally:
        agent.end()


def measure_changes(folder, registry):
    members = Members(registry, "/users/joe/web/one/components")
    agent = Agent(folder / "agent2", registry, {"agent": {"log_level": "info"}})
    server = Xds(agent)
    try:
        agent.start()
        server.start()
        members.put("c1", 1)
        clients = [Client(server.socket) for _ in range(1000)]
        for client in clients:
            client.open(1)
            ask(client, ENDPOINTS, ["one.web.joe"])
            until_known(client, 1)
        times = []
        for port in range(2, CHANGES + 2):
            began = time.monotonic()
            members.put("c1", port)
            for client in (clients[0], clients[-1]):
                until_known(client, 1)
                times.append(1000 * (time.monotonic() - began))
            for client in clients[1:-1]:
                until_known(client, 1)
        times = sorted(times)
        print(f"{CHANGES} changes of a name that 1,000 clients follow: to the first and the last "
            f"client in {statistics.median(times):.1f} ms (median), "
            f"{times[len(times) * 99 // 100]:.1f} ms (p99)")
    finally:
        server.end()
        agent.end()


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = pathlib.Path(name)
        measure_memory(folder, f"dir:{folder}/registry")
        measure_changes(folder, f"dir:{folder}/registry2")


if __name__ == "__main__":
    main()
