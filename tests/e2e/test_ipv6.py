"""[::1] in every address that can be configured or given: registry, listeners, checks, endpoints,
command line."""

import http.client
import http.server
import socket
import threading
import unittest

from berth import Agent, AgentTest, berth, wait_until
from wire import Wire
from zookeeper import ZooKeeper


class Web(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6


class Answer(http.server.BaseHTTPRequestHandler):
    hosts = []

    def do_GET(self):
        self.hosts.append(self.headers["Host"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def free_port():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        return server.getsockname()[1]


class Ipv6(AgentTest):
    def test_the_tcp_listener(self):
        port = free_port()
        agent = self.web_agent(extra={"agent": {"listen": f"[::1]:{port}"}}).start()
        agent.wait_state("registered")
        connection = http.client.HTTPConnection("::1", port, timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", "/live")
        self.assertEqual(connection.getresponse().status, 200)

    def test_checks_by_http_and_tcp(self):
        web = Web(("::1", 0), Answer)
        self.addCleanup(web.server_close)
        self.addCleanup(web.shutdown)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        port = web.server_address[1]
        agent = self.agent()
        sections = agent.component(None)
        sections["check page"] = {"type": "http", "target": f"http://[::1]:{port}/health",
            "interval": "100ms", "timeout": "60s"}
        sections["check port"] = {"type": "tcp", "target": f"[::1]:{port}", "interval": "100ms",
            "timeout": "60s"}
        agent.write_config(sections)
        agent.start().wait_state("registered")
        self.assertEqual(set(Answer.hosts), {f"[::1]:{port}"}, "the Host field has brackets")

    def test_a_registry_behind_it_for_agent_and_command_line(self):
        with ZooKeeper() as server, Wire(server.hosts, host="::1") as wire:
            url = f"zookeeper://{wire.hosts}/registry"
            agent = self.web_agent(registry=url).start()
            agent.wait_state("registered")
            self.assertEqual(agent.status()["registry"]["url"], url)
            result = berth("--registry", url, "resolve", Agent.PATH)
            self.assertEqual(result.returncode, 0, result.stderr)
            agent.stop()

    def test_endpoints_of_every_type_as_they_are_written_and_read(self):
        forms = {
            "uri": ("http://[::1]:8080/", "http://[::1]:8080/"),
            "inetaddress": ("[::1]:81", "[::1]:81"),
            "host/port": ("[::1]:82", "[::1]:82"),
            "hostname": ("::1", "::1"),
            "zookeeper": ("[::1]:2181/here", "[::1]:2181/here"),
        }
        agent = self.agent()
        sections = agent.component()
        del sections["endpoint rest"]
        for number, (kind, (address, _)) in enumerate(forms.items()):
            sections[f"endpoint e{number}"] = {
                "api": f"urn:{number}", "protocol": "tcp", "address_type": kind, "address": address}
        agent.write_config(sections)
        agent.start().wait_state("registered")
        for number, (_, shown) in enumerate(forms.values()):
            plain = berth("--socket", agent.socket, "endpoints", "--plain", "--api",
                f"urn:{number}", Agent.PATH)
            self.assertEqual(plain.stdout, f"{shown}\n")

    def test_a_process_supplies_one(self):
        agent = self.web_agent(extra={"endpoint late": {
            "api": "urn:late", "protocol": "tcp", "address_type": "inetaddress",
            "dynamic": "yes"}}).start()
        agent.wait_state("registered")
        self.assertEqual(berth("--socket", agent.socket, "supply", "late", "[::1]:83").returncode,
            0)
        wait_until(
            lambda: berth("--socket", agent.socket, "endpoints", "--plain", "--api", "urn:late",
                Agent.PATH).stdout == "[::1]:83\n",
            "it is in the record")


if __name__ == "__main__":
    unittest.main()
