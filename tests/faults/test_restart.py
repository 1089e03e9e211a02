"""Restarts with all that a predecessor can leave behind: a session, none, a damaged one, a state
directory that cannot be written."""

import json
import os
import signal
import subprocess
import unittest
import zlib

from berth import Agent, wait_until
from figures import figure
from lifecycle import LifeTest, SessionTest, on_both, rounds
from rights import needs


class Starts(LifeTest):
    def test_a_registered_service_is_found_at_once(self):
        for number in range(rounds(20)):
            agent = self.web_agent(f"agent{number}").start()
            agent.wait_state("registered")
            self.assertEqual(agent.get(f"/v1/resolve{Agent.PATH}").status, 200)
            self.assertEqual(agent.stop(), 0)


on_both(globals(), Starts)


class Restarts(SessionTest):
    def test_a_pending_check_does_not_take_the_record_out(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.version()
        gate = self.folder / "gate"
        os.mkfifo(gate)
        agent.sections["check alive"]["command"] = f"/bin/sh -c 'read line < {gate}'"
        agent.sections["check alive"]["timeout"] = "60s"
        agent.write_config(agent.sections)
        self.restart(agent, signal.SIGKILL)
        wait_until(lambda: agent.status()["registry"]["state"] == "connected", "it is connected")
        self.assertEqual(agent.check_named("alive")["state"], "pending")
        self.assertEqual(self.version(), before)
        with open(gate, "w", encoding="ascii") as writer:
            writer.write("go\n")
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)

    def test_only_what_differs_is_written_and_what_is_no_longer_configured_goes(self):
        agent = self.agent()
        sections = {**agent.component("true", name="one"), **agent.component("true", name="two")}
        sections.update(agent.component("true", name="three"))
        agent.write_config(sections)
        agent.start()
        paths = {name: Agent.PATH.replace("web-1", name) for name in ("one", "two", "three")}
        for name in paths:
            agent.wait_state("registered", name)
        before = {name: self.version(path) for name, path in paths.items()}
        del sections["component three"], sections["endpoint restthree"], sections[
            "check alivethree"]
        sections["component two"]["description"] = "changed while nobody looked"
        agent.write_config(sections)
        self.restart(agent, signal.SIGKILL)
        wait_until(lambda: self.version(paths["three"]) is None, "the third is gone")
        wait_until(lambda: self.version(paths["two"]) != before["two"], "the second is written")
        self.assertEqual(self.version(paths["two"])[0], before["two"][0])
        self.assertEqual(self.version(paths["one"]), before["one"])
        left = [paths["one"], paths["two"]]
        wait_until(lambda: self.session_paths() == left, "the session file names what is left")

    # ---- sessions that cannot be resumed

    def taken_over(self, spoil, complaint):
        """Kills an agent, spoils what it left, starts it again; the record must be replaced without
        an absence."""
        agent = self.web_agent().start()
        agent.wait_state("registered")
        first = self.identity()
        witness = self.witness()
        agent.kill()
        spoil()
        agent.start()
        agent.wait_state("registered")
        wait_until(lambda: self.identity() not in (None, first), "the node is a new one")
        seen = witness.end()
        self.assertIn(complaint, agent.read_log())
        self.assertNotIn(None, seen)
        self.assertEqual(agent.stop(), 0)

    def test_a_wrong_password_is_taken_over(self):
        def spoil():
            # The file itself is whole: the agent writes the checksum of what it should not have
            # believed.
            self.rewrite_session(lambda session: session.update(password="00" * 16))

        self.taken_over(spoil, "is over; making a new one")

    def rewrite_session(self, change):
        head, _, body = self.session_file().read_bytes().partition(b"\n")
        document = json.loads(body)
        change(document["session"])
        text = json.dumps(document).encode()
        words = head.decode().split()
        self.session_file().write_bytes(
            f"{words[0]} {words[1]} {words[2]} {len(text)} {zlib.crc32(text):08x}\n".encode() + text
        )

    def test_a_damaged_file_is_taken_over(self):
        def spoil():
            data = bytearray(self.session_file().read_bytes())
            data[len(data) // 2] ^= 1
            self.session_file().write_bytes(data)

        self.taken_over(spoil, "the saved session cannot be read, a new one is made")

    def test_an_empty_file_is_taken_over(self):
        self.taken_over(
            lambda: self.session_file().write_bytes(b""),
            "the saved session cannot be read, a new one is made"
        )

    def test_a_missing_file_is_taken_over(self):
        self.taken_over(lambda: self.session_file().unlink(),
            "no session was saved, a new one is made")

    def test_an_expired_session_is_registered_again(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        first = self.identity()
        agent.kill()
        _, _, body = self.session_file().read_bytes().partition(b"\n")
        session = json.loads(body)["session"]
        killed = self.server.probe("kill-session", session["id"], session["password"])
        self.assertEqual(killed.returncode, 0, killed.stderr)
        self.assertIsNone(self.identity())
        agent.start()
        agent.wait_state("registered")
        self.assertNotEqual(self.identity(), first)
        self.assertIn("is over; making a new one", agent.read_log())

    def test_another_registrys_session_is_not_used(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        agent.kill()
        agent.registry += "2"
        agent.write_config(agent.sections)
        agent.start()
        agent.wait_state("registered")
        self.assertIn("is with another registry", agent.read_log())

    # ---- a state directory that cannot be written

    def unwritable(self, mount):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        agent.kill()
        state = self.folder / "agent/state"
        self.assertEqual(subprocess.run(mount(state), check=False).returncode, 0)
        self.addCleanup(subprocess.run, ["umount", state], check=False)
        return agent

    @staticmethod
    def says_what_is_lost(agent):
        wait_until(lambda: "the session is not saved and ends with this process"
            in agent.read_log(), "the log says what is lost")

    @needs("mounts")
    def test_a_read_only_state_directory_still_resumes_and_says_what_is_lost(self):
        agent = self.unwritable(lambda state: ["mount", "--bind", "-o", "ro", state, state])
        before = self.version()
        self.assertEqual(
            subprocess.run(["mount", "-o", "remount,ro,bind", self.folder / "agent/state"],
                check=False).returncode, 0
        )
        agent.start()
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)
        self.says_what_is_lost(agent)
        agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)
        self.assertEqual(agent.stop(), 0)
        figure(self, "a start and an upgrade: the session resumed, record written 0 times; the log "
            "says what is lost")

    @needs("mounts")
    def test_a_full_state_directory_is_no_obstacle(self):
        agent = self.unwritable(lambda state: ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs",
            state])
        with open(self.folder / "agent/state/ballast", "wb", buffering=0) as ballast:
            with self.assertRaises(OSError):
                while True:
                    ballast.write(b"x" * 1024)
        agent.start()
        agent.wait_state("registered")
        self.says_what_is_lost(agent)
        client = self.client(agent, keep=False)
        agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(client.end(), [])
        self.assertEqual(agent.stop(), 0)
        figure(self, f"a start and an upgrade: registered, 0 of {client.answers} look-ups failed; "
            "the log says what is lost")

    def test_a_file_where_the_state_directory_should_be(self):
        agent = self.web_agent()
        (self.folder / "agent/state").write_text("")
        agent.start()
        agent.wait_state("registered")
        self.assertIn("nothing will survive a restart", agent.read_log())
        before = self.version()
        agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)

    def test_a_second_agent_on_the_same_state_directory_is_refused(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.version()
        other = self.web_agent("other", extra={"agent": {"state_dir": self.folder / "agent/state"}})
        other.start(wait=False)
        self.assertEqual(other.wait(), 1)
        self.assertIn("another agent uses", other.read_log())
        agent.upgrade()
        other.start(wait=False)
        self.assertEqual(other.wait(), 1)
        self.assertEqual(self.version(), before)


class AbsencesOnDirectory(LifeTest):
    def test_after_kill_9_the_record_is_absent_only_while_the_process_is(self):
        agent = self.web_agent(check=None).start()
        agent.wait_state("registered")
        agent.kill()
        self.assertIsNone(self.identity())
        agent.start()
        agent.wait_state("registered")
        self.assertIsNotNone(self.identity())


if __name__ == "__main__":
    unittest.main()
