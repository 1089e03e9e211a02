"""The tests of lookups at full size: a minute without ZooKeeper, 5,000 streams with 2,000 long
polls, 200,000 changes, 100,000 watched paths."""

import os
import pathlib
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
SIZES = {
    "BERTH_OUTAGE_SECONDS": "60",
    "BERTH_STREAMS": "5000",
    "BERTH_POLLS": "2000",
    "BERTH_CHANGES": "200000",
    "BERTH_WATCHED_PATHS": "100000",
}
for name, value in SIZES.items():
    os.environ.setdefault(name, value)
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "faults")]

# The sizes are read when these are imported.
from test_lookups_coherence import Coherence
from test_outage_lookups import ManyWatches, Outage
from test_streams import Thousands

if __name__ == "__main__":
    unittest.main()
