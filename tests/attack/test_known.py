"""The attacks that `make check` knows too, at the same time: hostile servers, records, crowds,
descriptors, signals, HTTP.

Here an agent that outlives its test must in the end be as small as it was when it began.
"""

import contextlib
import os
import pathlib
import sys
import unittest

import berth

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "faults")]

# A registry's connection, a check that runs just now, the cache.
SPARE = {"descriptors": 16, "processes": 2, "resident kB": 32 << 10}


class Weighed(berth.Agent):
    before = None

    def size(self):
        """None when it has ended, or is frozen."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        try:
            status = dict(line.split(":", 1) for line in (folder / "status").read_text("ascii",
                "replace").splitlines())
            if status["State"].split()[0] in "TtZ":
                return None
            return {
                "descriptors": len(os.listdir(folder / "fd")),
                "processes": len((folder / f"task/{folder.name}/children").read_text(
                    "ascii").split()),
                "resident kB": int(status["VmRSS"].split()[0]),
            }
        except (FileNotFoundError, ProcessLookupError):
            return None

    def growth(self):
        now = self.size()
        if os.environ.get("BERTH_SANITIZER") and now:
            now["resident kB"] = 0  # what was freed stays in its quarantine
        return {what: now[what] - self.before[what] for what in now if now[what] > self.before[what]
            + SPARE[what]} if now else {}

    def start(self, *arguments, **keywords):
        super().start(*arguments, **keywords)
        self.before = self.size()
        return self

    def end(self):
        try:
            if self.before and self.process.poll() is None:
                with contextlib.suppress(AssertionError):
                    berth.wait_until(lambda: not self.growth(), "the agent is as small as before")
                if grown := self.growth():
                    raise AssertionError(f"beyond what is spare the agent has grown by {grown}")
        finally:
            super().end()


berth.Agent = Weighed

from test_crowds import *
from test_denied import *
from test_descriptors import *
from test_hostile_records import *
from test_hostile_server import *
from test_http_conformance import *
from test_privileges import *
from test_signal_storm import *
from test_socket import *

if __name__ == "__main__":
    unittest.main()
