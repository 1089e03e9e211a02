"""200 random orders to containers under Docker, and 50 restarts of the daemon; $BERTH_ROUNDS says
other numbers, $BERTH_SEED repeats the orders. And an event that is lost for good."""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "more")]

import test_runtime_faults
import test_runtime_orders
from berth import PATIENCE, wait_until
from figures import figure
from guests import GuestTest, labels
from lifecycle import rounds
from rights import needs


class Orders(test_runtime_orders.Orders):
    count = rounds(200)


class Restarts(test_runtime_faults.DockerRestarts):
    count = rounds(50)


@needs("freezer")
class LostEvents(GuestTest):
    def test_a_start_that_no_event_tells_is_found_within_a_minute(self):
        self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        self.runtime.add("two", labels("two"))
        wait_until(lambda: self.record("two"), "it is registered", 2 * PATIENCE)
        figure(self, "registered with the list of the next minute")


if __name__ == "__main__":
    unittest.main()
