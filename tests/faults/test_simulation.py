"""Several agents on one registry in virtual time, with all that can go wrong: tests/sim/sim.h."""

import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

from berth import BUILD
from figures import figure

SIMULATION = pathlib.Path(__file__).parents[1] / "sim"
SEEDS = SIMULATION / "seeds"
SOURCE = SIMULATION.parents[1]
DAY_S = 86400
SEEDS_OF_A_DAY = 1000  # of which a check takes the first ones


@unittest.skipIf(os.environ.get("BERTH_SANITIZER"), "its allocator and stacks are its own")
class Simulation(unittest.TestCase):
    def simulate(self, *options):
        result = subprocess.run([BUILD / "tests/sim/sim", *options], capture_output=True, text=True,
            check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_a_fixed_set_of_seeds(self):
        output = self.simulate("--seeds=40", "--hours=0.3")
        self.assertRegex(output, r"found right \d{2,} times; \d{4,} hits, \d{2,} stale answers")
        self.assertRegex(output, r", \d{4,} found in maps")
        right, hits, stale, maps = (sum(map(int, re.findall(rf"{before}(\d+){after}", output)))
            for before, after in (("right ", " times"), ("; ", " hits"), (" ", " stale"),
                (", ", " found")))
        figure(self, f"40 seeds of 18 virtual minutes: {hits} hits, {stale} stale answers and "
            f"{maps} readings of maps, all that stood still was right {right} times: 0 promises "
            "broken")

    def test_one_host_with_three_containers(self):
        output = self.simulate("--bridge", "--seeds=8", "--hours=0.3")
        self.assertRegex(output, r"found right \d{2,} times; \d{3,} hits, \d+ stale answers")
        figure(self, "8 seeds of 18 virtual minutes: "
            f"{re.search('right [0-9]+ times', output)[0]}, 0 promises broken")

    def test_new_seeds_each_day(self):
        """Nobody has run them before: `make sim` with the same numbers runs more of them. A seed
        that fails prints the command that repeats it."""
        first = int(time.time()) // DAY_S * SEEDS_OF_A_DAY
        for world, seeds in ((), 60), (("--bridge",), 10):
            options = [*world, f"--from={first}", f"--seeds={seeds}", "--hours=0.3"]
            print("# seeds of today:", *options)
            self.simulate("--quiet", *options)

    def test_a_switch_between_agents_copies_little(self):
        """The buffers that nobody keeps are left out of the copies (tests/sim/agent.ld)."""
        symbols = subprocess.run(["nm", BUILD / "tests/sim/sim"], capture_output=True, text=True,
            check=True).stdout
        first, last = (int(re.search(rf"^(\w+) . __{end}_agent_data$", symbols, re.M)[1], 16)
            for end in ("start", "stop"))
        if "--coverage" not in (BUILD / "config.mk").read_text():
            self.assertLess(last - first, 12288)

    def test_a_seed_writes_the_same_trace_again(self):
        self.simulate("--seeds=3", "--from=1000", "--hours=0.2", "--twice", "--quiet")
        self.simulate("--bridge", "--seeds=2", "--hours=0.2", "--twice", "--quiet")
        traces = {self.simulate("--seed=7", "--hours=0.1", "--trace") for _ in range(2)}
        self.assertEqual(len(traces), 1)

    def test_help_and_wrong_options(self):
        self.assertIn("--seeds=COUNT", self.simulate("--help"))
        for wrong in ("--seed", "--seed=x", "--hours=0", "--only=1,,2", "--jobs=65", "--no", "x"):
            result = subprocess.run([BUILD / "tests/sim/sim", wrong], capture_output=True,
                text=True, check=False)
            self.assertEqual(result.returncode, 2, wrong)
            self.assertRegex(result.stderr, r"\Asim: .*; --help lists the options\n\Z")

    def test_seeds_that_found_something(self):
        """Each line of tests/sim/seeds holds the options of a run that failed once."""
        for line in SEEDS.read_text().splitlines():
            if line and not line.startswith("#"):
                with self.subTest(line):
                    self.simulate("--quiet", *line.split())


class Planted(unittest.TestCase):
    def compile(self, text, folder):
        settings = (BUILD / "config.mk").read_text()
        compiler, flags = (re.search(rf"^{name} = *(.*)$", settings, re.MULTILINE)[1].split()
            for name in ("CC", "CPPFLAGS"))
        result = subprocess.run([*compiler, "-std=gnu11", "-D_GNU_SOURCE", '-DBERTH_VERSION=""',
            '-DBERTH_BINDIR=""',
            *flags, "-w", "-Werror=implicit-function-declaration", "-iquote", SOURCE,
            "-iquote", folder, "-fsyntax-only", "-x", "c", "-"], input=text, capture_output=True,
            text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_each_bug_has_its_place(self):
        """`make sim-planted` plants them; a change of a source must not take a place away."""
        sys.path.insert(0, str(SIMULATION / "planted"))
        from bugs import BUGS

        for bug in BUGS:
            with self.subTest(bug.name):
                source = SOURCE / bug.source
                self.compile(bug.plant(source.read_text()), source.parent)


if __name__ == "__main__":
    unittest.main()
