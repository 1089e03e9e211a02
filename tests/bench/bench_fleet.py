"""What a fleet of agents costs its ensemble: requests at every event of a component's life,
watches, a restart of the server.

Every agent registers one component and keeps the whole directory of components warm, as agents that
look each other up do. The figures are for the sizing page. Environment: BERTH_FLEET, the number of
agents (default 60), BERTH_ROUNDS (default 20).
"""

import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from berth import Agent, wait_until
from zk_client import ZkClient
from zookeeper import ZooKeeper

FLEET = int(os.environ.get("BERTH_FLEET", "60"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "20"))
DIRECTORY = os.path.dirname(Agent.PATH)
SESSION = "1h"  # no sign of life falls into a measurement
WATCHED = 30  # seconds after a restart; the window of confirmations has ended by then
USUAL_SESSION = "30s"
# A session that has asked nothing for so long has ended its window: a sign of life comes after a
# quarter of the session's timeout, and within the window a confirmation follows the other.
WINDOW_PAUSE = 5
QUIET = 1.5  # nothing was asked for so long: the event is over
USUAL_DESCRIPTION = "one of many"
AT_ONCE = 10  # agents that start at the same time
BIN = 0.25  # of the histogram after a restart


class Counters:
    """What the server says of its connections."""

    def __init__(self, server, quiet):
        self.server = server
        self.quiet = quiet

    def four_letters(self, word):
        with socket.create_connection(("127.0.0.1", self.server.port), 10) as connection:
            connection.sendall(word)
            with connection.makefile("rb") as answer:
                return answer.read().decode()

    def received(self):
        """Packets by session; what connects and authenticates counts as one."""
        found = re.findall(r"recved=(\d+),.*?sid=(0x[0-9a-f]+)", self.four_letters(b"cons"))
        return collections.Counter({sid: int(count) for count, sid in found})

    def settled(self):
        """The same when nothing has been asked for a while."""
        before, since = self.received(), time.monotonic()
        while time.monotonic() - since < self.quiet:
            time.sleep(0.1)
            now = self.received()
            if now != before:
                before, since = now, time.monotonic()
        return before

    def watches(self):
        return int(re.search(r"Total watches:(\d+)", self.four_letters(b"wchs")).group(1))


class Fleet:
    """Agents w1, w2 and so on. `group`: so many of them have a directory in common; without it all
    have."""

    def __init__(self, folder, server, session, quiet=QUIET, group=None):
        self.group = group
        self.folder = folder
        self.server = server
        self.timeout = session
        self.counters = Counters(server, quiet)
        self.agents = {}

    def instance(self, name):
        return f"test{(int(name[1:]) - 1) // self.group}" if self.group else "test"

    def directory(self, name):
        return DIRECTORY.replace("/test/", f"/{self.instance(name)}/")

    def sections(self, agent, name, description=USUAL_DESCRIPTION):
        return {
            **agent.component(None, user="joe", instance=self.instance(name), name=name,
                id=f"container_1_0001_01_{int(name[1:]):06}", description=description),
            "agent": {"log_level": "info"},
            "registry": {"session_timeout": self.timeout},
            # The usual re-reading of every entry in ten minutes would fall into every measurement.
            "cache": {"warm": f"{self.directory(name)}/**", "resync": "24h"},
        }

    def named(self, agent, name, **keywords):
        sections = {}
        for section, options in self.sections(agent, name, **keywords).items():
            sections[section.replace(name, "") if section.startswith("endpoint")
                else section.split(" ")[0]] = {
                key: value for key, value in options.items() if key != "component"
            }
        return sections

    def begin(self, name):
        agent = Agent(self.folder / name, self.server.url)
        agent.write_config(self.named(agent, name))
        self.agents[name] = agent
        return agent.start(wait=False)

    def start(self, name):
        agent = self.begin(name)
        wait_until(agent.answers, "the agent answers")
        agent.wait_state("registered")
        return agent

    def start_all(self, size):
        for first in range(1, size + 1, AT_ONCE):
            for number in range(first, min(first + AT_ONCE, size + 1)):
                self.begin(f"w{number}")
            for number in range(first, min(first + AT_ONCE, size + 1)):
                agent = self.agents[f"w{number}"]
                wait_until(agent.answers, "the agent answers")
                agent.wait_state("registered")
        for name in self.agents:
            wait_until(lambda: self.is_fresh(name), "each agent knows its directory")

    def is_fresh(self, name):
        """It answers from live copies. (A long answer that has to be made first is not a HIT.)"""
        answer = self.agents[name].get(f"/v1/records{self.directory(name)}")
        members = sum(self.instance(other) == self.instance(name) for other in self.agents)
        return answer.status == 200 and answer.headers["X-Cache"] != "STALE" and len(
            answer.json) == members

    def session(self, name):
        return self.agents[name].status()["registry"]["session"]

    def end(self):
        for agent in self.agents.values():
            agent.signal(signal.SIGTERM)
        for agent in self.agents.values():
            agent.end()
        self.agents = {}


