"""Names as real programs find them: resolvers of C libraries, the NSS module, DNS tools, HAProxy."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

import namespace
from berth import BUILD, PATIENCE, AgentTest, wait_until
from names import NamesTest, free_port

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", ".")).resolve()
PROD = "prod.web.joe.berth"


def need(*tools):
    """A test that needs tools that are not installed says so."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    return unittest.skipIf(missing, f"not installed: {' '.join(missing)}")


class Namespace(NamesTest):
    """An agent that serves port 53 in a network namespace, beside clients that have it in resolv.conf."""

    reason = namespace.usable()

    def setUp(self):
        AgentTest.setUp(self)
        if self.reason:
            self.skipTest(self.reason)
        self.put(f"{self.WEB}/components/c1", self.record("10.0.0.1", 8080))
        self.put(f"{self.WEB}/components/c2", self.record("2001:db8::2", 8081))
        self.put("/services/four", self.record("10.0.0.4", 80))
        self.put("/services/alias", self.record(f"c1.{PROD}", 80))
        etc = self.folder / "etc"
        etc.mkdir()
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:20\n")
        (etc / "nsswitch.conf").write_text("hosts: files dns\n")
        self.server = self.agent("agent", dns={"listen": "127.0.0.1:53"})
        self.shell = None

    def inside(self, script, **environment):
        """Runs a shell script in the namespace, with the agent there; returns what it printed."""
        program = f"""
            {BUILD}/berthd -c {self.server.config} &
            agent=$!
            trap 'kill $agent; wait $agent' EXIT
            until {BUILD}/berth --socket {self.server.socket} live >{self.folder}/live 2>&1; do
                kill -0 $agent || exit 1
                sleep 0.02
            done
            {script}
        """
        result = subprocess.run(
            namespace.command(self.folder, "sh", "-c", program),
            env={
                **os.environ, "BERTH_LIBEXECDIR": str(BUILD), "BERTH_SOCKET": str(self.server.socket),
                "LD_LIBRARY_PATH": str(BUILD), **environment,
            },
            capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def compile(self, compiler, *options):
        program = self.folder / f"resolve-{pathlib.Path(compiler).name}"
        subprocess.run([compiler, *options, "-o", program, SOURCE / "tests/e2e/programs/resolve.c"], check=True)
        return program

    def check_resolved(self, output, program=""):
        lines = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in output.splitlines())
        self.assertEqual(lines[PROD], "10.0.0.1 2001:db8::2", program)
        self.assertEqual(lines["four.services.berth"], "10.0.0.4", program)
        self.assertNotRegex(lines["nowhere.services.berth"], r"\d\.\d", program)

    NAMES = f"{PROD} four.services.berth nowhere.services.berth"

    def test_glibc_through_dns_and_through_the_module(self):
        program = self.compile("cc")
        self.check_resolved(self.inside(f"{program} {self.NAMES}"), "dns")
        (self.folder / "etc/nsswitch.conf").write_text("hosts: files berth\n")
        self.check_resolved(self.inside(f"{program} {self.NAMES}"), "berth")

    @need("getent")
    def test_the_module_answers_every_call_of_glibc(self):
        (self.folder / "etc/nsswitch.conf").write_text("hosts: files berth\n")
        output = self.inside(
            f"getent ahosts {PROD}; echo; getent hosts four.services.berth; getent hosts 10.0.0.4; getent ahostsv6 {PROD}; "
            "getent hosts 10.9.9.9 || echo none; getent ahostsv6 four.services.berth || echo none; getent ahosts alias.services.berth"
        )
        self.assertIn("10.0.0.1", output)
        self.assertRegex(output, r"10\.0\.0\.4 +four\.services\.berth\n10\.0\.0\.4 +four\.services\.berth\n")
        self.assertIn("2001:db8::2", output)
        self.assertIn("none\n", output)
        self.assertRegex(output.rsplit("none", 1)[1], r"10\.0\.0\.1 +STREAM")

    def test_without_an_agent_the_module_gives_way(self):
        (self.folder / "etc/nsswitch.conf").write_text("hosts: berth files\n")
        output = self.inside("getent hosts localhost", BERTH_SOCKET=str(self.folder / "nobody"))
        self.assertIn("localhost", output)

    @need("musl-gcc")
    def test_musl(self):
        self.check_resolved(self.inside(f"{self.compile('musl-gcc', '-static')} {self.NAMES}"))

    @need("dig", "kdig", "drill")
    def test_dns_tools(self):
        output = self.inside(
            f"dig +short {PROD} A; dig +short {PROD} AAAA; dig +tcp +short _http._tcp.{PROD} SRV | sort;"
            f"kdig +short {PROD} A; kdig +tcp +short four.services.berth A; drill -Q four.services.berth A"
        )
        component = "components.prod.web.joe.users.berth."
        self.assertEqual(
            output.split("\n")[:-1],
            ["10.0.0.1", "2001:db8::2", f"0 0 8080 c1.{component}", f"0 0 8081 c2.{component}", "10.0.0.1", "10.0.0.4", "10.0.0.4"],
        )


class HAProxy(NamesTest):
    """HAProxy's own resolver follows a service by its SRV records."""

    def setUp(self):
        super().setUp()
        self.stats = self.folder / "haproxy.sock"
        self.config = self.folder / "haproxy.cfg"
        self.config.write_text(
            f"""
global
    stats socket {self.stats} mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
resolvers berth
    nameserver agent 127.0.0.1:{self.port}
    accepted_payload_size 1232
    resolve_retries 3
    timeout resolve 100ms
    timeout retry 1s
    hold valid 100ms
    hold obsolete 100ms
backend web
    server-template web 5 _http._tcp.{PROD} resolvers berth init-addr none
"""
        )

    def servers(self):
        result = subprocess.run(
            [sys.executable, "-c", SHOW, self.stats], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        rows = [line.split() for line in result.stdout.splitlines() if " web " in f" {line} "]
        return sorted(f"{row[4]}:{row[18]}" for row in rows if row[4] not in ("-", "0.0.0.0") and row[18] != "0")

    @need("haproxy")
    def test_servers_come_and_go_with_the_registry(self):
        process = subprocess.Popen(["haproxy", "-db", "-f", self.config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def end():
            process.terminate()
            process.wait()

        self.addCleanup(end)
        wait_until(lambda: self.servers() == ["10.0.0.1:8080", "10.0.0.2:8081"], "both are there")
        self.put(f"{self.WEB}/components/c3", self.record("10.0.0.3", 8082))
        wait_until(lambda: "10.0.0.3:8082" in self.servers(), "the third one came")
        self.remove(f"{self.WEB}/components/c1")
        wait_until(lambda: "10.0.0.1:8080" not in self.servers(), "the first one went")


SHOW = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b"show servers state web\\n")
while data := connection.recv(65536):
    sys.stdout.write(data.decode())
"""


if __name__ == "__main__":
    unittest.main()
