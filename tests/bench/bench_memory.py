"""Memory and watches of one agent that keeps a directory of ephemeral records warm: PSS of the
agent and of its worker, by the number of paths. The figures are for docs/SIZING.md. Environment:
BERTH_PATHS (default "0 100 1000 10000").
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import tempfile
import time

from berth import Agent, wait_until
from kazoo_client import kazoo
from zookeeper import ZooKeeper

SETTLED_SECONDS = 7  # the agent has given back what only its start needed, and so has the worker
PATHS = [int(count) for count in os.environ.get("BERTH_PATHS", "0 100 1000 10000").split()]
DIRECTORY = "/users/joe/org-example-web/many/components"


def record(number):
    endpoint = {"api": "http://example.org/rest/v1", "addressType": "uri", "protocol": "REST",
        "protocolType": "REST",
                "addresses": [{"uri": f"http://10.0.{number // 250}.{number % 250}:8080/"}]}
    return json.dumps({"type": "JSONServiceRecord", "description": "a component",
        "external": [endpoint], "internal": [],
                       "yarn:id": f"container-{number}", "yarn:persistence": "container"})


def pss(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"(?m)^Pss: +(\d+)", text).group(1)) / 1024


def watches(server):
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(b"wchs")
        with connection.makefile("rb") as answer:
            return int(re.search(rb"Total watches:(\d+)", answer.read()).group(1))


def metric(agent, name):
    return float(re.search(rf"(?m)^{name} (\S+)$", agent.get("/metrics").body.decode()).group(1))


def measure(server, folder, count):
    agent = Agent(folder / str(count), server.url, {}, session_timeout="10s")
    agent.write_config({**agent.component(), **({"cache": {"warm": f"{DIRECTORY}/**"}} if count
        else {})})
    agent.start()
    try:
        agent.wait_state("registered")
        wait_until(lambda: watches(server) > count and metric(agent,
            "berth_cache_entries") >= count, "the cache is warm")
        time.sleep(SETTLED_SECONDS)
        return pss(agent.process.pid), pss(agent.worker()), metric(agent,
            "berth_cache_bytes") / 1024, watches(server)
    finally:
        agent.stop()


def main():
    print(f"{'paths':>7}{'agent MB':>10}{'worker MB':>11}{'cache KiB':>11}{'watches':>9}")
    with ZooKeeper() as server, contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        parts = f"/registry{DIRECTORY}".split("/")
        server.load([("/".join(parts[: end + 1]), "") for end in range(1, len(parts))])
        owner = stack.enter_context(kazoo(server.hosts))  # ephemeral, as those of containers are
        loaded = 0
        for count in PATHS:
            made = [owner.create_async(f"/registry{DIRECTORY}/c{number}",
                record(number).encode(), ephemeral=True) for number in range(loaded, count)]
            for one in made:
                one.get()
            loaded = count
            agent, worker, cache, watched = measure(server, folder, count)
            print(f"{count:>7}{agent:>10.1f}{worker:>11.1f}{cache:>11.0f}{watched:>9}", flush=True)


if __name__ == "__main__":
    main()
