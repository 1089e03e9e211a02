"""Three servers, and what happens to them: is a record ever absent, and does an agent ever say what
is no longer true?

Six agents keep a component each. A witness looks at their nodes through every server that answers.
A writer counts in a record, and an agent that registers nothing is asked for it all the while. The
table shows, for each event:

    looks     of the witness; absent: records that a server which answered did not have
    lookups   of the counting record; failed: those without it; live: answers that claim to be
              (X-Cache: HIT)
    lies      HIT with a value that was replaced longer than [cache] confirm ago, HIT while no
              server could have been heard for
              that long, or STALE with an Age that is less than the value's
    back      values that are older than the one before
    gap       the longest time without a live answer, in seconds

Environment: BERTH_ROUNDS, how often each event happens (default 1).
"""

import collections
import contextlib
import itertools
import json
import os
import pathlib
import tempfile
import threading
import time

from berth import Agent
from ensemble import Ensemble
from zk_client import ZkClient, ZkError

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "1"))
SESSION_S = 6
CONFIRM_S = SESSION_S / 3
AGENTS = 6
HOLD_S = 4  # for so long something is stopped
COUNTER = "/services/counter"
DIRECTORY = os.path.dirname(Agent.PATH)
SLACK_S = 0.5  # between an event and the word of it in another thread of this program


def connect(server):
    client = ZkClient(server.hosts)
    client.socket.settimeout(2)
    return client


class Worker(threading.Thread):
    """Does its work over and over until finish()."""

    def __init__(self, pause_s):
        super().__init__(daemon=True)
        self.pause_s = pause_s
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.pause_s):
            self.work()

    def finish(self):
        self.over.set()
        self.join()


class Witness(Worker):
    """One client of one server: a server that does not answer says nothing."""

    def __init__(self, server, names):
        self.server = server
        self.names = names
        self.client = None
        self.looks = 0
        self.absent = []
        super().__init__(0.05)

    def work(self):
        try:
            self.client = self.client or connect(self.server)
            missing = self.names - set(self.client.children(f"/registry{DIRECTORY}"))
        except (OSError, ZkError, ValueError, TypeError):
            self.drop()
        except Exception:  # an answer cut short
            self.drop()
        else:
            self.looks += 1
            self.absent += [(time.monotonic(), name) for name in sorted(missing)]

    def drop(self):
        if self.client:
            self.client.close()
        self.client = None


class Writer(Worker):
    """Sets the record to 1, 2, 3 …; `acknowledged`: (when, value)."""

    values = itertools.count(1)  # they go on from one event to the next

    def __init__(self, ensemble):
        self.ensemble = ensemble
        self.client = None
        self.acknowledged = []
        super().__init__(0.1)

    def work(self):
        value = next(self.values)
        record = {"type": "JSONServiceRecord", "description": str(value), "external": [],
            "internal": []}
        try:
            if not self.client:
                self.client = connect(self.ensemble.leader())
            self.client.set(f"/registry{COUNTER}", json.dumps(record))
            self.acknowledged.append((time.monotonic(), value))
        # no leader, a closed connection, an answer cut short: the next turn tries again
        except Exception:
            if self.client:
                self.client.close()
            self.client = None

    def replaced_at(self, value):
        """When the first newer value was acknowledged, or None."""
        return next((when for when, newer in list(self.acknowledged) if newer > value), None)


class Reader(Worker):
    def __init__(self, agent):
        self.agent = agent
        self.answers = []  # (asked, value, X-Cache, Age)
        self.failed = []  # (asked, status)
        super().__init__(0.02)

    def work(self):
        asked = time.monotonic()
        answer = self.agent.get(f"/v1/resolve{COUNTER}")
        if answer.status == 200:
            self.answers.append(
                (asked, int(answer.json["description"]), answer.headers["X-Cache"],
                    int(answer.headers["Age"])))
        else:
            self.failed.append((asked, answer.status))


def is_lie(answer, writer, unheard):
    """`unheard`: (from, until) of the times in which no server answered anybody."""
    asked, value, cache, age = answer
    replaced = writer.replaced_at(value)
    old_s = asked - replaced if replaced else 0
    if cache == "STALE":
        return old_s > age + 1 + SLACK_S  # Age counts whole seconds
    silent_s = max((asked - begin for begin, end in unheard if begin < asked < end), default=0)
    return max(old_s, silent_s) > CONFIRM_S + SLACK_S


def longest_gap(answers, begin, end):
    live = [begin, *(asked for asked, _, cache, _ in answers if cache != "STALE"), end]
    return max(later - earlier for earlier, later in zip(live, live[1:]))


