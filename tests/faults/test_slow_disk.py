"""A disk that hangs: the agent answers, its files are put in place when the disk goes on, in their
order, and nothing that waits for a file goes ahead of it."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
import unittest

from berth import PROGRAMS, berth, has_ended, preloaded, wait_until
from figures import figure
from outputs import OutputTest
from zookeeper import share_zookeeper

OLD = "127.0.0.1:8001\n"
TARGETS = ("/live", "/v1/list/users/joe/web/prod/components", "/v1/agent", "/metrics")
NEW = "127.0.0.1:8001\n127.0.0.1:8002\n"


class HangingTest(OutputTest):
    """tests/support/preload.c lets each fsync() wait while the FIFO is there."""

    def setUp(self):
        super().setUp()
        self.fifo = self.folder / "hangs"
        self.environment = preloaded(BERTH_HANGS=str(self.fifo))
        self.addCleanup(self.go_on)

    def hang(self):
        os.mkfifo(self.fifo)

    def go_on(self):
        """Whoever waits goes on, and whoever comes later does not wait."""
        if self.fifo.exists():
            gate = os.open(self.fifo, os.O_RDWR)
            self.addCleanup(os.close, gate)
            self.fifo.unlink()

    def children_of(self, agent):
        pid = agent.process.pid
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return [int(child) for child in text.split()]


class Hanging(HangingTest):
    def setUp(self):
        super().setUp()
        self.ran = self.folder / "ran"
        self.put_member("c1", 8001)
        # It sees the file as the command does: in place, or not.
        self.agent = self.output_agent(on_change=f"/bin/sh -c 'cat {self.file} >>{self.ran}'")
        self.begin()
        self.wait_text(OLD)
        self.wait_state(self.agent, "current")

    def begin(self):
        self.agent.start(env=self.environment)

    def change(self):
        """The file of the output is on its way to the disk, which hangs."""
        self.hang()
        self.put_member("c2", 8002)
        self.wait_state(self.agent, "writing")

    def logged(self, text):
        wait_until(lambda: text in self.agent.read_log(), f"the log says: {text}")

    def test_look_ups_are_answered_and_the_command_comes_behind_the_file(self):
        self.change()
        for target in TARGETS:
            self.assertEqual(self.agent.get(target).status, 200, target)
        self.assertEqual(self.output(self.agent)["state"], "writing")
        self.assertEqual(self.file.read_text(), OLD)
        self.assertEqual(self.ran.read_text(), OLD)
        self.go_on()
        self.wait_text(NEW)
        self.wait_state(self.agent, "current")
        self.assertEqual(self.ran.read_text(), OLD + NEW)
        self.assertEqual(self.agent.stop(), 0)
        figure(self, f"{len(TARGETS)} of {len(TARGETS)} requests answered while fsync() waited; "
            "the command found the new file")

    def test_the_file_of_a_killed_child_arrives(self):
        self.change()
        for child in self.children_of(self.agent):
            os.kill(child, signal.SIGKILL)
        self.logged(f"puts {self.file} in place was killed; done again")
        self.assertEqual(self.agent.get("/live").status, 200)
        self.go_on()
        self.wait_text(NEW)
        self.wait_state(self.agent, "current")
        self.assertEqual(self.output(self.agent)["failures"], 0)

    def test_an_upgrade_comes_behind_the_file(self):
        self.change()
        before = self.agent.starts()
        self.agent.signal(signal.SIGUSR2)
        self.go_on()
        wait_until(lambda: self.agent.starts() > before, "the new program runs")
        self.assertEqual(self.file.read_text(), NEW)
        log = self.agent.read_log()
        self.assertLess(log.index("is written, 2 instances"), log.index("executing "))

    def test_an_upgrade_is_given_up_when_the_disk_does_not_go_on(self):
        self.change()
        self.agent.signal(signal.SIGUSR2)
        self.logged("the disk does not take our files: the old program stays")
        self.assertEqual(self.agent.get("/live").status, 200)
        self.assertNotIn("executing ", self.agent.read_log())
        self.go_on()
        self.wait_state(self.agent, "current")
        self.agent.upgrade()
        self.wait_state(self.agent, "current")
        self.assertEqual(self.file.read_text(), NEW)

    def test_a_stop_does_not_wait_for_ever(self):
        self.change()
        self.assertEqual(self.agent.stop(), 0)
        self.assertIn(f"{self.file} stays as it was: the disk did not answer in time",
            self.agent.read_log())
        self.go_on()
        self.assertEqual(self.file.read_text(), OLD)

    def test_an_order_to_drain_is_answered_when_it_is_saved_or_after_a_while(self):
        self.hang()
        result = berth("--socket", self.agent.socket, "drain", "--reason", "disk")
        self.assertEqual(result.returncode, 1)
        self.assertIn("after a restart: the disk has not taken it yet", result.stderr)
        self.assertIn("its change is not on the disk yet", self.agent.read_log())
        self.assertTrue(self.agent.status()["drain"]["active"])

    def test_no_agent_begins_before_the_child_of_a_killed_one_has_ended(self):
        self.hang()
        with subprocess.Popen([PROGRAMS / "berth", "--socket", self.agent.socket, "drain"],
                stderr=subprocess.DEVNULL) as order:
            wait_until(lambda: self.agent.status()["drain"]["active"], "it is drained")
            self.agent.kill()
            order.wait()
        before = self.agent.starts()
        self.agent.start(wait=False, env=self.environment)
        self.assertEqual(self.agent.wait(), 1)
        self.assertEqual(self.agent.starts(), before)
        self.logged("another agent uses")
        self.go_on()
        wait_until((self.agent.folder / "state/drain").exists, "the child has ended")
        self.begin()
        self.assertTrue(self.agent.status()["drain"]["active"])


class Directory(HangingTest):
    """The disk of a directory registry hangs: the nodes above the first record are to last."""

    def setUp(self):
        super().setUp()
        self.hang()
        self.server = self.web_agent(name="server")
        self.server.start(env=self.environment)
        work = self.folder / "registry/_tmp"
        wait_until(lambda: work.exists() and any(work.iterdir()), "a node is on its way")

    def expect_answers(self):
        for target in ("/live", "/v1/agent", "/metrics"):
            self.assertEqual(self.server.get(target).status, 200, target)
        self.assertEqual(self.server.get("/v1/list/services").status, 404,
            "another path is read meanwhile")

    def test_look_ups_are_answered_and_the_record_comes_with_the_disk(self):
        self.expect_answers()
        self.assertNotEqual(self.server.component_state(), "registered")
        self.go_on()
        self.server.wait_state("registered")
        self.assertTrue(self.in_registry())

    def test_the_write_of_a_killed_child_is_done_again(self):
        for child in self.children_of(self.server):
            with contextlib.suppress(ProcessLookupError):  # it had other work, and has done it
                os.kill(child, signal.SIGKILL)
        self.expect_answers()
        self.go_on()
        self.server.wait_state("registered")
        self.assertTrue(self.in_registry())

    def test_a_stop_does_not_wait_for_it(self):
        self.assertEqual(self.server.stop(), 0)

    def test_the_end_of_an_ephemeral_record_waits_for_no_disk(self):
        self.go_on()
        self.server.wait_state("registered")
        self.hang()
        self.assertEqual(self.server.stop(), 0)
        self.assertIsNone(self.in_registry())


class LeftSession(HangingTest):
    @staticmethod
    def serves(agent):
        try:
            return agent.get("/live").status == 200
        except OSError:
            return False

    def test_a_session_is_not_left_before_the_files_are_on_the_disk(self):
        with share_zookeeper() as server:
            agent = self.output_agent(registry=server.url)
            agent.start(env=self.environment)
            wait_until(agent.worker, "the agent has a worker")
            worker = agent.worker()
            self.hang()
            agent.request("POST", "/v1/agent/drain", {"reason": "disk"})
            agent.signal(signal.SIGQUIT)
            wait_until(lambda: not self.serves(agent), "nobody is served any more")
            for _ in range(20):
                if agent.process.poll() is not None:
                    break
                self.assertFalse(has_ended(worker), "the session is watched over")
                time.sleep(0.02)
            self.go_on()
            self.assertEqual(agent.wait(), 0)


del HangingTest, OutputTest

if __name__ == "__main__":
    unittest.main()
