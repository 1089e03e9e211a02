"""An agent that has no file descriptors left: it goes on with what it has, and recovers when there are some again."""

import os
import pathlib
import resource
import socket
import time
import unittest

from berth import PATIENCE, Agent, AgentTest, UnixConnection, wait_until

LIMIT = 256
CROWD = 200


class Asker:
    """One connection that asks for the agent's record whenever it is told to."""

    def __init__(self, agent):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(agent.socket))
        self.ask()

    def ask(self):
        self.socket.sendall(f"GET /v1/resolve{Agent.PATH} HTTP/1.1\r\nHost: berth\r\n\r\n".encode())

    def status(self, patience=PATIENCE):
        """Of the answer; None when there is none."""
        self.socket.settimeout(patience)
        try:
            return int(self.socket.recv(65536).split()[1])
        except TimeoutError:
            return None

    def close(self):
        self.socket.close()


class OutOfDescriptors(AgentTest):
    def asker(self, agent):
        asker = Asker(agent)
        self.addCleanup(asker.close)
        return asker

    def kept_open(self, agent):
        connection = UnixConnection(agent.socket)
        self.addCleanup(connection.close)

        def get(path):
            connection.request("GET", path)
            return connection.getresponse().read().decode()

        return get

    def cpu_seconds(self, agent):
        fields = pathlib.Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def assert_calm(self, agent):
        started, before = time.monotonic(), self.cpu_seconds(agent)
        time.sleep(1)
        used = self.cpu_seconds(agent) - before
        self.assertLess(used, 0.7 * (time.monotonic() - started), "it does not turn in circles")

    def limit(self, agent, soft):
        _, hard = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (soft, hard))

    def test_more_clients_than_it_may_have_files(self):
        agent = self.web_agent()
        agent.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT)))
        self.assertIn("the limit of open files is 256", agent.read_log())
        agent.wait_state("registered")
        askers = [self.asker(agent) for _ in range(CROWD)]
        served = askers[: LIMIT // 4]
        self.assertEqual({asker.status() for asker in served}, {200})
        self.assertIsNone(askers[-1].status(patience=0.5), "the last of the crowd waits")
        for asker in served:
            asker.ask()
            self.assertEqual(asker.status(), 200)
        self.assert_calm(agent)
        for asker in askers[: CROWD // 2]:
            asker.close()
        self.assertEqual(askers[-1].status(), 200, "its turn has come")
        agent.wait_state("registered")
        self.assertEqual(agent.stop(), 0)

    def test_no_file_can_be_opened_for_a_while(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        get = self.kept_open(agent)
        get("/live")
        self.limit(agent, 3)  # what is open already stays open
        asker = self.asker(agent)
        self.assertIsNone(asker.status(patience=0.5))
        wait_until(lambda: "cannot make a pipe: Too many open files" in get("/v1/agent/checks"), "the check says why it fails")
        wait_until(lambda: "cannot accept a connection: Too many open files" in agent.read_log(), "it says that it cannot accept")
        self.assert_calm(agent)
        self.limit(agent, LIMIT)
        self.assertTrue(asker.status(), "who came meanwhile is served")
        agent.wait_state("registered")
        self.assertIsNotNone(self.in_registry())
        self.assertEqual(agent.stop(), 0)


del AgentTest

if __name__ == "__main__":
    unittest.main()
