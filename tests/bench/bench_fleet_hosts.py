"""A fleet twice, on three ZooKeeper servers: an agent with a session in each container, and one
agent a host that bridges its containers.

HOSTS hosts (default 20) of CONTAINERS containers each (default 50). Each container has
an agent with one component. The first container of each host is a database, and all containers keep
the databases warm, as clients of one service do; the others are web servers that nobody follows.
Requests are the packets that the servers received. BERTH_FLEETS: "sessions", "hosts", or both
(default); BERTH_PEACE: seconds of the quiet time (default 60).

Each host's containers run as a user of their own, since a user has only 128 inotify instances:
without root, a fleet is as large as that allows. On one machine all processes share the pages of
their programs; the figures of memory are those of a host by itself, where only its own processes
share them.
"""

import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time

from bench_fleet import BIN, bins_of, window_of
from berth import PROGRAMS, Agent, has_ended, wait_until
from ensemble import Ensemble

HOSTS = int(os.environ.get("HOSTS", "20"))
CONTAINERS = int(os.environ.get("CONTAINERS", "50"))
AGENTS_MAX = 2000  # that one machine runs in containers
PEACE = float(os.environ.get("BERTH_PEACE", "60"))
FLEETS = os.environ.get("BERTH_FLEETS", "sessions hosts").split()
DATABASES = "/users/joe/db/prod/components"
SERVERS = "/users/joe/web/prod/components"
FIRST_USER = 50001
SESSION = "30s"
WINDOW_S = 30  # after a restart; the confirmations are over by then
AT_ONCE = 20  # agents that start at the same time
PATIENCE = 300


def cpu_s(pids):
    """The processor time of these processes; one that has ended counts no more.

    By their clocks (clock_getcpuclockid(3)), which the scheduler keeps: the samples of
    /proc/PID/stat miss a process that a timer wakes for less than a tick.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime(~pid << 3 | 2)
    return total


def memory_kb(pid, sharers):
    """What a process takes of a host where one in `sharers` of those that share pages here runs."""
    rows = dict(re.findall(r"(?m)^(\w+): +(\d+) kB",
        pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()))
    own = int(rows["Pss_Anon"]) + int(rows["Pss_Shmem"])
    return own + int(rows["Pss_File"]) * sharers


def available_mb():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable: +(\d+)", text)[1]) // 1024


class Servers:
    """What three servers say of their connections."""

    def __init__(self, ensemble):
        self.ensemble = ensemble

    def ask(self, word):
        for server in self.ensemble.servers:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port),
                    60) as connection:
                connection.sendall(word)
                with connection.makefile("rb") as answer:
                    yield answer.read().decode()

    def received(self):
        """Packets by session."""
        counts = collections.Counter()
        for text in self.ask(b"cons"):
            for count, session in re.findall(r"recved=(\d+),.*?sid=(0x[0-9a-f]+)", text):
                counts[session] += int(count)
        return counts

    def watches(self):
        return sum(int(re.search(r"Total watches:(\d+)", text)[1]) for text in self.ask(b"wchs"))

    def pids(self):
        return [server.process.pid for server in self.ensemble.servers if server.process]


class Looks:
    """What the servers receive while it is open, as a context; `window` afterwards: [(time, sum so
    far)] without the signs of life, which come behind a pause."""

    def __init__(self, servers, interval, before=None):
        self.servers = servers
        self.interval = interval
        self.before = before or collections.Counter()
        self.begin = time.monotonic()
        self.looks = [(0.0, {})]
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.window = []

    def look(self):
        counts = {session: count - self.before[session]
            for session, count in self.servers.received().items()}
        self.looks.append((time.monotonic() - self.begin, counts))

    def run(self):
        while not self.done.wait(self.interval):
            self.look()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.look()
        self.window = window_of(self.looks)


class Fleet:
    """One component in each container; `inside` are the containers' agents."""

    def __init__(self, folder, ensemble):
        self.folder = folder
        self.ensemble = ensemble
        self.inside = []
        self.agents = []  # those of the hosts, too
        self.environment = {**os.environ, "BERTH_LIBEXECDIR": str(folder.parent)}
        folder.mkdir()

    def agent(self, name, registry, sections, user):
        agent = Agent(self.folder / name, registry, sections, session_timeout=SESSION)
        agent.program = self.folder.parent / "berthd"
        as_user = {}
        if os.geteuid() == 0:
            shutil.chown(agent.folder, user, user)
            as_user = {"user": user, "group": user, "extra_groups": []}
        self.agents.append(agent)
        return agent.start(wait=False, env=self.environment, **as_user)

    def sections(self, path, description="one of many"):
        return {
            "agent": {"log_level": "warn"},
            "cache": {"warm": f"{DATABASES}/**"},
            "component": {"path": path, "description": description},
            "endpoint tcp": {"api": "http", "protocol": "tcp", "address_type": "host/port",
                "address": "10.0.0.1:80"},
            "check alive": {"type": "ttl", "interval": "1h", "initial": "passing"},
        }

    def registry_of(self, host, name):
        """The url of a container's agent."""
        raise NotImplementedError

    def begin(self, host, number, is_database):
        """The agent of a container."""
        name = f"h{host}-c{number}"
        path = f"{DATABASES if is_database else SERVERS}/{name}"
        agent = self.agent(name, self.registry_of(host, name), self.sections(path),
            FIRST_USER + host)
        self.inside.append(agent)
        return agent

    def start_hosts(self):
        pass

    def start(self):
        self.start_hosts()
        places = [(host, number) for number in range(CONTAINERS) for host in range(HOSTS)]
        for at in range(0, len(places), AT_ONCE):
            group = [self.begin(host, number, number == 0)
                for host, number in places[at:at + AT_ONCE]]
            for agent in group:
                wait_until(agent.answers, "the agent answers", PATIENCE)
                agent.wait_state("registered")
            print(f"\r{len(self.inside)} agents ", end="", file=sys.stderr, flush=True)
        print("\r", end="", file=sys.stderr)
        self.wait_known({f"{DATABASES}/h{host}-c0": "one of many" for host in range(HOSTS)})

    def wait_known(self, wanted):
        """Each agent answers with these databases, from copies that it follows."""
        for agent in self.inside:
            wait_until(lambda agent=agent: self.known(agent) == wanted,
                "each agent knows the databases", PATIENCE)

    def known(self, agent):
        answer = agent.get(f"/v1/records{DATABASES}")
        return answer.status == 200 and answer.headers["X-Cache"] != "STALE" and {
            path: record["description"] for path, record in answer.json.items()}

    def wait_live(self):
        for agent in self.inside:
            wait_until(lambda agent=agent: self.known(agent) and
                agent.component_state() == "registered", "each agent is live again", PATIENCE)

    def pids(self, agents):
        return [pid for agent in agents for pid in (agent.process.pid, agent.worker()) if pid]

    def end(self):
        """The containers' agents first."""
        started = [agent for agent in self.agents if agent.process]
        pids = [pid for agent in started if agent.process.poll() is None
            for pid in self.pids([agent])]
        for agents in ([agent for agent in started if agent in self.inside], started):
            for agent in agents:
                agent.signal(signal.SIGTERM)
            for agent in agents:
                agent.end()
        wait_until(lambda: all(map(has_ended, pids)), "no process is left")


