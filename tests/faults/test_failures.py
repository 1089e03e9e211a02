"""Calls that fail once, in programs of ours and in libberth: a sample of what `make failures`
runs."""

import os
import pathlib
import subprocess
import sys
import unittest

from berth import BUILD

RUN = pathlib.Path(__file__).parents[1] / "failures/run"


class Failures(unittest.TestCase):
    def sample(self, *arguments):
        self.assertTrue((BUILD / "tests/failures/points.so").exists())
        result = subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True,
            check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\d+ points, 0 defects")

    def test_a_sample_of_all_points(self):
        # A sanitizer's own calls in a program look like the program's.
        scenario = ["--scenario=library"] if os.environ.get("BERTH_SANITIZER") else []
        self.sample("--sample=8", "--library-every=10", *scenario)

    @unittest.skipIf(os.environ.get("BERTH_SANITIZER"),
        "a sanitizer's own calls look like the program's")
    def test_each_look_at_a_file_while_an_agent_starts(self):
        """The directory of its registry is away for a moment while a child writes there."""
        self.sample("--scenario=life", "--phase=start", "--kind=stat")


if __name__ == "__main__":
    unittest.main()
