"""10,000 connections of one user, full of requests, next to another user's look-ups: these go on,
and nothing is left behind."""

import contextlib
import multiprocessing
import os
import pathlib
import random
import resource
import socket
import statistics
import time
import unittest
import warnings

from berth import PATIENCE, Agent, AgentTest, wait_until
from rights import needs

CROWD = int(os.environ.get("BERTH_CROWD", "10000"))
LOOKUPS = 2000
STRANGER = 65534
MOST_SLOWER = 3
LEAST_P99 = 0.002  # below, the machine's own noise is larger than what is compared
GROWTH_KB = 32 << 10


@needs("users")
class CrowdLatency(AgentTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CROWD + 500
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.skipTest(f"{wanted} files are needed, and {hard} may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.server = self.web_agent(check=None).start()
        self.server.folder.chmod(0o755)
        self.server.wait_state("registered")

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(str(self.server.socket))
        return connection

    def p99(self):
        """Of the seconds that one look-up takes on a connection of our own."""
        request = f"GET /v1/resolve{Agent.PATH} HTTP/1.1\r\nHost: berth\r\n\r\n".encode()
        seconds = []
        with self.connect() as connection:
            for _ in range(LOOKUPS):
                begin = time.monotonic()
                connection.sendall(request)
                self.assertIn(b" 200 ", connection.recv(65536)[:20])
                seconds.append(time.monotonic() - begin)
        return statistics.quantiles(seconds, n=100)[-1]

    def numbers(self):
        folder = pathlib.Path(f"/proc/{self.server.process.pid}")
        lines = (folder / "status").read_text("ascii").splitlines()
        memory = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
        children = (folder / f"task/{folder.name}/children").read_text("ascii").split()
        return memory, len(list((folder / "fd").iterdir())), len(children)

    def crowd(self, ours, report):
        """In a process of its own: a stranger's connections, which ask and never read. Ends when
        its parent closes the pipe."""
        request = f"GET /v1/resolve{Agent.PATH} HTTP/1.1\r\nHost: berth\r\n\r\n".encode()
        ours.close()
        os.setuid(STRANGER)
        connections = []
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(CROWD):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(1)
            with contextlib.suppress(OSError):
                connection.connect(str(self.server.socket))
                connection.setblocking(False)
                connection.send(request)
            connections.append(connection)
        report.send(len(connections))
        while not report.poll(0.05):
            for connection in random.sample(connections, 100):
                with contextlib.suppress(OSError):
                    connection.send(request)

    def test_anothers_lookups_are_hardly_slower_and_nothing_stays(self):
        alone = max(self.p99(), LEAST_P99)
        before = self.numbers()
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=self.crowd,
            args=(ours, theirs))
        process.start()
        self.addCleanup(process.kill)
        theirs.close()
        held = ours.recv()
        crowded = self.p99()
        ours.close()
        process.join()
        print(f"{held} connections: p99 {crowded * 1000:.2f} ms, alone {alone * 1000:.2f} ms")
        self.assertLessEqual(crowded, MOST_SLOWER * alone)
        wait_until(lambda: self.numbers()[1:] == before[1:],
            "descriptors and processes are as before")
        self.assertLess(self.numbers()[0], before[0] + GROWTH_KB)


if __name__ == "__main__":
    unittest.main()
