"""A script waits for ever: `berth watch PATH | head -n 1` does not end when head does, but at the
next change some day. So does `berth history --follow`.

Source: coreutils, whose `tail -f FILE | head -n 1` ends
"""

import os
import subprocess
import unittest

from berth import PATIENCE, PROGRAMS, Agent, AgentTest, has_ended, service_record, wait_until

BERTH = str(PROGRAMS / "berth")


class IntoHead(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = self.web_agent().start()
        self.server.wait_state("registered")

    def pipe(self, *words, lines=1, registry=None):
        """Runs berth into head; returns its errors and the line that head took."""
        at = ("--registry", registry) if registry else ("-s", str(self.server.socket))
        with subprocess.Popen([BERTH, *at, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS)}) as berth:
            head = subprocess.run(["head", "-n", str(lines)], stdin=berth.stdout,
                capture_output=True, text=True, timeout=PATIENCE, check=True)
            berth.stdout.close()
            try:
                berth.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                berth.kill()
                self.fail(f"{words} does not end")
            return berth.stderr.read(), head.stdout

    def test_a_watch_ends_with_its_reader(self):
        for words in (["watch", Agent.PATH], ["--json", "watch", Agent.PATH],
                ["watch", "-r", "/users"]):
            errors, line = self.pipe(*words)
            self.assertEqual(errors, "", words)
            self.assertIn(words[-1], line, words)

    def test_a_watch_of_a_registry_does_too(self):
        errors, line = self.pipe("watch", Agent.PATH, registry=self.registry)
        self.assertEqual(errors, "")
        self.assertIn(Agent.PATH, line)

    def test_a_history_that_is_followed_does_too(self):
        errors, line = self.pipe("history", "--follow")
        self.assertEqual(errors, "")
        self.assertTrue(line)

    def test_a_reader_that_leaves_at_once_is_no_error(self):
        for words in (["ls", "/"], ["watch", Agent.PATH], ["history", "--follow"]):
            self.assertEqual(self.pipe(*words, lines=0)[0], "", words)

    def test_a_watch_with_a_command_stays(self):
        """Its output is the command's."""
        seen = self.folder / "seen"
        read, write = os.pipe()
        self.put("/services/a", service_record("10.0.0.1", 80))
        process = subprocess.Popen([BERTH, "-s", str(self.server.socket), "watch", "/services/a",
            "--", "sh", "-c", f"echo >>{seen}"], stdout=write, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(write)
        os.close(read)
        wait_until(lambda: seen.exists() and seen.read_text() == "\n", "the first picture")
        self.put("/services/a", service_record("10.0.0.1", 81))
        wait_until(lambda: seen.read_text() == "\n\n" or has_ended(process.pid), "a change")
        self.assertEqual(seen.read_text(), "\n\n")


if __name__ == "__main__":
    unittest.main()
