#!/usr/bin/env python3
"""What ./quickstart shows: one component through its life, each step checked as it happens.

Usage: demo.py dir|zookeeper BUILD
"""

import contextlib
import http.server
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 30.0  # seconds, for what should take a fraction of one
EXIT_NOT_FOUND = 3
RECORD = "/users/demo/org-example-web/quickstart/components/web-1"

CONFIG = """\
[agent]
socket = {folder}/berth.sock
state_dir = {folder}/state
log_level = warn

[registry]
url = {registry}

[component]
user = demo
service_class = org-example-web
instance = quickstart
name = web-1
id = container_1700000000000_0001_01_000002
description = the web server of the quickstart

[endpoint web]
api = http://example.org/web/v1
protocol = REST
address_type = uri
address = http://127.0.0.1:{port}/

[check web]
type = command
command = {curl} -fsS http://127.0.0.1:{port}/health
interval = 1s
timeout = 1s
fast_interval = 300ms
fall = 2
"""


class Failed(Exception):
    """A step that was not so."""


# ---- output -----------------------------------------------------------------------------------


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() else text


class Story:
    """Numbers the steps, and says of each how long it took to become true."""

    def __init__(self):
        self.number = 0
        self.started = 0.0

    def step(self, text):
        self.number += 1
        self.started = time.monotonic()
        print(f"\n{paint('1', f'{self.number}. {text}')}", flush=True)

    def true(self, text):
        seconds = time.monotonic() - self.started
        print(f"   {paint('32', '✓')} {text}  {paint('2', f'({seconds:.2f} s)')}", flush=True)


def show(lines, indent="     "):
    for line in lines.rstrip("\n").splitlines():
        print(f"{indent}{line}".rstrip(), flush=True)


# ---- what the demonstration runs --------------------------------------------------------------


