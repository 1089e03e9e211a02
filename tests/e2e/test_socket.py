"""The agent's socket as a file: made again when it was removed, left alone when it is another's;
and a system without /proc."""

import os
import signal
import socket
import subprocess
import unittest

from berth import BUILD, AgentTest, wait_until
from rights import needs

WITHOUT_PROC = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
    'mount -t tmpfs none /proc && exec "$@"', "sh"]


class Socket(AgentTest):
    def test_a_reload_makes_a_removed_socket_again(self):
        agent = self.web_agent().start()
        mode = agent.socket.stat().st_mode
        agent.socket.unlink()
        agent.signal(signal.SIGHUP)
        wait_until(agent.answers, "the socket is there again")
        self.assertEqual(agent.socket.stat().st_mode, mode)
        self.assertIn("it is made again", agent.read_log())
        agent.stop()
        self.assertFalse(agent.socket.exists())

    def test_a_reload_with_a_bad_configuration_makes_it_too(self):
        agent = self.web_agent().start()
        agent.socket.unlink()
        agent.config.write_text("[nonsense]\n")
        agent.signal(signal.SIGHUP)
        wait_until(agent.answers, "the socket is there again")

    def test_it_is_made_again_without_a_reload(self):
        agent = self.web_agent().start()
        agent.socket.unlink()
        wait_until(agent.answers, "the socket is there again")

    def test_connections_go_on(self):
        agent = self.web_agent().start()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(agent.socket))
            agent.socket.unlink()
            agent.signal(signal.SIGHUP)
            wait_until(agent.answers, "the socket is there again")
            client.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b" 200 ", client.recv(1000))

    def test_anothers_socket_stays(self):
        agent = self.web_agent().start()
        agent.socket.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.bind(str(agent.socket))
            other.listen()
            agent.signal(signal.SIGHUP)
            wait_until(lambda: "is served by another process" in agent.read_log(),
                "the agent says so")
            agent.stop()
            self.assertTrue(agent.socket.exists())

    def test_a_file_in_its_place_stays(self):
        agent = self.web_agent().start()
        agent.socket.unlink()
        agent.socket.write_text("precious")
        agent.signal(signal.SIGHUP)
        wait_until(lambda: "is not a socket" in agent.read_log(), "the agent says so")
        agent.stop()
        self.assertEqual(agent.socket.read_text(), "precious")

    def test_after_an_upgrade_only_the_own_socket_is_removed(self):
        agent = self.web_agent().start()
        agent.socket.unlink()
        agent.socket.write_text("precious")
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: agent.read_log().count(" runs, pid ") == 2, "the successor runs")
        agent.stop()
        self.assertEqual(agent.socket.read_text(), "precious")


class WithoutProc(AgentTest):
    @unittest.skipIf(os.environ.get("BERTH_SANITIZER"), "a sanitizer needs /proc itself")
    @needs("mount namespace")
    def test_the_agent_runs_registers_and_upgrades(self):
        agent = self.web_agent()
        with open(agent.log, "ab") as log:
            agent.process = subprocess.Popen(
                [*WITHOUT_PROC, agent.program, "-c", agent.config],
                env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )
        wait_until(agent.answers, "the agent answers")
        agent.wait_state("registered")
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: agent.read_log().count(" runs, pid ") == 2, "the successor runs")
        wait_until(agent.answers, "the successor answers")
        agent.wait_state("registered")
        agent.stop()
