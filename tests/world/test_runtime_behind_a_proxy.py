"""Whoever gave the agent Docker's socket gave it root: with a proxy that lets GET requests pass the
containers are registered all the same, and nobody can start one over that socket.

Source: tracker #42, and every guide to Docker's socket: Registrator and Traefik mount it.
"""

import grp
import os
import pathlib
import subprocess
import unittest

from berth import AgentTest, UnixConnection, wait_until
from fake_runtime import FakeRuntime
from hosting import serves
from rights import needs

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "deploy/host/runtime/haproxy.cfg"


@needs("freezer")
class AProxy(AgentTest):
    def setUp(self):
        super().setUp()
        self.runtime = FakeRuntime(self.folder / "api.sock")
        self.addCleanup(self.runtime.end)
        self.socket = self.folder / "proxy.sock"
        text = RECIPE.read_text()
        for there, here in (("/run/berth-proxy/docker.sock", self.socket),
                ("/run/docker.sock", self.runtime.path),
                ("group berth", f"group {grp.getgrgid(os.getgid()).gr_name}")):
            self.assertIn(f" {there}" if there[0] != "/" else f"unix@{there}", text)
            text = text.replace(there, str(here))
        config = self.folder / "haproxy.cfg"
        config.write_text(text)
        proxy = subprocess.Popen(["haproxy", "-db", "-q", "-f", config],
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"})
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.terminate)
        wait_until(lambda: serves(self.socket), "the proxy listens")

    def ask(self, method, path):
        connection = UnixConnection(self.socket)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        finally:
            connection.close()

    def test_lists_inspections_and_events_pass(self):
        one = self.runtime.run("one", {"berth.name": "one", "berth.endpoint.http.port": "80"})
        path = f"/services/one/components/{one.id[:12]}"
        self.agent("host", **{"runtime fake": {"socket": self.socket, "address": "192.0.2.7"},
            "container *": {"allow": "/services/**"}}).start()
        wait_until(lambda: self.in_registry(path), "it is registered")
        wait_until(lambda: self.runtime.streams, "the events pass")
        self.runtime.event("kill", one, signal="15")
        wait_until(lambda: not self.in_registry(path), "an event has told of the stop")

    def test_all_else_is_refused(self):
        one = self.runtime.run("one", {})
        self.assertEqual(self.ask("GET", "/containers/json"), 200)
        before = len(self.runtime.requests)
        for method, path in (("POST", "/containers/create"), ("DELETE", f"/containers/{one.id}"),
                ("POST", "/containers/json"), ("PUT", f"/containers/{one.id}/archive?path=/"),
                ("HEAD", "/containers/json"), ("GET", f"/containers/{one.id}/archive?path=/etc"),
                ("GET", f"/containers/{one.id}/json/../logs"), ("GET", "/images/json"),
                ("GET", f"/containers/{one.id}/attach/ws"), ("GET", "/secrets")):
            with self.subTest(method=method, path=path):
                self.assertEqual(self.ask(method, path), 403)
        self.assertEqual(len(self.runtime.requests), before)


if __name__ == "__main__":
    unittest.main()
