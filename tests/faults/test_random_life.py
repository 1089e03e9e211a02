"""
Kills, stops and restarts of agent and worker in a random order, on ZooKeeper, under the eyes of a
witness: the record is absent when the agent has taken it out, and at no other time.

$BERTH_ROUNDS is the number of events; $BERTH_SEED repeats a run.
"""

import contextlib
import os
import random
import signal
import time

from berth import wait_until
from figures import figure
from lifecycle import LifeTest, Shared, rounds

SHORT_MS = 300


class RandomLife(LifeTest):
    registry_kind = Shared

    def worker(self):
        """The pid of the worker, or None while there is none."""
        pid = self.agent.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            for child in children.read().split():
                with contextlib.suppress(OSError), open(f"/proc/{child}/comm",
                        encoding="ascii") as name:
                    if name.read().startswith("berth-zookeep"):
                        return int(child)
        return None

    def signal_worker(self, *numbers):
        for number in numbers:
            worker = self.worker()
            with contextlib.suppress(ProcessLookupError):
                if worker:
                    os.kill(worker, number)
            self.pause()

    def pause(self):
        time.sleep(self.random.randrange(SHORT_MS) / 1000)

    # Events that nobody may notice.

    def kill_the_agent(self):
        self.agent.kill()
        self.agent.start()

    def quit_the_agent(self):
        self.agent.signal(signal.SIGQUIT)
        self.assertEqual(self.agent.wait(), 0)
        self.agent.start()

    def kill_both(self):
        self.signal_worker(signal.SIGKILL)
        self.kill_the_agent()

    def freeze_the_agent(self):
        self.agent.signal(signal.SIGSTOP)
        self.pause()
        self.agent.signal(signal.SIGCONT)

    def kill_the_worker(self):
        self.signal_worker(signal.SIGKILL)

    def freeze_the_worker(self):
        self.signal_worker(signal.SIGSTOP, signal.SIGCONT)

    def abort_the_worker(self):
        self.signal_worker(signal.SIGABRT)

    def reload(self):
        self.agent.signal(signal.SIGHUP)

    def upgrade(self):
        self.agent.wait_state("registered")
        self.agent.upgrade()

    # Events that take the record out.

    def wait_absent(self):
        """The absence lasts until the witness has seen it."""
        wait_until(lambda: self.eyes.seen[-1] is None, "the witness sees no record")

    def wait_present(self):
        """A busy witness sees the record later than its agent, and would miss it between two
        absences."""
        wait_until(lambda: self.eyes.seen[-1] is not None, "the record is there again")
        self.agent.wait_state("registered")

    def stop_and_start(self):
        self.agent.wait_state("registered")
        self.absences += 1
        self.assertEqual(self.agent.stop(), 0)
        self.assert_gone(self.agent)
        self.wait_absent()
        self.agent.start()
        self.wait_present()

    def fail_and_recover(self):
        self.agent.wait_state("registered")
        self.absences += 1
        self.flag.unlink()
        self.wait_absent()
        self.flag.touch()
        # The agent may not know yet that the record is gone, and still call itself registered.
        self.wait_present()

    EVENTS = (
        [kill_the_agent, quit_the_agent, kill_both, freeze_the_agent, kill_the_worker,
            freeze_the_worker, abort_the_worker, reload, upgrade] * 2
        + [stop_and_start, fail_and_recover]
    )

    def test_the_record_is_absent_when_it_was_taken_out_and_never_else(self):
        seed = int(os.environ.get("BERTH_SEED", random.randrange(1 << 32)))
        self.random = random.Random(seed)
        self.absences = 0
        self.flag = self.folder / "healthy"
        self.flag.touch()
        self.agent = self.web_agent(check=f"test -e {self.flag}", damping="no").start()
        self.agent.wait_state("registered")
        self.eyes = self.witness()
        counts = {}
        for _ in range(rounds(20)):
            event = self.random.choice(self.EVENTS)
            counts[event.__name__] = counts.get(event.__name__, 0) + 1
            event(self)
            if self.random.random() < 0.5:
                self.agent.wait_state("registered")
        self.agent.wait_state("registered")
        seen = self.eyes.end()
        print(f"seed {seed}: {counts}; {self.absences} absences were wanted, {seen.count(None)} "
              "were seen")
        figure(self,
            f"{sum(counts.values())} events, {self.absences} absences wanted, {seen.count(None)} "
            "seen")
        self.assertEqual(seen.count(None), self.absences, (seed, counts, seen))
        self.assertEqual(len(set(seen) - {None}), self.absences + 1,
            "each node was a new one only after an absence")