class Application:
    """The component: a web server on a free port whose /health can be broken."""

    def __init__(self):
        application = self
        self.healthy = True

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                good = application.healthy or self.path != "/health"
                body = b"all is well\n" if good else b"broken on purpose\n"
                self.send_response(200 if good else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def zookeeper_answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False


def start_zookeeper(folder, cleanup):
    """A ZooKeeper of our own on a free loopback port; returns the registry's URL."""
    for _ in range(3):  # the free port may be taken by then
        port = free_port()
        config = folder / "zoo.cfg"
        config.write_text(
            f"tickTime=500\ndataDir=zookeeper\nclientPort={port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=ruok\nmaxClientCnxns=0\n"
        )
        jars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
        with open(folder / "zookeeper.log", "wb") as log:
            server = subprocess.Popen(
                ["java", "-Xmx256m", "-cp", jars]
                + ["org.apache.zookeeper.server.ZooKeeperServerMain", str(config)],
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        cleanup.callback(stop, server)
        deadline = time.monotonic() + PATIENCE
        while server.poll() is None and time.monotonic() < deadline:
            if zookeeper_answers(port):
                return f"zookeeper://127.0.0.1:{port}/registry"
            time.sleep(0.1)
        stop(server)
    raise Failed("ZooKeeper does not start:\n" + (folder / "zookeeper.log").read_text())


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Berth:
    """The build's programs, run as a user would type them."""

    def __init__(self, build, folder, registry):
        self.build = build
        self.folder = folder
        self.registry = registry
        self.socket = f"{folder}/berth.sock"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("BERTH_") and name.lower() not in ("http_proxy", "all_proxy")
        }
        self.environment["BERTH_LIBEXECDIR"] = str(build)

    def start_agent(self):
        self.daemon = subprocess.Popen(
            [self.build / "berthd", "-c", self.folder / "berth.ini"], env=self.environment
        )
        return self.daemon

    def run(self, *command, quiet=False):
        """Prints a command as it would be typed, runs it, prints what it says."""
        program = self.build / command[0]
        real = [str(program) if program.exists() else command[0], *command[1:]]
        result = subprocess.run(
            real, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if not quiet:
            typed = shlex.join(command).replace(str(self.folder), "$DIR")
            print(f"   {paint('36', '$ ' + typed)}", flush=True)
            show(result.stdout)
        return result

    def agent(self, *verb, quiet=False):
        return self.run("berth", "--socket", self.socket, *verb, quiet=quiet)

    def direct(self, *verb, quiet=False):
        """Past the agent, straight to the registry."""
        return self.run("berth", "--registry", self.registry, *verb, quiet=quiet)

    def until(self, status, probe, what):
        """Waits until the probe (run quietly) ends with a status, then runs it once aloud."""
        deadline = time.monotonic() + PATIENCE
        while probe(quiet=True).returncode != status:
            if self.daemon.poll():
                raise Failed(f"the agent ended with status {self.daemon.returncode}")
            if time.monotonic() > deadline:
                probe()
                raise Failed(f"after {PATIENCE:g} s it still is not so that {what}")
            time.sleep(0.05)
        result = probe()
        if result.returncode != status:
            raise Failed(f"it did not stay so that {what}")
        return result


# ---- the story --------------------------------------------------------------------------------


def expect(good, what):
    if not good:
        raise Failed(f"it is not so that {what}")


def tell(kind, build, folder, cleanup):
    story = Story()
    application = Application()
    address = f"http://127.0.0.1:{application.port}/"
    registry = f"dir:{folder}/registry"
    if kind == "zookeeper":
        story.step("A ZooKeeper server starts on a free port of the loopback interface")
        registry = start_zookeeper(folder, cleanup)
        story.true(registry)
    berth = Berth(build, folder, registry)

    def resolve(quiet=False):
        return berth.agent("resolve", RECORD, quiet=quiet)

    def in_registry(quiet=False):
        return berth.direct("resolve", RECORD, quiet=quiet)

    def ready(quiet=False):
        return berth.run(
            *("curl", "-fsS", "-o", "/dev/null", "--unix-socket", berth.socket),
            "http://berth/ready",
            quiet=quiet,
        )

    story.step("A web server runs; an agent gets a configuration that says what it is")
    config = CONFIG.format(
        folder=folder, registry=registry, port=application.port, curl=shutil.which("curl")
    )
    (folder / "berth.ini").write_text(config)
    show(config.replace(str(folder), "$DIR"), indent="   | ")
    expect(
        berth.run("berthd", "-t", "-c", f"{folder}/berth.ini").returncode == 0,
        "the configuration is good",
    )
    story.true("the configuration is good")

    story.step("The agent starts, the health check passes, the component is registered")
    agent = berth.start_agent()
    cleanup.callback(stop, agent)
    berth.until(0, ready, "the agent has registered the component")
    expect(berth.agent("status").returncode == 0, "the agent tells its status")
    story.true("registered")

    story.step("Anyone in the container looks it up: with the command, or with curl")
    answer = berth.until(0, resolve, "the lookup finds the record").stdout
    expect(address in answer, "it has our address")
    found = berth.run(
        *("curl", "-fsS", "--unix-socket", berth.socket),
        f"http://berth/v1/resolve{RECORD}",
    )
    record = json.loads(found.stdout)
    expect(record["type"] == "JSONServiceRecord", "curl gets a service record")
    expect(record["external"][0]["addresses"] == [{"uri": address}], "it holds our address")
    story.true(f"both say {address}")

    story.step("The web server breaks on purpose: /health answers 503 from now on")
    application.healthy = False
    berth.until(EXIT_NOT_FOUND, resolve, "the agent's answer is 'no such record'")
    expect(in_registry().returncode == EXIT_NOT_FOUND, "the registry holds no record")
    story.true("the record is gone, for the agent and in the registry")
    expect(berth.agent("checks").returncode == 0, "the agent tells of its checks")
    expect(ready(quiet=True).returncode != 0, "the agent says that it is not ready")

    story.step("The web server is repaired")
    application.healthy = True
    berth.until(0, resolve, "the record is back")
    expect(address in in_registry(quiet=True).stdout, "the registry holds it too")
    story.true("the record is back")

    story.step("The agent is stopped")
    print(f"   {paint('36', '$ kill -TERM')} {agent.pid}", flush=True)
    agent.send_signal(signal.SIGTERM)
    try:
        status = agent.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failed("the agent does not end") from None
    expect(status == 0, f"the agent ends with status 0 (it was {status})")
    result = berth.until(EXIT_NOT_FOUND, in_registry, "the registry holds no record")
    expect(result.returncode == EXIT_NOT_FOUND, "the record is gone")
    story.true("it deregistered before it ended; nothing is left behind")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("dir", "zookeeper"):
        sys.exit(__doc__)
    sys.stdout.reconfigure(encoding="utf-8")
    os.umask(0o022)  # the agent refuses root a configuration that others may write
    os.environ["LC_ALL"] = "C.UTF-8"  # for a JVM below a directory with an umlaut
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    build = pathlib.Path(sys.argv[2]).resolve()
    with contextlib.ExitStack() as cleanup:
        folder = pathlib.Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="berth-")))
        print(f"DIR={folder}")
        try:
            tell(sys.argv[1], build, folder, cleanup)
        except (Failed, KeyError, ValueError) as problem:
            print(f"\n   {paint('31', '✗')} {problem}", flush=True)
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)
    print(f"\n{paint('1', 'All steps passed.')} The programs are in {sys.argv[2]}/.")


if __name__ == "__main__":
    main()
