"""The restart of tests/bench/bench_fleet.py as a test; $BERTH_FLEET says how many agents."""

import contextlib
import os
import pathlib
import sys
import tempfile
import unittest

os.environ.setdefault("BERTH_FLEET", "500")
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "bench")]

# The number is read when this is imported.
import bench_fleet
from figures import figure
from zookeeper import ZooKeeper

GROUP = 25  # agents that look each other up


class Fleet(unittest.TestCase):
    def test_a_fleet_reconnects(self):
        with tempfile.TemporaryDirectory(prefix="fleet-") as name, contextlib.ExitStack() as stack:
            server = stack.enter_context(ZooKeeper("maxSessionTimeout=3600000\n"))
            fleet = bench_fleet.Fleet(pathlib.Path(name), server, bench_fleet.USUAL_SESSION,
                group=GROUP)
            stack.callback(fleet.end)
            fresh, requests, window = bench_fleet.measure_restart(fleet)
            self.assertEqual(fresh, bench_fleet.FLEET)
            figure(self,
                f"{fresh} agents live again, {requests} requests spread over {window:.1f} s")


if __name__ == "__main__":
    unittest.main()
