"""Names: queries a second and delays over DNS, those of dnsmasq, a failed check until DNS shows it,
memory, NSS compared with nscd."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import namespace
from bench_life import pss
from berth import BUILD, Agent, wait_until
from names import NamesTest, ask, free_port, texts

COUNT = int(os.environ.get("BERTH_NAMES", "100"))
SECONDS = int(os.environ.get("BERTH_SECONDS", "5"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "3"))
INSTANCE = "/users/joe/web/prod/components"


def fill(folder):
    for number in range(COUNT):
        path = folder / "registry" / INSTANCE[1:] / f"c{number}"
        path.mkdir(parents=True)
        (path / "_record").write_text(
            json.dumps(NamesTest.record(f"10.1.{number >> 8}.{number & 255}", 8080)))


@contextlib.contextmanager
def dnsmasq(folder):
    port = free_port()
    hosts = folder / "hosts"
    hosts.write_text("".join(f"10.1.{n >> 8}.{n & 255} c{n}.prod.web.joe.berth\n"
        for n in range(COUNT)))
    command = [
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts", "--no-resolv",
        "--bind-interfaces", "--local-ttl=1",
        "--listen-address=127.0.0.1", f"--port={port}", f"--addn-hosts={hosts}", "--pid-file=",
        "--user=root",
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
        ["dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", queries, "-l", str(SECONDS), "-c",
            str(clients), "-q", "100"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rate = float(re.search(r"Queries per second:\s+([\d.]+)", result.stdout).group(1))
    lost = int(re.search(r"Queries lost:\s+(\d+)", result.stdout).group(1))
    delay = re.search(r"Average Latency \(s\):\s+([\d.]+) \(min [\d.]+, max ([\d.]+)\)",
        result.stdout)
    return rate, lost, float(delay.group(1)) * 1e6, float(delay.group(2)) * 1e3


def percentile(port, name="c7.prod.web.joe.berth", count=3000):
    delays = []
    for _ in range(count):
        begin = time.monotonic()
        ask(port, name)
        delays.append(time.monotonic() - begin)
    delays.sort()
    return delays[count // 2] * 1e6, delays[count * 99 // 100] * 1e6


def health(folder, rounds=100):
    """Milliseconds from the heartbeat that says failing to the first answer without the address."""
    port = free_port()
    endpoint = {"api": "http://example.org/rest", "protocol": "http", "address_type": "host/port",
        "address": "10.9.9.9:80"}
    agent = Agent(
        folder / "checked", f"dir:{folder}/registry",
        {
            "dns": {"listen": f"127.0.0.1:{port}"}, "component": {"path": "/services/checked",
                "damping": "no"}, "endpoint rest": endpoint,
            "check beat": {"type": "ttl", "interval": "60s", "fall": "1"},
            "registry": {"update_interval": "1ms"},
        },
    ).start()  # fmt: skip
    delays = []

    def there():
        return "A 10.9.9.9" in texts(ask(port, "checked.services.berth"))

    try:
        for _ in range(rounds):
            agent.request("PUT", "/v1/agent/checks/beat", {"status": "passing"})
            wait_until(there, "the name is there")
            begin = time.monotonic()
            agent.request("PUT", "/v1/agent/checks/beat", {"status": "failing"})
            while there():
                pass
            delays.append((time.monotonic() - begin) * 1e3)
    finally:
        agent.end()
    delays.sort()
    return delays[rounds // 2], delays[rounds * 99 // 100]


CALLS = """
import ctypes, sys, time
libc, name, count = ctypes.CDLL(None), sys.argv[1].encode(), int(sys.argv[2])
libc.gethostbyname.restype = ctypes.c_void_p
if not libc.gethostbyname(name):
    sys.exit(1)
begin = time.monotonic()
for _ in range(count):
    libc.gethostbyname(name)
