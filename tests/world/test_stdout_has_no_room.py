"""A configuration is printed into a file on a full disk: the file was short, and the exit status
said that all was well, so the next program took half of it for the whole.

Source: tracker #45, B.1, the output of -t; coreutils writes its own for /dev/full, and gnulib's
close_stdout is the same for all of GNU.
"""

import subprocess
import unittest

from berth import PROGRAMS, AgentTest


class StdoutHasNoRoom(AgentTest):
    def test_each_program_that_prints_says_so(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        for words in (
            ["berthd", "-T", "-c", agent.config],
            ["berthd", "-t", "-c", agent.config],
            ["berthd", "--help"],
            ["berthd", "--version"],
            ["berth", "--socket", agent.socket, "status"],
            ["berth", "--help"],
            ["berth-xds", "--help"],
            ["berth-xds", "--socket", agent.socket, "--dump", "test.org-example-web.joe"],
        ):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                result = subprocess.run([PROGRAMS / words[0], *words[1:]], stdout=full,
                    stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"{words[0]}: cannot write: No space left on device", result.stderr)


if __name__ == "__main__":
    unittest.main()
