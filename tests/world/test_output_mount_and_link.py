"""An output's file that was a mount, as /etc/hosts and every single file of a volume are in a
container, was never written: "Device or resource busy". A symbolic link was replaced by a file, and
what it had led to stayed old.

Source: tracker #45, item B.7; Docker's /etc/hosts, /etc/resolv.conf and `-v FILE:FILE`
"""

import os
import shlex
import signal
import subprocess
import unittest

from berth import PROGRAMS, wait_until
from outputs import FROM, OutputTest, record
from rights import needs

BEFORE = "127.0.0.1\tlocalhost\n"
BEHIND = "10.9.9.9\tlegacy.example.org\n"


class Placed(OutputTest):
    def checked(self, agent, *words):
        result = subprocess.run([*words, PROGRAMS / "berthd", "-t", "-c", agent.config], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return result.returncode, result.stdout


class Mount(Placed):
    def setUp(self):
        super().setUp()
        # The mount is in a namespace of the agent's own; this is the file behind it.
        self.behind = self.folder / "behind"
        self.behind.write_text("old\n" * 10)
        self.file.write_text("nothing\n")
        self.put_member("c1", 8081)

    def enter(self, agent, *before):
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
            f'mount --bind {self.behind} {self.file} && exec "$@"', "sh", *before]
        wrapper = self.folder / "mounted"
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(words)} {PROGRAMS}/berthd "$@"\n')
        wrapper.chmod(0o755)
        agent.program = wrapper
        self.inside = words
        return agent

    def wait_behind(self, text):
        wait_until(lambda: self.behind.read_text() == text, f"behind it is {text!r}")

    @needs("mount namespace")
    def test_it_is_written_in_place_and_named_at_start(self):
        inode = self.behind.stat().st_ino
        agent = self.enter(self.output_agent()).start()
        self.wait_behind("127.0.0.1:8081\n")
        self.wait_state(agent, "current")
        self.assertIn(f"{self.file} is written in place, since it is a mount", agent.read_log())
        self.put_member("c2", 8082)
        self.wait_behind("127.0.0.1:8081\n127.0.0.1:8082\n")
        self.remove_member("c1")
        self.wait_behind("127.0.0.1:8082\n")
        self.assertEqual(self.behind.stat().st_ino, inode)
        agent.upgrade()
        self.put_member("c3", 8083)
        self.wait_behind("127.0.0.1:8082\n127.0.0.1:8083\n")

    @needs("mount namespace")
    def test_to_replace_it_is_an_error_that_names_it(self):
        agent = self.enter(self.output_agent(write="replace"))
        status, said = self.checked(agent, *self.inside)
        self.assertEqual(status, 1)
        self.assertIn(f"`write`: {self.file} is a mount, which cannot be replaced", said)
        self.assertEqual(agent.start(wait=False).wait(), 1)
        self.assertIn(f"{self.file} is a mount", agent.read_log())
        agent = self.enter(self.output_agent(mode="0600"))
        status, said = self.checked(agent, *self.inside)
        self.assertEqual(status, 1)
        self.assertIn("`mode` means nothing for a file that is a mount", said)

    @needs("mount namespace")
    def test_a_check_accepts_the_new_file_before_a_byte_is_written(self):
        seen = self.folder / "seen"
        check = self.script(f'cp "$1" {seen}; grep -q 8082 "$1"', "check")
        before = self.behind.read_text()
        agent = self.enter(self.output_agent(check=f"{check} {{}}")).start()
        self.wait_state(agent, "failed")
        self.assertEqual((self.behind.read_text(), seen.read_text()), (before, "127.0.0.1:8081\n"))
        self.put_member("c2", 8082)
        self.wait_behind("127.0.0.1:8081\n127.0.0.1:8082\n")

    @needs("mount namespace")
    def test_a_hosts_file_that_a_crash_has_left_half_written_is_whole_again(self):
        names = ["c1", "c2", "c3"]
        for name in names:
            self.put(f"{FROM}/{name}", record(80, host="10.0.0.1"))
        self.behind.write_text(BEFORE)
        agent = self.enter(self.output_agent(format="hosts")).start()
        wait_until(lambda: self.behind.read_text().count("10.0.0.1") == 3, "all are there")
        self.behind.write_text(self.behind.read_text() + BEHIND)
        whole = self.behind.read_text()
        agent.stop()
        for name in names[1:]:
            self.remove(f"{FROM}/{name}")
        # The process that writes dies before the length changes, however often it is tried.
        self.enter(agent, "strace", "-f", "-q", "-o", "/dev/null", "-e", "trace=ftruncate",
            "-e", "inject=ftruncate:signal=KILL")
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS),
            "ASAN_OPTIONS": "detect_leaks=0"})
        wait_until(lambda: self.behind.read_text() not in (whole, BEFORE), "it begins to write")
        self.wait_state(agent, "failed")
        pid = agent.status()["pid"]
        half = self.behind.read_text()
        self.assertEqual(len(half), len(whole))
        self.assertNotEqual(half.count("# END berth web"), 1)
        os.kill(pid, signal.SIGKILL)
        agent.wait()
        self.enter(agent).start()
        wait_until(lambda: self.behind.read_text().count("10.0.0.1") == 1, "it is written again")
        text = self.behind.read_text()
        self.assertTrue(text.startswith(BEFORE + "# BEGIN berth web\n10.0.0.1"), text)
        self.assertTrue(text.endswith("# END berth web\n" + BEHIND), text)
        self.assertEqual(text.count("# END berth web"), 1)


class Link(Placed):
    def setUp(self):
        super().setUp()
        self.real = self.directory / "real" / "web.cfg"
        self.real.parent.mkdir()
        self.put_member("c1", 8081)

    def test_its_target_is_replaced(self):
        self.file.symlink_to("real/web.cfg")
        for before in ("old\n", None):
            with self.subTest(before=before):
                self.real.unlink(missing_ok=True)
                if before:
                    self.real.write_text(before)
                agent = self.output_agent().start()
                wait_until(lambda: self.real.exists() and
                    self.real.read_text() == "127.0.0.1:8081\n", "the content is there")
                self.wait_state(agent, "current")
                self.assertTrue(self.file.is_symlink())
                self.assertEqual(self.checked(agent)[0], 0)
                self.assertEqual([item.name for item in self.real.parent.iterdir()], ["web.cfg"])
                agent.stop()

    def test_one_that_others_could_have_made_is_named(self):
        self.directory.chmod(0o777)
        self.real.write_text("secret\n")
        self.file.symlink_to("real/web.cfg")
        agent = self.output_agent().start()
        self.wait_state(agent, "failed")
        self.assertIn(f"{self.file} is a symbolic link, and is not followed",
            self.output(agent)["why"])
        self.assertIn("is not followed", self.checked(agent)[1])
        self.assertEqual(self.real.read_text(), "secret\n")
        self.assertTrue(self.file.is_symlink())

    def test_nothing_is_written_in_place_through_one(self):
        self.real.write_text("old\n")
        self.file.symlink_to("real/web.cfg")
        agent = self.output_agent(write="in-place").start()
        self.wait_state(agent, "failed")
        self.assertIn(f"{self.file} is a symbolic link, through which nothing is written in place",
            self.output(agent)["why"])
        self.assertIn("through which nothing is written", self.checked(agent)[1])
        self.assertEqual(self.real.read_text(), "old\n")


if __name__ == "__main__":
    unittest.main()
