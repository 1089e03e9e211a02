"""From the exit of a failing health command to the record gone, next to the bare delete of a node
in the same run."""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time

from berth import Agent
from zookeeper import ZooKeeper

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "200"))
NODE = f"/registry{Agent.PATH}"
LOOK_AGAIN_S = 0.00005


class Directory:
    """The record is gone when its file is."""

    name = "dir"

    def __init__(self, folder):
        self.registry = f"dir:{folder}/registry"
        self.record = f"{folder}/registry{Agent.PATH}/_record"
        self.folder = folder

    def wait(self, there):
        deadline = time.monotonic() + 60
        while os.path.exists(self.record) != there:
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(LOOK_AGAIN_S)
        return time.monotonic()

    def bare_deletes_ms(self):
        """A file unlinked in its directory."""
        path = self.folder / "bare"
        for _ in range(ROUNDS):
            path.write_text("{}")
            begin = time.monotonic()
            path.unlink()
            yield (time.monotonic() - begin) * 1e3


class Server:
    """The record is gone when a watch of another client says so."""

    name = "zookeeper"

    def __init__(self, server):
        self.server = server
        self.registry = server.url
        self.watch = subprocess.Popen(server.probe_command("watch", NODE), stdout=subprocess.PIPE,
            text=True)

    def wait(self, there):
        for line in self.watch.stdout:
            if ("present" in line) == there:
                return time.monotonic()
        raise EOFError

    def bare_deletes_ms(self):
        answer = self.server.probe("time-deletes", "/bare", str(ROUNDS))
        answer.check_returncode()
        return map(float, answer.stdout.split())


def deregister_ms(backend, folder):
    """A command says when it waits, and only then reads its exit status; the clock runs from the
    write of the status."""
    waits = folder / f"waits-{backend.name}"
    status_pipe = folder / f"status-{backend.name}"
    os.mkfifo(status_pipe)
    pipe = os.open(status_pipe, os.O_RDWR)

    def tell(status):
        while not waits.exists():
            time.sleep(LOOK_AGAIN_S)
        waits.unlink()
        begin = time.monotonic()
        os.write(pipe, b"%d\n" % status)
        return begin

    agent = Agent(folder / backend.name, backend.registry)
    agent.write_config({
        **agent.component(None, damping="no"),
        "registry": {"update_interval": "0s"},
        "agent": {"log_level": "warn"},
        "check scripted": {
            "shell": "yes", "command": f": > {waits}; read status < {status_pipe}; exit $status",
            "interval": "10ms", "timeout": "1h", "fall": "1",
        },
    })
    agent.start()
    try:
        for _ in range(ROUNDS):
            tell(0)
            backend.wait(True)
            begin = tell(2)
            yield (backend.wait(False) - begin) * 1e3
    finally:
        agent.kill()
        os.close(pipe)


def show(name, what, values):
    values = sorted(values)
    print(f"{name:10} {what:32} p50 {values[len(values) // 2]:7.2f} ms   p99 "
          f"{values[len(values) * 99 // 100]:7.2f} ms")
    return values


def compare(backend, folder):
    before = list(backend.bare_deletes_ms())
    gone = show(backend.name, "failing exit to record gone", deregister_ms(backend, folder))
    bare = show(backend.name, "bare delete", before + list(backend.bare_deletes_ms()))
    beyond = gone[len(gone) * 99 // 100] - bare[len(bare) * 99 // 100]
    print(f"{backend.name:10} {'beyond the bare delete':32} p50 "
          f"{gone[len(gone) // 2] - bare[len(bare) // 2]:7.2f} ms   p99 {beyond:7.2f} ms")


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ZooKeeper() as server:
        folder = pathlib.Path(name)
        compare(Directory(folder), folder)
        backend = Server(server)
        with contextlib.ExitStack() as stack:
            stack.callback(backend.watch.wait)
            stack.callback(backend.watch.kill)
            compare(backend, folder)


if __name__ == "__main__":
    main()
