"""A service manager as far as an agent can see: systemd's notification socket, and what arrives on
it."""

import os
import socket
import threading
import time

from berth import wait_until


class Manager:
    """`messages`: [(seconds by CLOCK_MONOTONIC, {name: value})] in the order of their arrival."""

    def __init__(self, path):
        """`path`: a path, or @name for an abstract address."""
        self.path = str(path)
        self.messages = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + self.path[1:] if self.path.startswith("@") else self.path)
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self):
        while True:
            try:
                datagram = self._socket.recv(65536)
            except OSError:
                return
            if not datagram:
                return
            fields = dict(line.split("=", 1) for line in datagram.decode().splitlines())
            self.messages.append((time.monotonic(), fields))

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def environment(self, **more):
        return {**os.environ, "NOTIFY_SOCKET": self.path, **more}

    def count(self, name):
        return sum(name in fields for _, fields in self.messages)

    def values(self, name):
        return [fields[name] for _, fields in list(self.messages) if name in fields]

    def wait_for(self, name, count=1):
        wait_until(lambda: self.count(name) >= count,
            f"{name} has come {count} times; there are {self.messages}")
