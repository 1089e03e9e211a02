"""The runner's pool: which program begins when, and the times by which it decides."""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", ".")).resolve()
sys.path.insert(0, str(SOURCE / "tests"))

from runner import make, pool, times
from runner.concerns import concerned, near
from runner.programs import Program

BUILD = pathlib.Path(os.environ.get("BERTH_BUILD_DIR", "build")).resolve()


class Recorder:
    """Takes the place of a runner: notes the order, and how many programs run at a time."""

    title = ""

    def __init__(self):
        self.begun = []
        self.lock = threading.Lock()
        self.running = self.most = 0
        self.ended = threading.Semaphore(0)

    def run(self, program):
        with self.lock:
            self.begun.append(program.name)
            self.running += 1
            self.most = max(self.most, self.running)
        program.gate.wait(0.05)
        with self.lock:
            self.running -= 1
        program.passed = 1
        self.ended.release()
        return program

    def program(self, name, expected, load=0.1):
        program = Program("unit", name, [], pathlib.Path(__file__), self)
        program.expected, program.load, program.gate = expected, load, threading.Event()
        return program


class Pool(unittest.TestCase):
    def setUp(self):
        self.recorder = Recorder()
        self.show, pool.show = pool.show, lambda program: None
        self.addCleanup(setattr, pool, "show", self.show)

    def run_pool(self, programs, **options):
        return pool.run_pool(None, programs, **options)

    def test_the_longest_begins_first(self):
        programs = [self.recorder.program(str(seconds), seconds) for seconds in (3, 9, 1, 5)]
        done = self.run_pool(programs, jobs=1, load=9)
        self.assertEqual(self.recorder.begun, ["9", "5", "3", "1"])
        self.assertEqual(len(done), 4)

    def test_the_load_bounds_programs_at_a_time(self):
        programs = [self.recorder.program(str(number), 1, load=0.5) for number in range(8)]
        self.run_pool(programs, jobs=8, load=1)
        self.assertEqual(self.recorder.most, 2)

    def test_their_number_is_bounded_too(self):
        programs = [self.recorder.program(str(number), 1, load=0) for number in range(8)]
        self.run_pool(programs, jobs=3, load=1)
        self.assertEqual(self.recorder.most, 3)

    def test_a_slow_machine_gets_fewer_at_a_time(self):
        """The first one, which runs alone, takes twice what was expected of it."""
        first = self.recorder.program("first", 9, load=1)
        first.cpu = 18
        self.run_pool([first, *(self.recorder.program(str(number), 1, load=0.5)
            for number in range(4))], jobs=8, load=1)
        self.assertEqual(self.recorder.most, 1)

    def test_a_program_of_more_than_the_load_runs_alone(self):
        programs = [self.recorder.program(name, 1, load=4) for name in "ab"]
        self.run_pool(programs, jobs=8, load=1)
        self.assertEqual(self.recorder.most, 1)

    def test_programs_of_a_later_build_join(self):
        late = [self.recorder.program("late", 5)]
        done = self.run_pool([self.recorder.program("early", 1)], jobs=1, load=1,
            later=[lambda: late])
        self.assertEqual({program.name for program in done}, {"early", "late"})

    def test_a_build_that_is_made_meanwhile_has_its_part_of_the_processors(self):
        programs = [self.recorder.program(str(number), 1, load=0.5) for number in range(4)]

        def make():
            for _ in programs:
                self.recorder.ended.acquire()
            return []

        self.run_pool(programs, jobs=8, load=1, later=[make])
        self.assertEqual(self.recorder.most, 1)


