"""What a lookup costs: hits next to a bare responder, Redis and ZooKeeper itself; and few cached
records next to many."""

import contextlib
import csv
import dataclasses
import json
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import time

from berth import Agent
from zk_client import GET, ZkClient, _text
from zookeeper import ZooKeeper

SECONDS = float(os.environ.get("BERTH_SECONDS", "1"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "9"))
MANY = int(os.environ.get("BERTH_RECORDS", "100000"))
FEW = 100
FOLDER = "/services/bench"
LOAD = pathlib.Path(os.environ["BERTH_BUILD_DIR"]) / "tests/bench/load"


def record(number):
    endpoint = {
        "api": "http://example.org/rest",
        "addressType": "host/port",
        "protocol": "REST",
        "addresses": [{"host": f"host{number:06}.example.org", "port": "8080"}],
    }
    return json.dumps({"type": "JSONServiceRecord", "description": "bench", "external": [endpoint],
        "internal": []}).encode()


def path(number):
    return f"{FOLDER}/g{number % 100:02}/n{number:06}"


def http(number):
    return f"GET /v1/resolve{path(number)} HTTP/1.1\r\nHost: berth\r\n\r\n".encode()


@dataclasses.dataclass
class Contender:
    name: str
    address: object
    requests: list = None  # None: Redis' own tool asks
    greeting: bytes = None
    pid: int = None  # of a server with one thread, whose CPU time is counted


@dataclasses.dataclass
class Figures:
    rate: float
    p50: float
    p99: float
    cpu: float = None  # microseconds of the server for a request

    def __str__(self):
        cpu = "" if self.cpu is None else f"   CPU {self.cpu:>6.2f} us"
        return f"{self.rate:>9,.0f}/s   p50 {self.p50:>8.2f} us   p99 {self.p99:>8.2f} us{cpu}"


