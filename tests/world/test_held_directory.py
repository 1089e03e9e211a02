"""One container, or any user of the host who may read its directory, stops the host's agent for
good, with every record of the host: nobody gets an answer, and a standby gets no lock.

Source: tracker #39, item 1; getdents64(2) into memory that a FUSE file or userfaultfd(2) provides.
"""

import contextlib
import unittest

from berth import berth, has_ended, wait_until
from holding import Held, lookers, state
from hosting import WEB, BridgeTest
from rights import needs


class HeldTest(BridgeTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o711)  # a user of the host may go there
        self.holds = contextlib.ExitStack()

    def serve(self, **bridge):
        host = self.host(bridge=bridge)
        self.addCleanup(self.holds.close)
        return host

    def hold(self, registry):
        """Whoever looks up a name in a node of the registry waits in the kernel, killed or not."""
        node = registry / "users/HELD"  # the name of no node: nobody has looked there
        node.mkdir()
        self.holds.callback(Held(node).end)
        node.rename(registry / "users/held")

    def hold_stalled(self, host, name, registry):
        self.hold(registry)
        wait_until(lambda: self.part(host, name)["state"] == "stalled", f"{name} is stalled")

    @staticmethod
    def stuck(host):
        return [pid for pid in lookers(host.process.pid) if state(pid) == "D"]

    def others_live(self, good):
        owner = self.register(good, f"{WEB}/good")
        self.await_record(f"{WEB}/good")
        owner.kill()
        self.await_gone(f"{WEB}/good")


@needs("holding", "processes")
class OneContainer(HeldTest):
    def test_the_others_live_and_the_kernel_says_whose_owners_do(self):
        host = self.serve()
        bad, good = self.container("bad"), self.container("good")
        dies = self.register(bad, f"{WEB}/dies")
        self.register(bad, f"{WEB}/lives")
        self.await_record(f"{WEB}/dies")
        self.await_record(f"{WEB}/lives")
        self.hold_stalled(host, "bad", bad)
        # The control: without the looker it would be the agent that waits in the kernel.
        wait_until(lambda: len(self.stuck(host)) == 1, "it hangs")
        stuck = self.stuck(host)
        self.others_live(good)
        self.assertEqual(self.state(host, "bad", f"{WEB}/dies"), "registered")
        dies.kill()
        self.await_gone(f"{WEB}/dies")
        self.assertIsNotNone(self.record(f"{WEB}/lives"))
        shown = berth("--socket", host.socket, "bridge").stdout
        self.assertRegex(shown, r"bad +stalled.*\n.*somebody holds it")

        host.upgrade()
        wait_until(host.answers, "the new program answers")
        self.assertEqual(self.part(host, "bad")["state"], "stalled")
        wait_until(lambda: self.stuck(host) == stuck, "the same one hangs")
        self.others_live(good)
        self.assertIsNotNone(self.record(f"{WEB}/lives"))

        self.holds.close()
        wait_until(lambda: has_ended(stuck[0]), "the looker that was given up has ended")
        wait_until(lambda: self.part(host, "bad")["state"] == "served", "it is served again")
        self.others_live(bad)
        self.assertIsNotNone(self.record(f"{WEB}/lives"))

    def test_its_records_go_after_the_limit_and_come_back(self):
        host = self.serve(stall_limit="1s")
        bad = self.container("bad")
        self.register(bad, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        self.hold_stalled(host, "bad", bad)
        self.await_gone(f"{WEB}/c1")
        self.assertIn("has not answered for 1 s (stall_limit)", self.part(host, "bad")["why"])
        self.holds.close()
        self.await_record(f"{WEB}/c1")

    def test_a_stop_waits_for_nobody(self):
        host = self.serve()
        bad = self.container("bad")
        self.register(bad, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        self.hold_stalled(host, "bad", bad)
        self.assertEqual(host.stop(), 0)

    def test_a_killed_agents_lock_is_free_for_its_standby(self):
        sections = {"bridge": {"containers": self.containers, "standby": "yes"},
            "container *": {"allow": "/users/joe/web/**"}}
        first = self.agent("host", **sections)
        self.addCleanup(self.holds.close)
        first.start()
        bad, good = self.container("bad"), self.container("good")
        self.register(bad, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        self.hold_stalled(first, "bad", bad)
        wait_until(lambda: len(self.stuck(first)) == 1, "it hangs")
        (stuck,) = self.stuck(first)
        second = self.agent("second")
        second.socket, second.config = first.socket, first.config
        second.start(wait=False)
        wait_until(lambda: "standby: another agent uses" in second.read_log(), "it waits")
        first.kill()
        wait_until(second.answers, "the standby has taken over")
        self.assertEqual(state(stuck), "D")
        self.others_live(good)

    def test_many_that_are_held_are_refused(self):
        host = self.serve()
        good = self.container("good")
        bad = [self.container(f"bad-{i}") for i in range(6)]
        for i, registry in enumerate(bad):
            self.register(registry, f"{WEB}/bad-{i}")
            self.await_record(f"{WEB}/bad-{i}")
        for i, registry in enumerate(bad[:4]):
            self.hold_stalled(host, f"bad-{i}", registry)
        for i, registry in enumerate(bad[4:], start=4):
            self.hold(registry)
            self.await_gone(f"{WEB}/bad-{i}")
            self.assertEqual(self.part(host, f"bad-{i}")["state"], "refused")
        for i in range(4):
            self.assertIsNotNone(self.record(f"{WEB}/bad-{i}"))
        self.others_live(good)


@needs("holding")
class TheDirectoryOfAll(HeldTest):
    def test_the_agent_starts_answers_and_stops(self):
        (self.containers / "web-1").mkdir()
        self.holds.callback(Held(self.containers).end)
        host = self.host()
        self.assertEqual(host.get("/live").status, 200)
        self.holds.close()
        self.addCleanup(self.holds.close)
        wait_until(lambda: self.part(host, "web-1"), "its container is served")
        self.assertEqual(host.stop(), 0)


if __name__ == "__main__":
    unittest.main()