def observe(what, ensemble, reader_agent, names, event):
    witnesses = [Witness(server, names) for server in ensemble.servers]
    writer = Writer(ensemble)
    reader = Reader(reader_agent)
    time.sleep(1)
    begin, unheard = time.monotonic(), []
    for _ in range(ROUNDS):
        event(ensemble, unheard)
        ensemble.wait_serving()
        time.sleep(SESSION_S + 1)  # what was lost without a word shows by now
    for worker in (reader, writer, *witnesses):
        worker.finish()
    answers = list(reader.answers)
    absent = [name for witness in witnesses for name in witness.absent]
    lies = [answer for answer in answers if is_lie(answer, writer, unheard)]
    back = [(earlier, later) for earlier, later in zip(answers, answers[1:])
        if later[1] < earlier[1]]
    live = sum(answer[2] != "STALE" for answer in answers)
    gap = longest_gap(answers, begin, time.monotonic())
    looks = sum(witness.looks for witness in witnesses)
    failed = list(reader.failed)
    print(f"{what:24} {looks:>7} {len(absent):>7} {len(answers) + len(failed):>8} "
          f"{len(failed):>6} {live:>7} {len(lies):>5} {len(back):>5} {gap:>6.1f}", flush=True)
    for answer in lies[:5]:
        replaced = writer.replaced_at(answer[1])
        print(f"    lie: value {answer[1]} {answer[2]} Age {answer[3]}, replaced "
              f"{answer[0] - (replaced or answer[0]):.2f} s before")
    for earlier, later in back[:5]:
        passed = later[0] - earlier[0]
        print(f"    back: {earlier[1]} {earlier[2]} Age {earlier[3]}, {passed:.2f} s later "
              f"{later[1]} {later[2]} Age {later[3]}")
    for witness in witnesses:
        witness.drop()
    return collections.Counter(looks=looks, absent=len(absent), lookups=len(answers) + len(failed),
        failed=len(failed), lies=len(lies), back=len(back))


def kill_leader(ensemble, _):
    leader = ensemble.leader()
    leader.kill()
    time.sleep(HOLD_S)
    ensemble.restart(leader)


def hold(servers):
    for server in servers:
        server.stop()
    begin = time.monotonic()
    time.sleep(HOLD_S)
    end = time.monotonic()
    for server in servers:
        server.go_on()
    return begin, end


def stop_leader(ensemble, _):
    hold([ensemble.leader()])


def stop_followers(ensemble, _):
    hold(ensemble.followers())


def rolling_restart(ensemble, _):
    for server in ensemble.servers:
        ensemble.restart(server)


def freeze(ensemble, unheard):
    unheard.append(hold(ensemble.servers))


def with_agents(count, events):
    with tempfile.TemporaryDirectory(prefix="bench-") as name, Ensemble(
            count) as ensemble, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        client = connect(ensemble.leader())
        client.make(f"/registry{COUNTER}")
        client.set(f"/registry{COUNTER}", '{"type":"JSONServiceRecord","description":"0"}')
        client.close()
        registry = {"registry": {"session_timeout": f"{SESSION_S}s"}}
        agents = []
        for number in range(AGENTS):
            agent = Agent(folder / f"a{number}", ensemble.url)
            stack.callback(agent.end)
            agent.write_config({**agent.component(None, user="joe", name=f"w{number}",
                id=f"container_{number}"), **registry})
            agents.append(agent.start())
        reader = Agent(folder / "reader", ensemble.url)
        stack.callback(reader.end)
        reader.write_config(registry)
        reader.start()
        for agent in agents:
            agent.wait_state("registered")
        names = {f"w{number}" for number in range(AGENTS)}
        return [observe(what, ensemble, reader, names, event) for what, event in events]


def measure():
    """How often a record was absent, an answer was wrong, a value went back: the columns of the
    table, added up."""
    print(f"{AGENTS} agents, session timeout {SESSION_S} s, confirm {CONFIRM_S:g} s, standstills "
          f"of {HOLD_S} s, {ROUNDS} of each")
    print(f"{'':24} {'looks':>7} {'absent':>7} {'lookups':>8} {'failed':>6} {'live':>7} "
          f"{'lies':>5} {'back':>5} {'gap':>6}")
    found = with_agents(3, [
        ("leader killed", kill_leader), ("leader stopped", stop_leader),
        ("both followers stopped", stop_followers),
        ("rolling restart", rolling_restart)])
    found += with_agents(1, [("lone server frozen", freeze)])
    return sum(found, collections.Counter())


def main():
    found = measure()
    print(f"absences {found['absent']}, look-ups that failed {found['failed']}, lies "
          f"{found['lies']}, values that went back {found['back']}")


if __name__ == "__main__":
    main()
