"""From the kill of a container's process until another host's look-up lacks its record, with a real
ZooKeeper between the two hosts' agents.

One host has BERTH_CONTAINERS containers (default 50) that live, and one whose only process is
killed and started again, BERTH_ROUNDS times (default 1000). The other host follows the path: the
clock runs from the kill until a look-up there, made when its stream says DELETED, answers 404. Then
the host's agent is killed and started again, BERTH_RESTARTS times (default 100). At last the kills
again, and look-ups of a container, while another container changes its registry as fast as it can.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from berth import PROGRAMS, Agent, Answer, UnixConnection, service_record, wait_until
from zookeeper import ZooKeeper

CONTAINERS = int(os.environ.get("BERTH_CONTAINERS", "50"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "1000"))
RESTARTS = int(os.environ.get("BERTH_RESTARTS", "100"))
LOOK_UPS = 5000
BASE = "/users/joe/web/prod/components"
VICTIM = f"{BASE}/victim"


class Host:
    """The agent of a host with containers."""

    def __init__(self, folder, url, stack):
        self.containers = folder / "containers"
        self.containers.mkdir()
        self.record = folder / "record.json"
        self.record.write_text(
            json.dumps(service_record("10.0.0.1", 80, **{"yarn:persistence": "container"})))
        self.agent = Agent(folder / "host", url, {
            "agent": {"log_level": "warn"},
            "bridge": {"containers": self.containers},
            "container *": {"allow": "/users/joe/**", "rate": "1000"},
        }, session_timeout="30s")
        stack.callback(self.agent.end)
        self.agent.start()

    def container(self, name):
        registry = self.containers / name / "registry"
        registry.parent.mkdir()
        wait_until(registry.is_dir, "the container is served")
        return registry

    def wait_registered(self):
        registered = f'berth_bridge_records{{state="registered"}} {CONTAINERS}\n'
        wait_until(lambda: registered in self.agent.get("/metrics").body.decode(),
            "all are registered")

    def bind(self, registry, path):
        return subprocess.Popen(
            [PROGRAMS / "berth", "--registry", f"dir:{registry}", "bind", "-p", "--ephemeral", path,
                "--file", self.record], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Follower:
    """The agent of another host, with a stream and a connection for look-ups."""

    def __init__(self, folder, url, stack):
        self.agent = Agent(folder / "other", url, {"agent": {"log_level": "warn"}},
            session_timeout="30s")
        stack.callback(self.agent.end)
        self.agent.start()
        stream = UnixConnection(self.agent.socket)
        stack.callback(stream.close)
        stream.request("GET", f"/v1/watch{VICTIM}", headers={"Accept": "application/x-ndjson"})
        self.events = stream.getresponse()
        self.connection = UnixConnection(self.agent.socket)
        stack.callback(self.connection.close)

    def wait(self, kind):
        while json.loads(self.events.readline())["type"] != kind:
            pass

    def status(self):
        self.connection.request("GET", f"/v1/resolve{VICTIM}")
        return Answer(self.connection.getresponse()).status


def kills_ms(host, follower, registry, rounds):
    for _ in range(rounds):
        owner = host.bind(registry, VICTIM)
        follower.wait("UPDATED")
        begin = time.monotonic()
        owner.kill()
        follower.wait("DELETED")
        if follower.status() != 404:
            raise AssertionError("a look-up still has the record")
        yield (time.monotonic() - begin) * 1e3
        owner.wait()


FLOOD = """
import os
while True:
    open("x", "w").close()
    os.rename("x", "y")
"""


def look_ups_ms(socket):
    """Of a container, one after another over one connection."""
    connection = UnixConnection(socket)
    for _ in range(LOOK_UPS):
        begin = time.monotonic()
        connection.request("GET", f"/v1/resolve{BASE}/c0")
        Answer(connection.getresponse())
        yield (time.monotonic() - begin) * 1e3
    connection.close()


def show(what, values):
    values = sorted(values)
    print(f"{what}: p50 {values[len(values) // 2]:.2f} ms, p99 "
          f"{values[len(values) * 99 // 100]:.2f} ms, worst {values[-1]:.2f} ms", flush=True)


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def deletions_at_restarts(host, follower):
    """How many records of living containers the other host saw go while the host's agent was killed
    and started again."""
    connection = UnixConnection(follower.agent.socket)
    connection.request("GET", f"/v1/watch{BASE}?recursive=yes",
        headers={"Accept": "application/x-ndjson"})
    events = connection.getresponse()
    for _ in range(RESTARTS):
        host.agent.kill()
        host.agent.start()
        host.wait_registered()
    marker = host.bind(host.container("marker"), f"{BASE}/marker")
    deleted = 0
    event = {}
    while event.get("path") != f"{BASE}/marker":
        event = json.loads(events.readline())
        deleted += event["type"] in ("DELETED", "RESYNC", "STALE")
    marker.kill()
    marker.wait()
    connection.close()
    return deleted


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ZooKeeper() as server, \
            contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        host = Host(folder, server.url, stack)
        for i in range(CONTAINERS):
            owner = host.bind(host.container(f"c{i}"), f"{BASE}/c{i}")
            stack.callback(owner.wait)
            stack.callback(owner.kill)
        host.wait_registered()
        follower = Follower(folder, server.url, stack)
        victim = host.container("victim")
        show(f"kill to gone, {ROUNDS} kills next to {CONTAINERS} containers",
            kills_ms(host, follower, victim, ROUNDS))
        print(f"{RESTARTS} kills of the host's agent: "
              f"{deletions_at_restarts(host, follower)} records of living containers went")
        socket = host.containers / "c0/berth.sock"
        show("look-ups of a container", look_ups_ms(socket))
        hostile = host.container("hostile")
        flood = subprocess.Popen([sys.executable, "-c", FLOOD], cwd=hostile)
        stack.callback(flood.wait)
        stack.callback(flood.kill)
        begin, used = time.monotonic(), cpu_s(host.agent.process.pid)
        show("look-ups while another container changes its registry without end",
            look_ups_ms(socket))
        show("kill to gone meanwhile",
            kills_ms(host, follower, victim, max(ROUNDS // 10, 1)))
        passed = time.monotonic() - begin
        print(f"the host's agent meanwhile: "
              f"{100 * (cpu_s(host.agent.process.pid) - used) / passed:.0f} % of a processor")
        for process in (host.agent.process.pid, host.agent.worker()):
            status = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
            pss = next(line.split()[1] for line in status.splitlines() if line.startswith("Pss:"))
            comm = pathlib.Path(f"/proc/{process}/comm").read_text().strip()
            print(f"memory of {comm} (PSS): {int(pss) / 1024:.1f} MB")


if __name__ == "__main__":
    main()
