"""A user's server speaks TLS, and his check is curl in a shell: it tells him "exit status 60" when
the certificate has expired, and needs a shell and curl in the image.

Source: consul #18381, nomad #2608 (TLS in checks)
"""

import itertools
import os
import pathlib
import shutil
import socket
import subprocess
import time
import unittest

from berth import PROGRAMS, AgentTest, wait_until
from certificates import Authority, TlsServer
from ports import reserve_port

STUNNEL = shutil.which("stunnel4") or "stunnel"
NGINX = """daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error;
events {{}}
http {{
    client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    log_format h "$server_protocol $request_method $http_host";
    access_log {folder}/h h;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {certificate}; ssl_certificate_key {key};
        location / {{ add_header X-Served-By nginx; return 200 "UP\\n"; }}
        location /busy {{ return 429; }}
    }}
}}
"""
STUNNELS = """foreground = yes
pid =
[tls]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{target}
cert = {certificate}
key = {key}
"""


def hang(_connection):
    time.sleep(60)


def endless_head(connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in itertools.count():
        connection.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))


def endless_body(connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def answer_plainly(connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def probe_of(agent):
    """The pid of its berth-probe; None: there is none."""
    pid = agent.process.pid
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            if pathlib.Path(f"/proc/{child}/comm").read_text() == "berth-probe\n":
                return int(child)
        except OSError:
            continue
    return None


class TlsTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder / "tls")

    def server(self, answer=None, **certificate):
        signed = self.authority.sign(f"server{len(list(self.folder.glob('tls/*')))}",
            **certificate)
        server = TlsServer(signed, *([answer] if answer else []))
        self.addCleanup(server.close)
        return server.port

    def program(self, *arguments, port):
        process = subprocess.Popen([str(one) for one in arguments], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def listens():
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", port)) == 0
        wait_until(listens, f"{arguments[0]} listens")
        return port

    def s_server(self, *options):
        certificate, key = self.authority.sign("openssl")
        port = reserve_port(self)
        return self.program("openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert",
            certificate, "-key", key, "-www", "-quiet", *options, port=port)

    def checks(self, targets, **keywords):
        """An agent with checks of these targets: name -> (port or URL, further keys)."""
        sections = {}
        for name, (target, keys) in targets.items():
            target = target if isinstance(target, str) else f"https://localhost:{target}/"
            sections[f"check {name}"] = {"type": "http", "target": target, "interval": "1h",
                "timeout": "30s", "tls_ca": self.authority.file, **keys}
        agent = self.web_agent(check="", extra=sections)
        self.assertEqual(agent.verdict().returncode, 0, agent.verdict().stderr)
        return agent.start(**keywords)

    def results(self, targets, **keywords):
        agent = self.checks(targets, **keywords)
        wait_until(lambda: all(agent.check_named(name).get("last") for name in targets), "all ran")
        return {name: agent.check_named(name)["last"] for name in targets}

    def assert_said(self, targets, said):
        results = self.results(targets)
        for name, (verdict, words) in said.items():
            self.assertEqual(results[name]["verdict"], verdict, (name, results[name]))
            self.assertIn(words, results[name]["detail"], name)


class Outcomes(TlsTest):
    def test_each_certificate_has_its_outcome_and_remedy(self):
        good = self.server()
        other = Authority(self.folder / "other", "other")
        name = self.server(names="DNS:www.example.org")
        self.assert_said({
            "good": (good, {}),
            "expired": (self.server(days="-1"), {}),
            "name": (name, {}),
            "named": (name, {"tls_server_name": "www.example.org"}),
            "address": (f"https://127.0.0.1:{good}/", {}),
            "unknown": (good, {"tls_ca": other.file}),
            "any": (good, {"tls_verify": "no", "tls_ca": ""}),
        }, {
            "good": ("passing", "status 200"),
            "expired": ("failing", "has expired: renew it"),
            "name": ("failing", "certificate is not for localhost: set tls_server_name"),
            "named": ("passing", "status 200"),
            "address": ("failing", "certificate is not for 127.0.0.1: set tls_server_name"),
            "unknown": ("failing", "authority of the server's certificate is not known here: "
                "set tls_ca"),
            "any": ("passing", "status 200"),
        })

    def test_each_server_has_its_outcome_and_remedy(self):
        plain, silent = TlsServer(None, answer_plainly), TlsServer(None, hang)
        self.addCleanup(plain.close)
        self.addCleanup(silent.close)
        wants = self.s_server("-Verify", "1", "-CAfile", self.authority.file)
        certificate, key = self.authority.sign("client")
        self.assert_said({
            "plain": (plain.port, {}),
            "silent": (silent.port, {"timeout": "3s"}),
            "mute": (self.server(hang), {"timeout": "3s"}),
            "wants": (wants, {}),
            "has": (wants, {"tls_cert": certificate, "tls_key": key}),
            "old": (self.s_server("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), {}),
            "absent": (reserve_port(self), {}),
        }, {
            "plain": ("failing", "the port does not speak TLS"),
            "silent": ("timed-out", "no end of the TLS handshake within 3s: does the port"),
            "mute": ("timed-out", "no answer within 3s"),
            "wants": ("failing", "wants a client's certificate: set tls_cert and tls_key"),
            "has": ("passing", "status 200"),
            "old": ("failing", "the server speaks no TLS newer than 1.1: enable TLS 1.2 there"),
            "absent": ("failing", "cannot connect: Connection refused"),
        })

    def test_nginx_is_asked_over_http_2_and_stunnel_for_all_that_http_checks_know(self):
        certificate, key = self.authority.sign("nginx")
        port, tunnel = reserve_port(self), reserve_port(self)
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, port=port, certificate=certificate,
            key=key))
        self.program("nginx", "-p", self.folder, "-c", config, port=port)
        behind = TlsServer(None)
        self.addCleanup(behind.close)
        stunnel = self.folder / "stunnel.conf"
        stunnel.write_text(STUNNELS.format(port=tunnel, target=behind.port,
            certificate=certificate, key=key))
        self.program(STUNNEL, stunnel, port=tunnel)
        base = f"https://localhost:{port}"
        self.assert_said({
            "good": (f"{base}/", {"match": "^UP$", "expect_header.x-served-by": "^nginx$"}),
            "header": (f"{base}/", {"expect_header.X-Served-By": "^apache$"}),
            "body": (f"{base}/", {"match": "^DOWN$"}),
            "busy": (f"{base}/busy", {"warning_status": "429"}),
            "posted": (f"{base}/", {"body": "x=1", "host": "www.example.org"}),
            "head": (f"{base}/", {"method": "HEAD"}),
            "tunnel": (tunnel, {"match": "^UP$"}),
        }, {
            "good": ("passing", "status 200"),
            "header": ("failing", "status 200, header X-Served-By is nginx, not ^apache$"),
            "body": ("failing", "status 200, body does not match: ^DOWN$"),
            "busy": ("warning", "status 429, which is a warning"),
            "posted": ("passing", "status 200"),
            "head": ("passing", "status 200"),
            "tunnel": ("passing", "status 200"),
        })
        log = (self.folder / "h").read_text().splitlines()
        self.assertTrue(all(line.startswith("HTTP/2.0 ") for line in log), log)
        self.assertIn("HTTP/2.0 POST www.example.org", "\n".join(log))
        self.assertIn(f"HTTP/2.0 HEAD localhost:{port}", "\n".join(log))

    def test_a_hostile_server_gets_no_memory_and_no_time(self):
        agent = self.checks({
            "head": (self.server(endless_head), {"match": "x"}),
            "body": (self.server(endless_body), {"match": "UP"}),
            "good": (self.server(), {"interval": "100ms", "fall": "1"}),
        })
        wait_until(lambda: all(agent.check_named(name).get("last") for name in ("head", "body")),
            "both have run")
        self.assertIn("header fields are longer than 64 KiB",
            agent.check_named("head")["last"]["detail"])
        self.assertIn("body does not match", agent.check_named("body")["last"]["detail"])
        wait_until(lambda: agent.check_named("good")["state"] == "up", "the good one is up")

    def test_no_proxy_of_the_environment_is_asked(self):
        nobody = "http://127.0.0.1:1"
        environment = {**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS), "https_proxy": nobody,
            "HTTPS_PROXY": nobody, "ALL_PROXY": nobody, "all_proxy": nobody}
        result = self.results({"good": (self.server(), {})}, env=environment)["good"]
        self.assertEqual(result["verdict"], "passing", result)


class Life(TlsTest):
    def busy_agent(self):
        agent = self.checks({f"c{number}": (self.server(), {"interval": "50ms", "fall": "1"})
            for number in range(4)})
        agent.wait_state("registered")
        return agent

    def assert_never_down(self, agent):
        for number in range(4):
            check = agent.check_named(f"c{number}")
            self.assertEqual((check["state"], check["counts"]["failing"],
                check["counts"]["timed-out"], check["counts"]["could-not-run"]),
                ("up", 0, 0, 0), check)

    def runs(self, agent):
        return sum(agent.check_named(f"c{number}")["counts"]["passing"] for number in range(4))

    def go_on(self, agent):
        before = self.runs(agent)
        wait_until(lambda: self.runs(agent) > before + 8, "the checks go on")

    def test_a_probe_that_is_killed_or_frozen_turns_no_check_down(self):
        agent = self.busy_agent()
        for signal in ("KILL", "KILL", "KILL", "KILL", "STOP"):
            pid = wait_until(lambda: probe_of(agent), "there is a probe")
            subprocess.run(["kill", f"-{signal}", str(pid)], check=True)
            wait_until(lambda pid=pid: probe_of(agent) not in (None, pid), "there is another one")
            self.go_on(agent)
        self.assert_never_down(agent)

    def test_an_upgrade_keeps_states_and_a_reload_takes_a_renewed_certificate(self):
        agent = self.busy_agent()
        since = agent.check_named("c0")["since"]
        agent.upgrade()
        agent.wait_state("registered")
        self.go_on(agent)
        self.assertEqual(agent.check_named("c0")["since"], since)
        self.assert_never_down(agent)
        # The same file with another authority, which has signed no server.
        other = Authority(self.folder / "other", "other")
        self.authority.file.write_text(other.file.read_text())
        self.assertTrue(agent.request("POST", "/v1/agent/reload").json["reloaded"])
        wait_until(lambda: agent.check_named("c0")["state"] == "down", "the new file is in force")

    def test_there_is_one_probe_and_none_without_such_a_check(self):
        agent = self.busy_agent()
        pid = probe_of(agent)
        self.assertIsNotNone(pid)
        self.assertEqual(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(), "")
        agent.write_config(agent.component("true"))
        self.assertTrue(agent.request("POST", "/v1/agent/reload").json["reloaded"])
        wait_until(lambda: probe_of(agent) is None, "it has ended")


    def test_it_lives_in_a_cage(self):
        agent = self.busy_agent()
        words = agent.read_log().split(", cage: ")[1].splitlines()[0]
        caged = "built without sandbox" not in words
        status = dict(line.split(":\t") for line in pathlib.Path(
            f"/proc/{probe_of(agent)}/status").read_text().splitlines() if ":\t" in line)
        self.assertEqual(words.startswith("seccomp, "), caged, words)
        if caged:
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"], int(status["CapPrm"], 16)),
                ("1", "2", 0))


