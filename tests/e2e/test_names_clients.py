"""Names as real programs find them: resolvers of C libraries, the NSS module, DNS tools,
HAProxy."""

import os
import pathlib
import subprocess
import unittest

from berth import wait_until
from names import NamesTest
from names_clients import PROD, ClientsTest, loads_the_module, need, sanitizer_of_build
from proxies import HAProxy, Server, missing, shares

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
            ["10.0.0.1", "2001:db8::2", f"0 1 8080 c1.{component}", f"0 1 8081 c2.{component}",
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


@unittest.skipIf(missing("haproxy"), missing("haproxy"))
class OfHAProxy(NamesTest):
    """HAProxy's own resolver follows a service by its SRV records, and sends it requests."""

    def test_servers_come_and_go_with_the_registry(self):
        servers = [Server(f"127.0.0.{number}") for number in (1, 2, 3)]
        for number, server in enumerate(servers, 1):
            self.addCleanup(server.stop)
            self.put_server(number, server)
        self.remove(f"{self.WEB}/components/c3")
        first, second, third = (server.port for server in servers)
        proxy = HAProxy(self.folder / "haproxy",
            f"    server-template web 5 _http._tcp.{PROD} resolvers berth init-addr none",
            names_port=self.port)
        self.addCleanup(proxy.end)
        proxy.start()
        wait_until(lambda: set(shares(proxy.port, 10)) == {first, second}, "both serve")
        self.put_server(3, servers[2])
        wait_until(lambda: third in shares(proxy.port, 10), "the third one serves")
        self.remove(f"{self.WEB}/components/c1")
        wait_until(lambda: set(shares(proxy.port, 10)) == {second, third}, "the first one went")

    def put_server(self, number, server):
        self.put(f"{self.WEB}/components/c{number}",
            self.record(f"127.0.0.{number}", server.port))


if __name__ == "__main__":
    unittest.main()
