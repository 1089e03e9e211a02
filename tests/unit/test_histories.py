"""The checker of tests/histories: it lets histories pass that can have been so, and no others."""

import dataclasses
import pathlib
import random
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "histories")]

import checker
from history import (ABSENT, CREATE, DELETE, EXISTS, LOOKUP, NOTHING, OK, PUT, READ,
    RECORDS,
                     REMOVE, SET, UNKNOWN, VERSION, Call, History, Setting, Silence, load)

CONFIRM_S = 2.0
A, B = "/services/h/a", "/services/h/b"
SETTING = Setting(directory="/services/h", names=("a", "b"), confirm=CONFIRM_S)


def call(kind, begin, end, value=None, **fields):
    """`end`: None without an answer."""
    result = UNKNOWN if end is None else OK
    fields = {"client": "zk-1", "path": A, "result": result, **fields}
    return Call(kind=kind, invoked=begin, answered=end, value=value, **fields)


def lookup(begin, value, cache="HIT", end=None, **fields):
    fields = {"client": "agent-1.1", "kind": LOOKUP, "cache": cache, **fields}
    return call(fields.pop("kind"), begin, end or begin + 0.01, value, **fields)


def records(begin, found, cache="HIT", **fields):
    return lookup(begin, found, cache, kind=RECORDS, path=SETTING.directory, **fields)


# a is v1 from 1, v2 from 10 on.
WRITTEN = [call(CREATE, 1, 1.1, "v1", made=0), call(SET, 10, 10.1, "v2", made=1)]


class Verdict(unittest.TestCase):
    def verdict(self, *calls, setting=SETTING, silences=()):
        return checker.violations(History(setting, list(calls), list(silences)))

    def assert_good(self, *calls, **keywords):
        self.assertEqual(self.verdict(*calls, **keywords), [])

    def assert_bad(self, why, *calls, **keywords):
        problems = self.verdict(*calls, **keywords)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(why, problems[0])


class Writes(Verdict):
    def test_calls_in_a_row(self):
        self.assert_good(
            *WRITTEN, call(READ, 11, 12, "v2", made=1), call(SET, 13, 14, "no", version=0,
                result=VERSION),
            call(CREATE, 13, 14, "no", result=EXISTS), call(DELETE, 15, 16, version=1),
            call(DELETE, 17, 18, result=ABSENT), call(READ, 19, 20, None), call(PUT, 21, 22, "v3"),
            call(REMOVE, 23, 24), call(REMOVE, 25, 26), call(CREATE, 27, 28, "v4", made=0))

    def test_concurrent_calls_in_either_order(self):
        both = [call(CREATE, 1, 9, "x"), call(PUT, 1, 9, "y")]
        self.assert_good(*both, call(READ, 10, 11, "y"))
        self.assert_bad("no order", *both, call(READ, 10, 11, "x"))
        self.assert_good(both[1], call(CREATE, 1, 9, "x", result=EXISTS))

    def test_an_unanswered_write_happens_once_late_or_never(self):
        unknown = call(SET, 2, None, "late")
        first = call(CREATE, 1, 1.1, "v1", made=0)
        self.assert_good(first, unknown, call(READ, 3, 4, "v1"))
        self.assert_good(first, unknown, call(READ, 3, 4, "v1"), call(READ, 50, 51, "late", made=1))
        self.assert_good(first, unknown, call(SET, 3, 4, "v2", made=2))
        self.assert_bad("no order", first, unknown, call(SET, 3, 4, "v2", made=3))
        self.assert_bad("no order", first, unknown, call(READ, 3, 4, "late"),
            call(READ, 5, 6, "v1"))

    def test_a_write_that_is_repeated_after_a_lost_answer(self):
        def history(**fields):
            return (call(CREATE, 1, 9, "x", **fields), call(READ, 2, 3, "x"), call(DELETE, 4, 5),
                call(READ, 10, 11, "x"))

        self.assert_good(*history(again=True))
        self.assert_bad("no order", *history())
        self.assert_bad("no order", *history(again=True)[:3], call(READ, 10, 11, "x"),
            call(DELETE, 12, 13),
                        call(READ, 14, 15, "x"))

    def test_an_unanswered_delete_explains_an_absence(self):
        self.assert_good(WRITTEN[0], call(DELETE, 2, None), call(CREATE, 3, 4, "v2"))
        self.assert_good(WRITTEN[0], call(REMOVE, 2, None, version=None), call(READ, 3, 4, None))
        self.assert_bad("no order", WRITTEN[0], call(DELETE, 2, None, version=1),
            call(READ, 3, 4, None))

    # Planted: what a registry must not do.

    def test_a_lost_write(self):
        self.assert_bad("no order", *WRITTEN, call(READ, 11, 12, "v1"))
        self.assert_bad("no order", *WRITTEN, call(SET, 11, 12, "v3", version=0, made=1))

    def test_two_creations(self):
        self.assert_bad("no order", call(CREATE, 1, 2, "x"), call(CREATE, 1, 2, "y"))

    def test_one_write_that_happens_twice(self):
        self.assert_bad("no order", call(PUT, 1, 9, "x"), call(READ, 2, 3, "x"),
            call(PUT, 4, 5, "y"),
                        call(READ, 6, 7, "x"))

    def test_a_creation_that_was_refused_and_happened(self):
        self.assert_bad("never written", call(PUT, 1, 2, "x"),
            call(CREATE, 3, 4, "y", result=EXISTS),
                        call(READ, 5, 6, "y"))

    def test_a_refusal_without_a_reason(self):
        self.assert_bad("no order", call(CREATE, 1, 2, "x", result=EXISTS))
        self.assert_bad("no order", *WRITTEN, call(SET, 11, 12, "x", version=1, result=VERSION))
        self.assert_bad("no order", *WRITTEN, call(DELETE, 11, 12, result=ABSENT))

    def test_a_condition_that_was_ignored(self):
        self.assert_bad("no order", *WRITTEN, call(DELETE, 11, 12, version=0),
            call(READ, 13, 14, None))

    def test_a_delete_that_did_nothing(self):
        self.assert_bad("no order", *WRITTEN, call(DELETE, 11, 12), call(READ, 13, 14, "v2"))

    def test_a_value_that_nobody_wrote(self):
        self.assert_bad("never written", *WRITTEN, call(READ, 11, 12, "other"))
        self.assert_bad("never written", *WRITTEN, call(SET, 11, 12, "v3", result=NOTHING),
            call(READ, 13, 14, "v3"))

    def test_a_value_before_its_write(self):
        self.assert_bad("before", call(CREATE, 5, 6, "x"), call(READ, 1, 2, "x"))

    def test_a_version_that_does_not_fit(self):
        self.assert_bad("no order", *WRITTEN, call(READ, 11, 12, "v2", made=2))


