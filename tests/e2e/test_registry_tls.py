"""TLS as berth.ini(5) shows it for a client library without it: Debian's stunnel between Berth and
ZooKeeper's secure port."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

from berth import Agent, AgentTest, wait_until
from ports import reserve_port
from zookeeper import ZooKeeper

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "."))
STUNNEL = shutil.which("stunnel4") or "stunnel"


def documented_configuration():
    """The manual, as text."""
    manual = (SOURCE / "docs" / "berth.ini.5").read_text()
    return re.search(r"\.Bd -literal[^\n]*\n(foreground = yes\n.*?)\.Ed", manual, re.S).group(1)


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class ThroughStunnel(AgentTest):
    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.tls, check=True, capture_output=True)

    def make_certificates(self):
        """An authority of our own that has signed a certificate for localhost; the server asks for
        the client's, too."""
        self.tls = self.folder / "tls"
        self.tls.mkdir()
        (self.tls / "names").write_text("subjectAltName=DNS:localhost\n")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        self.openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj",
            "/CN=test")
        self.openssl("req", *curve, "-keyout", "key.pem", "-out", "request", "-subj",
            "/CN=localhost")
        self.openssl(
            "x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial",
            "-extfile", "names", "-out", "cert.pem",
        )
        (self.tls / "key.pem").chmod(0o600)
        joined = [(self.tls / name).read_text() for name in ("key.pem", "cert.pem", "ca.pem")]
        (self.tls / "keystore.pem").write_text("".join(joined[:2]))

    def start_server(self):
        self.secure_port = reserve_port(self)
        self.server = ZooKeeper(
            config=f"maxSessionTimeout=60000\nsecureClientPort={self.secure_port}\n"
                   "secureClientPortAddress=127.0.0.1\n"
            f"ssl.keyStore.location={self.tls}/keystore.pem\nssl.keyStore.type=PEM\n"
            f"ssl.trustStore.location={self.tls}/ca.pem\nssl.trustStore.type=PEM\n"
            "ssl.clientAuth=need\n",
            java_options=[
                "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"],
        )
        self.addCleanup(self.server.stop)
        wait_until(lambda: accepts(self.secure_port), "the server listens for TLS")

    def start_stunnel(self, check_host="localhost"):
        """With the manual's own lines; only names and places are other ones, and one service is
        enough for one server."""
        self.port = reserve_port(self)
        text = documented_configuration().split("[zookeeper-2]")[0]
        for pattern, value in (
            ("/etc/berth/tls", str(self.tls)), ("127.0.0.1:2181", f"127.0.0.1:{self.port}"),
            ("zk1.example.org:2281", f"localhost:{self.secure_port}"),
            ("zk1.example.org", check_host),
        ):
            self.assertIn(pattern, text)
            text = text.replace(pattern, value)
        configuration = self.folder / "stunnel.conf"
        configuration.write_text(text)
        self.log = open(self.folder / "stunnel.log", "ab")
        self.addCleanup(self.log.close)
        tunnel = subprocess.Popen(
            [STUNNEL, configuration], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        self.addCleanup(tunnel.wait)
        self.addCleanup(tunnel.kill)
        wait_until(lambda: accepts(self.port) or tunnel.poll() is not None, "stunnel listens")
        self.assertIsNone(tunnel.poll(), (self.folder / "stunnel.log").read_text())
        self.registry = f"zookeeper://127.0.0.1:{self.port}/registry"
        return tunnel

    def setUp(self):
        super().setUp()
        self.make_certificates()
        self.start_server()

    def test_an_agent_registers_through_it(self):
        tunnel = self.start_stunnel()
        # The session lasts, however long the tunnel takes to start again.
        agent = self.web_agent(extra={"registry": {"session_timeout": "60s"}}).start()
        agent.wait_state("registered")
        node = f"/registry{Agent.PATH}"
        before = self.server.stat(node)
        self.assertIsNotNone(self.in_registry())
        # A tunnel that breaks is a short disconnection like any other.
        tunnel.kill()
        tunnel.wait()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected", "the agent notices")
        port = self.port
        again = subprocess.Popen(
            [STUNNEL, self.folder / "stunnel.conf"], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log,
        )
        self.addCleanup(again.wait)
        self.addCleanup(again.kill)
        wait_until(lambda: accepts(port), "stunnel listens again")
        wait_until(lambda: agent.status()["registry"]["state"] == "connected",
            "the agent is connected again")
        agent.wait_state("registered")
        self.assertEqual(self.server.stat(node), before)
        self.assertEqual(agent.stop(), 0)
        self.assertIsNone(self.server.stat(node))

    def test_a_server_of_another_name_is_not_spoken_to(self):
        self.start_stunnel(check_host="zk1.example.org")
        agent = self.web_agent().start()
        wait_until(
            lambda: "certificate" in (self.folder / "stunnel.log").read_text(),
            "stunnel has refused the certificate"
        )
        self.assertNotEqual(agent.component_state(), "registered")
        self.assertIsNone(self.server.stat("/registry"))


if __name__ == "__main__":
    unittest.main()
