"""Which calls of a trace fail: the points.

Two calls with the same stack are the same place of the program. Of the calls of each place, the
first and the last one fail, with each error. An allocation whose failure only ends the agent is
like a kill at that moment, and two such moments differ only by what the agent has done to the world
in between: of those without a changing call between them, the first one fails.
"""

import collections
import dataclasses

import points

# After these calls, the kernel, a file or another process may be in another state.
CHANGING = {
    "open", "read", "write", "close", "fsync", "rename", "mkdir", "unlink", "lock", "chmod",
    "socket", "bind", "listen", "connect", "accept",
    "send", "receive", "pipe", "spawn", "fork", "exec", "wait", "inotify",
}


@dataclasses.dataclass(frozen=True)
class Point:
    """A call of a place, numbered from the begin of the phase, and its error."""

    scenario: str
    phase: str
    kind: str
    stack: int
    number: int
    error: int

    def nearer(self, seen):
        """For another try, after one in which the place made only so many calls: the last of
        them."""
        return dataclasses.replace(self, number=max(1, min(seen, self.number)))

    def __str__(self):
        call = f"{self.stack:08x}.{self.number}:{points.error_name(self.error)}"
        return f"{self.scenario}:{self.phase}:{self.kind}:{call}"


def parse_point(text):
    scenario, phase, kind, place, error = text.split(":")
    stack, number = place.split(".")
    code = next(code for code in points.ERRORS[kind] if points.error_name(code) == error)
    return Point(scenario, phase, kind, int(stack, 16), int(number), code)


def choose_calls(trace, every_call=False):
    """{(kind, stack): numbers of calls} of one trace."""
    seen = collections.Counter()
    ending = collections.defaultdict(list)
    others = collections.defaultdict(list)
    changed = True
    for call in trace:
        place = (call.kind, call.stack)
        seen[place] += 1
        if call.outcome != points.ENDS:
            others[place].append(seen[place])
            changed = changed or call.kind in CHANGING
        elif changed or every_call:
            ending[place].append(seen[place])
            changed = False
    chosen = {place: set(ending[place]) for place in seen}
    for place, numbers in others.items():
        chosen[place] |= set(numbers if every_call else [numbers[0], numbers[-1]])
    return chosen


def choose(scenario, phase, traces, every_call=False):
    """The points of a phase. Of a place that is in several traces, those of the first one."""
    chosen = {}
    for trace in traces:
        chosen = {**choose_calls(trace, every_call), **chosen}
    return [
        Point(scenario, phase, kind, stack, number, error)
        for (kind, stack), numbers in sorted(chosen.items()) for number in sorted(numbers)
        for error in points.ERRORS[kind]
    ]
