"""The attacks that `make check` knows too, beside each other: hostile servers, records, crowds, descriptors, signals, HTTP."""

import pathlib
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "faults")]

from test_crowds import *  # noqa: E402, F401, F403
from test_denied import *  # noqa: E402, F401, F403
from test_descriptors import *  # noqa: E402, F401, F403
from test_hostile_records import *  # noqa: E402, F401, F403
from test_hostile_server import *  # noqa: E402, F401, F403
from test_http_conformance import *  # noqa: E402, F401, F403
from test_privileges import *  # noqa: E402, F401, F403
from test_signal_storm import *  # noqa: E402, F401, F403
from test_socket import *  # noqa: E402, F401, F403

if __name__ == "__main__":
    unittest.main()
