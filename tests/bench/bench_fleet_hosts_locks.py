"""HOSTS hosts (default 20) of CONTAINERS containers (default 50) on three ZooKeeper servers, with
one agent a host. Containers are processes that hold the locks of their records in their
directories, as `berth bind --ephemeral` does: those of a host are one process of the bench, so that
what is counted are the hosts' agents and the servers, for up to some hundred hosts.

The first container of each host is a database, which all hosts follow; the others are web servers
that nobody does. A stream of each host's agent says when that host knows of a change; all streams
have one reader, whose own time counts, too.
"""

import contextlib
import json
import os
import re
import resource
import select
import signal
import statistics
import subprocess
import sys
import threading
import time

from bench_fleet_hosts import (AT_ONCE, CONTAINERS, DATABASES, FIRST_USER, HOSTS, PATIENCE, SERVERS,
    Column, Hosts, cpu_s, memory_kb, run, show)
from berth import service_record, wait_until
from streams import NDJSON, Stream

CHANGES = int(os.environ.get("BERTH_CHANGES", "30"))
BETWEEN_S = 1.1  # changes of a record: [registry] update_interval is over
QUIET_S = 3  # behind an event
LOOK_S = 0.2
HOLDER = r"""
import fcntl, json, os, shutil, struct, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
held = {}
for line in sys.stdin:
    folder, record = json.loads(line)
    if record is None:
        held.pop(folder).close()
        shutil.rmtree(folder)
        continue
    os.makedirs(folder, exist_ok=True)
    if folder not in held:
        owner = held[folder] = open(f"{folder}/_owner", "w")
        owner.write("pid 1\n")
        owner.flush()
        fcntl.fcntl(owner, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        fcntl.flock(owner, fcntl.LOCK_SH)
    with open(f"{folder}/_new", "w") as file:
        json.dump(record, file)
    os.rename(f"{folder}/_new", f"{folder}/_record")
"""


def record_of(description):
    return service_record("10.0.0.1", 80, description=description,
        **{"yarn:persistence": "container"})


