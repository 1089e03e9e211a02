"""berth top on a real terminal: tmux shows what is on the screen."""

import contextlib
import os
import shutil
import signal
import subprocess
import unittest

from berth import BUILD, PATIENCE, AgentTest, berth, exists, has_ended, wait_until
from rights import needs


@needs("terminals")
class Top(AgentTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("tmux"):
            self.fail("tmux is not installed: ./quickstart check installs it")
        self.flag = self.folder / "flag"
        self.flag.write_text("")
        self.server = self.web_agent(check=exists(self.flag)).start()
        self.server.wait_state("registered")

    def tmux(self, *words):
        result = subprocess.run(["tmux", "-S", self.folder / "tmux", "-f", "/dev/null",
            *map(str, words)], capture_output=True, text=True,
                                timeout=PATIENCE, check=False)
        return result.stdout if result.returncode == 0 else ""

    def open(self, width=110, height=32):
        top = f"echo $$ >{self.folder}/pid; exec {BUILD}/berth --socket {self.server.socket} top"
        command = (
            f"stty -a >{self.folder}/before; sh -c '{top}'; echo ended with $?; stty -a "
            f">{self.folder}/after; sleep 1000")
        self.tmux("new-session", "-d", "-x", width, "-y", height, command)
        self.addCleanup(self.close)
        self.shows("registered")

    def close(self):
        pid = int((self.folder / "pid").read_text())
        if os.environ.get("BERTH_SANITIZER"):
            # A terminal that goes away sends SIGCONT too, which takes the SIGSTOP from the leak
            # check that has begun: it would wait for ever.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            self.wait_ended(pid)
        self.tmux("kill-server")
        self.wait_ended(pid)

    def wait_ended(self, pid):
        wait_until(lambda: has_ended(pid), "berth top has ended")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def shows(self, *texts):
        wait_until(lambda: all(text in self.screen() for text in texts),
            f"the screen shows {texts}; it shows\n{self.screen()}")

    def test_it_follows_the_agent(self):
        self.open()
        self.shows("COMPONENT", "web-1", "CHECK", "alive", "WHEN", self.server.PATH)
        self.flag.unlink()
        self.shows("withdrawn", "exit status 2")
        self.flag.write_text("")
        wait_until(lambda: "withdrawn" not in self.screen().partition("CHECK")[0],
            "it is registered again")
        self.assertEqual(self.server.stop(), 0)
        self.shows("no answer from the agent")
        self.server.start()
        wait_until(lambda: "no answer" not in self.screen() and "web-1" in self.screen(),
            "the agent is back")

    def test_q_ends_it_and_leaves_the_terminal_as_it_was(self):
        self.open()
        self.tmux("send-keys", "q")
        self.shows("ended with 0")
        self.assertNotIn("web-1", self.screen())
        wait_until(lambda: (self.folder / "after").exists() and (self.folder / "after").read_text(),
            "the terminal was asked")
        self.assertEqual((self.folder / "before").read_text(), (self.folder / "after").read_text())

    def test_so_does_an_interrupt(self):
        self.open()
        self.tmux("send-keys", "C-c")
        wait_until(lambda: "web-1" not in self.screen(), "it has ended")

    def test_a_small_screen_shows_the_beginning_and_never_scrolls(self):
        self.open(width=30, height=14)  # too narrow for the registry's path
        self.shows("agent ")
        self.assertTrue(self.screen().startswith("agent "), self.screen())
        self.tmux("resize-window", "-x", 120, "-y", 40)
        self.shows("agent ", "WHEN")
        self.assertTrue(self.screen().startswith("agent "), self.screen())
        self.assertLessEqual(max(map(len, self.screen().splitlines())), 120)

    def test_keys_choose_a_view_and_scroll(self):
        self.open(width=50, height=10)
        self.shows("agent ", "q quit  Tab or 1-4: all  Up/Down: 1-9 of ")
        self.tmux("send-keys", "Down")
        self.shows("Up/Down: 2-10 of ")
        self.assertFalse(self.screen().startswith("agent "), self.screen())
        self.tmux("send-keys", "k")
        self.shows("Up/Down: 1-9 of ")
        for key, view, heading, other in (("2", "status", "agent ", "CHECK"),
                ("Tab", "checks", "CHECK", "agent "), ("4", "history", "registered", "CHECK"),
                ("Tab", "all", "agent ", "WHEN")):
            self.tmux("send-keys", key)
            self.shows(f"1-4: {view} ", heading)
            self.assertNotIn(other, self.screen())
        self.tmux("resize-window", "-x", 50, "-y", 40)
        self.shows("rest http://127.0.0.1:8080/", "WHEN")
        self.assertLessEqual(max(map(len, self.screen().splitlines())), 50)

    def test_without_a_terminal_it_names_what_programs_use(self):
        result = berth("--socket", self.server.socket, "top")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--json", result.stderr)


del AgentTest

if __name__ == "__main__":
    unittest.main()
