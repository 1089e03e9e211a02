"""Names through the resolvers that sites run before the agent: unbound and dnsmasq."""

import subprocess
import unittest

from berth import wait_until
from names import NamesTest, ask, free_port, texts
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
        self.resolver_port = free_port()
        record = self.record("db1.rds.example.com", 5432, protocol="sql", description="orders")
        for name in ("orders", "bills"):
            self.put(f"/services/{name}", record)

    def run_resolver(self, *command):
        log = (self.folder / "resolver.log").open("wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def end():
            process.terminate()
            process.wait()

        self.addCleanup(end)
        wait_until(self.serves, "the resolver serves")

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
        self.assertIn(f"SRV 0 0 8080 {component}",
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
                ["SRV 0 0 5432 db1.rds.example.com."])


class Unbound(ResolverTest):
    @need("unbound")
    def test_unbound_with_the_recipe_of_the_manual(self):
        config = self.folder / "unbound.conf"
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
stub-zone:
    name: "berth"
    stub-addr: 127.0.0.1@{self.port}
forward-zone:
    name: "example.com"
    forward-addr: 127.0.0.1@{self.upstream.port}
remote-control:
    control-enable: no
""")
        self.run_resolver("unbound", "-d", "-c", config)
        self.check_answers()


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