class Times(unittest.TestCase):
    def setUp(self):
        self.build = pathlib.Path(tempfile.mkdtemp())

    def expectation(self, name="nobody-knows-it"):
        program = Program("unit", name, [], pathlib.Path(__file__))
        times.expect_times(self.build, [program])
        return program.expected, program.load

    def keep(self, seconds, cpu, failures=()):
        program = Program("unit", "x", [], seconds=seconds, cpu=cpu, failures=list(failures))
        times.keep_times(self.build, [program])

    def test_a_program_is_expected_to_take_as_long_again(self):
        self.keep(8, 2)
        self.assertEqual(self.expectation("x"), (8, 0.25))

    def test_a_run_that_failed_says_nothing(self):
        self.keep(8, 2)
        self.keep(1, 1, ["it failed"])
        self.assertEqual(self.expectation("x"), (8, 0.25))

    def test_an_unknown_program_is_judged_by_its_size(self):
        seconds, load = self.expectation()
        self.assertGreater(seconds, 0)
        self.assertEqual(load, times.UNKNOWN_LOAD)

    def test_a_damaged_file_is_ignored(self):
        (self.build / times.KEPT).write_text("8 2 unit/x\n3 ")
        self.assertEqual(times.read_times(self.build / times.KEPT), {})


class Unittest(unittest.TestCase):
    TESTS = """
import unittest

class Both(unittest.TestCase):
    def test_a(self):
        self.fail()

    def test_b(self):
        pass
"""

    def results(self, *options):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "test_both.py").write_text(self.TESTS)
        subprocess.run([sys.executable, str(SOURCE / "tests/run"), "--unittest",
            str(folder / "test_both.py"), str(folder / "report"), *options], check=True,
            capture_output=True)
        return [line.partition(" - ")[0] for line in (folder / "report").read_text().splitlines()]

    def test_the_first_failure_is_the_end_when_asked_for(self):
        self.assertEqual(self.results(), ["not ok 1", "ok 2", "1..2"])
        self.assertEqual(self.results("--stop"), ["not ok 1", "1..1"])


class Concerns(unittest.TestCase):
    def test_of_a_source_its_unit_tests_and_its_fuzz_target(self):
        found = concerned("lib/base/path.c", BUILD)
        self.assertIn("fuzz/path", found)

    def test_of_wiring_a_test_of_the_real_program(self):
        self.assertIn("e2e/lifecycle_drain", concerned("agent/registration/drain.c", BUILD))

    def test_of_a_test_itself(self):
        self.assertEqual(concerned("tests/unit/lib/base/test_path.c", BUILD),
            {"unit/lib/base/path"})

    def test_of_support_the_tests_that_use_it(self):
        self.assertIn("e2e/output_proxies", concerned("tests/support/proxies.py", BUILD))
        # Of C too, before anything is built.
        with tempfile.TemporaryDirectory() as empty:
            found = concerned("tests/support/memory_backend.c", pathlib.Path(empty))
        self.assertLessEqual({"unit/agent/cache/scenarios", "registry/random"}, found)

    def test_of_a_handler_the_requests_that_reach_it(self):
        self.assertIn("e2e/lookups", concerned("agent/api/lookup.c", BUILD))
        self.assertIn("e2e/agent_views", concerned("agent/api/views.c", BUILD))

    def test_nothing_is_adopted_before_all_is_made(self):
        """The runner copies the real programs when it adopts tests: made later, they would be those
        of the sources before the change."""
        calls = []
        runner = Recorder()
        runner.build, runner.processes = BUILD, None
        runner.options = argparse.Namespace(jobs=1, load=1)
        runner.adopt = lambda programs: calls.append("adopt") or []
        self.replace(make, "make", lambda *_: calls.append("make") or 0)
        self.replace(pool, "shared_server", lambda *_: contextlib.nullcontext({}))
        self.replace(pool, "near", lambda *_: {"unit/lib/base/path"})
        self.replace(pool, "concerned", lambda *_: {"unit/lib/base/path", "e2e/cli"})
        pool.run_concerned(runner, [SOURCE / "lib/base/path.c"])
        self.assertEqual(calls, ["make", "make", "adopt"])

    def replace(self, module, name, value):
        self.addCleanup(setattr, module, name, getattr(module, name))
        setattr(module, name, value)

    def test_programs_of_the_folder_are_made_first(self):
        self.assertIn("unit/lib/base/path", near("lib/base/path.c"))
        self.assertIn("registry/walk", near("lib/registry/walk.c"))


if __name__ == "__main__":
    unittest.main()
