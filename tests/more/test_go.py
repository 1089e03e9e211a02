"""Go programs on the socket API: the one of docs/PROTOCOL.md, and a test of its own with Go's HTTP
client."""

import json
import pathlib
import re
import subprocess
import unittest

from berth import PATIENCE, Agent, AgentTest, service_record
from documented import DocumentedTest, example
from golang import go

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs/examples"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


class Documented(DocumentedTest):
    def test_the_program_of_the_protocol_follows_its_service(self):
        (self.folder / "endpoints.go").write_text(example("go"))
        go("build", "-o", "endpoints", "endpoints.go", folder=self.folder)
        self.follows([self.folder / "endpoints"])


class SharedMemory(AgentTest):
    def test_the_example_reads_the_agents_memory(self):
        agent = self.agent().start()
        self.put("/services/db", service_record("h1", 1))
        go("build", "-o", self.folder / "shared", EXAMPLES / "shared.go", folder=self.folder)
        targets = ["/v1/resolve/services/db", "/v1/endpoints/services/db?protocol=http",
            "/v1/resolve/services/nothing"]
        # The first look-up fetches the map, and puts its answer in.
        output = subprocess.run([self.folder / "shared", agent.socket, *targets], check=True,
            capture_output=True, text=True, timeout=PATIENCE).stdout
        rows = [json.loads(line) for line in output.splitlines()]
        self.assertEqual([row["memory"] for row in rows], [False, True] * 3)
        self.assertEqual([row["status"] for row in rows], [200, 200, 200, 200, 404, 1])
        for row in rows[:4]:
            self.assertEqual(row["body"], agent.get(row["target"]).body.decode())
        self.assertEqual(rows[5]["body"], "no such path: /services/nothing")


class Client(AgentTest):
    def test_the_http_client_of_go_takes_the_socket_api(self):
        extra = {
            "check heart": {"type": "ttl", "interval": "1h", "fall": "1"},
            "endpoint port": {"api": "urn:port", "protocol": "tcp", "address_type": "host/port",
                "dynamic": "yes"},
            "agent": {"heartbeat_interval": "1s"},
            "registry": {"update_interval": "0s"},
        }
        web = self.web_agent(check=None, extra=extra).start()
        environment = {"BERTH_SOCKET": str(web.socket), "BERTH_COMPONENT": Agent.PATH}
        output = go("test", "-v", "-count=1", "client_test.go", folder=PROGRAMS,
            environment=environment)
        source = (PROGRAMS / "client_test.go").read_text()
        passed = re.findall(r"(?m)^--- PASS: (\w+)", output)
        self.assertEqual(passed, re.findall(r"(?m)^func (Test\w+)", source), output)


if __name__ == "__main__":
    unittest.main()