class Lookups(Verdict):
    def test_an_answer_that_is_as_old_as_it_may_be(self):
        self.assert_good(*WRITTEN, lookup(0.5, None), lookup(5, "v1"), lookup(12, "v1"),
            lookup(12.05, "v2"))
        self.assert_good(*WRITTEN, lookup(30, "v1", "STALE", age=20))
        self.assert_good(*WRITTEN, lookup(10.05, "v1", "MISS"))
        self.assert_good(*WRITTEN, lookup(10.02, "v2", "MISS"), lookup(10.04, "v2", "HIT", bound=0))

    def test_a_server_that_is_behind(self):
        behind = dataclasses.replace(SETTING, lag=3)
        old = lookup(14, "v1")
        self.assert_bad("no order", *WRITTEN, old)
        self.assert_good(*WRITTEN, old, setting=behind)
        self.assert_bad("no order", *WRITTEN, lookup(16, "v1"), setting=behind)

    def test_another_process_may_answer_with_an_older_value(self):
        self.assert_good(*WRITTEN, lookup(11, "v2"), lookup(11.5, "v1", client="agent-1.2"))
        self.assert_good(*WRITTEN, lookup(11, "v2"), lookup(11.5, "v1", client="agent-2.1"))

    def test_an_agent_that_knows_nothing(self):
        self.assert_good(*WRITTEN, lookup(15, None, None, result=NOTHING))

    def test_a_list(self):
        both = [*WRITTEN, call(CREATE, 3, 4, "w1", path=B)]
        self.assert_good(*both, records(2, {A: "v1"}), records(5, {A: "v1", B: "w1"}),
            records(5.1, {A: "v1", B: "w1"}))
        self.assert_good(records(1, None, "MISS"))

    # Planted: what an agent must not say.

    def test_a_hit_that_is_too_old(self):
        self.assert_bad("no order", *WRITTEN, lookup(12.2, "v1"))
        self.assert_bad("no order", *WRITTEN, lookup(12.2, None))

    def test_a_hit_older_than_its_client_wanted(self):
        self.assert_bad("no order", *WRITTEN, lookup(11, "v1", bound=0))

    def test_a_read_that_is_old(self):
        self.assert_bad("no order", *WRITTEN, lookup(10.2, "v1", "MISS", bound=0))
        self.assert_bad("no order", *WRITTEN, lookup(12.2, "v1", "MISS"))

    def test_an_age_that_is_too_low(self):
        self.assert_bad("no order", *WRITTEN, lookup(30, "v1", "STALE", age=19))

    def test_a_value_from_the_future(self):
        self.assert_bad("before", *WRITTEN, lookup(9.5, "v2"))

    def test_a_value_that_goes_back(self):
        self.assert_bad("back", *WRITTEN, lookup(10.02, "v1"), lookup(11, "v2"), lookup(11.5, "v1"))
        self.assert_bad("older", *WRITTEN, lookup(11, "v2"), lookup(11.5, "v1"))
        self.assert_bad("older", *WRITTEN, lookup(11, "v2"), lookup(11.5, "v1", "STALE", age=5))

    def test_a_record_that_comes_back_after_a_list_without_it(self):
        again = [*WRITTEN, call(DELETE, 20, 20.1), call(CREATE, 22, 22.1, "v3", made=0)]
        before = records(19, {A: "v2"})
        gone = records(21, {})
        self.assert_good(*again, before, gone, records(22.5, {}), records(23, {A: "v3"}))
        self.assert_good(*again, before, gone, records(30, {}, "STALE", age=9), lookup(31, "v3"))
        stale = {"cache": "STALE", "age": 20}
        self.assert_bad("gone is back", *again, before, gone, records(30, {A: "v2"}, **stale))
        self.assert_bad("gone is back", *again, before, gone, lookup(30, "v2", **stale))
        self.assert_bad("gone is back", *again, before, lookup(21, None),
            records(30, {A: "v2"}, **stale))
        self.assert_bad("older", *again, lookup(23, "v3"), records(30, {A: "v2"}, **stale))

    def test_a_record_that_is_known_before_its_list(self):
        self.assert_good(WRITTEN[0], lookup(1.2, "v1"), records(1.3, {}), lookup(1.4, "v1"),
            records(1.5, {A: "v1"}))

    def test_a_value_that_was_written_twice(self):
        def history(answered):
            return (call(PUT, 1, answered, "x", again=True), call(REMOVE, 4, 5),
                lookup(3, "x", bound=0), lookup(6, None, bound=0), lookup(9, "x", bound=0))

        self.assert_good(*history(8))
        self.assertNotEqual(self.verdict(*history(3.5)), [])

    def test_a_shorter_list_while_the_registry_is_away(self):
        both = [*WRITTEN, call(CREATE, 3, 4, "w1", path=B)]
        self.assert_good(*both, records(30, {A: "v2", B: "w1"}, "STALE", age=10))
        self.assert_bad("no order", *both, records(30, {A: "v2"}, "STALE", age=10))
        problems = self.verdict(*both, records(30, {}, "STALE", age=10))
        self.assertEqual(len(problems), 2, problems)
        problems = self.verdict(*both, records(30, None, "STALE", age=10))
        self.assertEqual(len(problems), 2, problems)

    def test_a_list_with_a_stranger(self):
        self.assert_bad("nobody has written", *WRITTEN, records(5, {A: "v1", "/services/h/c": "x"}))

    def test_a_hit_while_all_is_silent(self):
        silence = Silence(20, 40, ("agent-1",))
        self.assert_good(*WRITTEN, lookup(21.9, "v2"), lookup(39.99, "v2", end=40.01),
            silences=[silence])
        self.assert_good(*WRITTEN, lookup(30, "v2", "STALE", age=10), silences=[silence])
        self.assert_good(*WRITTEN, lookup(30, "v2", client="agent-2.1"), silences=[silence])
        self.assert_bad("no server", *WRITTEN, lookup(22.1, "v2"), silences=[silence])
        self.assert_bad("no server", *WRITTEN, lookup(30, "v2", "STALE", age=9), silences=[silence])
        self.assert_bad("no server", *WRITTEN, lookup(30, "v2", "MISS"), silences=[silence])

    def test_an_answer_that_does_not_tell_its_age(self):
        self.assert_bad("without its age", *WRITTEN, lookup(11, "v2", None))


