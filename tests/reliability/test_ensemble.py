"""tests/bench/bench_ensemble.py as a test."""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "bench")]

import bench_ensemble
from figures import figure


class Ensemble(unittest.TestCase):
    def test_no_record_is_absent_and_no_answer_is_wrong(self):
        absent, lies, back = bench_ensemble.measure()
        figure(self, f"absences {absent}, wrong answers {lies}, values that went back {back}")
        self.assertEqual((absent, lies, back), (0, 0, 0))


if __name__ == "__main__":
    unittest.main()