def others(fleet, before, after, but):
    """The mean number of requests of each agent but one."""
    sessions = [fleet.session(name) for name in fleet.agents if name != but]
    return statistics.mean(after[sid] - before[sid] for sid in sessions)


def show(what, value, goal=""):
    print(f"{what:54} {value:>9} {goal}", flush=True)


@dataclasses.dataclass
class Life:
    """What the events of a component's life cost the server: requests, and watches in all."""

    first: int  # the start of an agent in an empty registry
    own: int  # the start of the last agent, without the records of the others
    arrival: float  # of each other agent
    changed: float
    leaving: float
    sessions: int
    watches: int


def descriptions(agent):
    """What the agent knows of all: costs no request while its copies are live."""
    answer = agent.get(f"/v1/records{DIRECTORY}")
    return answer.status == 200 and {path.rpartition("/")[2]: record["description"]
        for path, record in answer.json.items()}


def wait_known(fleet, wanted):
    for agent in fleet.agents.values():
        wait_until(lambda: descriptions(agent) == wanted,
            "each agent knows each record")


def count_life(fleet, size):
    """Each event begins when every agent knows of the one before, and no agent has asked for a
    while."""
    counters = fleet.counters
    known = {}

    def start(name):
        agent = fleet.start(name)
        known[name] = USUAL_DESCRIPTION
        return agent

    first = start("w1")
    first_start = counters.settled()[fleet.session("w1")]
    for number in range(2, size):
        start(f"w{number}")
    wait_known(fleet, known)
    before = counters.settled()
    last = f"w{size}"
    start(last)
    wait_known(fleet, known)
    after = counters.settled()
    own = after[fleet.session(last)] - (size - 1)
    arrival = others(fleet, before, after, last)
    sessions, watches = len(counters.received()), counters.watches()
    before = counters.settled()
    first.write_config(fleet.named(first, "w1", description="changed"))
    first.signal(signal.SIGHUP)
    known["w1"] = "changed"
    wait_known(fleet, known)
    after = counters.settled()
    changed = others(fleet, before, after, "w1")
    before = counters.settled()
    fleet.agents[last].signal(signal.SIGTERM)
    fleet.agents.pop(last).wait()
    del known[last]
    wait_known(fleet, known)
    after = counters.settled()
    return Life(first_start, own, arrival, changed, others(fleet, before, after, last), sessions,
        watches)


def measure_life(fleet):
    life = count_life(fleet, FLEET)
    show("first agent's start in an empty registry: requests", life.first)
    show(f"last agent's start next to {FLEET - 1}: requests", life.own + FLEET - 1)
    show("  of these one for each record of the others", FLEET - 1)
    show("  and for itself", life.own, "(goal: at most 12)")
    show("an arrival: requests of each other agent", f"{life.arrival:.2f}", "(goal: at most 3)")
    show("sessions on the server", life.sessions)
    show("watches on the server", life.watches)
    show("  for each record and agent", f"{life.watches / FLEET / FLEET:.2f}", "(goal: 1)")
    show("requests a second of all, by resync = 10m", f"{life.watches / 600:.1f}",
        "(each watch once)")
    show("  of an agent", f"{life.watches / FLEET / 600:.2f}")
    show("a changed record: requests of each other agent", f"{life.changed:.2f}", "(goal: 1)")
    show("a leaving: requests of each other agent", f"{life.leaving:.2f}", "(goal: at most 2)")


def bins_of(totals):
    """
    The sum of each bin of BIN seconds, from (time, sum so far). The growth between two looks counts
    in equal parts for each moment between them: a look that a busy machine delays is not a peak.
    """
    bins = collections.Counter()
    for (since, earlier), (until, total) in zip(totals, totals[1:]):
        at = since
        while at < until:
            end = min((int(at / BIN) + 1) * BIN, until)
            end = end if end > at else until
            bins[int(at / BIN)] += max(total - earlier, 0) * (end - at) / (until - since)
            at = end
    return bins


