"""USR2: from the signal to the first answer of the new program, and what lookups feel of it; and
how long a lookup waits at an upgrade, a stop and a start in an outage with a large cache."""

import os
import pathlib
import signal
import statistics
import tempfile
import time

from bench_lookup import MANY, fill, path
from berth import Agent, wait_until
from lifecycle import Client
from zookeeper import ZooKeeper

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "100"))
QUIET_S = 3
FOLDERS = 100  # of bench_lookup.py's records
LARGE_ROUNDS = int(os.environ.get("BERTH_LARGE_ROUNDS", "5"))


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


def entries(agent):
    text = agent.get("/metrics").body.decode()
    return next(float(line.split()[1]) for line in text.splitlines()
        if line.startswith("berth_cache_entries "))


def longest(agent, work):
    """What `work` took, and the longest lookup meanwhile; seconds."""
    clients = [Client(agent.socket, keep, path(number))
        for keep, number in ((True, 0), (False, 1), (False, MANY - 1))]
    begin = time.monotonic()
    work()
    took = time.monotonic() - begin
    failures = [failure for client in clients for failure in client.end()]
    if failures:
        print(f"{len(failures)} lookups FAILED, such as {failures[0]}")
    return took, max(second for client in clients for second in client.seconds)


def show(what, rounds):
    took, held = zip(*rounds)
    print(f"{what:45} {statistics.median(took) * 1000:7.0f} ms, the longest lookup "
          f"{statistics.median(held) * 1000:6.1f} ms, {max(held) * 1000:6.1f} ms at most")


def measure_large(folder):
    agent = Agent(folder / "large", None, session_timeout="60s")
    with ZooKeeper("maxSessionTimeout=60000\n", java_options=["-Xmx1g"]) as server:
        fill(server)
        agent.registry = server.url
        agent.write_config({"agent": {"log_level": "info"}, "cache": {"max_size": "1G"}})
        agent.start()
        for group in range(FOLDERS):
            wait_until(lambda: agent.get(f"/v1/records/services/bench/g{group:02}").status == 200,
                "all are read")
        count = entries(agent)

        def upgrade_whole():
            agent.upgrade()
            wait_until(lambda: entries(agent) >= count, "all is loaded")
            time.sleep(QUIET_S)

        show(f"{count:,.0f} entries: USR2, until all is loaded",
            [longest(agent, upgrade_whole) for _ in range(LARGE_ROUNDS)])
    begin = time.monotonic()
    agent.stop()
    print(f"{'TERM to its end':45} {(time.monotonic() - begin) * 1000:7.0f} ms")
    begin = time.monotonic()
    agent.start()
    print(f"{'a start in an outage, to its first answer':45} "
          f"{(time.monotonic() - begin) * 1000:7.0f} ms")
    show("from there until all is loaded",
        [longest(agent, lambda: wait_until(lambda: entries(agent) >= count, "all is loaded"))])
    agent.end()


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ZooKeeper() as server:
        folder = pathlib.Path(name)
        measure("dir", f"dir:{folder}/registry", folder)
        measure("zookeeper", server.url, folder)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        measure_large(pathlib.Path(name))


if __name__ == "__main__":
    main()
