"""The disk of state_dir is full. The log said so once; status, metrics and the exit status of
`berth drain` did not, a new session was never saved, and after a kill the agent was in conflict
with its own records.

Source: tracker #45, C.3, from an operator's day.
"""

import json
import os
import subprocess
import unittest

from berth import Agent, AgentTest, berth, wait_until
from rights import needs
from zookeeper import share_zookeeper


class StateDirIsFull(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = share_zookeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url
        self.agent = self.web_agent()
        self.state = self.agent.folder / "state"
        self.filler = self.state / "filler"
        self.state.mkdir()

    def mount(self):
        """A disk of its own, which is small."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", self.state],
            check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.state], check=True)

    def fill(self):
        with open(self.filler, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def saved(self):
        return self.agent.status()["state"]["saved"]

    def metric(self):
        return b"\nberth_state_saved 1\n" in self.agent.get("/metrics").body

    def session_on_disk(self):
        return json.loads((self.state / "session").read_text().split("\n", 1)[1])["session"]["id"]

    def berth(self, *words):
        return berth("--socket", self.agent.socket, *words)

    @needs("mounts")
    def test_it_is_seen_and_mended_by_itself(self):
        self.mount()
        self.agent.start()
        self.agent.wait_state("registered")
        wait_until(lambda: self.saved() and self.metric(), "all is saved")
        self.fill()
        self.agent.expire_session(self.server)
        self.agent.wait_state("registered")
        wait_until(lambda: not self.saved() and not self.metric(), "the session is not saved")
        state = self.agent.status()["state"]
        self.assertIn("session", state["unsaved"])
        self.assertIn("No space left on device", state["why"])
        self.assertRegex(self.berth("status").stdout, "state +not saved: .*No space left on device")

        drained = self.berth("drain", "--wait", "--reason", "disk")
        self.assertEqual(drained.returncode, 1)
        self.assertIn("will not know of it after a restart: ", drained.stderr)
        self.assertIn("No space left on device", drained.stderr)
        self.assertTrue(self.agent.status()["drain"]["active"])
        self.assertEqual(self.berth("undrain").returncode, 0)
        self.agent.wait_state("registered")

        self.filler.unlink()
        wait_until(lambda: self.saved() and self.metric(), "all is saved again")
        self.assertEqual(self.session_on_disk(), self.agent.status()["registry"]["session"])
        self.assertEqual(self.berth("drain", "--wait").returncode, 0)
        self.assertEqual(self.berth("undrain").returncode, 0)
        changes = [(change["subject"], change["to"])
            for change in self.agent.get("/v1/agent/history").json]
        self.assertIn(("state", "unsaved"), changes)
        self.assertIn(("state", "saved"), changes)

        self.agent.wait_state("registered")
        session = self.agent.status()["registry"]["session"]
        self.agent.kill()
        self.agent.start()
        self.agent.wait_state("registered")
        self.assertEqual(self.agent.status()["registry"]["session"], session)
        self.assertNotIn("-> conflict", self.agent.read_log())

    def test_a_directory_that_cannot_be_used(self):
        self.agent.sections.setdefault("agent", {})["state_dir"] = "/dev/null/state"
        self.agent.write_config(self.agent.sections)
        self.agent.start()
        self.agent.wait_state("registered")
        state = self.agent.status()["state"]
        self.assertEqual((state["saved"], state["unsaved"]), (False, []))
        self.assertIn("/dev/null", state["why"])
        self.assertFalse(self.metric())
        drained = self.berth("drain", "--wait")
        self.assertEqual(drained.returncode, 1)
        self.assertIn("/dev/null", drained.stderr)


if __name__ == "__main__":
    unittest.main()
