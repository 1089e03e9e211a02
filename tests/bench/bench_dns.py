"""DNS: queries a second and delays of the agent, beside dnsmasq serving the same names; memory that [dns] adds."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from bench_life import pss
from berth import Agent, wait_until
from names import NamesTest, ask, free_port, texts

COUNT = int(os.environ.get("BERTH_NAMES", "100"))
SECONDS = int(os.environ.get("BERTH_SECONDS", "5"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "3"))
INSTANCE = "/users/joe/web/prod/components"


def fill(folder):
    for number in range(COUNT):
        path = folder / "registry" / INSTANCE[1:] / f"c{number}"
        path.mkdir(parents=True)
        (path / "_record").write_text(json.dumps(NamesTest.record(f"10.1.{number >> 8}.{number & 255}", 8080)))


@contextlib.contextmanager
def dnsmasq(folder):
    port = free_port()
    hosts = folder / "hosts"
    hosts.write_text("".join(f"10.1.{n >> 8}.{n & 255} c{n}.prod.web.joe.berth\n" for n in range(COUNT)))
    command = [
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts", "--no-resolv", "--bind-interfaces", "--local-ttl=1",
        "--listen-address=127.0.0.1", f"--port={port}", f"--addn-hosts={hosts}", "--pid-file=", "--user=root",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: serves(port), "dnsmasq serves")
        yield port
    finally:
        process.terminate()
        process.wait()


def serves(port):
    try:
        return texts(ask(port, "c1.prod.web.joe.berth", patience=0.2)) == ["A 10.1.0.1"]
    except Exception:  # not yet
        return False


def load(port, queries, clients):
    result = subprocess.run(
        ["dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", queries, "-l", str(SECONDS), "-c", str(clients), "-q", "100"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rate = float(re.search(r"Queries per second:\s+([\d.]+)", result.stdout).group(1))
    lost = int(re.search(r"Queries lost:\s+(\d+)", result.stdout).group(1))
    delay = re.search(r"Average Latency \(s\):\s+([\d.]+) \(min [\d.]+, max ([\d.]+)\)", result.stdout)
    return rate, lost, float(delay.group(1)) * 1e6, float(delay.group(2)) * 1e3


def percentile(port, name="c7.prod.web.joe.berth", count=3000):
    delays = []
    for _ in range(count):
        begin = time.monotonic()
        ask(port, name)
        delays.append(time.monotonic() - begin)
    delays.sort()
    return delays[count // 2] * 1e6, delays[count * 99 // 100] * 1e6


def main():
    for tool in ("dnsperf", "dnsmasq"):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is not installed")
    with tempfile.TemporaryDirectory(prefix="bench-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        fill(folder)
        queries = folder / "queries"
        queries.write_text("".join(f"c{n}.prod.web.joe.berth A\n" for n in range(COUNT)))
        plain = Agent(folder / "plain", f"dir:{folder}/registry").start()
        stack.callback(plain.end)
        port = free_port()
        agent = Agent(folder / "agent", f"dir:{folder}/registry", {"dns": {"listen": f"127.0.0.1:{port}"}}).start()
        stack.callback(agent.end)
        before = pss(agent.process.pid)["Pss"] - pss(plain.process.pid)["Pss"]
        other = stack.enter_context(dnsmasq(folder))
        wait_until(lambda: serves(port), "the agent serves")
        for clients in (1, 16):
            for _ in range(ROUNDS):
                ours, theirs = load(port, queries, clients), load(other, queries, clients)
                print(
                    f"{clients:3} clients   agent {ours[0]:9.0f} q/s, {ours[2]:5.0f} us mean, {ours[3]:6.1f} ms max, {ours[1]} lost   "
                    f"dnsmasq {theirs[0]:9.0f} q/s, {theirs[2]:5.0f} us   ratio {ours[0] / theirs[0]:.2f}"
                )
        for who, number in (("agent", port), ("dnsmasq", other)):
            median, late = percentile(number)
            print(f"one at a time, from Python   {who:8} p50 {median:6.0f} us   p99 {late:6.0f} us")
        after = pss(agent.process.pid)["Pss"]
        print(f"memory: [dns] adds {before} kB at the start; {after} kB proportional after the load, {COUNT} names cached")


if __name__ == "__main__":
    main()
