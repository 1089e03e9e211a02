"""Agents in containers, with `url = host:`: their memory, and the way of a change to them.

One host has BERTH_CONTAINERS containers (default 50), each with an agent that registers a component
and keeps the instance's directory warm, so that it follows the records of all of them. Another host
changes a record BERTH_ROUNDS times (default 200): the clock runs from the change until a stream of
the host's agent says so, and until a stream of a container's agent does.
"""

import contextlib
import json
import os
import pathlib
import statistics
import tempfile
import time

from berth import Agent, UnixConnection, wait_until
from bench_bridge import BASE, Host, show
from zookeeper import ZooKeeper

CONTAINERS = int(os.environ.get("BERTH_CONTAINERS", "50"))
ROUNDS = int(os.environ.get("BERTH_ROUNDS", "200"))


def memory_kb(pid, row):
    status = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(row))


def start_inside(host, folder, number, stack):
    registry = host.container(f"c{number}")
    agent = Agent(folder / f"inside{number}", f"host:{registry.parent}")
    agent.write_config({
        "agent": {"log_level": "warn"},
        "cache": {"warm": f"{BASE}/**"},
        "component": {"path": f"{BASE}/c{number}"},
        "endpoint web": {"api": "http", "protocol": "HTTP", "address_type": "host/port",
            "address": "10.0.0.1:80"},
        "check web": {"type": "ttl", "interval": "1h", "initial": "passing"},
    })
    stack.callback(agent.end)
    return agent.start()


def stream_of(agent, stack):
    connection = UnixConnection(agent.socket)
    stack.callback(connection.close)
    connection.request("GET", f"/v1/watch{BASE}/changing",
        headers={"Accept": "application/x-ndjson"})
    answer = connection.getresponse()
    while json.loads(answer.readline())["type"] != "SUBSCRIBED":
        pass
    return answer


def changes_ms(other, streams):
    """By stream, of each change, how long it took."""
    times = [[] for _ in streams]
    for port in range(1, ROUNDS + 1):
        begin = time.monotonic()
        server_set(other, port)
        for stream, taken in zip(streams, times):
            while json.loads(stream.readline())["type"] != "UPDATED":
                pass
            taken.append((time.monotonic() - begin) * 1e3)
    return times


def server_set(other, port):
    """By a dynamic endpoint of the other host's agent, which writes at once."""
    answer = other.request("PUT", "/v1/agent/endpoints/web", {"addresses": [f"10.0.0.9:{port}"]})
    assert answer.status == 204, answer.body


def start_other(folder, url, stack):
    other = Agent(folder / "other", url, {
        "agent": {"log_level": "warn"},
        "registry": {"update_interval": "0s"},
        "component": {"path": f"{BASE}/changing"},
        "endpoint web": {"api": "http", "protocol": "HTTP", "address_type": "host/port",
            "dynamic": "yes"},
    }, session_timeout="30s")
    stack.callback(other.end)
    other.start()
    server_set(other, 65535)
    other.wait_state("registered")
    return other


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ZooKeeper() as server, \
            contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        host = Host(folder, server.url, stack)
        begin = time.monotonic()
        agents = [start_inside(host, folder, number, stack) for number in range(CONTAINERS)]
        for agent in agents:
            agent.wait_state("registered")
        print(f"{CONTAINERS} containers' agents start one after another and are registered: "
              f"{time.monotonic() - begin:.1f} s")
        for agent in agents:
            wait_until(lambda agent=agent: len(agent.get(f"/v1/records{BASE}").json) >= CONTAINERS,
                "it knows all records")
        pss = [memory_kb(agent.process.pid, "Pss:") for agent in agents]
        own = [memory_kb(agent.process.pid, "Pss_Anon:") for agent in agents]
        print(f"memory of a container's agent among {CONTAINERS} (PSS): median "
              f"{statistics.median(pss)} KB, most {max(pss)} KB; its own {max(own)} KB at most")
        print(f"memory of the host's agent (PSS): {memory_kb(host.agent.process.pid, 'Pss:')} KB")
        other = start_other(folder, server.url, stack)
        streams = [stream_of(host.agent, stack), stream_of(agents[0], stack)]
        of_host, of_container = changes_ms(other, streams)
        show(f"a change until the host's agent says it, {ROUNDS} changes", of_host)
        show("until a container's agent says it", of_container)
        begin = time.monotonic()
        host.agent.kill()
        host.agent.start()
        for agent in agents:
            agent.wait_state("registered")
        print(f"the host's agent is killed and started: all containers' agents are ready again "
              f"after {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