class Locks(Hosts):
    """One session for each host; `inside` are the hosts' agents."""

    name = "locks"

    def __init__(self, folder, ensemble):
        super().__init__(folder, ensemble)
        self.holders, self.streams = {}, {}

    def user(self, host):
        """A user has 128 inotify instances."""
        return {"user": FIRST_USER + host, "group": FIRST_USER + host, "extra_groups": []} if (
            os.geteuid() == 0) else {}

    def start_hosts(self):
        for first in range(0, HOSTS, AT_ONCE):
            hosts = range(first, min(first + AT_ONCE, HOSTS))
            for host in hosts:
                self.start_host(host)
            for host in hosts:
                wait_until(self.inside[host].answers, "the host's agent answers", PATIENCE)
                self.fill(host)
            print(f"\r{len(self.inside)} hosts ", end="", file=sys.stderr, flush=True)
        print("\r", end="", file=sys.stderr)

    def start_host(self, host):
        containers = self.containers(host)
        for number in range(CONTAINERS):
            (containers / f"c{number}").mkdir(parents=True)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{FIRST_USER + host}:{FIRST_USER + host}", containers],
                check=True)
        agent = self.agent(f"host{host}", self.ensemble.url, {
            "agent": {"log_level": "warn"},
            "bridge": {"containers": containers},
            "cache": {"warm": f"{DATABASES}/**"},
            "container *": {"allow": "/users/joe/**", "rate": "1000"},
        }, FIRST_USER + host)
        self.inside.append(agent)

    def fill(self, host):
        """Its containers run."""
        for number in range(CONTAINERS):
            wait_until((self.containers(host) / f"c{number}/registry").is_dir,
                "the container is taken up", PATIENCE)
        self.holders[host] = subprocess.Popen([sys.executable, "-I", "-S", "-c", HOLDER,
            str(FIRST_USER + host)], stdin=subprocess.PIPE, text=True)
        for number in range(CONTAINERS):
            self.hold(host, number)

    def path(self, host, number, database=None):
        base = DATABASES if (number == 0 if database is None else database) else SERVERS
        return f"{base}/h{host}-c{number}"

    def hold(self, host, number, description="one of many", database=None):
        """A record is there, changes, or (None) goes."""
        path = self.path(host, number, database)
        folder = f"{self.containers(host)}/c{number}/registry{path}"
        record = None if description is None else record_of(description)
        self.holders[host].stdin.write(json.dumps([folder, record]) + "\n")
        self.holders[host].stdin.flush()

    def start(self):
        self.start_hosts()
        self.wait_live()
        for agent in self.inside:
            stream = self.streams[agent] = Stream(agent.socket, f"/v1/watch{DATABASES}"
                "?recursive=yes", NDJSON)
            stream.next(PATIENCE)

    def registered(self, agent):
        found = re.search(r'berth_bridge_records\{state="registered"\} (\d+)',
            agent.get("/metrics").body.decode())
        return int(found[1]) if found else 0

    def is_live(self, agent, records=CONTAINERS):
        if agent.status()["registry"]["state"] != "connected" or self.registered(agent) < records:
            return False
        answer = agent.get(f"/v1/records{DATABASES}")
        return answer.status == 200 and answer.headers["X-Cache"] != "STALE" and len(
            answer.json) == HOSTS

    def wait_live(self, agents=None):
        for agent in agents or self.inside:
            wait_until(lambda agent=agent: self.is_live(agent), "each host is live", PATIENCE)

    def times_of(self, path, wanted, begin):
        """When each host's stream has such an event of the path, in seconds from `begin`."""
        waiting = {stream.fileno(): stream for stream in self.streams.values()}
        poll = select.poll()
        for number in waiting:
            poll.register(number, select.POLLIN)
        times, deadline = [], time.monotonic() + PATIENCE
        while waiting:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(waiting)} hosts do not know that {path} {wanted}")
            for number, _ in poll.poll(1000):
                stream = waiting[number]
                event = stream.next(PATIENCE, heartbeats=True)
                while event:
                    if event["type"] in ("RESYNC", "SUBSCRIBED"):
                        there = path in stream.tree
                    else:
                        there = event.get("path") == path and event["type"] == "UPDATED"
                        there = there or None if event.get("path") != path else there
                    if there is not None and there == (wanted is not None) and (wanted is None
                            or stream.tree[path]["description"] == wanted):
                        times.append(time.monotonic() - begin)
                        poll.unregister(number)
                        del waiting[number]
                        break
                    frame = stream._take()
                    event = json.loads(frame) if frame else None
                    if event:
                        stream.replay(event)
        return times

    def open_streams_again(self, agents):
        for agent in agents:
            self.streams[agent].close()
            self.streams[agent] = Stream(agent.socket, f"/v1/watch{DATABASES}?recursive=yes",
                NDJSON)
            self.streams[agent].next(PATIENCE)

    def pids(self, agents):
        """Their helpers, too: a worker, a looker, a writer of the log."""
        found = []
        for agent in agents:
            pid = agent.process.pid
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children",
                    encoding="ascii") as children:
                found += [pid, *map(int, children.read().split())]
        return found

    def memory_of(self, agent):
        total = 0
        for pid in self.pids([agent]):
            with contextlib.suppress(OSError):
                total += memory_kb(pid, HOSTS)
        return total

    def memory_of_host(self):
        return statistics.median(map(self.memory_of, self.inside))

    def end(self):
        for stream in self.streams.values():
            stream.close()
        for holder in self.holders.values():
            holder.kill()
            holder.wait()
            holder.stdin.close()
        super().end()


class Packets:
    """What the servers receive while it is open, as a context; `count` afterwards. By connection: a
    session that goes to another server begins anew there."""

    def __init__(self, servers):
        self.servers = servers
        self.before = self.look()
        self.most = dict(self.before)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.count = 0

    def look(self):
        return {port: int(count) for text in self.servers.ask(b"cons")
            for port, count in re.findall(r":(\d+)\[.*?recved=(\d+),.*?sid=0x", text)}

    def run(self):
        while not self.done.wait(LOOK_S):
            self.most.update(self.look())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.most.update(self.look())
        self.count = sum(count - self.before.get(port, 0) for port, count in self.most.items())