class Sessions(Fleet):
    """A session in each container."""

    name = "sessions"

    def registry_of(self, host, name):
        return self.ensemble.url

    def memory_of_host(self):
        return sum(self.memory_of(agent) for agent in self.inside) / HOSTS

    def memory_of(self, agent):
        return sum(memory_kb(pid, HOSTS) for pid in self.pids([agent]))


class Hosts(Sessions):
    """A session for each host."""

    name = "hosts"

    def start_hosts(self):
        self.hosts = [self.agent(f"host{host}", self.ensemble.url, {
            "agent": {"log_level": "warn"},
            "bridge": {"containers": self.containers(host)},
            "container *": {"allow": "/users/joe/**",
                "owner": f"{FIRST_USER + host}:{FIRST_USER + host}" if os.geteuid() == 0 else ""},
        }, 0) for host in range(HOSTS)]
        for agent in self.hosts:
            wait_until(agent.answers, "the host's agent answers", PATIENCE)

    def containers(self, host):
        return self.folder / f"containers{host}"

    def registry_of(self, host, name):
        folder = self.containers(host) / name
        folder.mkdir()
        return f"host:{folder}"

    def memory_of_host(self):
        return super().memory_of_host() + sum(map(self.memory_of, self.hosts)) / HOSTS


class Column:
    """The figures of one fleet, by their names."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.servers = Servers(fleet.ensemble)
        self.rows = {}
        self.known = {}

    def put(self, what, value):
        self.rows[what] = value
        print(f"  {what:62} {value}", flush=True)

    @contextlib.contextmanager
    def measured(self, what):
        """An event: what the servers received, and took, until every agent knew of it."""
        before, used = self.servers.received(), cpu_s(self.servers.pids())
        with Looks(self.servers, 1, before) as looks:
            yield
            self.fleet.wait_known(self.known)
            took = time.monotonic() - looks.begin
        requests = looks.window[-1][1]
        self.put(f"{what}: requests in all", requests)
        self.put(f"{what}: requests of a session", f"{requests / len(before):.1f}")
        self.put(f"{what}: processor time of the servers, s",
            f"{cpu_s(self.servers.pids()) - used:.2f}")
        self.put(f"{what}: until the last agent was seen to know it, s", f"{took:.1f}")

    def start(self):
        fleet, room = self.fleet, available_mb()
        used, begin = cpu_s(self.servers.pids()), time.monotonic()
        fleet.start()
        self.put("start: until all are registered and live, s", f"{time.monotonic() - begin:.0f}")
        self.put("start: processor time of the servers, s",
            f"{cpu_s(self.servers.pids()) - used:.1f}")
        received = self.servers.received()
        self.put("start: requests", sum(received.values()))
        self.put("start: requests for each container",
            f"{sum(received.values()) / len(fleet.inside):.1f}")
        self.put("sessions, connections", len(received))
        self.put("watches", self.servers.watches())
        self.put("memory that the machine gave, MB", room - available_mb())
        memory = sorted(map(fleet.memory_of, fleet.inside))
        self.put("memory of a container's agent, KB (median)", f"{statistics.median(memory):.0f}")
        self.put("memory of all agents of a host, MB", f"{fleet.memory_of_host() / 1024:.1f}")
        self.known = fleet.known(fleet.inside[0])

    def peace(self):
        pids = self.fleet.pids(self.fleet.agents)
        before, of_agents = self.servers.received(), cpu_s(pids)
        used, begin = cpu_s(self.servers.pids()), time.monotonic()
        time.sleep(PEACE)
        used, passed = cpu_s(self.servers.pids()) - used, time.monotonic() - begin
        requests = sum(self.servers.received().values()) - sum(before.values())
        self.put("peace: requests a second", f"{requests / passed:.1f}")
        self.put("peace: processor of the servers, %", f"{100 * used / passed:.1f}")
        self.put("peace: processor of all agents, %",
            f"{100 * (cpu_s(pids) - of_agents) / passed:.1f}")

    def events(self):
        fleet = self.fleet
        with self.measured("an arrival"):
            newcomer = fleet.begin(0, CONTAINERS, True)
            wait_until(newcomer.answers, "it answers", PATIENCE)
            path = newcomer.status()["components"][0]["path"]
            self.known[path] = "one of many"
        newcomer.write_config(fleet.sections(path, "changed"))
        with self.measured("a change"):
            newcomer.signal(signal.SIGHUP)
            self.known[path] = "changed"
        with self.measured("a leave"):
            fleet.inside.remove(newcomer)
            newcomer.signal(signal.SIGTERM)
            newcomer.wait()
            del self.known[path]

    def restart(self):
        """All servers are killed, and started again."""
        ensemble, servers = self.fleet.ensemble, self.servers
        sessions = set(servers.received())
        for server in ensemble.servers:
            server.kill()
        for server in ensemble.servers:
            server.start(ensemble.servers)
        ensemble.wait_serving()
        used = cpu_s(servers.pids())
        with Looks(servers, 0.2) as looks:
            self.fleet.wait_live()
            live = time.monotonic() - looks.begin
            used = cpu_s(servers.pids()) - used
            time.sleep(max(0, WINDOW_S - live))
        bins = bins_of(looks.window)
        self.put("restart of the servers: until all are live again, s", f"{live:.1f}")
        self.put("restart of the servers: requests", looks.window[-1][1])
        self.put(f"restart of the servers: most requests in {BIN} s", round(max(bins.values())))
        self.put("restart of the servers: their processor time by then, s", f"{used:.1f}")
        self.put("restart of the servers: sessions lost", len(sessions - set(servers.received())))

    def measure(self):
        self.start()
        self.peace()
        self.events()
        self.restart()


def show(columns):
    """A table for the sizing page."""
    print(f"\n| {HOSTS} hosts of {CONTAINERS} containers | "
        + " | ".join({"sessions": "a session in each container", "hosts": "one agent a host",
            "locks": "one agent a host, none in containers"}[column.fleet.name]
            for column in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row in columns[0].rows:
        print(f"| {row} | " + " | ".join(str(column.rows[row]) for column in columns) + " |")


def run(kind, column):
    print(f"{kind.name}: {HOSTS} hosts of {CONTAINERS} containers", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, \
            Ensemble(config=["maxSessionTimeout=3600000"]) as ensemble, \
            contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        for program in ("berthd", "berth-zookeeper", "berth-looker"):
            shutil.copy(PROGRAMS / program, folder)
        fleet = kind(folder / kind.name, ensemble)
        stack.callback(fleet.end)
        column = column(fleet)
        column.measure()
    return column


def main():
    if HOSTS * CONTAINERS > AGENTS_MAX:
        print(f"not with more than {AGENTS_MAX} agents in containers")
        return
    show([run(kind, Column) for kind in (Sessions, Hosts) if kind.name in FLEETS])


if __name__ == "__main__":
    main()
