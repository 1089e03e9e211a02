"""Calls that fail once, in an agent's life and in libberth: a sample of what `make failures` runs."""

import os
import pathlib
import subprocess
import sys
import unittest

from berth import BUILD

RUN = pathlib.Path(__file__).parents[1] / "failures/run"


class Failures(unittest.TestCase):
    def test_a_sample_of_all_points(self):
        self.assertTrue((BUILD / "tests/failures/points.so").exists())
        # A sanitizer's own calls in an agent look like the agent's.
        scenario = ["--scenario=library"] if os.environ.get("BERTH_SANITIZER") else []
        result = subprocess.run([sys.executable, RUN, "--sample=12", "--library-every=40", *scenario], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\d+ points, 0 defects")


if __name__ == "__main__":
    unittest.main()
