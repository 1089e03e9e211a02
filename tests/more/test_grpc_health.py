"""Checks of type grpc and gRPC's own server, plain and with TLS."""

import sys
import unittest
from concurrent import futures

from berth import AgentTest, wait_until
from certificates import Authority, TlsServer
try:
    import grpc
except ImportError:  # a Python that is not the system's
    sys.path.append("/usr/lib/python3/dist-packages")
    import grpc

CHECK = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = 1, 2


class Health(grpc.GenericRpcHandler):
    """grpc.health.v1.Health, without its package: the messages are two bytes and a name."""

    def __init__(self):
        self.statuses = {"": SERVING, "app.Greeter": SERVING}

    def service(self, handler_call_details):
        if handler_call_details.method != CHECK:
            return None
        return grpc.unary_unary_rpc_method_handler(self.check)

    def check(self, request, context):
        name = request[2:].decode()
        if name not in self.statuses:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return b"\x08" + bytes((self.statuses[name],))


class GrpcHealth(AgentTest):
    def serve(self, *handlers, credentials=None):
        server = grpc.server(futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers(handlers)
        port = server.add_secure_port("localhost:0", credentials) if credentials \
            else server.add_insecure_port("localhost:0")
        server.start()
        self.addCleanup(server.stop, None)
        return port

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
        port = self.serve(health)
        agent = self.agent_of({
            "whole": (port, {}),
            "app": (port, {"service": "app.Greeter"}),
            "other": (port, {"service": "app.Other"}),
            "none": (self.serve(), {}),
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
        port = self.serve(Health(), credentials=grpc.ssl_server_credentials([pair]))
        mutual = self.serve(Health(), credentials=grpc.ssl_server_credentials([pair], root, True))
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
