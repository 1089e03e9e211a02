"""deploy/host/remove-unused on a host with more processes than a command's arguments can name, and
where it cannot see all: a living container's directory must stay."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from berth import PATIENCE, AgentTest, wait_until
from rights import needs

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/host/remove-unused"

# $1: the script, $2: the directory, $3: how many processes. A /proc of files, in which the last
# process has a container's mount, and the script itself what it has.
HOST = r"""
set -e
mount -t tmpfs tmpfs "$2.proc"
awk -v last="$3" -v root="$2.proc" -v mount="$2/lives" 'BEGIN {
	for (i = 1; i <= last; i++) {
		folder = root "/" (1000000 + i)
		dirs = dirs " " folder
		if (i % 500 == 0 || i == last) { system("mkdir" dirs); dirs = "" }
	}
	for (i = 1; i <= last; i++) {
		folder = root "/" (1000000 + i)
		place = i == last ? mount : "/"
		print (1000000 + i) " (a pod) S 1 1 1 0 -1 4194560" >(folder "/stat")
		print "36 35 0:32 " place " / rw - tmpfs tmpfs rw" >(folder "/mountinfo")
		close(folder "/stat")
		close(folder "/mountinfo")
	}
}'
mkdir "$2.proc/$$"
echo "$$ (sh) R 1 1 1 0 -1 4194560" >"$2.proc/$$/stat"
mount --bind "$2.proc" /proc
[ ! -e "$2.hidden" ] || rm "/proc/$((1000000 + $3))/mountinfo"
cp "$2.own" "/proc/$$/mountinfo"
ulimit -s 256
exec "$1" "$2" 0
"""

# Another thread lives on.
THREAD = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(1000000,)).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit()
"""


class RemoveUnused(AgentTest):
    def setUp(self):
        super().setUp()
        self.directory = self.folder / "containers"
        for name in ("lives", "ended"):
            (self.directory / name / "registry").mkdir(parents=True)
        (self.folder / "containers.proc").mkdir()
        (self.folder / "containers.own").write_text("1 1 0:1 / / rw - tmpfs tmpfs rw\n")

    def remove(self, processes, **keywords):
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", HOST,
            "sh", SCRIPT, self.directory, str(processes)], capture_output=True, text=True,
            check=False, timeout=PATIENCE, **keywords)

    @needs("mount namespace")
    def test_more_processes_than_arguments(self):
        result = self.remove(6500)
        self.assertEqual((result.stderr, result.stdout), ("", f"removed {self.directory}/ended\n"))
        self.assertEqual(os.listdir(self.directory), ["lives"])

    @needs("mount namespace")
    def test_a_process_whose_mounts_it_cannot_read(self):
        (self.folder / "containers.hidden").touch()
        result = self.remove(20)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("nothing is removed", result.stderr)
        self.assertEqual(sorted(os.listdir(self.directory)), ["ended", "lives"])

    @needs("mount namespace")
    def test_a_process_whose_first_thread_has_ended(self):
        place = self.folder / "place"
        place.mkdir()
        pod = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c",
            'mount --bind "$1" "$2" && exec "$3" -c "$4"', "sh", self.directory / "lives", place,
            sys.executable, THREAD], stdout=subprocess.PIPE, text=True)
        self.addCleanup(pod.wait)
        self.addCleanup(pod.kill)
        self.addCleanup(pod.stdout.close)
        pod.stdout.readline()
        wait_until(lambda: not pathlib.Path(f"/proc/{pod.pid}/cmdline").read_bytes(),
            "its first thread has ended")
        result = subprocess.run([SCRIPT, self.directory, "0"], capture_output=True, text=True,
            check=False, timeout=PATIENCE)
        self.assertEqual((result.stderr, os.listdir(self.directory)), ("", ["lives"]))

    @needs("mount namespace")
    def test_a_list_that_lacks_its_own_mounts(self):
        tools = self.folder / "tools"
        tools.mkdir()
        # The one that makes the stage has options; the other one reads nothing.
        (tools / "awk").write_text(
            f'#!/bin/sh\n[ $# = 1 ] || exec {shutil.which("awk")} "$@"\ncat >/dev/null\n')
        (tools / "awk").chmod(0o755)
        result = self.remove(20, env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("not whole", result.stderr)
        self.assertEqual(sorted(os.listdir(self.directory)), ["ended", "lives"])


if __name__ == "__main__":
    unittest.main()