def window_of(looks):
    """
    The requests of the reconnect: [(time, sum so far)] from [(time, requests by session)]. What a
    session asks behind its first pause is a ping.
    """
    counted, changed, ended = {}, {}, set()
    totals = []
    for at, counts in looks:
        for session, count in counts.items():
            if count == counted.get(session, 0) or session in ended:
                continue
            if at - changed.get(session, at) > WINDOW_PAUSE:
                ended.add(session)
            else:
                counted[session], changed[session] = count, at
        totals.append((at, sum(counted.values())))
    return totals


def measure_restart(fleet):
    """The server is killed and started again. The requests of the reconnect, by time."""
    fleet.start_all(FLEET)
    fleet.server.restart()
    begun = time.monotonic()
    looks = [(0.0, {})]  # the server answers, and may have been asked already
    while time.monotonic() - begun < WATCHED:
        looks.append((time.monotonic() - begun, fleet.counters.received()))
        time.sleep(0.02)
    bins = bins_of(window_of(looks))
    busy = [number for number, count in bins.items() if count]
    counts = [bins[number] for number in range(min(busy), max(busy) + 1)]
    mean = statistics.mean(counts)
    show("after a restart of the server: requests in all", round(sum(counts)))
    show("  for each agent", f"{sum(counts) / len(fleet.agents):.1f}")
    show("  spread over seconds", f"{len(counts) * BIN:.2f}")
    show(f"  most in {BIN} s, by the mean", f"{max(counts) / mean:.2f}", "(goal: at most 3)")
    print("  in each bin:", *(round(count) for count in counts))
    fresh = sum(map(fleet.is_fresh, fleet.agents))
    show("  agents that answer from live copies then", f"{fresh} of {len(fleet.agents)}")
    return fresh, round(sum(counts)), len(counts) * BIN


class Watch:
    """A client that says when a node comes and goes."""

    def __init__(self, server, path):
        self.process = subprocess.Popen(server.probe_command("watch", path), stdout=subprocess.PIPE,
            text=True)
        self.until("absent")

    def until(self, word):
        for line in self.process.stdout:
            if word in line:
                return time.monotonic()
        raise EOFError

    def end(self):
        self.process.kill()
        self.process.wait()


def bare_life(server, watch, path):
    """A client program that connects and creates; a session with an ephemeral node that is
    closed."""
    begin = time.monotonic()
    subprocess.run(server.probe_command("create", path, "{}"), check=True, capture_output=True)
    created = watch.until("present") - begin
    server.probe("delete", path)
    watch.until("absent")
    with ZkClient(server.hosts) as client:
        client.send_create(path, b"{}", ephemeral=True)
        client.receive()
        watch.until("present")
        begin = time.monotonic()
        client.send(-11, b"")
        closed = watch.until("absent") - begin
    return created, closed


def agent_life(fleet, watch, name):
    agent = Agent(fleet.folder / name, fleet.server.url)
    agent.write_config(fleet.named(agent, name))
    begin = time.monotonic()
    agent.start(wait=False)
    registered = watch.until("present") - begin
    agent.wait_state("registered")
    begin = time.monotonic()
    agent.signal(signal.SIGTERM)
    gone = watch.until("absent") - begin
    agent.wait()
    return registered, gone


def measure_times(fleet):
    name = f"w{FLEET + 1}"
    path = f"/registry{DIRECTORY}/{name}"
    watch = Watch(fleet.server, path)
    try:
        pairs = [(bare_life(fleet.server, watch, path), agent_life(fleet, watch, name))
            for _ in range(ROUNDS)]
    finally:
        watch.end()
    for index, (what, bare_what) in enumerate((("start to registered", "connect and create"),
        ("TERM to gone", "close"))):
        ours = statistics.median(pair[1][index] for pair in pairs) * 1000
        bare = statistics.median(pair[0][index] for pair in pairs) * 1000
        show(f"{what}, median ms", f"{ours:.1f}",
            f"(a bare {bare_what}: {bare:.1f} ms; {ours / bare:.2f} times)")


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ZooKeeper(
            "maxSessionTimeout=3600000\n") as server, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        fleet = Fleet(folder / "quiet", server, SESSION)
        stack.callback(fleet.end)
        print(f"{FLEET} agents, each with {DIRECTORY}/** warm; requests are the packets that the "
              "server received")
        measure_life(fleet)
        measure_times(fleet)
        fleet.end()
        fleet = Fleet(folder / "usual", server, USUAL_SESSION)
        stack.callback(fleet.end)
        measure_restart(fleet)


if __name__ == "__main__":
    main()
