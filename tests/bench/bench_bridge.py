"""From the kill of a container's processes until another host's look-up lacks its record, with a
real ZooKeeper between the two hosts' agents; and what a hostile container costs the others.

One host has BERTH_CONTAINERS containers (default 50) that live, and one whose processes are killed
and started again, BERTH_ROUNDS times (default 1000): at first a process that holds the record
itself, then a main process and the agent that supervises it. The other host follows the path: the
clock runs from the kill until a look-up there, made when its stream says DELETED, answers 404. Then
the host's agent is killed and started again, BERTH_RESTARTS times (default 100). At last another
container does one thing after another to its registry and its socket, as fast as it can, while
those that live look up: in peace, next to the same work in a directory that is no container's and
on another agent's socket, and next to the attack, BERTH_TURNS times (default 3) in turns. Root also
has a container's directory held in the kernel (tests/support/holding.py), and repeats kills and
look-ups.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from berth import PROGRAMS, Agent, Answer, UnixConnection, service_record, wait_until
from holding import Held, lookers, state
from zookeeper import ZooKeeper

CONTAINERS = int(os.environ.get("BERTH_CONTAINERS", "50"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "1000"))
RESTARTS = int(os.environ.get("BERTH_RESTARTS", "100"))
LOOK_UPS = 5000
TURNS = int(os.environ.get("BERTH_TURNS", "3"))
ATTACK_S = 2  # before the first look-up that counts
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
            "container hostile": {"allow": "/users/joe/**"},
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


class Process:
    """A container's only process, which holds the record."""

    def __init__(self, host, registry, _folder):
        self.process = host.bind(registry, VICTIM)

    def kill(self):
        self.process.kill()

    def wait(self):
        self.process.wait()


class Supervised:
    """A main process, and the agent that starts it and holds its record."""

    def __init__(self, _host, registry, folder):
        self.agent = Agent(folder / "inside", f"host:{registry.parent}", {
            "agent": {"log_level": "warn"},
            "component": {"path": VICTIM},
            "endpoint web": {"api": "http", "protocol": "HTTP", "address_type": "host/port",
                "address": "10.0.0.1:80"},
        }, command=["sleep", "1000000"])
        self.agent.start(wait=False)

    def kill(self):
        pid = self.agent.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
        self.agent.process.kill()

    def wait(self):
        self.agent.process.wait()


def kills_ms(follower, make, rounds):
    """`make` starts what is killed."""
    follower.connection.close()  # the agent may have: it was silent for a minute
    for _ in range(rounds):
        owner = make()
        follower.wait("UPDATED")
        begin = time.monotonic()
        owner.kill()
        follower.wait("DELETED")
        if follower.status() != 404:
            raise AssertionError("a look-up still has the record")
        yield (time.monotonic() - begin) * 1e3
        owner.wait()


# A script of the hostile container; $1: its registry.
ATTACKS = {
    "changes a file without end": """
while True:
    open("x", "w").close()
    os.rename("x", "y")
""",
    "makes 100,000 nodes, over and over": """
while True:
    for i in range(100000):
        os.makedirs(f"a{i // 1000}/n{i}")
    shutil.rmtree(".", ignore_errors=True)
""",
    "makes links and FIFOs without end": """
while True:
    for i in range(100):
        os.symlink("/", f"link{i}")
        os.link(f"link{i}", f"hard{i}", follow_symlinks=False)
        os.mkfifo(f"fifo{i}")
    for name in os.listdir("."):
        if name[:4] in ("link", "hard", "fifo"):
            os.unlink(name)
""",
    "replaces a live record without end": """
node = "users/joe/web/prod/components/hostile"
os.makedirs(node)
os.chdir(node)
owner = open("_owner", "w")
owner.write("pid 1\\n")
owner.flush()
fcntl.fcntl(owner, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
for i in itertools.count():
    with open("_new", "w") as file:
        file.write('{"type": "JSONServiceRecord", "description": "%d"}' % i)
    os.rename("_new", "_record")
""",
    "asks on 50 connections without end": """
question = b"GET /v1/list/users HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
clients = []
while True:
    while len(clients) < 50:
        client = socket.socket(socket.AF_UNIX)
        client.connect("../berth.sock")
        client.sendall(50 * question)
        clients.append(client)
    for client in select.select(clients, [], [])[0]:
        try:
            lives = client.recv(1 << 20) and client.send(question)
        except OSError:
            lives = False
        if not lives:
            clients.remove(client)
            client.close()
""",
}
IMPORTS = """
import fcntl, itertools, os, select, shutil, socket, struct, sys
os.chdir(sys.argv[1])
"""


def look_ups_ms(sockets):
    """Of containers in turn, each over a connection of its own."""
    connections = [UnixConnection(socket) for socket in sockets]
    for number in range(LOOK_UPS):
        connection = connections[number % len(connections)]
        begin = time.monotonic()
        connection.request("GET", f"/v1/resolve{BASE}/c0")
        Answer(connection.getresponse())
        yield (time.monotonic() - begin) * 1e3
    for connection in connections:
        connection.close()


