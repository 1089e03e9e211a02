"""A user of the host, and the files that a container's root has left in its registry/."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from berth import PATIENCE, wait_until
from hosting import BridgeTest, serves
from rights import needs

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HOST = SOURCE / "deploy/host"
PLACE = "/run/berth/containers"
NOBODY = 65534


def recipes():
    """What each recipe lets root do before a container starts: its name and its commands."""
    yield "compose.yaml", re.findall(r"(?m)^#     ((?:install|mkdir|mount) .*)$",
        (HOST / "compose.yaml").read_text())
    yield "BRIDGE.md", re.findall(r"(?m)^    ((?:install|mkdir|mount) .*/containers.*)$",
        (SOURCE / "docs/BRIDGE.md").read_text())
    directory = re.search(rf"(?m)^d {PLACE} +(\d+) root root", (HOST / "tmpfiles.conf").read_text())
    yield "systemd", [f"install -d -m {directory[1]} {PLACE}", *(command.replace("%i", "web-1")
        for command in re.findall(r"(?m)^ExecStart=(.*)$",
            (HOST / "berth-container@.service").read_text()))]
    unit = (HOST / "run-berth-containers.mount").read_text()
    options = re.search(r"(?m)^Options=(.*)$", unit)[1]
    yield "a node", [f"install -d {PLACE}", f"mount -t tmpfs -o {options} berth {PLACE}",
        f"mkdir -p {PLACE}/web-1/registry"]


class Directories(BridgeTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.inside = self.containers / "web-1/registry"

    def prepare(self, commands):
        """As the recipe says, below the test's folder."""
        self.end()
        self.addCleanup(self.end)
        self.containers.rmdir()
        for command in commands:
            subprocess.run(shlex.split(command.replace(PLACE, str(self.containers))), check=True,
                umask=0o022)

    def end(self):
        for place in (self.inside, self.containers):
            subprocess.run(["umount", "-lq", place], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.containers, ignore_errors=True)
        self.containers.mkdir()

    def run_as_nobody(self, *command):
        return subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[],
            capture_output=True, text=True, check=False, timeout=PATIENCE).returncode

    @needs("mounts", "users")
    def test_a_set_user_id_program_is_none_after_any_recipe(self):
        for name, commands in recipes():
            with self.subTest(recipe=name):
                self.prepare(commands)
                program = self.inside / "id"
                shutil.copy("/usr/bin/id", program)
                program.chmod(0o4755)
                with self.assertRaises(PermissionError):
                    self.run_as_nobody(program)
                # Where the directory of all has to be open, it is none, either.
                self.containers.chmod(0o711)
                with self.assertRaises(PermissionError):
                    self.run_as_nobody(program)
                safe = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
                self.assertEqual(os.statvfs(program).f_flag & safe, safe)
                self.end()

    @needs("mounts", "users")
    def test_a_containers_socket_is_not_for_users_of_the_host(self):
        for name, commands in recipes():
            with self.subTest(recipe=name):
                self.prepare(commands)
                host = self.host()
                sock = self.containers / "web-1/berth.sock"
                wait_until(lambda sock=sock: serves(sock), "the container has its socket")
                self.assertEqual(self.run_as_nobody("test", "-e", str(sock)), 1)
                host.stop()
                self.end()


if __name__ == "__main__":
    unittest.main()
