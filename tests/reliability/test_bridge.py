"""What a container of the bridge does to its registry for long, while its neighbours live."""

import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

from berth import amount, service_record, wait_until
from figures import figure, seconds
from hosting import WEB, BridgeTest
from lifecycle import Shared

CHANGES, NODES = amount(1000000), amount(100000)
PATH = f"{WEB}/changes"
# $1: the node, which it holds, $2: how often its record is replaced; a line of stdin is one of two
# records. It makes the file _done behind the last change.
REPLACER = """
import fcntl, os, struct, sys
os.makedirs(sys.argv[1])
os.chdir(sys.argv[1])
owner = open("_owner", "w")
owner.write("pid 1\\n")
owner.flush()
fcntl.fcntl(owner, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))  # F_OFD_SETLK
for name in ("_one", "_two"):
    with open(name, "w") as file:
        file.write(sys.stdin.readline())
for number in range(int(sys.argv[2])):
    os.link("_two" if number % 2 else "_one", "_new")  # no data that a disk would wait for
    os.rename("_new", "_record")
open("_done", "w").close()
sys.stdin.readline()
"""
# $1: a registry, $2: how many nodes
MAKER = """
import os, sys
for number in range(int(sys.argv[2])):
    if number % 1000 == 0:
        folder = f"{sys.argv[1]}/services/n{number // 1000}"
        os.makedirs(folder)
    os.mkdir(f"{folder}/n{number}")
"""


class Hostile(BridgeTest):
    registry_kind = Shared
    session_timeout = "30s"

    def setUp(self):
        super().setUp()
        self.agent_of_host = self.host()
        self.bad, self.good = self.container("bad"), self.container("good")

    def cpu_s(self):
        stat = pathlib.Path(f"/proc/{self.agent_of_host.process.pid}/stat").read_text()
        return sum(map(int, stat.rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self):
        text = pathlib.Path(f"/proc/{self.agent_of_host.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines()
            if line.startswith("VmRSS:"))) / 1024

    def script(self, source, *arguments, **keywords):
        process = subprocess.Popen([sys.executable, "-c", source, *map(str, arguments)],
            **keywords)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def neighbours_until(self, ended):
        """Records of another container come and go until then. In words: what the neighbour and the
        host's agent took of it."""
        times, begin, used, before = [], time.monotonic(), self.cpu_s(), self.memory_mb()
        while not times or not ended():
            owner = self.register(self.good, f"{WEB}/good")
            self.await_record(f"{WEB}/good")
            killed = time.monotonic()
            owner.kill()
            self.await_gone(f"{WEB}/good")
            times.append(time.monotonic() - killed)
            owner.wait()
        took = time.monotonic() - begin
        times.sort()
        return (f"in {seconds(took)}: {len(times)} records of a neighbour gone "
            f"{seconds(times[len(times) // 2])} after their end in the middle, "
            f"{seconds(times[-1])} at most; the host's agent took "
            f"{100 * (self.cpu_s() - used) / took:.0f} % of a processor "
            f"and grew by {self.memory_mb() - before:.1f} MB")

    def test_a_million_changes(self):
        node = pathlib.Path(f"{self.bad}{PATH}")
        replacer = self.script(REPLACER, node, CHANGES, stdin=subprocess.PIPE, text=True)
        begin = time.monotonic()
        for port in (1, 2):
            replacer.stdin.write(json.dumps(service_record("10.0.0.1", port)) + "\n")
        replacer.stdin.flush()
        self.addCleanup(replacer.stdin.close)
        self.await_record(PATH)
        words = self.neighbours_until((node / "_done").exists)
        took = time.monotonic() - begin
        wait_until(lambda: json.loads(self.record(PATH))["external"][0]["addresses"][0]["port"]
            == "2", "the last one is registered")
        writes = self.server.stat(self.node(PATH))["version"]
        self.assertLessEqual(writes, 20 * (took + 2))  # rate = 20 a second, and as many at once
        figure(self, f"{CHANGES} changes {words}; {writes} writes to the registry")

    def test_100_000_nodes(self):
        maker = self.script(MAKER, self.bad, NODES)
        words = self.neighbours_until(lambda: maker.poll() is not None)
        self.assertEqual(maker.returncode, 0)
        wait_until(lambda: self.part(self.agent_of_host, "bad")["more"], "the bound is reported")
        figure(self, f"{NODES} nodes {words}")


del BridgeTest

if __name__ == "__main__":
    unittest.main()
