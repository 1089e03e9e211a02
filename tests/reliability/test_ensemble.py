"""tests/bench/bench_ensemble.py as a test."""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "bench")]

import bench_ensemble
from figures import figure


class Ensemble(unittest.TestCase):
    def test_no_record_is_absent_and_no_answer_is_wrong(self):
        found = bench_ensemble.measure()
        figure(self, f"absent in {found['absent']} of {found['looks']} looks; of "
            f"{found['lookups']} answers {found['failed'] + found['lies']} wrong, {found['back']} "
            "older than the one before")
        for kind in ("absent", "failed", "lies", "back"):
            self.assertEqual(found[kind], 0, kind)


if __name__ == "__main__":
    unittest.main()
