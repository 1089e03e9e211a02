"""`find` over BERTH_RECORDS records (default 50,000) in a ZooKeeper: how long, next to a bare
client of ZooKeeper that reads the same nodes; what it takes of the processors; and the longest
look-up of another client meanwhile."""

import os
import pathlib
import statistics
import tempfile
import threading
import time

from bench_lookup import FOLDER, path, record
from berth import Agent, UnixConnection
from zookeeper import ZooKeeper

RECORDS = int(os.environ.get("BERTH_RECORDS", "50000"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "5"))


class Other:
    """A client that looks up one record again and again, as a context."""

    def __init__(self, agent):
        self.connection = UnixConnection(agent.socket)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.longest = 0

    def run(self):
        while not self.done.wait(0.001):
            began = time.monotonic()
            self.connection.request("GET", f"/v1/resolve{path(0)}")
            self.connection.getresponse().read()
            self.longest = max(self.longest, time.monotonic() - began)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.connection.close()


def bare(server):
    """Seconds of a client of libzookeeper alone, which knows all paths and looks at no record."""
    answer = server.probe("read", "-", stdin="".join(f"{path(number)}\n"
        for number in range(RECORDS)))
    answer.check_returncode()
    return float(answer.stdout) / 1000


def find(agent, pids):
    before = [time.clock_gettime(~pid << 3 | 2) for pid in pids]  # clock_getcpuclockid(3)
    connection = UnixConnection(agent.socket, timeout=600)
    with Other(agent) as other:
        began = time.monotonic()
        connection.request("GET", f"/v1/find?under={FOLDER}")
        answer = connection.getresponse()
        text = answer.read()
        took = time.monotonic() - began
    connection.close()
    used = [time.clock_gettime(~pid << 3 | 2) - was for pid, was in zip(pids, before)]
    if answer.status != 200 or text.count(FOLDER.encode()) != RECORDS:
        raise AssertionError(f"{answer.status}: {text[:200]}")
    print(f"find over {RECORDS} records: {took:.2f} s; processor time of the agent "
        f"{used[0]:.2f} s, its worker {used[1]:.2f} s, the server {used[2]:.2f} s; the longest "
        f"look-up of another client {other.longest * 1000:.0f} ms", flush=True)
    return took


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ZooKeeper() as server:
        server.load([("/services", ""), (FOLDER, ""),
            *((f"{FOLDER}/g{number:02}", "") for number in range(100)),
            *((path(number), record(number).decode()) for number in range(RECORDS))])
        agent = Agent(pathlib.Path(name) / "agent", f"zookeeper://{server.hosts}/",
            {"agent": {"log_level": "warn"}})
        try:
            agent.start()
            pids = agent.process.pid, agent.worker(), server.process.pid
            found, read = zip(*((find(agent, pids), bare(server)) for _ in range(ROUNDS)))
            ours, theirs = statistics.median(found), statistics.median(read)
            print(f"medians: find {ours:.2f} s, the same nodes read by a bare client {theirs:.2f} "
                f"s; ratio {ours / theirs:.2f}")
        finally:
            agent.end()


if __name__ == "__main__":
    main()
