"""A user of the host who may read a directory of a dir: registry holds it in the kernel, and every
agent that looks there stands still, /live included; `berth bind` never ends.

Source: tracker #39, item 1; getdents64(2) into memory that userfaultfd(2) provides.
"""

import subprocess
import unittest

from berth import PROGRAMS, service_record, wait_until
from holding import Held, lookers, state
from lifecycle import Directory, LifeTest
from rights import needs

OTHER = "/services/other"


@needs("holding", "processes")
class HeldRegistry(LifeTest):
    registry_kind = Directory

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o711)  # a user of the host may go there
        self.held = None
        self.addCleanup(self.release)
        self.put(OTHER, service_record("10.0.0.9", 80))
        self.agent_of_host = self.web_agent().start()
        self.agent_of_host.wait_state("registered")
        wait_until(lambda: self.look_up() == "HIT", "a look-up is answered from the cache")

    def look_up(self):
        return self.agent_of_host.get(f"/v1/resolve{OTHER}").headers["X-Cache"]

    def hold(self):
        node = self.store.root / "users/HELD"  # the name of no node: nobody has looked there
        node.mkdir(mode=0o755)
        self.held = Held(node)
        node.rename(node.with_name("held"))

    def release(self):
        if self.held:
            self.held.end()
            self.held = None

    def hang(self):
        """The agent's looker hangs, since a client asks for what is held."""
        self.hold()
        answer = self.agent_of_host.get("/v1/resolve/users/held/x")
        self.assertEqual(answer.status, 503)
        wait_until(lambda: self.agent_of_host.status()["registry"]["state"] == "away", "it is away")
        # The control: without the looker it would be the agent that waits in the kernel.
        (stuck,) = [pid for pid in lookers(self.agent_of_host.process.pid) if state(pid) == "D"]
        return stuck

    def test_the_agent_answers_and_its_record_stays(self):
        before = self.identity()
        self.hang()
        self.assertEqual(self.look_up(), "STALE")
        self.assertEqual(self.agent_of_host.get("/live").status, 200)
        self.assertEqual(self.identity(), before)
        self.assertIn("somebody holds it", self.agent_of_host.status()["registry"]["error"])
        self.agent_of_host.upgrade()
        self.assertEqual(self.identity(), before)
        self.release()
        wait_until(lambda: self.look_up() in ("HIT", "MISS"), "the registry is back")
        self.agent_of_host.wait_state("registered")
        self.assertEqual(self.identity(), before)

    def test_it_stops_and_its_record_goes(self):
        self.hang()
        self.assertEqual(self.agent_of_host.stop(), 0)
        self.assertIsNone(self.identity())

    def test_it_is_killed_and_a_successor_registers(self):
        stuck = self.hang()
        self.agent_of_host.kill()
        wait_until(lambda: self.identity() is None, "its record has gone")
        self.assertEqual(state(stuck), "D")
        self.agent_of_host.start()
        self.agent_of_host.wait_state("registered")
        self.assertIsNotNone(self.identity())

    def test_a_command_ends_with_an_error(self):
        self.hold()
        process = subprocess.Popen([PROGRAMS / "berth", "--registry", self.registry, "bind", "-p",
            "/users/held/x", "--file", self.folder / "record.json"], stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stderr.close)
        self.assertNotEqual(process.wait(60), 0)
        self.assertRegex(process.stderr.read(), "does not answer|did not answer")


@needs("processes")
class OwnRegistry(LifeTest):
    registry_kind = Directory

    def test_a_directory_that_nobody_else_can_open_needs_no_process(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        self.assertEqual(lookers(agent.process.pid), [])


del LifeTest

if __name__ == "__main__":
    unittest.main()
