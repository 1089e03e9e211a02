"""
Can a history have been so?

Each path is a register: absent, or a value with a version, as ZooKeeper counts it. All calls of a
path must have an order in which each one takes effect at a moment between its invocation and its
answer, and hears what the register then holds (linearizability; the search is Wing's and Gong's,
with a memory of the states that led nowhere). A look-up through an agent may be old, but no older
than it says: it counts as a read that began as much earlier. Besides:

- one process of an agent never answers with an older value of a path than before, be it in a
  look-up of the path or in the records of its directory. A path may be missing in the records
  although a look-up has shown it, because the list is read after it; it does not come back with
  the value that the records had before;
- an agent that no server could answer does not claim to have heard one.
"""

import collections
import dataclasses
import math

from history import (ABSENT, CREATE, DELETE, EXISTS, LOOKUP, MUTATIONS, NOTHING, OK, PUT, READ,
                     RECORDS, REMOVE, UNKNOWN, VERSION)

ROUNDING_S = 0.005  # agents count whole milliseconds
STEPS_MAX = 500_000
GHOST = "?"  # the value of a write without an answer that nobody has seen

HIT, MISS, STALE = "HIT", "MISS", "STALE"
IMPOSSIBLE = "impossible"  # in the place of a state
AGAIN = "again"  # the result of a call that has happened, or has not


class Violation(Exception):
    """Why the history cannot have been so."""


# ---- the register -------------------------------------------------------------------------------


def step(call, state):
    """The state, (value, version) or None, after the call; IMPOSSIBLE when it heard otherwise."""
    version = None if state is None else state[1]
    if call.kind == READ:
        alike = call.value == (None if state is None else state[0])
        return state if alike and call.made in (None, version) else IMPOSSIBLE
    if call.result in (EXISTS, ABSENT, VERSION):
        refused = {
            EXISTS: state is not None,
            ABSENT: state is None,
            VERSION: state is not None and version != call.version,
        }
        return state if refused[call.result] else IMPOSSIBLE
    if call.kind == REMOVE:
        return None
    if call.kind == CREATE or (call.kind == PUT and state is None):
        return (call.value, 0) if state is None else IMPOSSIBLE
    if state is None or call.version not in (None, version):
        return IMPOSSIBLE
    if call.kind == DELETE:
        return None
    return (call.value, version + 1) if call.made in (None, version + 1) else IMPOSSIBLE


def changes(call):
    return call.kind in MUTATIONS and call.result in (OK, UNKNOWN, AGAIN)


# ---- the order of the calls of a path -----------------------------------------------------------


def settle_unknown(calls):
    """
    An unanswered write whose value was seen has happened before that. The others write GHOST:
    nobody can tell their values apart. A write that may have happened twice gets a second call.
    """
    seen = {}
    for call in calls:
        if call.kind == READ and call.value is not None:
            seen[call.value] = min(seen.get(call.value, math.inf), call.answered)
    settled = []
    for call in calls:
        if call.result == UNKNOWN and call.value in seen:
            call = dataclasses.replace(call, result=OK, answered=seen[call.value])
        elif call.result == UNKNOWN:
            call = dataclasses.replace(call, value=call.value and GHOST)
        settled.append(call)
        if call.again and call.result == OK:
            settled.append(dataclasses.replace(call, result=AGAIN))
    return settled


def lean(reads):
    """Without those that follow from another one: a longer time, and the same value."""
    kept, latest = [], {}
    for read in sorted(reads, key=lambda read: (read.answered, -read.invoked)):
        if read.invoked > latest.get((read.value, read.made), -math.inf):
            latest[read.value, read.made] = read.invoked
            kept.append(read)
    return kept