@contextlib.contextmanager
def attacker(place, what, source):
    """It runs in the folder `registry` of the place while the context is open."""
    registry = place / "registry"
    process = subprocess.Popen([sys.executable, "-c", IMPORTS + source, registry])
    try:
        time.sleep(ATTACK_S)
        yield
        if process.poll() is not None:
            raise AssertionError(f"the container that {what} has ended")
    finally:
        process.kill()
        process.wait()
    subprocess.run(["find", registry, "-mindepth", "1", "-delete"], check=False)


def attack(host, sockets, control, what, source):
    """Look-ups of the others: in peace, next to the same work where the host's agent does not look,
    which shows what the machine's processors cost, and next to the attack; in turns."""
    peace, work, busy = [], [], []
    pid = host.agent.process.pid
    before, used, passed = rss_mb(pid), 0, 0
    for _ in range(TURNS):
        peace.extend(look_ups_ms(sockets))
        with attacker(control, what, source):
            work.extend(look_ups_ms(sockets))
        begin, used = time.monotonic(), used - cpu_s(pid)
        with attacker(host.containers / "hostile", what, source):
            busy.extend(look_ups_ms(sockets))
            passed, used = passed + time.monotonic() - begin, used + cpu_s(pid)
    p50, p99 = ([sorted(times)[len(times) * share // 100] for times in (peace, work, busy)]
        for share in (50, 99))
    print(f"another container {what}: p50 {p50[2]:.2f} ms, {p50[2] / p50[0]:.2f} times that in "
          f"peace and {p50[2] / p50[1]:.2f} times that next to the same work elsewhere; "
          f"p99 {p99[2]:.2f} ms, {p99[2] / p99[0]:.2f} and {p99[2] / p99[1]:.2f} times; "
          f"the host's agent took {100 * used / passed:.0f} % of a processor, "
          f"and {rss_mb(pid) - before:+.1f} MB", flush=True)


def show(what, values):
    values = sorted(values)
    print(f"{what}: p50 {values[len(values) // 2]:.2f} ms, p99 "
          f"{values[len(values) * 99 // 100]:.2f} ms, worst {values[-1]:.2f} ms", flush=True)


def pss_mb(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line.split()[1] for line in text.splitlines()
        if line.startswith("Pss:"))) / 1024


def live_ms(agent):
    """Of /live on the agent's own socket."""
    for _ in range(LOOK_UPS // 5):
        begin = time.monotonic()
        agent.get("/live")
        yield (time.monotonic() - begin) * 1e3


def next_to_one_that_is_held(host, follower, victim, folder, sockets):
    """The same kills and look-ups, while the directory of one container is held."""
    pid = host.agent.process.pid
    show("/live", live_ms(host.agent))
    show("look-ups", look_ups_ms(sockets))
    before = pss_mb(pid)
    node = host.containers / "hostile/registry/users/HELD"
    node.mkdir(parents=True)
    folder.chmod(0o711)
    held = Held(node)
    try:
        node.rename(node.with_name("held"))
        wait_until(lambda: "D" in [state(looker) for looker in lookers(pid)], "a looker hangs")
        wait_until(lambda: any(part["state"] == "stalled"
            for part in host.agent.get("/v1/bridge").json["containers"]), "one is stalled")
        show("/live, one container is held", live_ms(host.agent))
        show("look-ups of the others", look_ups_ms(sockets))
        show("kill of a container's only process to gone",
            kills_ms(follower, lambda: Process(host, victim, folder), ROUNDS))
        print(f"memory of the agent {pss_mb(pid) - before:+.2f} MB (PSS)", flush=True)
    finally:
        held.end()


def cpu_s(pid):
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3)


def rss_mb(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines()
        if line.startswith("VmRSS:"))) / 1024


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
        for what, kind in (("a container's only process", Process),
                ("a main process and its agent", Supervised)):
            show(f"kill of {what} to gone, {ROUNDS} kills next to {CONTAINERS} containers",
                kills_ms(follower, lambda kind=kind: kind(host, victim, folder), ROUNDS))
        print(f"{RESTARTS} kills of the host's agent: "
              f"{deletions_at_restarts(host, follower)} records of living containers went")
        sockets = [host.containers / f"c{i}/berth.sock" for i in range(CONTAINERS - 1)]
        show(f"look-ups of {len(sockets)} containers in turn", look_ups_ms(sockets))
        host.container("hostile")
        control = folder / "control"
        (control / "registry").mkdir(parents=True)
        (control / "berth.sock").symlink_to(follower.agent.socket)
        for what, source in ATTACKS.items():
            attack(host, sockets, control, what, source)
        if os.geteuid() == 0:
            next_to_one_that_is_held(host, follower, victim, folder, sockets)
        for process in (host.agent.process.pid, host.agent.worker(), lookers(
                host.agent.process.pid)[-1]):
            comm = pathlib.Path(f"/proc/{process}/comm").read_text().strip()
            print(f"memory of {comm} (PSS): {pss_mb(process):.2f} MB")


if __name__ == "__main__":
    main()