class Simulated:
    """A register that serves clients at random moments of their calls; some never hear of it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.calls, self.state, self.numbers = [], None, iter(range(1 << 20))
        self.past = [(0.0, None)]  # (since, value)

    def run(self, count):
        free = [0.0] * 5  # when each client may begin
        moments = []
        for _ in range(count):
            client = min(range(len(free)), key=free.__getitem__)
            begin = free[client] + self.random.random() * 0.2
            end = begin + self.random.random()
            free[client] = end
            moments.append((self.random.uniform(begin, end), client, begin, end))
        for moment, client, begin, end in sorted(moments):
            self.serve(moment, f"zk-{client}", begin, end)
            self.look(end)
        return self.calls

    def serve(self, moment, client, begin, end):
        kind = self.random.choice([CREATE, SET, SET, SET, DELETE, PUT, READ])
        wanted = self.random.choice([None, None, self.random.randrange(3)]) if kind in (SET,
            DELETE) else None
        if kind == READ:
            value, version = self.state or (None, None)
            self.calls.append(call(kind, begin, end, value, client=client, made=version))
            return
        value = None if kind == DELETE else f"v{next(self.numbers)}"
        lost = self.random.random() < 0.1
        result, made = (UNKNOWN, None) if lost and self.random.random() < 0.5 else self.apply(kind,
            value, wanted)
        self.past.append((moment, self.state and self.state[0]))
        result, made, end = (UNKNOWN, None, None) if lost else (result, made, end)
        self.calls.append(call(kind, begin, end, value, client=client, version=wanted, made=made,
            result=result))

    def apply(self, kind, value, wanted):
        if self.state is None and kind in (SET, DELETE):
            return ABSENT, None
        if self.state is not None and kind == CREATE:
            return EXISTS, None
        if self.state is not None and wanted not in (None, self.state[1]):
            return VERSION, None
        made = self.state[1] + 1 if self.state else 0
        self.state = None if kind == DELETE else (value, made)
        return OK, made if self.state else None

    def look(self, now):
        """By an agent whose answers are up to CONFIRM_S old, and up to 5 s when it is STALE."""
        if self.past[-1][0] > now:
            return
        age = self.random.choice([0, 0, 5])
        at = now - self.random.uniform(0, age or CONFIRM_S)
        value = next(value for since, value in reversed(self.past) if since <= max(at, 0.0))
        process = f"agent-1.{next(self.numbers)}"  # so that it may go back
        self.calls.append(lookup(now, value, "STALE" if age else "HIT", age=age, client=process))


class Random(Verdict):
    def test_true_histories_pass(self):
        for seed in range(30):
            with self.subTest(seed=seed):
                self.assert_good(*Simulated(seed).run(120))

    def test_falsified_histories_do_not(self):
        """An answer is exchanged for that of another read; most of these cannot be true."""
        found = 0
        for seed in range(30):
            calls = Simulated(seed).run(120)
            reads = [i for i, read in enumerate(calls) if read.kind == READ]
            i, other = reads[len(reads) // 3], calls[reads[-1]]
            if (calls[i].value, calls[i].made) == (other.value, other.made):
                continue
            calls[i] = dataclasses.replace(calls[i], value=other.value, made=other.made)
            found += bool(self.verdict(*calls))
        self.assertGreater(found, 20)

    def test_many_unanswered_writes_are_decided(self):
        calls = [call(CREATE, 0, 0.1, "v", made=0)]
        for number in range(300):
            calls.append(call(SET, number + 1, number + 1.1, f"v{number}"))
            if number % 5 == 0:
                calls.append(call(SET, number + 1.2, None, f"u{number}"))
                calls.append(call(DELETE, number + 1.2, None, version=500))
        self.assert_good(*calls)
        self.assert_bad("no order", *calls, call(DELETE, 400, 401), call(READ, 402, 403, "v299"))


class Files(unittest.TestCase):
    def test_a_history_is_read_as_it_was_written(self):
        calls = [WRITTEN[0], records(5, {A: "v1"}), WRITTEN[1], lookup(11, None, "STALE", age=3)]
        history = History(SETTING, calls, [Silence(2.0, 3.0, ("agent-1",))],
            [(2.0, "kill the server")])
        with tempfile.NamedTemporaryFile() as file:
            history.save(file.name)
            self.assertEqual(load(file.name), history)


if __name__ == "__main__":
    unittest.main()
