"""Container runtimes for tests: Docker's daemon and podman's service, each with all of its state in
the caller's folder, and their API.

Containers have no network of their own, or the host's, but in a namespace of the caller's. The
tests of RuntimeTest need "mounts" and "freezer".
"""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.parse

from berth import UnixConnection, has_ended, wait_until
from lifecycle import LifeTest

PATIENCE_S = 60

# Serves HTTP on its first argument, if there is one; ends by TERM, not by HUP; by USR1 it takes all
# memory that it gets.
SERVER = r"""
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static void end(int number) { (void)number; _exit(0); }
static void eat(int number)
{
	(void)number;
	for (;;) {
		memset(malloc(1 << 20), 1, 1 << 20);
	}
}
int main(int argc, char **argv)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
	struct sockaddr_in address = { .sin_family = AF_INET };
	int on = 1, fd = -1;
	signal(SIGTERM, end);
	signal(SIGUSR1, eat);
	signal(SIGHUP, SIG_IGN);
	if (argc > 2 && strcmp(argv[1], "check") == 0) {
		return access(argv[2], F_OK) != 0;
	}
	if (argc > 1) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		address.sin_port = htons((unsigned short)atoi(argv[1]));
		if (bind(fd, (void *)&address, sizeof(address)) || listen(fd, 64)) {
			return 1;
		}
	}
	for (;;) {
		char question[512];
		int client = fd < 0 ? pause() : accept(fd, NULL, NULL);
		if (client >= 0) {
			(void)!read(client, question, sizeof(question));
			(void)!write(client, answer, strlen(answer));
			close(client);
		}
	}
}
"""


class Runtime:
    """The API, and containers of one image whose program is SERVER."""

    def __init__(self, folder, inside=()):
        """`inside`: a command that runs another one where the runtime is to be."""
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.inside = list(inside)
        # Below a folder with a short name: a socket's path has 107 bytes.
        self.short = pathlib.Path(tempfile.mkdtemp(prefix="rt", dir="/tmp"))
        self.socket = self.short / "api.sock"
        self.process = None
        self.log = open(self.folder / "log", "ab")

    def call(self, method, path, body=None, data=None, kind="application/json"):
        connection = UnixConnection(self.socket, timeout=PATIENCE_S)
        try:
            connection.request(method, path,
                body=data if body is None else json.dumps(body), headers={"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise AssertionError(f"{method} {path}: {answer.status} {text.decode()}")
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return text

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the runtime ended:\n{(self.folder / 'log').read_text()}")
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            self.call("GET", "/_ping")
            return True
        return False

    def start(self):
        self.process = subprocess.Popen([*self.inside, *self.command()], stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log, start_new_session=True)
        wait_until(self.answers, "the runtime answers", PATIENCE_S)

    def take_image(self, name="tree", *changes):
        """An image with SERVER at /bin/server; `changes`: lines of a Dockerfile."""
        root = self.folder / "root"
        (root / "bin").mkdir(parents=True)
        source = self.folder / "server.c"
        source.write_text(SERVER)
        subprocess.run(["gcc", "-static", "-O1", "-o", root / "bin" / "server", source],
            check=True, stderr=subprocess.DEVNULL)
        archive = self.folder / "image.tar"
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        query = urllib.parse.urlencode([("fromSrc", "-"), ("repo", name),
            *(("changes", one) for one in changes)])
        self.call("POST", f"/images/create?{query}", data=archive.read_bytes(),
            kind="application/x-tar")

    def create(self, name, labels=None, command=(), network="host", host=None, **config):
        """The id of a new container."""
        return self.call("POST", f"/containers/create?name={name}", {
            "Image": self.IMAGE, "Cmd": ["/bin/server", *map(str, command)],
            "Labels": labels or {}, "HostConfig": {"NetworkMode": network, **(host or {})},
            **config})["Id"]

    def run(self, name, labels=None, **keywords):
        self.create(name, labels, **keywords)
        self.order(name, "start")

    def order(self, container, order, **parameters):
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        self.call("POST", f"/containers/{container}/{order}{query}")

    def remove(self, name):
        self.call("DELETE", f"/containers/{name}?force=true&t=0")

    def inspect(self, name):
        return self.call("GET", f"/containers/{name}/json")

    def pid(self, name):
        return self.inspect(name)["State"]["Pid"]

    def kill_process(self, name):
        """As the kernel's OOM killer does: the runtime learns it afterwards."""
        os.kill(self.pid(name), signal.SIGKILL)

    def end(self):
        with contextlib.suppress(OSError, AssertionError, http.client.HTTPException):
            for one in self.call("GET", "/containers/json?all=true"):
                with contextlib.suppress(AssertionError):
                    self.remove(one["Id"])
        self.stop()
        self.log.close()
        with contextlib.suppress(OSError):
            self.socket.unlink()
        with contextlib.suppress(OSError):
            self.short.rmdir()

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process = None


class Docker(Runtime):
    IMAGE = "tree"

    def __init__(self, folder, inside=(), live_restore=False):
        super().__init__(folder, inside)
        self.live_restore = live_restore

    def command(self):
        network = [] if self.inside else ["--iptables=false", "--bridge=none"]
        return ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.short / "exec",
            "--pidfile", self.short / "pid", "--host", f"unix://{self.socket}",
            "--storage-driver", "vfs", *network, *(["--live-restore"] if self.live_restore else []),
            "--shutdown-timeout", "1"]

    def containerd(self):
        return self.short / "exec" / "containerd" / "containerd.pid"

    def kill(self):
        """Its containerd goes with it; the containers' shims stay. A daemon takes a zombie for a
        containerd that runs."""
        pid = int(self.containerd().read_text())
        self.process.kill()
        self.process.wait()
        self.process = None
        wait_until(lambda: has_ended(pid), "its containerd has ended")
        self.containerd().unlink()

    def end(self):
        super().end()
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(self.containerd().read_text()), signal.SIGTERM)
            time.sleep(0.5)
        subprocess.run(["sh", "-c", 'umount "$1"/exec/netns/* 2>/dev/null; rm -rf "$1"', "sh",
            self.short], check=False, stderr=subprocess.DEVNULL)


SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
[network]
network_backend = "cni"
"""


class Podman(Runtime):
    IMAGE = "docker.io/library/tree"

    def command(self):
        settings = self.folder / "containers.conf"
        settings.write_text(SETTINGS)
        return ["env", f"CONTAINERS_CONF={settings}", f"HOME={self.folder}", "podman",
            "--root", self.folder / "store", "--runroot", self.short / "run",
            "--tmpdir", self.short / "tmp", "--storage-driver", "vfs", "system", "service",
            "--time", "0", f"unix://{self.socket}"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def end(self):
        super().end()
        subprocess.run(["rm", "-rf", self.short], check=False)


def labels(name, **more):
    return {"berth.path": f"/services/{name}/components/c1", "berth.endpoint.http.port": "80",
        **more}


class RuntimeTest(LifeTest):
    """A host whose agent registers the containers of a runtime of its own."""

    RUNTIME = Docker

    def setUp(self):
        super().setUp()
        self.runtime = self.make_runtime()
        self.addCleanup(self.runtime.end)
        self.runtime.start()
        self.runtime.take_image()
        self.host = self.make_host().start()

    def make_runtime(self):
        return self.RUNTIME(self.folder / "runtime")

    def make_host(self, address="192.0.2.7", **sections):
        return self.agent("host", **{
            "runtime docker": {"socket": self.runtime.socket, "address": address},
            "container *": {"allow": "/services/**", "rate": "1000"}, **sections})

    def part(self, name):
        for part in self.host.get("/v1/bridge").json["containers"]:
            if part["name"] == f"docker/{name}":
                return part
        return {"state": None, "why": "", "records": []}

    def record(self, name):
        return self.in_registry(f"/services/{name}/components/c1")

    def await_in(self, name):
        wait_until(lambda: self.record(name), f"{name} is registered: {self.part(name)}")
        return self.record(name)

    def await_out(self, name):
        wait_until(lambda: not self.record(name), f"{name} is not registered")
