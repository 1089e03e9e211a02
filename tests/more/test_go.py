"""Go programs on the socket API: the one of docs/PROTOCOL.md, and a test of its own with Go's HTTP
client."""

import pathlib
import re
import unittest

from berth import Agent, AgentTest
from documented import DocumentedTest, example
from golang import go

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


class Documented(DocumentedTest):
    def test_the_program_of_the_protocol_follows_its_service(self):
        (self.folder / "endpoints.go").write_text(example("go"))
        go("build", "-o", "endpoints", "endpoints.go", folder=self.folder)
        self.follows([self.folder / "endpoints"])


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
