"""USR2: from the signal to the first answer of the new program, and what lookups feel of it."""

import os
import pathlib
import signal
import statistics
import tempfile
import time

from berth import Agent
from lifecycle import Client
from zookeeper import ZooKeeper

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "100"))
QUIET_S = 3


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] * 1000


def report(name, what, values):
    print(
        f"{name:10} {what:34} median {statistics.median(values) * 1000:7.2f} ms   p99 "
        f"{percentile(values, 0.99):7.2f} ms"
        f"   p99.9 {percentile(values, 0.999):7.2f} ms   max {max(values) * 1000:7.2f} ms"
    )


def lookups(name, what, agent, work):
    clients = [Client(agent.socket, keep=True), Client(agent.socket, keep=False)]
    work()
    for client, kind in zip(clients, ("one connection", "new connections")):
        failures = client.end()
        report(name, f"lookup {what}, {kind}", client.seconds)
        if failures:
            print(f"{name:10} {len(failures)} lookups FAILED, such as {failures[0]}")


def upgrade(agent):
    """From the signal to the first answer of the new program, in seconds."""
    with open(agent.log, encoding="utf-8") as log:
        log.seek(0, os.SEEK_END)
        begin = time.monotonic()
        agent.signal(signal.SIGUSR2)
        seen = log.read()
        while " runs, pid " not in seen:
            if time.monotonic() > begin + 60:
                raise TimeoutError
            time.sleep(0.0002)
            seen += log.read()  # a line that crosses a page may come in two parts
    agent.get("/live")
    return time.monotonic() - begin


def upgrade_all(agent):
    for _ in range(ROUNDS):
        yield upgrade(agent)
        time.sleep(0.02)


def measure(name, registry, folder):
    agent = Agent(folder / name, registry)
    agent.write_config({**agent.component("true"), "agent": {"log_level": "info"}})
    try:
        agent.start()
        agent.wait_state("registered")
        report(name, "signal to first answer of the new", list(upgrade_all(agent)))
        lookups(name, "at rest", agent, lambda: time.sleep(QUIET_S))
        lookups(name, "during upgrades", agent, lambda: list(upgrade_all(agent)))
    finally:
        agent.end()


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ZooKeeper() as server:
        folder = pathlib.Path(name)
        measure("dir", f"dir:{folder}/registry", folder)
        measure("zookeeper", server.url, folder)


if __name__ == "__main__":
    main()
