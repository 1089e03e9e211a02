"""Podman in mount, network and process namespaces of its own.

All that it makes is in the caller's folder or in those namespaces: containers, bridges, addresses
and mounts end with them, and its ports are free. It has no way to a registry of images: these are
made of roots of the test.
"""

import contextlib
import os
import pathlib
import signal
import subprocess

from berth import PATIENCE, wait_until

COMPILING = 600  # seconds
SOCKET = "/run/podman/podman.sock"  # as podman.socket of systemd has it
CONTROL_GROUPS = pathlib.Path("/sys/fs/cgroup")

# runc knows all layouts of control groups; crun of Debian 12 refuses the hybrid one. Podman's own
# default limits are above the hard limits of the test, and raising those takes CAP_SYS_RESOURCE.
SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
[network]
network_backend = "cni"
network_config_dir = "/run/networks"
"""

# $1: the folder. The shell stays as process 1 of the namespace and reaps what the engine leaves to
# it.
SETUP = """
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /var/lib
mkdir /run/networks /run/podman /var/lib/containers
mount --bind "$1/store" /var/lib/containers
ip link set lo up
echo ready
while sleep 1; do :; done
"""


class Engine:
    """`folder` is the caller's. On a file system that an overlay can have below it, images take
    less room and time."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.service = None
        for name in ("store", "tmp"):
            (self.folder / name).mkdir()
        settings = self.folder / "containers.conf"
        settings.write_text(SETTINGS)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
                            "CONTAINERS_CONF": str(settings)}
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh",
                "-c", SETUP, "sh", self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        said = self.process.stdout.readline()
        if said != "ready\n":
            raise AssertionError(
                "this machine gives no namespaces to an engine: "
                f"{said}{self.process.communicate()[0]}")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.init = int(children.read_text())
        self.inside = ["nsenter", "--target", str(self.init), "--mount", "--net", "--pid"]

    def run(self, *command, patience=PATIENCE, **environment):
        """Runs a program next to the engine; returns its exit status and all its output."""
        result = subprocess.run([*self.inside, *map(str, command)],
            env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=patience, check=False)
        return result.returncode, result.stdout

    def do(self, *arguments):
        """Runs a command of podman that must succeed; returns its output."""
        status, output = self.run("podman", *arguments, patience=COMPILING)
        if status != 0:
            raise AssertionError(f"podman {arguments} exited with {status}:\n{output}")
        return output

    def take(self, root, name, *changes):
        """Makes the image `name` of the files below `root`."""
        archive = self.folder / "tmp" / "image.tar"
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        self.do("import", *changes, archive, name)
        archive.unlink()

    def serve(self):
        """Starts the engine's socket; returns the environment by which tools for Docker find it."""
        self.service = subprocess.Popen([*self.inside, "podman", "system", "service", "--time",
            "0", f"unix://{SOCKET}"],
                                        env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: self.run("test", "-S", SOCKET)[0] == 0 or self.service.poll()
            is not None, "the engine serves")
        return {"DOCKER_HOST": f"unix://{SOCKET}", "COMPOSE_HTTP_TIMEOUT": str(COMPILING)}

    def end(self):
        """Ends every process of the namespaces, and removes what podman leaves outside: control
        groups, which are empty by then."""
        self.run("podman", "rm", "--all", "--force", "--time", "0", patience=COMPILING)
        # unshare waits for process 1, which ends after all others of its namespace.
        os.kill(self.init, signal.SIGKILL)
        # It never ends where one of them has a parent outside that does not wait for it: a command
        # that took too long.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=PATIENCE)
        if self.service:
            self.service.wait()
        for group in (*CONTROL_GROUPS.glob("libpod_parent"),
                *CONTROL_GROUPS.glob("*/libpod_parent")):
            for one in (group / "conmon", group):
                with contextlib.suppress(OSError):  # another engine of this machine uses it
                    one.rmdir()
