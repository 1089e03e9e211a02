"""Names through the resolvers that sites run before the agent: unbound and dnsmasq."""

import subprocess
import unittest

from berth import wait_until
from foreign_nodes import InDirectory
from names import NamesTest, ask, reserve_names_port, texts
from names_clients import need
from names_upstream import Upstream

import dns.exception
import dns.rcode


class ResolverTest(NamesTest):
    """A resolver that asks the agent for its domain, and another server for example.com."""

    def setUp(self):
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        super().setUp()
        self.resolver_port = reserve_names_port(self)
        record = self.record("db1.rds.example.com", 5432, protocol="sql", description="orders")
        for name in ("orders", "bills"):
            self.put(f"/services/{name}", record)

    def run_resolver(self, *command):
        path = self.folder / "resolver.log"
        log = path.open("wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def end():
            process.terminate()
            process.wait()

        self.addCleanup(end)
        try:
            wait_until(lambda: process.poll() is not None or self.serves(), "the resolver serves")
        except AssertionError as error:
            raise AssertionError(f"{error}; its log:\n{path.read_text(errors='replace')}") from None
        self.assertIsNone(process.poll(), path.read_text(errors="replace"))

    def serves(self):
        try:
            return self.through("c1.prod.web.joe.berth", patience=1).rcode() == dns.rcode.NOERROR
        except (dns.exception.DNSException, OSError):
            return False

    def through(self, name, kind="A", **keywords):
        return ask(self.resolver_port, name, kind, **keywords)

    def check_answers(self):
        component = "c1.components.prod.web.joe.users.berth."
        self.assertEqual(texts(self.through("c1.prod.web.joe.berth")), ["A 10.0.0.1"])
        self.assertEqual(texts(self.through("c1.prod.web.joe.berth", "AAAA")), [])
        self.assertIn(f"SRV 0 1 8080 {component}",
            texts(self.through("_http._tcp.prod.web.joe.berth", "SRV")))
        self.assertEqual(self.through("nowhere.services.berth").rcode(), dns.rcode.NXDOMAIN)
        # The same whichever type came first and so is in the resolver's cache.
        for name, kinds in [("orders", ("A", "TXT", "SRV")), ("bills", ("TXT", "SRV", "A"))]:
            for kind in kinds:
                found = texts(self.through(f"{name}.services.berth", kind))
                self.assertEqual(found[0], "CNAME db1.rds.example.com.", kind)
                self.assertNotIn("TXT", " ".join(found))
                if kind == "A":
                    self.assertEqual(found[1:], ["A 192.0.2.1"])
            self.assertEqual(texts(self.through(f"_sql._tcp.{name}.services.berth", "SRV")),
                ["SRV 0 1 5432 db1.rds.example.com."])


class UnboundTest(ResolverTest):
    def run_unbound(self, *server_lines, domains=("berth",)):
        config = self.folder / "unbound.conf"
        lines = "".join(f"    {line}\n" for line in server_lines)
        stubs = "".join(f"""
stub-zone:
    name: "{domain}"
    stub-addr: 127.0.0.1@{self.port}""" for domain in domains)
        config.write_text(f"""
server:
    interface: 127.0.0.1
    port: {self.resolver_port}
    do-daemonize: no
    use-syslog: no
    username: ""
    chroot: ""
    directory: "{self.folder}"
    pidfile: ""
    do-not-query-localhost: no
    domain-insecure: "berth"
{lines}{stubs}
forward-zone:
    name: "example.com"
    forward-addr: 127.0.0.1@{self.upstream.port}
remote-control:
    control-enable: no
""")
        self.run_resolver("unbound", "-d", "-c", config)


class Unbound(UnboundTest):
    @need("unbound")
    def test_unbound_with_the_recipe_of_the_manual(self):
        self.run_unbound()
        self.check_answers()


class UnboundOfZone(InDirectory, UnboundTest):
    """A domain that the agent answers from Registrar's nodes."""

    DOMAINS = "berth", "t1.example.net", "9.10.in-addr.arpa"

    def names_agent(self, *arguments, **sections):
        self.root = self.folder / "registry"
        self.write("/net/example/t1/web", {"type": "service",
            "service": {"srvce": "_http", "proto": "_tcp", "port": 80, "ttl": 1}})
        self.write("/net/example/t1/web/h1",
            {"type": "load_balancer", "load_balancer": {"address": "10.9.8.1"}})
        domain = {"zone t1.example.net": {"unknown": "nxdomain"}}
        return super().names_agent(*arguments, **domain, **sections)

    @need("unbound")
    def test_unbound_resolves_hosts_services_and_what_is_not_there(self):
        self.run_unbound('local-zone: "10.in-addr.arpa" nodefault',
            'domain-insecure: "t1.example.net"', 'domain-insecure: "10.in-addr.arpa"',
            domains=self.DOMAINS)
        for name, kind, expected in (("web", "A", "A 10.9.8.1"), ("h1.web", "A", "A 10.9.8.1"),
                ("_http._tcp.web", "SRV", "SRV 0 10 80 h1.web.t1.example.net.")):
            self.assertEqual(texts(self.through(f"{name}.t1.example.net", kind)), [expected])
        self.assertEqual(texts(self.through("1.8.9.10.in-addr.arpa", "PTR")),
            ["PTR h1.web.t1.example.net."])
        absent = self.through("nothing.t1.example.net")
        self.assertEqual(absent.rcode(), dns.rcode.NXDOMAIN)
        empty = self.through("web.t1.example.net", "AAAA")
        self.assertEqual((empty.rcode(), texts(empty)), (dns.rcode.NOERROR, []))


class Dnsmasq(ResolverTest):
    """It follows no alias by itself: the agent does, with `forward`."""

    def names_agent(self, *arguments, **sections):
        self.dns = {"forward": f"127.0.0.1:{self.upstream.port}"}
        return super().names_agent(*arguments, **sections)

    @need("dnsmasq")
    def test_dnsmasq_with_the_recipe_of_the_manual(self):
        config = self.folder / "dnsmasq.conf"
        config.write_text(f"""
port={self.resolver_port}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
no-daemon
pid-file=
server=/berth/127.0.0.1#{self.port}
server=/example.com/127.0.0.1#{self.upstream.port}
""")
        self.run_resolver("dnsmasq", f"--conf-file={config}")
        self.check_answers()


if __name__ == "__main__":
    unittest.main()
