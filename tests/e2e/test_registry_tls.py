"""TLS as berth.ini(5) shows it for a client library without it: Debian's stunnel between Berth and
ZooKeeper's secure port; and with a client library that has TLS, or SASL, which Debian's has not:
these tests are skipped there."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

from berth import PROGRAMS, Agent, AgentTest, wait_until
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


class TlsTest(AgentTest):
    JAVA_OPTIONS = [
        "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"]

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
            java_options=self.JAVA_OPTIONS,
        )
        self.addCleanup(self.server.stop)
        wait_until(lambda: accepts(self.secure_port), "the server listens for TLS")

    def setUp(self):
        super().setUp()
        self.make_certificates()
        self.start_server()

    def needs_library(self, **registry):
        """Skips the test where the client library cannot do what these options ask for."""
        probe = self.folder / "probe.ini"
        probe.write_text("[registry]\n" + "".join(f"{k} = {v}\n" for k, v in registry.items()))
        checked = subprocess.run([PROGRAMS / "berthd", "-t", "-c", probe], capture_output=True,
            text=True, check=False)
        lacks = re.search(r"needs a ZooKeeper client library with (\w+)", checked.stderr)
        if lacks:
            self.skipTest(f"this build's ZooKeeper client library has no {lacks.group(1)}")
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def secret(self, name, text):
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text + "\n")
        return path

    def assert_named(self, agent, words):
        """What is wrong is in registry.error, which /v1/agent and berth status show."""
        wait_until(lambda: words in agent.status()["registry"]["error"], f"the error has {words}")
        self.assertNotEqual(agent.status()["registry"]["state"], "connected")

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


class ThroughStunnel(TlsTest):
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


class ByTheLibrary(TlsTest):
    """The server has ZooKeeper's default, clientAuth = need."""

    def setUp(self):
        super().setUp()
        self.registry = f"zookeeper+tls://127.0.0.1:{self.secure_port}/registry"

    def make_certificates(self):
        super().make_certificates()
        self.needs_library(url="zookeeper+tls://127.0.0.1:1/registry")
        self.openssl("pkey", "-in", "key.pem", "-aes256", "-passout", "pass:open sesame", "-out",
            "locked.pem")
        (self.tls / "locked.pem").chmod(0o600)
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-keyout", "stranger.key", "-out", "stranger.pem", "-subj", "/CN=stranger")

    def tls_agent(self, name, **registry):
        options = {"tls_ca": self.tls / "ca.pem", "tls_cert": self.tls / "cert.pem",
            "tls_key": self.tls / "key.pem", "session_timeout": "60s", **registry}
        return self.web_agent(name, extra={"registry": options}).start()

    def test_an_agent_shows_its_certificate(self):
        agent = self.tls_agent("agent")
        agent.wait_state("registered")
        self.assertIsNotNone(self.server.stat(f"/registry{Agent.PATH}"))
        self.assertEqual(agent.stop(), 0)

    def test_its_key_may_have_a_passphrase(self):
        agent = self.tls_agent("agent", tls_key=self.tls / "locked.pem",
            tls_passphrase_file=self.secret("passphrase", "open sesame"))
        agent.wait_state("registered")

    def test_digest_goes_over_it(self):
        agent = self.tls_agent("agent", auth="digest", auth_file=self.secret("login", "joe:secret"),
            secure="yes", realm="EXAMPLE.COM", system_accounts="digest:admin:x")
        agent.wait_state("registered")

    def test_a_mistake_is_named_in_the_error(self):
        for what, options, words in (
            ("authority", {"tls_ca": self.tls / "stranger.pem"}, "authorities in tls_ca"),
            ("file", {"tls_ca": self.tls / "none.pem"}, "none.pem cannot be used: No such file"),
            ("port", {"url": f"zookeeper+tls://127.0.0.1:{self.server.port}/registry"},
                "the URL needs its secureClientPort"),
            ("certificate", {"tls_cert": self.tls / "stranger.pem",
                "tls_key": self.tls / "stranger.key"}, "it refuses tls_cert"),
            ("key", {"tls_key": self.tls / "stranger.key"}, "stranger.key cannot be used"),
            ("passphrase", {"tls_key": self.tls / "locked.pem",
                "tls_passphrase_file": self.secret("barley", "open barley")},
                "tls_passphrase_file holds another passphrase"),
        ):
            with self.subTest(what):
                agent = self.tls_agent(what, **options)
                self.assert_named(agent, words)
                agent.kill()


class WithSasl(TlsTest):
    """DIGEST-MD5, plain and through the tunnel."""

    JAVA_OPTIONS = [*TlsTest.JAVA_OPTIONS,
        "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"]

    def make_certificates(self):
        super().make_certificates()
        self.needs_library(url="zookeeper://127.0.0.1:1/registry", auth="sasl")
        users = self.secret("jaas", "Server { org.apache.zookeeper.server.auth.DigestLoginModule "
            'required user_joe="secret"; };')
        self.JAVA_OPTIONS = [*self.JAVA_OPTIONS, f"-Djava.security.auth.login.config={users}"]

    def sasl_agent(self, name, login):
        options = {"auth": "sasl", "auth_file": self.secret("login", login),
            "session_timeout": "60s", "secure": "yes", "realm": "EXAMPLE.COM"}
        return self.web_agent(name, extra={"registry": options}).start()

    def test_an_agent_registers_through_it(self):
        self.start_stunnel()
        agent = self.sasl_agent("agent", "joe:secret")
        agent.wait_state("registered")
        self.assertIn("rwcda sasl:joe", " ".join(self.server.acl(f"/registry{Agent.PATH}")))

    def test_a_wrong_password_is_named(self):
        self.registry = self.server.url
        agent = self.sasl_agent("agent", "joe:wrong")
        self.assert_named(agent, "look at the name and the password")


if __name__ == "__main__":
    unittest.main()