def cpu_seconds(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def median(rounds, name):
    """Of each figure by itself."""
    columns = zip(*(dataclasses.astuple(figures[name]) for figures in rounds))
    return Figures(*(None if None in column else statistics.median(column) for column in columns))


def ratio(rounds, figure, first, second):
    """Of a figure of two contenders, by the median of its rounds: both of a round met the same
    machine."""
    return statistics.median(
        getattr(figures[first], figure) / getattr(figures[second], figure) for figures in rounds)


class Bench:
    def __init__(self, folder, stack):
        self.folder = folder
        self.stack = stack
        self.rows = {}

    def start(self, command, ready):
        process = self.stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        self.stack.callback(process.terminate)
        deadline = time.monotonic() + 20
        while not os.path.exists(ready):
            if time.monotonic() > deadline:
                raise TimeoutError(command)
            time.sleep(0.02)
        return process.pid

    def file(self, name, content):
        place = self.folder / name
        place.write_bytes(content)
        return place

    def ask(self, address, clients, requests, seconds=SECONDS, greeting=None):
        everything = self.file("requests", b"".join(requests))
        command = [LOAD, "ask", address, str(clients), str(seconds), everything,
            str(len(requests[0]))]
        if greeting:
            command.append(self.file("greeting", greeting))
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [float(word) for word in output.split()]

    def measure(self, contender, clients):
        if contender.requests is None:
            return Figures(*redis_benchmark(contender.address, clients))
        before = cpu_seconds(contender.pid) if contender.pid else 0
        figures = Figures(*self.ask(contender.address, clients, contender.requests,
                                    greeting=contender.greeting))
        if contender.pid:
            figures.cpu = (cpu_seconds(contender.pid) - before) / (figures.rate * SECONDS) * 1e6
        return figures

    def compare(self, title, clients, contenders):
        """In turns, forwards and backwards, so that whatever else the machine does meets all of
        them."""
        rounds = []
        for number in range(ROUNDS):
            turn = contenders if number % 2 == 0 else contenders[::-1]
            rounds.append({contender.name: self.measure(contender, clients) for contender in turn})
        print(f"\n{title} (medians of {ROUNDS} rounds)")
        for contender in contenders:
            print(f"  {contender.name:<34} {median(rounds, contender.name)}")
        return rounds

    def agent(self, name, url, records):
        agent = Agent(
            self.folder / name, url,
            {"agent": {"log_level": "warn"}, "cache": {"max_size": "1G", "snapshot": "no"}},
        )
        agent.start()
        self.stack.callback(agent.end)
        deadline = time.monotonic() + 60
        while agent.status()["registry"]["state"] != "connected":
            if time.monotonic() > deadline:
                raise TimeoutError(agent.read_log())
            time.sleep(0.05)
        before = memory(agent)
        begin = time.monotonic()
        self.ask(agent.socket, 1, [http(number) for number in range(records)], seconds=0)
        took = time.monotonic() - begin
        print(f"{records:,} records cached in {took:.1f} s, "
              f"{(memory(agent) - before) * 1024 / records:,.0f} bytes of the agent each")
        # The first hit makes the response that all later ones get.
        self.ask(agent.socket, 1, [http(number) for number in range(records)], seconds=0)
        return agent


def memory(agent):
    text = pathlib.Path(f"/proc/{agent.process.pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def whole_answer(agent):
    """A hit's bytes, for the bare responder to give the same."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(agent.socket))
        for _ in range(2):
            connection.sendall(http(0))
            time.sleep(0.2)
            answer = connection.recv(65536)
        return answer


def redis(bench):
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        print("Redis: not installed")
        return []
    place = bench.folder / "redis.sock"
    pid = bench.start(
        ["redis-server", "--port", "0", "--unixsocket", place, "--save", "", "--appendonly", "no",
            "--dir", bench.folder], place
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(place))
        value = record(0)
        connection.sendall(b"*3\r\n$3\r\nSET\r\n$4\r\nbody\r\n$%d\r\n%s\r\n" % (len(value), value))
        assert connection.recv(100) == b"+OK\r\n"
    return [
        Contender("Redis GET, Unix socket", place, [b"*2\r\n$3\r\nGET\r\n$4\r\nbody\r\n"],
                  pid=pid),
        Contender("Redis GET, by its own tool", place),
    ]


def redis_benchmark(place, clients):
    """The figure that people know Redis by: its clients do more than ours, which count bytes."""
    count = int(SECONDS * (10_000 if clients == 1 else 80_000))
    command = ["redis-benchmark", "-s", place, "-c", str(clients), "-n", str(count), "--csv", "get",
        "body"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = next(csv.DictReader(output.splitlines()))
    return [float(row["rps"]), float(row["p50_latency_ms"]) * 1000,
        float(row["p99_latency_ms"]) * 1000]


def direct(zookeeper):
    node = _text(f"/registry{path(0)}") + b"\0"
    request = struct.pack(">iii", len(node) + 8, 1, GET) + node
    hello = struct.pack(">iqiq", 0, 0, 10000, 0) + _text(bytes(16))
    greeting = struct.pack(">i", len(hello)) + hello
    return Contender("ZooKeeper itself", zookeeper.hosts, [request], greeting)


def fill(zookeeper):
    with ZkClient(zookeeper.hosts) as client:
        client.make(f"/registry{FOLDER}")
        client.create_many((f"/registry{FOLDER}/g{group:02}", b"") for group in range(100))
        client.create_many((f"/registry{path(number)}", record(number)) for number in range(MANY))


def main():
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        bench = Bench(folder, stack)
        zookeeper = stack.enter_context(ZooKeeper(java_options=["-Xmx1g"]))
        fill(zookeeper)
        few = bench.agent("few", zookeeper.url, FEW)
        bare = folder / "bare.sock"
        answer = bench.file("answer", whole_answer(few))
        responder = bench.start([LOAD, "serve", bare, answer], bare)
        hit = Contender("berthd, hit", few.socket, [http(0)], pid=few.process.pid)
        others = [Contender("bare libev responder", bare, [http(0)], pid=responder), *redis(bench)]
        for clients in (1, 16):
            contenders = [hit, *others] + ([direct(zookeeper)] if clients == 1 else [])
            title = f"{clients} keep-alive client{'s' if clients > 1 else ''}, one record"
            rounds = bench.compare(title, clients, contenders)
            for other in contenders[1:]:
                faster = median(rounds, other.name).p50 / median(rounds, hit.name).p50
                throughput = ratio(rounds, "rate", hit.name, other.name)
                print(f"  berthd : {other.name:<27} throughput {throughput:.2f}   "
                      f"p50 {faster:.2f} times faster", end="   ")
                print(f"CPU {ratio(rounds, 'cpu', hit.name, other.name):.2f}" if other.pid else "")
        many = bench.agent("many", zookeeper.url, MANY)
        small, large = (
            Contender(f"{count:,} records", agent.socket, [http(number) for number in range(count)],
                      pid=agent.process.pid)
            for count, agent in ((FEW, few), (MANY, many))
        )
        for clients in (1, 16):
            title = f"{clients} client{'s' if clients > 1 else ''}, any of the cached records"
            rounds = bench.compare(title, clients, [small, large])
            slower = median(rounds, large.name).p50 / median(rounds, small.name).p50
            print(f"  {MANY:,} : {FEW:<6} p50 {slower:.2f}   "
                  f"time a lookup {ratio(rounds, 'rate', small.name, large.name):.2f}")


if __name__ == "__main__":
    main()
