"""An agent that has no file descriptors left: it goes on with what it has, and recovers when there
are some again."""

import contextlib
import os
import pathlib
import resource
import socket
import time
import unittest

from berth import (
    PATIENCE,
    Agent,
    AgentTest,
    UnixConnection,
    exists,
    service_record,
    wait_until,
)
from figures import figure, seconds

LIMIT = 256
CROWD = 200
LOOKUPS = 100  # over a connection that is open already
NEIGHBOUR = "/users/joe/neighbour"  # a record that no agent takes out


class Asker:
    """One connection that asks for a record, the agent's own by default, whenever the test wants
    it."""

    def __init__(self, agent, path=Agent.PATH):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(agent.socket))
        self.ask()

    def ask(self):
        # A client that is turned away at once may be closed by now; its answer is there.
        with contextlib.suppress(BrokenPipeError):
            self.socket.sendall(
                f"GET /v1/resolve{self.path} HTTP/1.1\r\nHost: berth\r\n\r\n".encode())

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
    def asker(self, agent, *path):
        asker = Asker(agent, *path)
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
        fields = pathlib.Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[
            2].split()
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
        self.assertEqual(askers[-1].status(), 503, "one client does not get all connections")
        for asker in served:
            asker.ask()
            self.assertEqual(asker.status(), 200)
        self.assert_calm(agent)
        for asker in askers[: CROWD // 2]:
            asker.close()
        freed = time.monotonic()
        late = []

        def served_again():
            late.append(self.asker(agent))
            return late[-1].status() == 200

        wait_until(served_again, "there is room again")
        room = time.monotonic()
        agent.wait_state("registered")
        self.assertEqual(agent.stop(), 0)
        figure(self, f"{LIMIT} files, {CROWD} clients: {2 * len(served)} answers to "
            f"{len(served)} of them; one more served {seconds(room - freed)} after half of them "
            "left")

    def test_a_low_limit_leaves_room_for_the_agents_own_work(self):
        """Checks run, records are written and the drain is kept although clients have all the
        connections they can get."""
        for limit in (64, 32):
            flag = self.folder / f"flag{limit}"
            flag.touch()
            agent = self.web_agent(f"low{limit}", check=exists(flag))
            agent.start(preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE,
                (limit, limit)))
            agent.wait_state("registered")
            order = UnixConnection(agent.socket)
            self.addCleanup(order.close)
            order.connect()
            crowd = [self.asker(agent) for _ in range(limit)]
            self.assertIn(503, {asker.status() for asker in crowd})
            flag.unlink()
            wait_until(lambda: self.in_registry() is None, "the failing check takes the record out")
            flag.touch()
            wait_until(self.in_registry, "the passing check brings it back")
            order.request("POST", "/v1/agent/drain")
            self.assertEqual(order.getresponse().status, 204)
            wait_until((agent.folder / "state" / "drain").exists, "the drain is kept")
            for asker in crowd:
                asker.close()
            self.assertEqual(agent.stop(), 0)
            self.assertNotIn("Too many open files", agent.read_log())

    def test_a_limit_that_is_too_low_is_an_error_at_the_start(self):
        agent = self.web_agent()
        agent.start(wait=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
            (12, 12)))
        self.assertEqual(agent.process.wait(PATIENCE), 1)
        self.assertRegex(agent.read_log(),
            "the limit of open files is 12, and at least|Too many open files")

    def test_no_file_can_be_opened_for_a_while(self):
        self.put(NEIGHBOUR, service_record("neighbour", 80, description="a neighbour"))
        agent = self.web_agent().start()
        agent.wait_state("registered")
        get = self.kept_open(agent)
        self.assertIn("a neighbour", get(f"/v1/resolve{NEIGHBOUR}"), "it is known from now on")
        self.limit(agent, 3)  # what is open already stays open
        asker = self.asker(agent, NEIGHBOUR)
        self.assertIsNone(asker.status(patience=0.5))
        wait_until(lambda: "cannot make a pipe: Too many open files" in get("/v1/agent/checks"),
            "the check says why it fails")
        wait_until(lambda: "cannot accept a connection: Too many open files" in agent.read_log(),
            "it says that it cannot accept")
        self.assert_calm(agent)
        for _ in range(LOOKUPS):
            self.assertIn("a neighbour", get(f"/v1/resolve{NEIGHBOUR}"))
        self.limit(agent, LIMIT)
        lifted = time.monotonic()
        self.assertEqual(asker.status(), 200, "who came meanwhile is served")
        served = time.monotonic()
        agent.wait_state("registered")
        self.assertIsNotNone(self.in_registry())
        figure(self, f"{LOOKUPS} of {LOOKUPS} look-ups answered; a client that waited served "
            f"{seconds(served - lifted)} after the limit was lifted")
        self.assertEqual(agent.stop(), 0)


del AgentTest

if __name__ == "__main__":
    unittest.main()
