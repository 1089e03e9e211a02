"""A network of a test's own: agents run in it, and interfaces, addresses and routes come and go
while they do."""

import contextlib
import ctypes
import pathlib
import shlex
import socket
import subprocess
import threading

from berth import PROGRAMS, wait_until


CLONE_NEWNET = 0x40000000


class OwnNetwork:
    """Needs "network namespace"; with own_run, where what runs has an empty /run, also "mounts"."""

    def __init__(self, test, folder, own_run=False):
        self.folder = folder
        self.holder = subprocess.Popen(
            ["unshare", "--net", *(["--mount"] if own_run else []), "sh", "-ec",
                f"{'mount -t tmpfs run /run; ' if own_run else ''}echo in; exec sleep inf"],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        test.addCleanup(self.end)
        assert self.holder.stdout.readline() == b"in\n"
        place = f"/proc/{self.holder.pid}"
        self.inside = ["nsenter", f"--net={place}/ns/net",
            *([f"--mount={place}/ns/mnt"] if own_run else []), "--"]
        self.root = pathlib.Path(place, "root")  # as what runs there sees it
        self.ip("link set lo up")

    def end(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()

    def run(self, *words):
        return subprocess.run([*self.inside, *map(str, words)], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def ip(self, *commands):
        for command in commands:
            result = self.run("ip", *command.split())
            assert result.returncode == 0, (command, result.stdout)

    def interface(self, name, *addresses, default=""):
        """An interface that is up, with its other end; `default`: the gateway behind it."""
        if f" {name}@" not in self.run("ip", "-o", "link").stdout:
            self.ip(f"link add {name} type veth peer name peer-{name}",
                f"link set {name} up", f"link set peer-{name} up")
        for address in addresses:
            self.ip(f"addr add {address} dev {name}{' nodad' if ':' in address else ''}")
        if default:
            self.ip(f"route add default via {default} dev {name}")

    def enter(self, agent, *before):
        """The agent is to run here; `before`: words in front of the program."""
        wrapper = self.folder / f"in-network-{agent.folder.name}"
        words = [*self.inside, *map(str, before), str(PROGRAMS / "berthd")]
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        wrapper.chmod(0o755)
        agent.program = wrapper
        return agent

    def check(self, agent, *arguments):
        return self.run(PROGRAMS / "berthd", *arguments, "-c", agent.config)

    def within(self, function):
        """What function() returns in that network; the sockets that it makes stay there."""
        results = []

        def call():
            with open(f"/proc/{self.holder.pid}/ns/net", "rb") as inside:
                if ctypes.CDLL(None).setns(inside.fileno(), CLONE_NEWNET) == 0:
                    results.append(function())

        thread = threading.Thread(target=call)  # which alone is in that network
        thread.start()
        thread.join()
        return results[0]

    def relay(self, host, target):
        """The port at `host` in that network that leads to `target`, "HOST:PORT", outside of it."""
        listening = self.within(lambda: socket.create_server((host, 0)))

        def copy(source, sink):
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    sink.sendall(data)
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        def serve():
            while True:
                inside, _ = listening.accept()
                name, _, port = target.rpartition(":")
                outside = socket.create_connection((name, int(port)))
                for ends in ((inside, outside), (outside, inside)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        return listening.getsockname()[1]

    def can(self, port, host):
        """Whether something listens there."""
        def connect():
            try:
                socket.create_connection((host, port), 2).close()
            except OSError:
                return False
            return True

        return self.within(connect)

    def wait_for(self, port, host, there=True):
        wait_until(lambda: self.can(port, host) == there,
            f"{host}:{port} is {'there' if there else 'gone'}")
