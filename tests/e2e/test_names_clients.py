"""Names as real programs find them: resolvers of C libraries, the NSS module, DNS tools,
HAProxy."""

import os
import pathlib
import subprocess
import sys
import unittest

from berth import PATIENCE, wait_until
from names import NamesTest
from names_clients import PROD, ClientsTest, loads_the_module, need, sanitizer_of_build

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", ".")).resolve()


class Clients(ClientsTest):
    def compile(self, compiler, *options):
        program = self.folder / f"resolve-{pathlib.Path(compiler).name}"
        subprocess.run([compiler, *options, "-o", program, SOURCE / "tests/e2e/programs/resolve.c"],
            check=True)
        return program

    def test_glibc_through_dns_and_through_the_module(self):
        sanitizer = sanitizer_of_build()
        program = self.compile("cc", *([f"-fsanitize={sanitizer}"] if sanitizer else []))
        self.check_resolved(self.inside(f"{program} {self.NAMES}"), "dns")
        (self.folder / "etc/nsswitch.conf").write_text("hosts: files berth\n")
        self.check_resolved(self.inside(f"{program} {self.NAMES}"), "berth")

    @loads_the_module
    @need("getent")
    def test_the_module_answers_every_call_of_glibc(self):
        (self.folder / "etc/nsswitch.conf").write_text("hosts: files berth\n")
        output = self.inside(
            f"getent ahosts {PROD}; echo; getent hosts four.services.berth; getent hosts 10.0.0.1; "
            f"getent ahostsv6 {PROD}; "
            "getent hosts 10.9.9.9 || echo none; getent ahostsv6 four.services.berth || echo none; "
            "getent ahosts alias.services.berth"
        )
        self.assertIn("10.0.0.1", output)
        self.assertRegex(output,
            r"10\.0\.0\.4 +four\.services\.berth\n10\.0\.0\.1 +c1\.components\.prod\.web\.joe\.")
        self.assertIn("2001:db8::2", output)
        self.assertIn("none\n", output)
        self.assertRegex(output.rsplit("none", 1)[1], r"10\.0\.0\.1 +STREAM")

    @loads_the_module
    def test_without_an_agent_the_module_gives_way(self):
        (self.folder / "etc/nsswitch.conf").write_text("hosts: berth files\n")
        output = self.inside("getent hosts localhost", BERTH_SOCKET=str(self.folder / "nobody"))
        self.assertIn("localhost", output)

    @loads_the_module
    @need("getent")
    def test_the_agent_and_its_checks_do_not_wait_for_the_agent_but_the_main_process_may_ask(self):
        (self.folder / "etc/nsswitch.conf").write_text("hosts: files berth\n")
        ask = "getent hosts four.services.berth"
        self.server.sections = self.server.component(
            f"/bin/sh -c '{ask} >{self.folder}/of-check; true'")
        self.server.write_config({"dns": {"listen": "127.0.0.1:53"}, **self.server.sections})
        self.inside(
            f"until test -e {self.folder}/done -a -e {self.folder}/of-check; do sleep 0.02; done",
            f"-- sh -c 'until {ask} >{self.folder}/of-main; do sleep 0.1; done; touch "
            f"{self.folder}/done; exec sleep 1000'",
        )
        self.assertIn("10.0.0.4", (self.folder / "of-main").read_text())
        self.assertEqual((self.folder / "of-check").read_text(), "")

    @need("musl-gcc")
    def test_musl(self):
        self.check_resolved(self.inside(f"{self.compile('musl-gcc', '-static')} {self.NAMES}"))

    @need("dig", "kdig", "drill")
    def test_dns_tools(self):
        output = self.inside(
            f"dig +short {PROD} A; dig +short {PROD} AAAA; dig +tcp +short _http._tcp.{PROD} SRV | "
            "sort;"
            f"kdig +short {PROD} A; kdig +tcp +short four.services.berth A; drill -Q "
            "four.services.berth A"
        )
        component = "components.prod.web.joe.users.berth."
        self.assertEqual(
            output.split("\n")[:-1],
            ["10.0.0.1", "2001:db8::2", f"0 0 8080 c1.{component}", f"0 0 8081 c2.{component}",
                "10.0.0.1", "10.0.0.4", "10.0.0.4"],
        )


    @need("javac")
    def test_java(self):
        source = self.folder / "Resolve.java"
        source.write_text(JAVA)
        self.check_resolved(self.inside(f"java {source} {self.NAMES}"))


JAVA = """
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.stream.Collectors;

public class Resolve {
    public static void main(String[] names) {
        for (String name : names) {
            try {
                System.out.println(name + ": "
                    + Arrays.stream(InetAddress.getAllByName(name)).map(Resolve::text).sorted()
                    .collect(Collectors.joining(" ")));
            } catch (UnknownHostException error) {
                System.out.println(name + ": unknown");
            }
        }
    }

    private static String text(InetAddress address) {
        return address.getHostAddress().replaceFirst("(^|:)(0:)+", "::").replaceFirst("^:::", "::");
    }
}
"""


class HAProxy(NamesTest):
    """HAProxy's own resolver follows a service by its SRV records."""

    def setUp(self):
        super().setUp()
        self.stats = self.folder / "haproxy.sock"
        self.config = self.folder / "haproxy.cfg"
        self.config.write_text(
            f"""
global
    stats socket {self.stats} mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
resolvers berth
    nameserver agent 127.0.0.1:{self.port}
    accepted_payload_size 1232
    resolve_retries 3
    timeout resolve 100ms
    timeout retry 1s
    hold valid 100ms
    hold obsolete 100ms
backend web
    server-template web 5 _http._tcp.{PROD} resolvers berth init-addr none
"""
        )

    def servers(self):
        result = subprocess.run(
            [sys.executable, "-c", SHOW, self.stats], capture_output=True, text=True,
            timeout=PATIENCE, check=False
        )
        rows = [line.split() for line in result.stdout.splitlines() if " web " in f" {line} "]
        return sorted(f"{row[4]}:{row[18]}" for row in rows if row[4] not in ("-", "0.0.0.0")
            and row[18] != "0")

    @need("haproxy")
    def test_servers_come_and_go_with_the_registry(self):
        process = subprocess.Popen(["haproxy", "-db", "-f", self.config], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

        def end():
            process.terminate()
            process.wait()

        self.addCleanup(end)
        wait_until(lambda: self.servers() == ["10.0.0.1:8080", "10.0.0.2:8081"], "both are there")
        self.put(f"{self.WEB}/components/c3", self.record("10.0.0.3", 8082))
        wait_until(lambda: "10.0.0.3:8082" in self.servers(), "the third one came")
        self.remove(f"{self.WEB}/components/c1")
        wait_until(lambda: "10.0.0.1:8080" not in self.servers(), "the first one went")


SHOW = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b"show servers state web\\n")
while data := connection.recv(65536):
    sys.stdout.write(data.decode())
"""


if __name__ == "__main__":
    unittest.main()
