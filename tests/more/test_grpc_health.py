"""Checks of type grpc and gRPC's own server, plain and with TLS."""

import unittest

from berth import AgentTest, wait_until
from certificates import Authority, TlsServer
from grpc_health import NOT_SERVING, Health, grpc, serve


class GrpcHealth(AgentTest):
    def agent_of(self, checks):
        agent = self.web_agent(check="", extra={f"check {name}": {"type": "grpc",
            "target": f"localhost:{port}", "interval": "100ms", "timeout": "20s", **keys}
            for name, (port, keys) in checks.items()}).start()
        wait_until(lambda: all(agent.check_named(name).get("last") for name in checks), "all ran")
        return agent

    def assert_said(self, agent, name, words):
        wait_until(lambda: words in agent.check_named(name)["last"]["detail"],
            f"{name}: {words}, and not {agent.check_named(name)['last']}")

    def test_plain(self):
        health = Health()
        port = serve(self, health)
        agent = self.agent_of({
            "whole": (port, {}),
            "app": (port, {"service": "app.Greeter"}),
            "other": (port, {"service": "app.Other"}),
            "none": (serve(self), {}),
            "tls": (port, {"tls": "yes", "tls_verify": "no"}),
        })
        self.assert_said(agent, "whole", "SERVING")
        self.assert_said(agent, "app", "SERVING")
        self.assert_said(agent, "other", "does not know \"app.Other\"")
        self.assert_said(agent, "none", "has no health service")
        self.assert_said(agent, "tls", "the port does not speak TLS")
        health.statuses["app.Greeter"] = NOT_SERVING
        self.assert_said(agent, "app", "NOT_SERVING")
        wait_until(lambda: agent.check_named("app")["state"] == "down", "it goes down")
        self.assertEqual(agent.check_named("whole")["state"], "up")

    def test_tls(self):
        authority = Authority(self.folder / "tls")
        server, client = authority.sign("server"), authority.sign("client")
        pair = tuple(file.read_bytes() for file in reversed(server))
        root = authority.file.read_bytes()
        port = serve(self, Health(), credentials=grpc.ssl_server_credentials([pair]))
        mutual = serve(self, Health(), credentials=grpc.ssl_server_credentials([pair], root, True))
        http = TlsServer(server)
        self.addCleanup(http.close)
        tls = {"tls": "yes", "tls_ca": authority.file}
        agent = self.agent_of({
            "good": (port, tls),
            "unknown": (port, {"tls": "yes"}),
            "plain": (port, {}),
            "wants": (mutual, tls),
            "mutual": (mutual, {**tls, "tls_cert": client[0], "tls_key": client[1]}),
            "http": (http.port, tls),
        })
        self.assert_said(agent, "good", "SERVING")
        self.assert_said(agent, "mutual", "SERVING")
        self.assert_said(agent, "unknown", "set tls_ca")
        self.assert_said(agent, "plain", "set tls = yes")
        self.assert_said(agent, "wants", "set tls_cert and tls_key")
        self.assert_said(agent, "http", "does not offer HTTP/2")


if __name__ == "__main__":
    unittest.main()
