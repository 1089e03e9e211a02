"""Look-ups in shared memory next to the same look-ups over the socket, in turns, and next to peers
where it is installed: Redis by its own tool. bench_host_names.py has those of the NSS module."""

import contextlib
import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from berth import Agent, wait_until

SECONDS = float(os.environ.get("BERTH_SECONDS", "1"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "5"))
RECORDS = int(os.environ.get("BERTH_RECORDS", "4096"))
SOURCE = pathlib.Path(os.environ["BERTH_SRC_DIR"])
MODULE = pathlib.Path(os.environ["BERTH_BUILD_DIR"]).resolve() / "libnss_berth.so.2"
NAME = "c-000000.i00.web.devteam.berth"
LOOK_UP = pathlib.Path(os.environ["BERTH_BUILD_DIR"]) / "tests/bench/look_up"


def record(number):
    """300 to 700 bytes."""
    return json.dumps({
        "type": "JSONServiceRecord", "description": "x" * (number % 400),
        "external": [{"api": "http://example.org/rest", "addressType": "host/port",
            "protocol": "REST", "addresses": [{"host": f"10.0.{number // 256}.{number % 256}",
                "port": "8080"}]}],
        "internal": [],
    })


def write_registry(root):
    """The files of a directory registry, as its layout is documented."""
    paths = []
    for number in range(RECORDS):
        path = f"/users/devteam/web/i{number % 64:02}/components/c-{number:06}"
        folder = root / path[1:]
        folder.mkdir(parents=True)
        (folder / "_record").write_text(record(number))
        paths.append(path)
    return paths


class Bench:
    def __init__(self, folder):
        self.folder = folder
        paths = write_registry(folder / "registry")
        self.paths = folder / "paths"
        self.paths.write_text("".join(f"{path}\n" for path in paths))
        self.agent = Agent(folder / "agent", f"dir:{folder}/registry",
            {"agent": {"log_level": "warn"}, "cache": {"max_size": "64M"}})

    def command(self, what, memory):
        return [LOOK_UP, self.agent.socket, what, memory, str(SECONDS), self.paths]

    def measure(self, what, memory, processes=1):
        """Calls a second of all, and the median of their p50 and p99 in nanoseconds."""
        clients = [subprocess.Popen(list(map(str, self.command(what, memory))),
            stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        rows = [[float(word) for word in client.communicate()[0].split()] for client in clients]
        return (sum(row[0] for row in rows), statistics.median(row[1] for row in rows),
            statistics.median(row[2] for row in rows))

    def redis(self):
        """A GET of a value of that length by redis-benchmark, one client, as measure()."""
        output = subprocess.run(["redis-benchmark", "-s", self.folder / "redis.sock", "-c", "1",
            "-n", str(int(20000 * SECONDS)), "--csv", "get", "body"], check=True,
            capture_output=True, text=True).stdout
        row = next(csv.DictReader(output.splitlines()))
        return (float(row["rps"]), float(row["p50_latency_ms"]) * 1e6,
            float(row["p99_latency_ms"]) * 1e6)

    @contextlib.contextmanager
    def redis_server(self):
        """Contenders: Redis, or none."""
        if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
            print("\nRedis is not installed (redis-server, redis-tools): no figures of it")
            yield []
            return
        place = self.folder / "redis.sock"
        with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", place, "--save", "",
                "--dir", self.folder], stdout=subprocess.DEVNULL) as server:
            wait_until(place.exists, "Redis listens")
            subprocess.run(["redis-cli", "-s", place, "set", "body", record(200)], check=True,
                stdout=subprocess.DEVNULL)
            yield [("Redis GET, 1 process",)]
            server.terminate()

    def compare(self, title, contenders):
        rounds = [[self.measure(*arguments) if arguments else self.redis()
            for _, *arguments in contenders] for _ in range(ROUNDS)]
        print(f"\n{title} (medians of {ROUNDS} rounds)")
        for number, (name, *_) in enumerate(contenders):
            rate, p50, p99 = (statistics.median(column)
                for column in zip(*(figures[number] for figures in rounds)))
            print(f"  {name:<40} {rate:>12,.0f}/s   p50 {p50:>8,.0f} ns   p99 {p99:>8,.0f} ns")

    def nss_round(self, program, shared):
        """Nanoseconds of one gethostbyname_r() of the module, of 2,000 in a row."""
        environment = {**os.environ, "BERTH_SOCKET": str(self.agent.socket), "BERTH_SHARED": shared}
        output = subprocess.run([program, MODULE, NAME], input="20\n2000\n", env=environment,
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        return float(output.splitlines()[-1].split()[1])

    def nss(self):
        """The module by itself: glibc's own work for nsswitch.conf and /etc/hosts comes on top."""
        program = self.folder / "nss_look_up"
        subprocess.run(["cc", "-O2", SOURCE / "tests/e2e/programs/nss_look_up.c", "-o", program,
            "-ldl"], check=True)
        rounds = [[self.nss_round(program, shared) for shared in ("on", "off")]
            for _ in range(ROUNDS)]
        memory, socket = map(statistics.median, zip(*rounds))
        print(f"\ngethostbyname_r() of libnss_berth (medians of {ROUNDS} rounds)\n"
            f"  memory {memory:>8,.0f} ns   socket {socket:>8,.0f} ns")


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        bench = Bench(pathlib.Path(folder))
        bench.agent.start()
        try:
            with bench.redis_server() as peers:
                bench.compare(f"berth_resolve() of {RECORDS} random paths", [
                    ("memory, 1 process", "resolve", "on"),
                    ("socket, 1 process", "resolve", "off"),
                    *peers,
                    ("memory, 2 processes", "resolve", "on", 2),
                    ("socket, 2 processes", "resolve", "off", 2),
                    ("memory, 8 processes", "resolve", "on", 8),
                    ("socket, 8 processes", "resolve", "off", 8),
                ])
            bench.compare("berth_lookup_get(), unchanged", [
                ("memory", "lookup", "on"),
                ("kept without asking anybody", "lookup", "off"),
            ])
            bench.compare("berth_pick(), unchanged", [
                ("memory", "pick", "on"),
                ("kept without asking anybody", "pick", "off"),
            ])
            if MODULE.exists():
                bench.nss()
        finally:
            bench.agent.end()


if __name__ == "__main__":
    main()