class Order:
    """The search for an order of the calls of one path."""

    @dataclasses.dataclass(frozen=True)
    class Node:
        low: int  # all calls before it have their place
        placed: int  # a bit for each one from `low` on
        ghosts: tuple  # how many of each kind have happened
        state: tuple | None

    def __init__(self, calls):
        reads = lean(call for call in calls if call.kind == READ)
        rest = [call for call in calls if call.kind != READ and call.result != NOTHING]
        answered = [call for call in rest if call.result != UNKNOWN]
        self.calls = sorted(reads + answered, key=lambda call: call.invoked)
        # Those that are alike happen in the order of their invocations, if they happen.
        kinds = collections.defaultdict(list)
        for call in sorted(rest, key=lambda call: call.invoked):
            if call.result == UNKNOWN:
                kinds[call.kind, call.version].append(call)
        self.ghosts = list(kinds.values())
        self.farthest = None

    def search(self):
        """Raises Violation when there is none."""
        stack = [self.Node(0, 0, (0,) * len(self.ghosts), None)]
        known = set()
        while stack:
            node, candidates = self.absorb(stack.pop())
            if node.low == len(self.calls):
                return
            if node in known:
                continue
            known.add(node)
            if len(known) > STEPS_MAX:
                raise Violation(f"undecided after {STEPS_MAX} steps")
            if self.farthest is None or node.low > self.farthest[0].low:
                self.farthest = node, candidates
            stack += self.successors(node, candidates)
        node, candidates = self.farthest
        waiting = ", ".join(str(self.calls[i]) for i in candidates[:3])
        raise Violation(f"no order of the calls fits; with {node.state} nothing explains {waiting}")

    def candidates(self, node):
        """Those that may be next: no other one that is left was answered before they began."""
        found, deadline = [], math.inf
        for i in range(node.low, len(self.calls)):
            if self.calls[i].invoked > deadline:
                break
            if not node.placed >> (i - node.low) & 1:
                found.append(i)
                deadline = min(deadline, self.calls[i].answered)
        found = [i for i in found if self.calls[i].invoked <= deadline]
        return sorted(found, key=lambda i: self.calls[i].answered)

    def absorb(self, node):
        """Places the calls that change nothing and fit: it can do no harm that they come first."""
        while True:
            candidates = self.candidates(node)
            fitting = [i for i in candidates if not changes(self.calls[i])
                       and step(self.calls[i], node.state) != IMPOSSIBLE]
            if not fitting:
                return node, candidates
            for i in fitting:
                node = self.place(node, i)

    @staticmethod
    def place(node, i, **others):
        low, placed = node.low, node.placed | 1 << (i - node.low)
        while placed & 1:
            low, placed = low + 1, placed >> 1
        return dataclasses.replace(node, low=low, placed=placed, **others)

    def successors(self, node, candidates):
        """The most likely last: a call that was answered, the earliest of them."""
        deadline = self.calls[candidates[0]].answered
        for kind, ghosts in enumerate(self.ghosts):
            count = node.ghosts[kind]
            if count < len(ghosts) and ghosts[count].invoked <= deadline:
                after = step(ghosts[count], node.state)
                if after not in (IMPOSSIBLE, node.state):
                    more = (*node.ghosts[:kind], count + 1, *node.ghosts[kind + 1 :])
                    yield dataclasses.replace(node, ghosts=more, state=after)
        for i in reversed(candidates):
            after = step(self.calls[i], node.state) if changes(self.calls[i]) else IMPOSSIBLE
            if after != IMPOSSIBLE:
                yield self.place(node, i, state=after)
        for i in reversed(candidates):
            if self.calls[i].result == AGAIN:
                yield self.place(node, i)


def check_written(calls):
    """Nobody reads what was not written, or not yet."""
    writes = {call.value: call for call in calls if call.kind in MUTATIONS and call.value}
    for call in calls:
        if call.kind != READ or call.value is None:
            continue
        write = writes.get(call.value)
        if write is None or not changes(write):
            raise Violation(f"a value that was never written: {call}")
        if write.invoked > call.answered:
            raise Violation(f"a value before it was written: {call}, {write}")


def check_path(calls):
    check_written(calls)
    Order(settle_unknown(calls)).search()


