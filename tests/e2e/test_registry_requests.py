"""How many requests the events of a component's life cost ZooKeeper, by the server's own counts.
tests/bench/bench_fleet.py counts the same for many agents."""

import contextlib
import pathlib
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "bench")]

import bench_fleet
from zookeeper import ZooKeeper

SIZE = 4


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


if __name__ == "__main__":
    unittest.main()
