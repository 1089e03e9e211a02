"""1,000 random kills, stops and restarts; $BERTH_ROUNDS says another number."""

import os
import pathlib
import sys
import unittest

os.environ.setdefault("BERTH_ROUNDS", "1000")
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "faults")]

# The number is read when this is imported.
from test_random_life import RandomLife

if __name__ == "__main__":
    unittest.main()