# ---- look-ups -----------------------------------------------------------------------------------


def true_since(call, setting):
    """The answer of the look-up was true at some time between this one and its arrival."""
    if call.cache == STALE:
        allowed = call.age
    else:
        # A MISS may share a read that began a little earlier, for another client or for a change.
        allowed = setting.confirm if call.bound is None else min(setting.confirm, call.bound)
    return call.invoked - allowed - ROUNDING_S


def parts(call, setting):
    """What the answer says of each path."""
    if call.kind == LOOKUP:
        return [call]
    found = call.value or {}
    strange = sorted(set(found) - set(setting.paths))
    if strange:
        raise Violation(f"records that nobody has written: {strange}")
    return [dataclasses.replace(call, path=path, value=found.get(path)) for path in setting.paths]


def as_read(lookup, setting):
    since = true_since(lookup, setting) - setting.lag
    return dataclasses.replace(lookup, kind=READ, invoked=since)


def may_return(write, lookup, setting):
    """The write may take effect a second time, after the state that the look-up shows."""
    is_open = write.result == UNKNOWN or write.answered > true_since(lookup, setting)
    return write.again and is_open


def check_forward(lookups, writes, setting):
    """
    The answers about a path by one process, in their order, show no older value than before: none
    that was there before another one, and none whose write had ended before that of another one.
    """
    left, newest = set(), None  # the values that another one has followed; the newest write
    value, listed = None, False  # the last one, and whether the records of the directory had it
    for before, lookup in zip([None, *lookups], lookups):
        if lookup.value in left:
            raise Violation(f"a value that had gone is back: {lookup}, after {before}")
        missing, write = lookup.value is None, writes.get(lookup.value)
        follows = lookup.value != value and (not missing or lookup.kind == LOOKUP or listed)
        if follows and value in writes and not may_return(writes[value], lookup, setting):
            left.add(value)
        if not missing:
            listed = lookup.kind == RECORDS or (listed and lookup.value == value)
            value = lookup.value
        if write is None:
            continue
        if newest and write.result == OK and write.answered < newest.invoked:
            raise Violation(f"an older value than before: {lookup}; {newest} had been seen")
        if newest is None or write.invoked > newest.invoked:
            newest = write


def check_age(lookup, history):
    if lookup.cache not in (HIT, MISS, STALE):
        raise Violation(f"an answer without its age: {lookup}")
    since = true_since(lookup, history.setting)
    for silence in history.silences:
        agent = lookup.client.partition(".")[0]
        if agent in silence.clients and silence.begin < since and lookup.answered < silence.end:
            raise Violation(f"no server could be heard since {silence.begin:.3f}: {lookup}")


# ---- all of it ----------------------------------------------------------------------------------


def collect(problems, check, *arguments):
    """What the check returns; None when it finds a violation, which becomes a problem."""
    try:
        return check(*arguments)
    except Violation as violation:
        problems.append(str(violation))
        return None


def violations(history):
    """What is wrong with a history, as text; empty when nothing is."""
    setting, problems = history.setting, []
    by_path = collections.defaultdict(list)
    by_process = collections.defaultdict(list)
    writes = {call.value: call for call in history.calls if call.kind in MUTATIONS and call.value}
    for call in history.calls:
        if call.kind in MUTATIONS:
            by_path[call.path].append(call)
        elif call.result == OK and call.kind == READ:
            lag = setting.lag if call.bound is None else 0
            by_path[call.path].append(dataclasses.replace(call, invoked=call.invoked - lag))
        elif call.result == OK:
            collect(problems, check_age, call, history)
            for lookup in collect(problems, parts, call, setting) or ():
                by_process[call.client, lookup.path].append(lookup)
                by_path[lookup.path].append(as_read(lookup, setting))
    for path in sorted(by_path):
        collect(problems, check_path, by_path[path])
    for lookups in by_process.values():
        lookups.sort(key=lambda lookup: lookup.invoked)
        collect(problems, check_forward, lookups, writes, setting)
    return problems