class LocksColumn(Column):
    """The figures of it."""

    @contextlib.contextmanager
    def counted(self, what, processor=True):
        """What the servers received, and used, from here to QUIET_S behind the event; signs of
        life, of which there are few, count."""
        used = cpu_s(self.servers.pids())
        with Packets(self.servers) as packets:
            yield time.monotonic()
            time.sleep(QUIET_S)
        self.put(f"{what}: requests", packets.count)
        if processor:
            self.put(f"{what}: processor time of the servers, s",
                f"{cpu_s(self.servers.pids()) - used:.2f}")

    def event(self, what, path, wanted, act):
        with self.counted(what) as begin:
            act()
            times = self.fleet.times_of(path, wanted, begin)
        self.put(f"{what}: until the last host knows it, ms", f"{max(times) * 1000:.0f}")

    def start(self):
        fleet = self.fleet
        with self.counted("start"):
            begin = time.monotonic()
            fleet.start()
            took = time.monotonic() - begin
        self.put("start: until all are registered and live, s", f"{took:.0f}")
        self.put("start: requests of a host", f"{self.rows['start: requests'] / HOSTS:.0f}")
        self.put("sessions", len(self.servers.received()))
        self.put("watches", self.servers.watches())
        self.put("memory of all processes of a host's agent, KB (median)",
            f"{fleet.memory_of_host():.0f}")

    def peace(self):
        super().peace()
        of_all = float(self.rows.pop("peace: processor of all agents, %"))
        self.put("peace: processor of a host's agent, %", f"{of_all / HOSTS:.3f}")

    def events(self):
        fleet = self.fleet
        # A second database in a web server's container: the host has one more.
        path = fleet.path(0, 1, database=True)
        self.event("an arrival", path, "new", lambda: fleet.hold(0, 1, "new", True))
        self.event("a change", path, "changed", lambda: fleet.hold(0, 1, "changed", True))
        self.event("a leave", path, None, lambda: fleet.hold(0, 1, None, True))
        self.event(f"a kill of {CONTAINERS} containers", fleet.path(0, 0), None,
            fleet.holders[0].kill)
        fleet.holders[0].wait()
        fleet.fill(0)
        fleet.times_of(fleet.path(0, 0), "one of many", time.monotonic())
        fleet.wait_live(fleet.inside[:1])
        times = []
        for number in range(CHANGES):
            time.sleep(BETWEEN_S)
            begin = time.monotonic()
            fleet.hold(0, 0, f"change {number}")
            times += fleet.times_of(fleet.path(0, 0), f"change {number}", begin)
        times.sort()
        self.put(f"fan-out of a change to {HOSTS} hosts, p50, ms",
            f"{times[len(times) // 2] * 1000:.1f}")
        self.put(f"fan-out of a change to {HOSTS} hosts, p99, ms",
            f"{times[len(times) * 99 // 100] * 1000:.1f}")

    def rolling_restart(self):
        fleet = self.fleet
        what = "a rolling restart of all hosts' agents, with QUIT"
        sessions = set(self.servers.received())
        with self.counted(what) as begin:
            for first in range(0, HOSTS, AT_ONCE):
                agents = fleet.inside[first:first + AT_ONCE]
                for agent in agents:
                    agent.signal(signal.SIGQUIT)
                for host, agent in enumerate(agents, first):
                    agent.wait()
                    agent.start(wait=False, env=fleet.environment, **fleet.user(host))
                for agent in agents:
                    wait_until(agent.answers, "the agent answers", PATIENCE)
                fleet.wait_live(agents)
            took = time.monotonic() - begin
        fleet.open_streams_again(fleet.inside)
        self.put(f"{what}: until all are live, s", f"{took:.0f}")
        self.put(f"{what}: sessions lost", len(sessions - set(self.servers.received())))

    def servers_in_turn(self):
        ensemble = self.fleet.ensemble
        sessions = set(self.servers.received())
        what = "a restart of each server in turn"
        with self.counted(what, processor=False) as begin:
            for server in ensemble.servers:
                ensemble.restart(server)
                self.fleet.wait_live()
            took = time.monotonic() - begin
        self.put(f"{what}: until all are live, s", f"{took:.0f}")
        what = "the loss of a server"
        lost = ensemble.leader()
        with self.counted(what, processor=False) as begin:
            lost.kill()
            self.fleet.wait_live()
            took = time.monotonic() - begin
        self.put(f"{what}, the leader: until all are live, s", f"{took:.1f}")
        ensemble.restart(lost)
        self.fleet.wait_live()
        self.put("these: sessions lost", len(sessions - set(self.servers.received())))

    def heap(self):
        """Of the servers, as their last collections left it."""
        most = 0
        for server in self.fleet.ensemble.servers:
            text = (server.folder / "gc.log").read_text()
            most = max([most, *(int(left) for left in re.findall(r"\d+M->(\d+)M\(", text))])
        self.put("heap of a server behind its collections, at most, MB", most)

    def measure(self):
        self.start()
        self.peace()
        self.events()
        self.rolling_restart()
        self.servers_in_turn()
        self.heap()


def main():
    # Each server has a descriptor for a session, and the bench one for each stream.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65536)), hard))
    # The servers' collections, each into its own folder.
    os.environ["JDK_JAVA_OPTIONS"] = "-Xlog:gc:gc.log"
    show([run(Locks, LocksColumn)])


if __name__ == "__main__":
    main()
