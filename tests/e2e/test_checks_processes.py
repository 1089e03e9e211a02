"""Commands that do not want to end, to be seen or to be quiet, under a real agent, which is
afterwards as it was before."""

import os
import pathlib
import signal
import unittest

from berth import log_writers, wait_until
from checks import CheckTest

A_WEEK = "168h"  # after the first runs none may come while we look
GROWTH = 4 << 20  # bytes of resident memory; 2 GB have passed by

# name, script, verdict, part of the reason. "sleep 1000 MARK" becomes a program that can be found
# by its command line.
EVIL = [
    ("ignores-term", "trap '' TERM; sleep 1000 MARK", "timed-out", "no exit within"),
    ("child-ignores-term", "(trap '' TERM; sleep 1000 MARK) & trap '' TERM; wait", "timed-out",
        "no exit within"),
    ("escapes", "setsid sh -c 'sleep 1000 MARK & exit' & exit 0", "passing", "exit status 0"),
    ("escapes-and-hangs", "setsid sh -c 'setsid sleep 1000 MARK & exit' & sleep 1000 MARK",
        "timed-out", "no exit within"),
    ("escapes-in-generations",
     "setsid sh -c 'setsid sh -c \"setsid sleep 1000 MARK & sleep 1000 MARK\" & sleep 1000 MARK' & "
     "exit 2",
     "failing", "exit status 2"),
    ("escapes-without-environment", "env -i setsid -f sleep 1000 MARK; exit 0", "passing",
        "exit status 0"),
    ("holds-stdout", "sleep 1000 MARK & echo begun; exit 0", "passing", "exit status 0"),
    ("holds-stdout-outside", "setsid sleep 1000 MARK & echo begun; exit 3", "failing",
        "exit status 3"),
    ("prints-2-gb", "head -c 2000000000 /dev/zero", "passing", "exit status 0"),
    ("prints-for-ever", "exec yes MARK", "timed-out", "no exit within"),
    ("closes-stdout", "exec >&- 2>&-; sleep 0.1; exit 2", "failing", "exit status 2"),
    ("closes-stdout-and-hangs", "exec >&- 2>&-; sleep 1000 MARK", "timed-out", "no exit within"),
    ("stops-itself", "kill -STOP $$; sleep 1000 MARK", "timed-out", "no exit within"),
    ("stops-its-child", "sleep 1000 MARK & kill -STOP $!; exit 0", "passing", "exit status 0"),
    ("dies-by-signal", "kill -SEGV $$", "failing", "killed by SIGSEGV"),
    ("hangs-in-the-child", "sleep 1000 MARK; true", "timed-out", "no exit within"),
    ("reads-stdin", "cat; exit 0", "passing", "exit status 0"),
    ("missing", None, "could-not-run", "No such file or directory"),
    ("not-executable", None, "could-not-run", "Permission denied"),
    ("directory", None, "could-not-run", "Is a directory"),
]


