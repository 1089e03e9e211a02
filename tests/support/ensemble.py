"""Three real ZooKeeper servers for tests, on free loopback ports, in a fresh directory below
$TMPDIR; or a lone one."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from ports import claim_port
from zookeeper import CLASS_PATH, START_DEADLINE, _die_with_parent

QUORUM_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class Server:
    """One of an ensemble. A stopped one keeps its connections and answers nobody."""

    def __init__(self, folder, number, config):
        self.folder = folder
        self.number = number
        self.config = config
        self.claims = [claim_port() for _ in range(3)]
        self.port, self.peer_port, self.election_port = (claim.getsockname()[1]
            for claim in self.claims)
        self.process = None
        self.stopped = False

    @property
    def hosts(self):
        return f"127.0.0.1:{self.port}"

    def start(self, peers):
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        (self.folder / "data/myid").write_text(f"{self.number}\n")
        lines = [
            "tickTime=500", "initLimit=20", "syncLimit=10", "dataDir=data",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1", "admin.enableServer=false", "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
            *self.config,
        ]
        if len(peers) > 1:
            lines += [f"server.{peer.number}=127.0.0.1:{peer.peer_port}:{peer.election_port}"
                for peer in peers]
        (self.folder / "zoo.cfg").write_text("\n".join(lines) + "\n")
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                    "-Dzookeeper.forceSync=no",
                 "-cp", CLASS_PATH, QUORUM_CLASS, "zoo.cfg"],
                cwd=self.folder,  # the server reads paths as Latin-1
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=_die_with_parent)

    def mode(self):
        """"leader", "follower", "standalone"; "" while it does not serve."""
        if self.stopped or not self.process or self.process.poll() is not None:
            return ""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 2) as connection:
                connection.sendall(b"srvr")
                with connection.makefile() as answer:
                    return next((line.split()[1] for line in answer if line.startswith("Mode:")),
                        "")
        except OSError:
            return ""

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
        self.stopped = True

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False


class Ensemble:
    """Use as a context manager."""

    def __init__(self, count=3, config=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ensemble-"))
        self.servers = [Server(self.folder / str(number), number, config) for number in range(1,
            count + 1)]

    def __enter__(self):
        try:
            for server in self.servers:
                server.start(self.servers)
            self.wait_serving()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def hosts(self):
        return ",".join(server.hosts for server in self.servers)

    @property
    def url(self):
        return f"zookeeper://{self.hosts}/registry"

    def leader(self):
        return next(server for server in self.servers if server.mode() in ("leader", "standalone"))

    def followers(self):
        return [server for server in self.servers if server.mode() == "follower"]

    def wait_serving(self):
        """All servers serve, and one of them leads."""
        deadline = time.monotonic() + 2 * START_DEADLINE
        while time.monotonic() < deadline:
            modes = [server.mode() for server in self.servers]
            if all(modes) and ("leader" in modes or modes == ["standalone"]):
                return
            time.sleep(0.1)
        raise RuntimeError(
            f"the servers do not serve: {[server.mode() for server in self.servers]}")

    def restart(self, server):
        server.kill()
        for log in (server.folder / "data").glob("version-2/log.*"):
            if os.path.getsize(log) < 16:
                # killed before its header was written: the server refuses to start over it
                log.unlink()
        server.start(self.servers)
        self.wait_serving()

    def end(self):
        for server in self.servers:
            server.kill()
            for claim in server.claims:
                claim.close()
        shutil.rmtree(self.folder, ignore_errors=True)
