"""Nobody reads stderr any more: the container's log driver hangs, or its disk is full. The agent
waited for it: no look-up was answered, and healthy records went with the session.

Source: tracker #45, B.1; moby #22502, containerd #9342.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import unittest

from berth import PROGRAMS, AgentTest, UnixConnection, has_ended, log_writers, wait_until
from rights import needs

LOST = re.compile(r"([0-9]+) lines? lost: ")
REASON = "\t" * 900  # in the log each takes two bytes


class Pipe:
    """What stderr is; nobody reads it before read_more()."""

    def __init__(self, test):
        self.reader, self.writer = self.open()
        test.addCleanup(os.close, self.reader)
        test.addCleanup(os.close, self.writer)
        os.set_blocking(self.reader, False)
        self.text = ""

    def open(self):
        return os.pipe()

    def fill(self):
        """As another process may that has it, too."""
        os.set_blocking(self.writer, False)
        try:
            while True:
                os.write(self.writer, b"somebody else's line\n")
        except BlockingIOError:
            os.set_blocking(self.writer, True)

    def read_more(self):
        try:
            while more := os.read(self.reader, 65536):
                self.text += more.decode(errors="replace").replace("\r\n", "\n")
        except BlockingIOError:
            pass

    def reported(self):
        """How many lines are lost, by the lines that say so."""
        return sum(int(count) for count in LOST.findall(self.text))


class Socket(Pipe):
    """As systemd's journal."""

    def open(self):
        return [end.detach() for end in socket.socketpair()]


class Terminal(Pipe):
    """Whose other end is not read: a terminal that is halted by ^S looks the same."""

    def open(self):
        return os.openpty()


class LogReaderStalls(AgentTest):
    def start(self, stderr, extra=None, command=()):
        agent = self.web_agent(extra=extra, command=command)
        agent.start(wait=False, stderr=stderr.writer)
        wait_until(agent.answers, "the agent answers")
        return agent

    def order(self, agent, method, **options):
        answer = agent.request(method, "/v1/agent/drain", options or None)
        self.assertEqual(answer.status, 204, answer.body)

    def lost(self, agent):
        return int(re.search(r"(?m)^berth_log_lines_lost_total (\d+)$",
            agent.get("/metrics").body.decode())[1])

    def check_lines_are_dropped_and_counted(self, stderr, extra=None):
        stderr.fill()
        agent = self.start(stderr, extra)
        agent.wait_state("registered")
        while self.lost(agent) == 0:
            self.order(agent, "POST", reason=REASON)
            self.order(agent, "DELETE")
        agent.wait_state("registered")

        def all_reported():
            stderr.read_more()
            return stderr.reported() == self.lost(agent)
        wait_until(all_reported, "lines say how many are lost")

        self.order(agent, "POST", reason="after it")

        def written():
            stderr.read_more()
            return "after it" in stderr.text
        wait_until(written, "the log goes on")
        stderr.fill()
        self.assertEqual(agent.stop(), 0)
        return stderr.text

    def test_a_pipe(self):
        self.check_lines_are_dropped_and_counted(Pipe(self))

    def test_a_socket(self):
        self.check_lines_are_dropped_and_counted(Socket(self))

    @needs("terminals")
    def test_a_terminal(self):
        self.check_lines_are_dropped_and_counted(Terminal(self))

    def test_lines_of_json(self):
        text = self.check_lines_are_dropped_and_counted(
            Pipe(self), {"agent": {"log_format": "json"}})
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        self.assertTrue(any(LOST.search(line["message"]) for line in lines))

    def test_the_main_process_fills_it(self):
        agent = self.start(Pipe(self), command=["sh", "-c", "exec yes >&2"])
        agent.wait_state("registered")
        while self.lost(agent) == 0:
            self.order(agent, "POST", reason=REASON)
            self.order(agent, "DELETE")
        agent.wait_state("registered")
        agent.stop()

    def test_an_upgrade_and_a_kill(self):
        stderr = Pipe(self)
        stderr.fill()
        agent = self.start(stderr)
        agent.wait_state("registered")
        before, = log_writers(agent.process.pid)
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: has_ended(before), "the new program runs, and the old writer is gone")
        wait_until(lambda: agent.answers() and list(log_writers(agent.process.pid)), "it answers")
        agent.kill()  # waits until nothing is left

    def test_an_upgrade_that_is_refused_says_why(self):
        stderr = Pipe(self)
        agent = self.start(stderr)
        stderr.fill()
        agent.config.write_text("[agent]\nsockt = /x\n")
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: any("the old one stays" in change["why"]
            for change in agent.get("/v1/agent/history").json), "the upgrade is given up")
        wait_until(lambda: stderr.read_more() or "`sockt`" in stderr.text, "it says why")

    def test_berth_xds_by_hand(self):
        stderr = Pipe(self)
        agent = self.web_agent().start()
        stderr.fill()
        path = self.folder / "xds.sock"
        process = subprocess.Popen([PROGRAMS / "berth-xds", "--socket", agent.socket, "--listen",
            path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr.writer)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

        def answers():
            with contextlib.suppress(OSError), contextlib.closing(UnixConnection(path)) as client:
                client.request("POST", "/v3/discovery:endpoints",
                    json.dumps({"resource_names": ["test.org-example-web.joe"]}),
                    {"Content-Type": "application/json"})
                return client.getresponse().status == 200
            return False
        wait_until(answers, "berth-xds answers")


if __name__ == "__main__":
    unittest.main()
