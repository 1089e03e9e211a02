"""Agents with outputs, and registries whose members come and go."""

import contextlib
import json
import os
import pathlib
import urllib.parse

from berth import AgentTest, service_record, wait_until

FROM = "/users/joe/web/prod/components"


def record(port, host="127.0.0.1", protocol="http", **attributes):
    return service_record(host, port, protocol, **attributes)


class Members:
    """The components below a path in a directory registry, changed as the registry's own clients
    do, but quickly."""

    def __init__(self, registry, path=FROM):
        self.root = pathlib.Path(urllib.parse.urlsplit(registry).path + path)

    def put(self, name, port, **attributes):
        self.put_content(name, record(port, **attributes))

    def put_content(self, name, content):
        """Writes what the registry's own clients would refuse, too."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / "_new"
        new.write_text(json.dumps(content))
        new.replace(folder / "_record")

    def remove(self, name):
        folder = self.root / name
        with contextlib.suppress(FileNotFoundError):
            (folder / "_record").unlink()
            folder.rmdir()

    def ports(self):
        found = [json.loads(file.read_text()) for file in self.root.glob("*/_record")]
        return {int(item["external"][0]["addresses"][0]["port"]) for item in found}


class OutputTest(AgentTest):
    """`self.file` is what the output "web" of an agent writes."""

    def setUp(self):
        super().setUp()
        self.directory = self.folder / "place"
        self.directory.mkdir()
        self.file = self.directory / "web.txt"

    def put_member(self, name, port, registry=None, **attributes):
        self.put(f"{FROM}/{name}", record(port, **attributes), registry)

    def remove_member(self, name, registry=None):
        self.remove(f"{FROM}/{name}", registry)

    def output_options(self, **options):
        options = {"from": FROM, "format": "lines", "path": self.file, "quiet": "20ms", **options}
        return {key: value for key, value in options.items() if value is not None}

    def output_agent(self, name="agent", registry=None, more=None, **options):
        sections = {"output web": self.output_options(**options), **(more or {})}
        agent = self.agent(name, registry=registry, **sections)
        agent.sections = sections
        return agent

    def script(self, text, name="command"):
        """An executable shell script; returns its path."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    @staticmethod
    def output(agent, name="web"):
        return next(item for item in agent.status()["outputs"] if item["name"] == name)

    def wait_state(self, agent, state, name="web"):
        try:
            wait_until(lambda: self.output(agent, name)["state"] == state, f"the output is {state}")
        except AssertionError as error:
            raise AssertionError(
                f"{error}: {self.output(agent, name)}\n{agent.read_log()[-3000:]}") from None

    def wait_text(self, text, file=None):
        file = file or self.file
        wait_until(
            lambda: file.exists() and file.read_text() == text,
            f"{file.name} holds {text!r}",
        )

    def stamp(self, file=None):
        """Changes whenever the file is written or replaced."""
        status = os.stat(file or self.file)
        return status.st_ino, status.st_mtime_ns
