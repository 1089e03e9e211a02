"""A real ZooKeeper server for tests: Debian's package, on a free loopback port, in a fresh
directory below $TMPDIR; or a root of one's own on the server of the whole run.

A server is killed when the thread that started it ends. Everything here waits for what it
promises and raises with the server's log when it does not come true. Session timeouts lie between 1
and 10 seconds (tickTime 500 ms).
"""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

from ports import claim_port

JARS = "/usr/share/java"
# The codecs are for the TLS port, and missing from what ZooKeeper's own jar names.
CLASS_PATH = (
    f"{JARS}/zookeeper.jar:{JARS}/slf4j-simple.jar:{JARS}/netty-codec.jar:{JARS}/netty-resolver.jar"
)
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
START_TRIES = 5
START_DEADLINE = 180
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def share_zookeeper(whole=False):
    """A root on the server that the runner started for all programs; a server of one's own where
    there is no runner. Not for tests that pause or kill it, or count what it does. `whole`: the
    server's own root, for tests that make names of their own there."""
    hosts = os.environ.get("BERTH_ZOOKEEPER")
    return SharedZooKeeper(hosts, whole) if hosts else ZooKeeper("maxSessionTimeout=3600000\n")


class Registry:
    """What an independent client sees below `hosts`. Use as a context manager, or call stop()."""

    name = "zookeeper"
    hosts = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"zookeeper://{self.hosts}/registry"

    def stop(self):
        pass

    def failure(self, what):
        return RuntimeError(f"ZooKeeper for the tests: {what}")

    def probe(self, *arguments, auth=None, stdin=None):
        """Runs zk-probe, the independent client; returns its CompletedProcess (status 3: no such
        node)."""
        command = self.probe_command(*arguments, auth=auth)
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    def load(self, nodes):
        """Creates (path, data) quickly, parents first; paths are absolute, from the server's
        root."""
        lines = "".join(f"{path}\t{data}\n" for path, data in nodes)
        answer = self.probe("load", "-", stdin=lines)
        if answer.returncode:
            raise self.failure(f"does not load: {answer.stderr}")

    def acl(self, path, auth=None):
        """The entries of a node's access control list, sorted: "rwcda digest:joe:…"."""
        answer = self.probe("acl", path, auth=auth)
        answer.check_returncode()
        return sorted(answer.stdout.splitlines())

    def probe_command(self, *arguments, auth=None):
        """The command line of zk-probe, for those who keep it running (`watch`)."""
        program = os.path.join(os.environ.get("BERTH_BUILD_DIR", "."), "tests/support/zk-probe")
        return [program, *(["-a", auth] if auth else []), self.hosts, *arguments]

    def stat(self, path):
        """Fields of a node as integers by ZooKeeper's names, or None. `path` is absolute, from the
        server's root."""
        answer = self.probe("stat", path)
        if answer.returncode == 3:
            return None
        answer.check_returncode()
        return {key: int(value, 0) for key, value in (field.split("=")
            for field in answer.stdout.split())}


class SharedZooKeeper(Registry):
    def __init__(self, hosts, whole):
        self.hosts = hosts
        if whole:
            return
        root = f"/{uuid.uuid4().hex}"
        made = self.probe("create", root, "")
        if made.returncode:
            raise self.failure(f"{hosts} makes no root: {made.stderr}")
        self.hosts += root


class ZooKeeper(Registry):
    """A server of one's own."""

    def __init__(self, config="", java_options=(), folder=None):
        """`config`: further lines for zoo.cfg; `java_options`: for the JVM, such as
        -Dzookeeper.…; `folder`: where its directory is made, in place of $TMPDIR"""
        self.config = config
        self.java_options = list(java_options)
        self.directory = tempfile.mkdtemp(prefix="zookeeper-", dir=folder)
        self.process = None
        self.port = self._claim = None
        for _ in range(START_TRIES):
            self._release_port()
            self._claim = claim_port()
            self.port = self._claim.getsockname()[1]
            self._launch()
            if self._wait_until_serving():
                return
        raise self.failure("does not start")

    @property
    def hosts(self):
        return f"127.0.0.1:{self.port}"

    def part(self):
        """A root of one's own on this server."""
        return SharedZooKeeper(self.hosts, whole=False)

    def pause(self):
        """Stops the process: its connections stay open but nobody answers."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """kill -9; restart() brings it back."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self):
        """Starts again on the same port with the same data, after a kill if need be."""
        self.kill()
        for log in pathlib.Path(self._path("data")).glob("version-2/log.*"):
            if log.stat().st_size < 16:
                # killed before its header was written: the server refuses to start over it
                log.unlink()
        self._launch()
        if not self._wait_until_serving():
            raise self.failure("does not start again")

    def stop(self):
        """Kills the server and removes its directory."""
        self.kill()
        self._release_port()
        shutil.rmtree(self.directory, ignore_errors=True)

    def command(self, word):
        """The server's answer to one of its four-letter words."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
            connection.sendall(word.encode())
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
            return answer.decode(errors="replace")

    def _release_port(self):
        if self._claim:
            self._claim.close()
            self._claim = None

    def _path(self, name):
        return os.path.join(self.directory, name)

    def failure(self, what):
        with open(self._path("log"), encoding="utf-8", errors="replace") as log:
            return RuntimeError(f"ZooKeeper for the tests: {what}\n{log.read()}")

    def _launch(self):
        with open(self._path("zoo.cfg"), "w", encoding="utf-8") as config:
            # The server reads this as Latin-1. The directory's name is in its answers.
            config.write(
                f"tickTime=500\ndataDir=../{os.path.basename(self.directory)}/data\n"
                f"clientPort={self.port}\nclientPortAddress=127.0.0.1\n"
                "admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n"
                + self.config
            )
        # The page cache survives kill -9 of the server, so it need not wait for the disk.
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.forceSync=no"]
        classes = os.environ.get("BERTH_ZOOKEEPER_CLASSES")
        command += [f"-XX:SharedArchiveFile={classes}"] if classes else []
        command += [*self.java_options, "-cp", CLASS_PATH, MAIN_CLASS, "zoo.cfg"]
        with open(self._path("log"), "ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def _answers(self):
        """Whether the server on our port serves, and is ours: its directory says so."""
        try:
            return f"/{os.path.basename(self.directory)}/data/" in self.command("conf")
        except OSError:
            return False

    def _wait_until_serving(self):
        """False when the process ended instead, which is what a port taken by somebody else looks
        like."""
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            if self._answers():
                return self.process.poll() is None
            time.sleep(0.02)
        self.kill()
        raise self.failure("no answer in time")
