"""The window of a reconnect, as tests/bench/bench_fleet.py counts it: without later pings."""

import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", ".")).resolve()
sys.path.insert(0, str(SOURCE / "tests/bench"))

from bench_fleet import WINDOW_PAUSE, window_of

PING = WINDOW_PAUSE + 1


class Window(unittest.TestCase):
    def test_requests_count_until_the_first_pause(self):
        looks = [(1, {"a": 3}), (2, {"a": 8}), (2 + PING, {"a": 9}), (3 + PING, {"a": 12})]
        self.assertEqual([total for _, total in window_of(looks)], [3, 8, 8, 8])

    def test_each_session_has_a_window_of_its_own(self):
        looks = [(1, {"a": 2}), (1 + PING, {"a": 3, "b": 4}), (2 + PING, {"a": 4, "b": 9})]
        self.assertEqual([total for _, total in window_of(looks)], [2, 6, 11])

    def test_a_session_that_goes_away_keeps_its_count(self):
        self.assertEqual(window_of([(1, {"a": 2}), (2, {})]), [(1, 2), (2, 2)])


if __name__ == "__main__":
    unittest.main()