print((time.monotonic() - begin) / count * 1e6)
"""

NSCD = """
server-user root
enable-cache hosts yes
positive-time-to-live hosts 3600
persistent hosts no
shared hosts no
"""


def nss_call(folder, socket, before, name="c7.prod.web.joe.berth"):
    """Microseconds of one gethostbyname() in a namespace of its own, after a shell command; None
    where there are no namespaces."""
    call = (
        f"{before}; for i in 1 2 3 4 5 6 7 8 9; do python3 {folder}/calls.py {name} 20000 && exit; "
        "sleep 0.2; done; exit 1")
    result = subprocess.run(
        namespace.command(folder, "sh", "-c", call), capture_output=True, text=True, check=False,
        env={**os.environ, "BERTH_SOCKET": str(socket), "LD_LIBRARY_PATH": str(BUILD)},
    )  # fmt: skip
    return float(result.stdout) if result.returncode == 0 else None


def nss(folder, agent):
    """Through the module, through nscd, and from the file itself.

    The module asks the agent; nscd has the same names from /etc/hosts, asked over its socket as the
    module asks the agent.
    """
    (folder / "calls.py").write_text(CALLS)
    (folder / "nscd.conf").write_text(NSCD)
    etc = folder / "etc"
    etc.mkdir()
    (etc / "nsswitch.conf").write_text("hosts: berth\n")
    ours = nss_call(folder, agent.socket, ":")
    (etc / "nsswitch.conf").write_text("hosts: files\n")
    (etc / "hosts").write_text((folder / "hosts").read_text())
    theirs = None
    if shutil.which("nscd"):
        start = (
            f"mkdir -p /run/nscd; mount -t tmpfs none /run/nscd; nscd -F -f {folder}/nscd.conf & "
            "trap 'kill $!' EXIT; sleep 1")
        theirs = nss_call(folder, agent.socket, start)
    plain = nss_call(folder, agent.socket, ":")
    return ours, theirs, plain


def microseconds(value):
    return "not measured" if value is None else f"{value:.1f} us"


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
        agent = Agent(folder / "agent", f"dir:{folder}/registry",
            {"dns": {"listen": f"127.0.0.1:{port}"}}).start()
        stack.callback(agent.end)
        before = pss(agent.process.pid)["Pss"] - pss(plain.process.pid)["Pss"]
        other = stack.enter_context(dnsmasq(folder))
        wait_until(lambda: serves(port), "the agent serves")
        for clients in (1, 16):
            for _ in range(ROUNDS):
                ours, theirs = load(port, queries, clients), load(other, queries, clients)
                print(
                    f"{clients:3} clients   agent {ours[0]:9.0f} q/s, {ours[2]:5.0f} us mean, "
                    f"{ours[3]:6.1f} ms max, {ours[1]} lost   "
                    f"dnsmasq {theirs[0]:9.0f} q/s, {theirs[2]:5.0f} us   ratio "
                    f"{ours[0] / theirs[0]:.2f}"
                )
        for who, number in (("agent", port), ("dnsmasq", other)):
            median, late = percentile(number)
            print(f"one at a time, from Python   {who:8} p50 {median:6.0f} us   p99 {late:6.0f} us")
        after = pss(agent.process.pid)["Pss"]
        for number in range(COUNT):
            assert plain.get(f"/v1/names/c{number}.prod.web.joe.berth").status == 200
        added = after - pss(plain.process.pid)["Pss"]
        print(f"memory: [dns] adds {before} kB at the start, {added} kB after the load, beside an "
              f"agent that told the same {COUNT} names over HTTP")
        median, late = health(folder)
        print(f"a failing heartbeat until DNS shows it, the question included: p50 {median:.1f} ms "
              f"  p99 {late:.1f} ms")
        ours, theirs, files = nss(folder, agent)
        print(
            f"gethostbyname(): libnss_berth {microseconds(ours)}, nscd {microseconds(theirs)}, "
            f"/etc/hosts of {COUNT} lines {microseconds(files)}"
        )


if __name__ == "__main__":
    main()
