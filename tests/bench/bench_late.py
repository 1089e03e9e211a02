"""An application that is late, with the options' defaults: how long after the start of its agent
one that comes up a second later has its record, how long one that goes keeps it, and how long after
its return it has one again. The registry is a directory: a server adds its own time."""

import contextlib
import os
import pathlib
import random
import socket
import statistics
import tempfile
import threading
import time

from berth import Agent

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "20"))
LATE_S = 1


class Application:
    """A port that takes connections, or refuses them."""

    def __init__(self):
        self.listener = None
        with socket.create_server(("127.0.0.1", 0)) as any_port:
            self.port = any_port.getsockname()[1]

    def come(self):
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=128)

    def go(self):
        self.listener.close()


def until(condition):
    begin = time.monotonic()
    while not condition():
        if time.monotonic() > begin + 120:
            raise TimeoutError
        time.sleep(0.002)
    return time.monotonic() - begin


def sections(port):
    """No interval, no rise and no fall is set: these are the defaults."""
    component = Agent.component(None, check="")
    return {**component, "check port": {"type": "tcp", "target": f"127.0.0.1:{port}"}}


def one_life(folder, times):
    registry = folder / "registry"
    record = pathlib.Path(f"{registry}{Agent.PATH}/_record")
    application = Application()
    agent = Agent(folder, f"dir:{registry}")
    agent.write_config(sections(application.port))
    with contextlib.ExitStack() as stack:
        stack.callback(agent.end)
        begin = time.monotonic()
        agent.start(wait=False)
        time.sleep(LATE_S)
        application.come()
        until(record.exists)
        times["start to record, a second late"].append(time.monotonic() - begin)
        time.sleep(LATE_S)
        application.go()
        times["gone to no record"].append(until(lambda: not record.exists()))
        time.sleep(random.uniform(1, 2))  # to come at any moment between two runs of the check
        application.come()
        times["back to record"].append(until(record.exists))
        application.go()


def main():
    times = {"start to record, a second late": [], "gone to no record": [], "back to record": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        lives = [threading.Thread(target=one_life, args=(pathlib.Path(name) / str(number), times))
            for number in range(ROUNDS)]
        for life in lives:
            life.start()
        for life in lives:
            life.join()
    for what, values in times.items():
        print(f"{what:32} median {statistics.median(values):6.2f} s   max {max(values):6.2f} s")


if __name__ == "__main__":
    main()
