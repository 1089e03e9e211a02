"""The TCP listener and the names by which clients come to it."""

import http.client
import socket
import unittest

from berth import AgentTest
from ports import reserve_port


class Hosts(AgentTest):
    def setUp(self):
        super().setUp()
        self.port = reserve_port(self)

    def start(self, **options):
        return self.agent(agent={"listen": f"127.0.0.1:{self.port}", **options}).start()

    def status(self, host, target="/v1/agent"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.addCleanup(connection.close)
        connection.putrequest("GET", target, skip_host=True)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def test_a_foreign_name_reads_nothing(self):
        self.start(listen_hosts="proxy.example.org")
        own = [f"127.0.0.1:{self.port}", "10.9.8.7", "[::1]:80", "localhost", "LocalHost:80",
            socket.gethostname(), socket.gethostname().partition(".")[0], "proxy.example.org"]
        for host in own:
            self.assertEqual(self.status(host), 200, host)
        for host in ("evil.example.com", f"evil.example.com:{self.port}", "localhost.example.com",
                "127.0.0.1.example.com"):
            for target in ("/v1/agent", "/", "/metrics", "/live", "/nowhere"):
                self.assertEqual(self.status(host, target), 421, (host, target))
        # The host in the target counts before the field.
        self.assertEqual(self.status("localhost", "http://evil.example.com/v1/agent"), 421)
        self.assertEqual(self.status("evil.example.com", "http://localhost/v1/agent"), 200)

    def test_the_unix_socket_takes_every_name_and_a_star_makes_listen_do_so(self):
        agent = self.start(listen_hosts="*")
        self.assertEqual(self.status("evil.example.com"), 200)
        self.assertEqual(
            agent.request("GET", "/v1/agent", headers={"Host": "evil.example.com"}).status, 200)

    def test_a_reload_adds_a_name(self):
        agent = self.start()
        self.assertEqual(self.status("proxy.example.org"), 421)
        text = agent.config.read_text()
        agent.config.write_text(
            text.replace("[agent]", "[agent]\nlisten_hosts = proxy.example.org"))
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.status("proxy.example.org"), 200)
        agent.config.write_text(text.replace("[agent]", "[agent]\nlisten_hosts = a/b"))
        problem = agent.request("POST", "/v1/agent/reload")
        self.assertIn("is not a host name", problem.body.decode())


if __name__ == "__main__":
    unittest.main()