class Configuration(TlsTest):
    def said(self, libexec=PROGRAMS, **options):
        agent = self.web_agent(check="", extra={"check alive": options})
        result = subprocess.run([agent.program, "-t", "-c", agent.config], capture_output=True,
            text=True, check=False, env={**os.environ, "BERTH_LIBEXECDIR": str(libexec)})
        return "" if result.returncode == 0 else result.stderr

    def test_each_mistake_is_named_with_its_remedy(self):
        certificate, key = self.authority.sign("client")
        der, locked = self.folder / "c.der", self.folder / "locked.key"
        self.authority.openssl("x509", "-in", certificate, "-outform", "DER", "-out", der)
        self.authority.openssl("pkey", "-in", key, "-aes128", "-passout", "pass:x", "-out", locked)
        https = {"type": "http", "target": "https://localhost/", "tls_ca": self.authority.file}
        for options, words in (
            (https, ""),
            ({"type": "grpc", "target": "localhost:1"}, ""),
            ({"type": "https", "target": "https://a/"}, "write `type = http`"),
            ({**https, "target": "https://unix:/s:/"}, "asked without TLS"),
            ({"type": "grpc", "target": "unix:/s"}, "write host:port"),
            ({**https, "target": "http://a/"}, "`tls_ca` needs an https:// target"),
            ({"type": "grpc", "target": "a:1", "tls_ca": self.authority.file},
                "`tls_ca` needs `tls = yes`"),
            ({**https, "tls_cert": certificate}, "`tls_cert` and `tls_key` need one another"),
            ({**https, "tls_cert": certificate, "tls_key": locked}, "has a passphrase"),
            ({**https, "tls_cert": key, "tls_key": key}, "has no \"-----BEGIN CERTIFICATE"),
            ({**https, "tls_ca": der}, "is not in PEM: convert it"),
            ({**https, "tls_ca": self.folder / "none"}, "No such file or directory"),
            ({**https, "tls_ca": self.folder}, "cannot read"),
            ({**https, "tls_server_name": "a:1"}, "without a port"),
            ({"type": "http", "target": "http://a/", "service": "x"}, "means nothing"),
        ):
            said = self.said(**options)
            self.assertEqual(bool(said), bool(words), (options, said))
            self.assertIn(words, said, options)

    def test_without_the_package_it_says_what_to_install(self):
        for options in ({"type": "grpc", "target": "localhost:1"},
                {"type": "http", "target": "https://localhost/", "tls_verify": "no"}):
            self.assertIn("which is not there: install the package berth-probe",
                self.said(libexec=self.folder, **options))


if __name__ == "__main__":
    unittest.main()
