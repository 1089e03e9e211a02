"""What checks over TLS cost an agent: BERTH_CHECKS of them (default 200), one a second each, on an
nginx of this machine. `/live` next to them and in peace; the agent's processor time of a run next
to that of a plain http check; the memory of berth-probe, which does the rest.

The agents take turns, BERTH_TURNS times (default 3); of each figure the median is printed.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from berth import Agent, UnixConnection, wait_until
from certificates import Authority
from ports import reserve_port

CHECKS = int(os.environ.get("BERTH_CHECKS", "200"))
TURNS = int(os.environ.get("BERTH_TURNS", "3"))
SECONDS = 10
LOOKS = 2000
TICK = os.sysconf("SC_CLK_TCK")
NGINX = """daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 1024; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{ listen 127.0.0.1:{plain}; return 200 UP; }}
    server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate {certificate};
        ssl_certificate_key {key}; return 200 UP; }} }}
"""


def processor_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def live_p99_us(agent):
    connection = UnixConnection(agent.socket)
    took = []
    for _ in range(LOOKS):
        begin = time.perf_counter()
        connection.request("GET", "/live")
        connection.getresponse().read()
        took.append(time.perf_counter() - begin)
        time.sleep(0.001)
    connection.close()
    return sorted(took)[LOOKS * 99 // 100] * 1e6


def runs(agent):
    return sum(sum(check["counts"].values()) for check in agent.get("/v1/agent/checks").json)


def probe_kib(agent):
    """Private dirty memory, and the proportional size."""
    pid = agent.process.pid
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if pathlib.Path(f"/proc/{child}/comm").read_text() == "berth-probe\n":
            rows = dict(line.split(":", 1) for line in pathlib.Path(
                f"/proc/{child}/smaps_rollup").read_text().splitlines()[1:])
            return int(rows["Private_Dirty"].split()[0]), int(rows["Pss"].split()[0])
    raise AssertionError("there is no berth-probe")


def turn(folder, kind, checks):
    agent = Agent(folder / kind, f"dir:{folder}/registry-{kind}", {"agent": {"log_level": "warn"}})
    sections = agent.component(None)
    sections["agent"] = {"log_level": "warn"}
    for number in range(CHECKS if checks else 0):
        sections[f"check c{number}"] = {"type": "http", "interval": "1s", "timeout": "900ms",
                "fall": "1000", **checks}
    agent.write_config(sections)
    agent.start()
    try:
        if checks:
            wait_until(lambda: all(check["state"] == "up"
                for check in agent.get("/v1/agent/checks").json), "all checks are up")
        figures = {"live": live_p99_us(agent)}
        if checks:
            before, spent = runs(agent), processor_s(agent.process.pid)
            time.sleep(SECONDS)
            spent = processor_s(agent.process.pid) - spent
            figures["run"] = spent / (runs(agent) - before) * 1e6
        if kind == "https":
            figures["dirty"], figures["pss"] = probe_kib(agent)
        return figures
    finally:
        agent.end()


class Ports:
    def __init__(self, stack):
        self.addCleanup = stack.callback


def main():
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        authority = Authority(folder / "tls")
        certificate, key = authority.sign("server")
        plain, tls = (reserve_port(Ports(stack)) for _ in range(2))
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, plain=plain, tls=tls,
            certificate=certificate, key=key))
        server = subprocess.Popen(["nginx", "-p", folder, "-c", config],
            stderr=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.terminate)
        kinds = {"quiet": None, "http": {"target": f"http://localhost:{plain}/"},
            "https": {"target": f"https://localhost:{tls}/", "tls_ca": authority.file}}
        found = {kind: [] for kind in kinds}
        for number in range(TURNS):
            for kind, checks in kinds.items():
                place = folder / f"turn-{number}"
                place.mkdir(exist_ok=True)
                found[kind].append(turn(place, kind, checks))

        def median(kind, figure):
            return statistics.median(one[figure] for one in found[kind])
        quiet, busy = median("quiet", "live"), median("https", "live")
        http, https = median("http", "run"), median("https", "run")
        print(f"{CHECKS} https checks a second: /live p99 {busy:.0f} us, in peace {quiet:.0f} us: "
            f"{busy / quiet:.2f} times")
        print(f"  a run takes the agent {https:.0f} us of processor time, a plain http check's "
            f"{http:.0f} us: {https / http:.2f} times")
        print(f"  berth-probe: {median('https', 'dirty'):.0f} KiB private dirty, "
            f"{median('https', 'pss'):.0f} KiB in proportion")


if __name__ == "__main__":
    sys.exit(main())