class Evil(CheckTest):
    def setUp(self):
        super().setUp()
        # A directory's own name, so that the processes of another run of this test are nobody's
        # business here.
        self.mark = self.folder.name

    def command(self, name, script):
        if script:
            # A script of this folder in the place of sleep: its command line says whose it is.
            path = self.folder / f"{name}.sh"
            path.write_text("#!/bin/sh\n" + script.replace("sleep 1000 MARK",
                f"{self.folder}/rest").replace("MARK", self.mark))
            path.chmod(0o755)
        elif name == "missing":
            path = self.folder / "no-such-command"
        elif name == "not-executable":
            path = self.folder / "plain"
            path.write_text("#!/bin/sh\n")
        else:
            path = self.folder
        return path

    def marked(self):
        """Processes whose command line bears our mark, but for the agent and what writes its
        log."""
        found = []
        own = {os.getpid(), self.agent_pid, *log_writers(self.agent_pid)}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in own:
                continue
            try:
                words = (entry / "cmdline").read_bytes()
                zombie = b"\nState:\tZ" in (entry / "status").read_bytes()
            except OSError:
                continue
            if self.mark.encode() in words or (zombie and self.is_ours(entry)):
                found.append((entry.name, words))
        return found

    def is_ours(self, entry):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        return int(fields[1]) == self.agent_pid

    def metrics(self):
        """As the agent tells them: only root can look into a process that leaves no core dumps."""
        lines = self.watched.get("/metrics").body.decode().splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines
            if not line.startswith("#")}

    def descriptors(self):
        """Without those of clients, which come and go with our questions."""
        metrics = self.metrics()
        return metrics["process_open_fds"] - metrics["berth_clients"]

    def assert_no_more_descriptors(self):
        """Than ever before: the agent may write a file while we count, so one count may be high,
        and a later one that is lower is the truth of before as well."""
        def no_more():
            now = self.descriptors()
            self.fewest = min(self.fewest, now)
            return now == self.fewest

        wait_until(no_more, f"there are {self.fewest:g} descriptors as before")

    def resident(self):
        return self.metrics()["process_resident_memory_bytes"]

    def assert_as_before(self, resident):
        wait_until(lambda: not self.marked(), "nothing of it is left")
        self.assert_no_more_descriptors()
        self.assertLess(self.resident(), resident + GROWTH)

    def test_after_each_of_them_everything_is_as_before(self):
        sleeper = self.folder / "rest"
        sleeper.write_text("#!/bin/sh\nwhile :; do sleep 0.2; done\n")
        sleeper.chmod(0o755)
        sections = {}
        for name, script, verdict, _ in EVIL:
            sections[f"check {name}"] = {
                "command": self.command(name, script),
                "interval": A_WEEK, "fast_interval": A_WEEK,
                "timeout": "300ms" if verdict == "timed-out" else "50s", "fall": "1000",
            }
        # The test asks for each: a run by the schedule would disturb the others' before and
        # after.
        sections["agent"] = {"max_parallel_checks": "1"}
        agent = self.web_agent(check=None, extra=sections).start()
        self.watched, self.agent_pid = agent, agent.process.pid
        wait_until(lambda: all(check["last"] for check in agent.get("/v1/agent/checks").json),
            "each has had its first run", 120)
        wait_until(lambda: not self.marked(), "nothing is left before it begins")
        self.fewest = self.descriptors()
        for name, _, verdict, says in EVIL:
            with self.subTest(command=name):
                resident = self.resident()
                last = self.run_check(agent, name)["last"]
                self.assertEqual(last["verdict"], verdict, last)
                self.assertIn(says, last["detail"])
                self.assert_as_before(resident)
        self.assertEqual(agent.stop(), 0)

    def test_the_end_of_the_agent_is_the_end_of_what_it_started(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                begun = self.folder / f"begun-{number}"
                script = self.folder / f"hang-{number}.sh"
                escaped = self.folder / f"escaped-{number}.sh"
                escaped.write_text(
                    f"#!/bin/sh\ntrap '' TERM INT HUP\ntouch {begun}\nwhile :; do sleep 0.1; "
                    "done\n")
                escaped.chmod(0o755)
                script.write_text(
                    f"#!/bin/sh\ntrap '' TERM INT\nsetsid {escaped} &\nwhile :; do sleep 0.1; "
                    "done\n")
                script.chmod(0o755)
                agent = self.web_agent(
                    check=None, extra={"check alive": {"command": script, "timeout": "50s",
                        "interval": A_WEEK}}
                ).start()
                self.watched, self.agent_pid = agent, agent.process.pid
                wait_until(begun.exists, "the command runs")
                agent.signal(number)
                self.assertEqual(agent.wait(), 0)
                wait_until(lambda: not self.marked(), "the command has ended with the agent")


if __name__ == "__main__":
    unittest.main()
