"""For tests of the host's agent: containers that are directories."""

import json
import os
import socket
import subprocess

from berth import PROGRAMS, service_record, wait_until
from lifecycle import LifeTest

WEB = "/users/joe/web/prod/components"


def serves(path):
    """True when somebody listens: between bind() and listen() a socket refuses connections."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


class BridgeTest(LifeTest):
    """A host's agent, and containers that are directories."""

    def setUp(self):
        super().setUp()
        self.containers = self.folder / "containers"
        self.containers.mkdir()

    def host(self, bridge=None, **policies):
        sections = {"bridge": {"containers": self.containers, **(bridge or {})}}
        policies = policies or {"container *": {"allow": "/users/joe/web/**"}}
        agent = self.agent("host", **sections, **policies)
        return agent.start()

    def container(self, name):
        """The registry of a new container, once the host's agent has made it."""
        folder = self.containers / name
        folder.mkdir()
        wait_until((folder / "registry").is_dir, "the host's agent has taken the container up")
        return folder / "registry"

    def record_file(self, **attributes):
        attributes.setdefault("yarn:persistence", "container")
        file = self.folder / f"{len(os.listdir(self.folder))}.json"
        file.write_text(json.dumps(service_record("10.0.0.1", 80, **attributes)))
        return file

    def register(self, registry, path, **attributes):
        """A process in the container that holds a record."""
        process = subprocess.Popen(
            [PROGRAMS / "berth", "--registry", f"dir:{registry}", "bind", "-p", "--ephemeral", path,
                "--file", self.record_file(**attributes)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def await_record(self, path):
        wait_until(lambda: self.record(path), f"{path} is registered")
        return json.loads(self.record(path))

    def await_gone(self, path):
        wait_until(lambda: self.record(path) is None, f"{path} has gone")

    def part(self, host, name):
        """The host's view of a container; None when there is none."""
        for part in host.get("/v1/bridge").json["containers"]:
            if part["name"] == name:
                return part
        return None

    def state(self, host, name, path):
        part = self.part(host, name) or {"records": []}
        return next((item["state"] for item in part["records"] if item["path"] == path), None)

    def await_state(self, host, name, path, state):
        try:
            wait_until(lambda: self.state(host, name, path) == state, f"{path} is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.part(host, name)}") from None
        part = self.part(host, name)
        return next(item for item in part["records"] if item["path"] == path)["why"]
