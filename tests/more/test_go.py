"""Go programs on the socket API: the one of docs/PROTOCOL.md, and a test of its own with Go's HTTP client."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from berth import BUILD, Agent, AgentTest
from documented import DocumentedTest, example

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
COMPILING = 600  # seconds: the first build compiles Go's own library, too


def go(*arguments, folder, environment=None):
    """Runs the go tool, which needs no network; returns its output."""
    if not shutil.which("go"):
        raise AssertionError("go is not installed: ./quickstart check-more installs it")
    result = subprocess.run(
        ["go", *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=COMPILING, check=False,
        env={**os.environ, "GOCACHE": str(BUILD / "go-cache"), "GOPROXY": "off", "GO111MODULE": "off", "GOFLAGS": "",
             **(environment or {})},
    )
    if result.returncode != 0:
        raise AssertionError(f"go {arguments[0]} exited with {result.returncode}:\n{result.stdout}")
    return result.stdout


class Documented(DocumentedTest):
    def test_the_program_of_the_protocol_follows_its_service(self):
        (self.folder / "endpoints.go").write_text(example("go"))
        go("build", "-o", "endpoints", "endpoints.go", folder=self.folder)
        self.follows([self.folder / "endpoints"])


class Client(AgentTest):
    def test_the_http_client_of_go_takes_the_socket_api(self):
        extra = {
            "check heart": {"type": "ttl", "interval": "1h", "fall": "1"},
            "endpoint port": {"api": "urn:port", "protocol": "tcp", "address_type": "host/port", "dynamic": "yes"},
            "agent": {"heartbeat_interval": "1s"},
            "registry": {"update_interval": "0s"},
        }
        web = self.web_agent(check=None, extra=extra).start()
        environment = {"BERTH_SOCKET": str(web.socket), "BERTH_COMPONENT": Agent.PATH}
        output = go("test", "-v", "-count=1", "client_test.go", folder=PROGRAMS, environment=environment)
        source = (PROGRAMS / "client_test.go").read_text()
        passed = re.findall(r"(?m)^--- PASS: (\w+)", output)
        self.assertEqual(passed, re.findall(r"(?m)^func (Test\w+)", source), output)


if __name__ == "__main__":
    unittest.main()
