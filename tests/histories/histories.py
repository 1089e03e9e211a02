"""A history of real clients under faults, made, judged, and kept when something is wrong with
it."""

import collections
import dataclasses
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.with_name("support"))]

import checker
import history
from berth import BUILD
from stage import Stage

KEPT = BUILD / "histories"


@dataclasses.dataclass
class Outcome:
    problems: list
    text: str  # what was counted
    file: pathlib.Path | None  # the history, when there are problems


def describe(made):
    writes = [call for call in made.calls if call.kind in history.MUTATIONS]
    unknown = sum(call.result == history.UNKNOWN for call in writes)
    asked = [call for call in made.calls if call.kind in (history.LOOKUP, history.RECORDS)]
    by_cache = collections.Counter(
        call.cache if call.result == history.OK else "none" for call in asked)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(by_cache.items()))
    return (f"{len(made.faults)} faults, {len(writes)} writes ({unknown} unknown), "
            f"{len(asked)} look-ups ({kinds})")


def make(servers, kinds, seconds, seed):
    """Returns an Outcome."""
    note = f"servers {servers}, faults {' '.join(kinds)}, {seconds:g} s"
    with Stage(servers, seed, note) as stage:
        problems = []
        try:
            stage.break_for(seconds, kinds)
            problems = stage.problems()
            stage.settle()
        except AssertionError as error:
            problems.append(str(error))
            for client in stage.clients:
                client.finish()
                stage.history.calls += client.calls
    problems += checker.violations(stage.history)
    file = None
    if problems:
        KEPT.mkdir(exist_ok=True)
        file = KEPT / f"{servers}-{'-'.join(kinds)}-{seed}.jsonl"
        stage.history.save(file)
    return Outcome(problems, describe(stage.history), file)
