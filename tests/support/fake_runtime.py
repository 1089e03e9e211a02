"""A container runtime that does what a real one cannot be made to do: it lies, has no end, and says
nothing. Its containers are processes in control groups that are named by their ids.
"""

import contextlib
import itertools
import json
import pathlib
import re
import socket
import subprocess
import threading
import time
import urllib.parse

from control_groups import ControlGroup

TRIES = 1000  # between which other programs start processes
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class Container:
    """A process that sleeps, and its word."""

    def __init__(self, group, name, labels, number):
        self.id = f"{number:064x}"
        self.name, self.labels = name, labels
        self.folder = group.folder / self.id
        self.folder.mkdir()
        self.health = ""
        self.more = {}
        self.restart("2030-01-01T00:00:00Z")

    def restart(self, started):
        self.process = subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL)
        (self.folder / "cgroup.procs").write_text(str(self.process.pid))
        self.pid, self.started, self.running = self.process.pid, started, True  # so it says

    def entry(self):
        return {"Id": self.id, "Names": [f"/{self.name}"], "State": "running",
            "Status": f"Up 1 second{self.health and f' ({self.health})'}", "Labels": {}}

    def inspection(self):
        return {"Id": self.id, "Name": f"/{self.name}",
            "State": {"Status": "running" if self.running else "exited", "Running": self.running,
                "Paused": False, "Pid": self.pid if self.running else 0,
                "StartedAt": self.started,
                **({"Health": {"Status": self.health}} if self.health else {})},
            "Config": {"Image": "image", "Hostname": "inside", "Labels": self.labels, "Env": []},
            "HostConfig": {"NetworkMode": "host"},
            "NetworkSettings": {"Ports": {}, "Networks": {}}, **self.more}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.kill()
        for _ in range(1000):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                break

    def give_number_away(self):
        """Another process gets the number of its own, which has ended, and its control group."""
        for _ in range(TRIES):
            pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(self.pid - 1))
            other = subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL)
            if other.pid == self.pid:
                (self.folder / "cgroup.procs").write_text(str(other.pid))
                self.process = other
                return
            other.kill()
            other.wait()
        raise AssertionError(f"number {self.pid} is not to be had")


def describe_run(words):
    """What makes a container that of `docker run` with these options and this image."""
    *words, image = words
    settings = {"Image": image, "Hostname": "inside", "Env": [], "Labels": {}}
    ports = {}
    words = [word for word in words if word != "-d"]
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "-e":
            settings["Env"].append(value)
        elif option in ("-l", "--label"):
            settings["Labels"].update([value.split("=", 1)])
        elif option == "-p":
            outer, inner = value.split(":")
            inner = inner if "/" in inner else f"{inner}/tcp"
            ports[inner] = [{"HostIp": "0.0.0.0", "HostPort": outer}] if outer != "0" else None
        elif option != "--name":
            raise ValueError(option)

    def describe(container):
        container.more = {"Config": settings, "HostConfig": {"NetworkMode": "default"},
            "NetworkSettings": {"Ports": ports,
                "Networks": {"bridge": {"IPAddress": "172.17.0.2"}}}}
    return describe


class FakeRuntime:
    """`answers` replaces what is answered to a path that matches a pattern: a function that writes
    to the connection as it likes. `delay_s`: before each answer; `mute`: it tells no event."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.group = ControlGroup("freezer")
        self.containers = {}
        self.numbers = itertools.count(0xabc0)
        self.answers = {}
        self.requests = []
        self.streams = []
        self.wanted = {}  # stream -> the events that it has asked for; None: all
        self.delay_s = 0
        self.mute = False
        self.told = 0
        self.telling = threading.Lock()  # a stream that has begun misses no event
        self.listen()

    def listen(self):
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.path))
        self.server.listen(16)
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.server.accept()[0]
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError, ValueError), client, client.makefile("rb") as lines:
            while line := lines.readline():
                while lines.readline() not in (b"\r\n", b""):
                    pass
                self.requests.append(line.decode().strip())
                path = line.split()[1].decode()
                time.sleep(self.delay_s)
                for pattern, answer in list(self.answers.items()):
                    if re.match(pattern, path):
                        answer(client)
                        break
                else:
                    self.answer(client, path)

    def answer(self, client, path):
        if path.startswith("/events"):
            filters = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query).get("filters")
            with self.telling:
                client.sendall(HEAD)
                self.wanted[client] = json.loads(filters[0]).get("event") if filters else None
                self.streams.append(client)
            threading.Event().wait()
        elif path == "/containers/json":
            self.reply(client, [one.entry() for one in self.containers.values() if one.running])
        else:
            one = self.containers.get(path.split("/")[2])
            self.reply(client, one.inspection() if one else {"message": "no such container"},
                "200 OK" if one else "404 Not Found")

    @staticmethod
    def reply(client, content, status="200 OK"):
        body = json.dumps(content).encode()
        client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    def event(self, action, container, **attributes):
        text = json.dumps({"Type": "container", "Action": action,
            "Actor": {"ID": container.id, "Attributes": attributes}}).encode() + b"\n"
        with self.telling:
            for stream in () if self.mute else self.streams:
                wanted = self.wanted[stream]
                if wanted is None or action.partition(":")[0] in wanted:
                    with contextlib.suppress(OSError):
                        stream.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")
                        self.told += 1

    def add(self, name, labels, describe=lambda one: None):
        """It runs, and no event says so."""
        one = Container(self.group, name, labels, next(self.numbers))
        describe(one)
        self.containers[one.id] = one
        return one

    def run(self, name, labels, describe=lambda one: None):
        one = self.add(name, labels, describe)
        self.event("start", one)
        return one

    def remove(self, container):
        del self.containers[container.id]
        container.end()
        self.event("destroy", container)

    def stop_listening(self):
        """A thread that waits in accept() may go on with the next socket of this number."""
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.server.close()

    def end(self):
        self.stop_listening()
        for one in self.containers.values():
            one.kill()
        for one in self.containers.values():
            one.end()
        self.group.end()
