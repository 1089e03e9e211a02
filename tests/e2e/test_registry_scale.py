"""find and purge on large trees in a real ZooKeeper: complete, in bounded memory, with progress for
a person who waits."""

import json
import os
import pty
import re
import subprocess
import tempfile
import threading
import time
import unittest

from berth import BUILD, amount
from rights import needs
from zookeeper import ZooKeeper

USERS = amount(25)
FAN_OUT = 1_000
NODES = USERS * FAN_OUT
MEGABYTES = 1024  # in the kilobytes that the kernel counts


def record(api, owner, persistence="container"):
    endpoint = {"api": api, "addressType": "uri", "protocolType": "REST",
        "addresses": [{"uri": "http://h:1/"}]}
    return json.dumps({
        "type": "JSONServiceRecord", "external": [endpoint], "internal": [],
        "yarn:id": owner, "yarn:persistence": persistence,
    })


class Run:
    """The CLI with its standard error on a terminal or in a pipe, and what it used."""

    def __init__(self, registry, *arguments, terminal=False):
        ours, theirs = pty.openpty() if terminal else os.pipe()
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                [BUILD / "berth", "--registry", registry, *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=theirs,
                env={**os.environ, "TERM": "xterm"},
            )
            os.close(theirs)
            pieces = []
            reader = threading.Thread(target=self.read, args=(ours, pieces))
            reader.start()
            self.resident = 0
            while process.poll() is None:
                self.resident = self.most_resident(process.pid) or self.resident
                time.sleep(0.01)
            reader.join()
            os.close(ours)
            out.seek(0)
            self.out = out.read().decode()
        self.status = process.returncode
        self.err = b"".join(pieces).decode()

    @staticmethod
    def most_resident(pid):
        """Of all its life so far, in kB. What wait4() tells would begin with the size of the one
        who started it."""
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)

    @staticmethod
    def read(descriptor, pieces):
        while True:
            try:
                piece = os.read(descriptor, 65536)
            except OSError:  # a terminal whose other side is closed
                return
            if not piece:
                return
            pieces.append(piece)


@needs("terminals")
class LargeTrees(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ZooKeeper()
        cls.addClassCleanup(cls.server.stop)

    def run_good(self, root, *arguments, terminal=False):
        result = Run(f"zookeeper://{self.server.hosts}{root}", *arguments, terminal=terminal)
        self.assertEqual(result.status, 0, result.err)
        return result

    def load_services(self):
        """FAN_OUT services of every user, among them three that are looked for."""
        nodes = [("/large", ""), ("/large/users", "")]
        for user in range(USERS):
            home = f"/large/users/u{user}"
            nodes.append((home, ""))
            nodes += [
                (f"{home}/s{i}", record("x:rare" if (user, i) in self.rare else "x:common",
                    f"container_{i}"))
                for i in range(FAN_OUT)
            ]
        self.server.load(nodes)

    def test_find_over_a_large_tree_shows_progress_and_needs_little_memory(self):
        self.rare = {(0, 0), (USERS // 2, 500), (USERS - 1, FAN_OUT - 1)}
        expected = sorted(f"/users/u{user}/s{i}" for user, i in self.rare)
        self.load_services()
        find = ["--format", "json", "find", "--api", "x:rare"]

        shown = self.run_good("/large", *find, terminal=True)
        self.assertEqual(sorted(json.loads(shown.out)), expected)
        steps = [int(number) for number in re.findall(r"(\d+) nodes visited, \d+ match", shown.err)]
        self.assertGreater(len(steps), 3)
        self.assertEqual(steps, sorted(steps))
        # The line is taken away again, so that only the answer stays.
        self.assertTrue(shown.err.endswith("\r\033[K"), shown.err[-80:])

        quiet = self.run_good("/large", *find)
        self.assertEqual((quiet.out, quiet.err), (shown.out, ""))
        print(f"find over {NODES} nodes: {quiet.resident / MEGABYTES:.1f} MB resident with 3 "
              "matches")
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(quiet.resident, 24 * MEGABYTES)

        everything = self.run_good("/large", "--format", "json", "find", "--api", "x:common",
            "--under", "/users/u1")
        self.assertEqual(len(json.loads(everything.out)), FAN_OUT)

    def test_purge_of_one_container_among_10000_records_deletes_exactly_its_own(self):
        before = {}
        for i in range(10_000):
            # Each container has 10 records; the same id with another persistence is somebody
            # else's.
            kind = "application" if i % 1000 == 7 and i >= 5000 else "container"
            before[f"/many/s{i % 100}/c{i}"] = record("x:y", f"container_{i % 1000}", kind)
        self.server.load([("/many", ""), *((f"/many/s{i}", "") for i in range(100)),
            *before.items()])
        purge = ["purge", "--id", "container_7", "--persistence", "container"]
        expected = {path[len("/many"):] for path in before if path in {f"/many/s7/c{i}"
            for i in range(7, 5000, 1000)}}
        self.assertEqual(len(expected), 5)

        everything = json.loads(self.run_good("/many", "--format", "json", "find").out)
        planned = json.loads(self.run_good("/many", "--format", "json", *purge, "--dry-run").out)
        self.assertEqual((set(planned["matches"]), planned["deleted"]), (expected, 0))
        done = self.run_good("/many", "--format", "json", *purge, terminal=True)
        self.assertEqual(json.loads(done.out)["deleted"], 5)
        self.assertIn("nodes visited", done.err)

        left = json.loads(self.run_good("/many", "--format", "json", "find").out)
        self.assertEqual(left, {path: found for path, found in everything.items()
            if path not in expected})
        again = json.loads(self.run_good("/many", "--format", "json", *purge).out)
        self.assertEqual((again["matches"], again["deleted"]), ({}, 0))


if __name__ == "__main__":
    unittest.main()
