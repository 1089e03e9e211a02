"""
A short history of agents and writers on a real ZooKeeper that is killed, stopped and cut off:
`make histories` makes long ones, also of an ensemble. $BERTH_SEED repeats the choice of faults.
"""

import os
import pathlib
import random
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "histories")]

import histories
from figures import figure
from stage import KINDS

FAULTS_S = 6


class Histories(unittest.TestCase):
    def test_all_writes_have_an_order_and_no_answer_is_older_than_it_says(self):
        seed = int(os.environ.get("BERTH_SEED", random.randrange(1 << 32)))
        print(f"seed {seed}")
        outcome = histories.make(1, KINDS, FAULTS_S, seed)
        figure(self, f"{outcome.text}: {len(outcome.problems)} wrong")
        self.assertEqual(outcome.problems, [], f"seed {seed}; tests/histories/check {outcome.file}")


if __name__ == "__main__":
    unittest.main()
