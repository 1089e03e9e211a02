"""How many requests the events of a component's life cost ZooKeeper, by the server's own counts.
tests/bench/bench_fleet.py counts the same for many agents."""

import contextlib
import pathlib
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "bench")]

import bench_fleet
from zookeeper import ZooKeeper

SIZE = 4
SHORT_S = 6
SIGNS = 12


class Requests(unittest.TestCase):
    def test_each_event_costs_a_known_number(self):
        with tempfile.TemporaryDirectory(
                prefix="requests-") as name, contextlib.ExitStack() as stack:
            server = stack.enter_context(ZooKeeper("maxSessionTimeout=3600000\n"))
            fleet = bench_fleet.Fleet(pathlib.Path(name), server, bench_fleet.SESSION, quiet=0.5)
            stack.callback(fleet.end)
            life = bench_fleet.count_life(fleet, SIZE)
        print(f"# {life}")
        # A start: connect, sync, the parents and the record, what is there; an arrival: the list
        # and the record.
        self.assertLessEqual(life.own, 12)
        self.assertLessEqual(life.arrival, 2)
        self.assertEqual(life.changed, 1)
        self.assertLessEqual(life.leaving, 1)
        self.assertEqual(life.sessions, SIZE)
        # Each agent watches each record, and its directory.
        self.assertLessEqual(life.watches, SIZE * (SIZE + 1))

    def test_a_quiet_agent_gives_four_signs_of_life_in_a_session_timeout(self):
        """One request is the question whether the server lives, and keeps the session: the client
        library leaves out its own pings."""
        with tempfile.TemporaryDirectory(
                prefix="requests-") as name, contextlib.ExitStack() as stack:
            server = stack.enter_context(ZooKeeper("maxSessionTimeout=3600000\n"))
            fleet = bench_fleet.Fleet(pathlib.Path(name), server, f"{SHORT_S}s", quiet=0.5)
            stack.callback(fleet.end)
            fleet.start("w1")
            before, since = fleet.counters.settled().total(), time.monotonic()
            signs = 0
            while signs < SIGNS:
                time.sleep(0.1)
                signs = fleet.counters.received().total() - before
            passed_s = time.monotonic() - since
        print(f"# {signs} requests in {passed_s:.1f} s with a timeout of {SHORT_S} s")
        self.assertLessEqual(signs, 4 * passed_s / SHORT_S + 2)


if __name__ == "__main__":
    unittest.main()
