"""Names over DNS: what resolvers see of the registry."""

import json
import socket
import struct
import threading
import unittest

from berth import PATIENCE, wait_until
from names import NamesTest, ask, extended_error, free_port, reserve_names_port, texts
from names_upstream import Upstream, read

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rrset

C1 = "c1.components.prod.web.joe.users.berth."
C2 = "c2.components.prod.web.joe.users.berth."


class Answers(NamesTest):
    def test_every_form_of_a_name_over_udp_and_tcp(self):
        for name in ("c1.components.prod.web.joe.users.berth", "c1.prod.web.joe.berth",
                "C1.Prod.WEB.joe.users.Berth."):
            for tcp in (False, True):
                reply = self.ask(name, tcp=tcp)
                self.assertEqual(texts(reply), ["A 10.0.0.1"], name)
                self.assertTrue(reply.flags & dns.flags.AA)
                self.assertEqual(reply.answer[0].ttl, 1)
                self.assertEqual(reply.question[0].name.to_text(omit_final_dot=True),
                    name.rstrip("."))
        self.assertEqual(self.addresses("prod.web.joe.berth"), ["10.0.0.1", "10.0.0.2"])

    def test_services_with_their_targets(self):
        reply = self.ask("_http._tcp.prod.web.joe.berth", "SRV")
        self.assertEqual(sorted(texts(reply)), [f"SRV 0 1 8080 {C1}", f"SRV 0 1 8081 {C2}"])
        self.assertEqual(sorted(texts(reply, reply.additional)), ["A 10.0.0.1", "A 10.0.0.2"])
        self.assertEqual(texts(self.ask(C1)), ["A 10.0.0.1"])
        self.put(f"{self.WEB}/components/c3", self.record("db.example.org", 1, protocol="SQL",
            weight=7, priority="3"))
        wait_until(
            lambda: texts(self.ask("_sql._tcp.prod.web.joe.berth", "SRV"))
            == ["SRV 3 7 1 db.example.org."], "the service is there"
        )

    def test_names_without_the_type_and_names_that_are_not_there(self):
        for name, kind in [
            ("c1.prod.web.joe.berth", "AAAA"),
            ("web.joe.berth", "A"),
            ("joe.berth", "AAAA"),
            ("users.berth", "A"),
            ("_tcp.prod.web.joe.berth", "SRV"),
            ("berth", "A"),
        ]:
            reply = self.ask(name, kind)
            self.assertEqual((reply.rcode(), reply.answer), (dns.rcode.NOERROR, []), name)
            self.assertEqual(len(reply.authority), 1, name)
        for name in ("c9.prod.web.joe.berth", "nowhere.berth", "_no._tcp.prod.web.joe.berth",
                "c_1.prod.web.joe.berth"):
            reply = self.ask(name)
            self.assertEqual(reply.rcode(), dns.rcode.NXDOMAIN, name)
            self.assertEqual(len(reply.authority), 1, name)

    def test_names_outside_are_refused(self):
        for name in ("example.org", "9.9.9.9.in-addr.arpa", "."):
            reply = self.ask(name)
            self.assertEqual(reply.rcode(), dns.rcode.REFUSED, name)
            self.assertEqual(extended_error(reply), 20)
            self.assertFalse(reply.flags & (dns.flags.RA | dns.flags.AA))

    def test_transfers_and_other_operations_are_refused(self):
        for name in ("berth", "c1.prod.web.joe.berth", "example.org"):
            for kind in ("AXFR", "IXFR"):
                for tcp in (False, True):
                    reply = self.exchange(dns.message.make_query(name, kind), tcp)
                    self.assertEqual(reply.rcode(), dns.rcode.REFUSED, (name, kind, tcp))
        # With the version that the client has.
        query = dns.message.make_query("berth", "IXFR")
        query.authority.append(dns.rrset.from_text("berth.", 0, "IN", "SOA",
            "localhost. nobody.localhost. 1 2 3 4 5"))
        self.assertEqual(self.exchange(query, tcp=True).rcode(), dns.rcode.REFUSED)
        for operation in (dns.opcode.NOTIFY, dns.opcode.STATUS, dns.opcode.UPDATE):
            query = dns.message.make_query("berth", "SOA")
            query.set_opcode(operation)
            for tcp in (False, True):
                wire = self.exchange(query, tcp, raw=True)
                flags = int.from_bytes(wire[2:4], "big")
                self.assertEqual((dns.opcode.from_flags(flags), flags & 15),
                    (operation, dns.rcode.NOTIMP))

    def exchange(self, query, tcp, raw=False):
        """The reply to one message, whatever it is."""
        wire = query.to_wire()
        if tcp:
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
                connection.sendall(struct.pack(">H", len(wire)) + wire)
                (length,) = struct.unpack(">H", read(connection, 2))
                reply = read(connection, length)
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.settimeout(PATIENCE)
                client.connect(("127.0.0.1", self.port))
                client.send(wire)
                reply = client.recv(65535)
        return reply if raw else dns.message.from_wire(reply)

    def test_text_reverse_and_the_domain_itself(self):
        self.put("/services/db", self.record("10.0.0.9", 5432, description='a "db"',
            **{"yarn:id": "app_1", "number": 7}))
        reply = self.ask("db.services.berth", "TXT")
        self.assertEqual(
            sorted(texts(reply)), ['TXT "description=a \\"db\\""', 'TXT "yarn:id=app_1"',
                'TXT "yarn:persistence=permanent"']
        )
        self.ask(C1)
        self.assertEqual(texts(self.ask("1.0.0.10.in-addr.arpa", "PTR")), [f"PTR {C1}"])
        # A record that is not a component's may point anywhere.
        self.assertEqual(self.ask("9.0.0.10.in-addr.arpa", "PTR").rcode(), dns.rcode.REFUSED)
        self.assertEqual(texts(self.ask("berth", "NS")), ["NS localhost."])
        self.assertTrue(texts(self.ask("berth",
            "SOA"))[0].startswith("SOA localhost. nobody.localhost. "))
        self.assertEqual(texts(self.ask("berth", "ANY")), ['HINFO "RFC8482" ""'])

    def test_an_alias_where_the_address_is_a_name(self):
        self.put("/services/mail", self.record("mx.example.org", 25))
        for kind in ("A", "AAAA", "CNAME", "TXT", "SRV", "MX", "ANY"):
            self.assertEqual(texts(self.ask("mail.services.berth", kind)),
                ["CNAME mx.example.org."], kind)

    def test_a_record_with_a_path_of_its_own_is_not_where_its_agent_is(self):
        endpoint = {"api": "sql", "protocol": "sql", "address_type": "host/port"}
        for name, address, expected in [
            ("rds", "db1.rds.example.com:5432", ["CNAME db1.rds.example.com."]),
            ("other", "10.9.8.7:5432", ["A 10.9.8.7"]),
        ]:
            self.agent(name, component={"path": f"/services/{name}"},
                **{"endpoint sql": {**endpoint, "address": address}}).start()
            wait_until(lambda name=name: texts(self.ask(f"{name}.services.berth")),
                "the name is there")
            self.assertEqual(texts(self.ask(f"{name}.services.berth")), expected)

    def test_a_host_name_in_a_component_is_its_containers_address(self):
        sections = self.server.component(name="c9", user="ann")
        sections["endpoint restc9"]["address"] = "http://${berth.hostname}:8080/"
        self.agent("container", **sections).start()
        name = "c9.test.org-example-web.ann.berth"
        wait_until(lambda: texts(self.ask(name)), "the name is there")
        record = self.server.get("/v1/resolve/users/ann/org-example-web/test/components/c9").json
        self.assertIn("//" + record["yarn:hostname"], json.dumps(record["external"]))
        self.assertEqual(texts(self.ask(name)), [f"A {record['yarn:ip']}"])

    def test_answers_take_turns(self):
        first = {texts(self.ask("prod.web.joe.berth"))[0] for _ in range(10)}
        self.assertEqual(first, {"A 10.0.0.1", "A 10.0.0.2"})

    def test_hadoops_own_records_answer_to_hadoops_names(self):
        path = (
            "/users/eve/services/yarn-service/app/components/ctr-e50-1451931954322-0016-01-000002")
        self.put(
            path,
            {
                "type": "JSONServiceRecord", "description": "httpd-1", "external": [],
                "internal": [],
                "yarn:id": "container_e50_1451931954322_0016_01_000002",
                "yarn:persistence": "container",
                "yarn:ip": "172.17.0.19", "yarn:hostname": "host1", "yarn:component": "httpd",
            },
        )  # fmt: skip
        for name in ("httpd-1.app.eve.berth", "httpd.app.eve.berth", "app.yarn-service.eve.berth",
                     "ctr-e50-1451931954322-0016-01-000002.berth"):  # fmt: skip
            self.assertEqual(self.addresses(name), ["172.17.0.19"], name)
        self.assertEqual(
            texts(self.ask("19.0.17.172.in-addr.arpa", "PTR")),
            [
                "PTR "
                "ctr-e50-1451931954322-0016-01-000002.components.app.yarn-service"
                ".services.eve.users.berth."
            ],
        )

    def test_a_change_is_seen_at_the_next_question(self):
        self.assertEqual(self.addresses("prod.web.joe.berth"), ["10.0.0.1", "10.0.0.2"])
        self.remove(f"{self.WEB}/components/c1")
        wait_until(lambda: self.addresses("prod.web.joe.berth") == ["10.0.0.2"],
            "the component is gone")
        self.assertEqual(self.ask("c1.prod.web.joe.berth").rcode(), dns.rcode.NXDOMAIN)
        self.put(f"{self.WEB}/components/c1", self.record("10.0.0.7", 8080))
        wait_until(lambda: self.addresses("prod.web.joe.berth") == ["10.0.0.2", "10.0.0.7"],
            "it is back")


class Health(NamesTest):
    def test_a_failing_check_takes_the_name_away_and_a_passing_one_brings_it_back(self):
        port, good = reserve_names_port(self), self.folder / "good"
        good.touch()
        endpoint = {"api": "http://example.org/rest", "protocol": "http",
            "address_type": "host/port", "address": "10.0.0.5:80"}
        agent = self.agent(
            "checked",
            dns={"listen": f"127.0.0.1:{port}"},
            component={"path": "/services/checked"},
            **{"endpoint rest": endpoint},
            **{"check file": {"type": "command", "command": f"test -e {good}", "interval": "50ms",
                "fall": "1"}},
        ).start()
        for _ in range(3):
            wait_until(lambda: "A 10.0.0.5" in texts(ask(port, "checked.services.berth")),
                "the name is there")
            good.unlink()
            wait_until(lambda: ask(port, "checked.services.berth").rcode() == dns.rcode.NXDOMAIN,
                "the name is gone")
            good.touch()
        self.assertEqual(agent.stop(), 0)


class Large(NamesTest):
    COUNT = 500

    def setUp(self):
        super().setUp()
        for folder in range(self.COUNT):
            path = self.folder / "registry" / self.WEB[1:] / "components" / f"i{folder}"
            path.mkdir()
            (path / "_record").write_text(
                json.dumps(self.record(f"10.1.{folder >> 8}.{folder & 255}", 9000)))

    def test_five_hundred_instances_behind_one_service(self):
        service = "_http._tcp.prod.web.joe.berth"
        wait_until(lambda: len(texts(self.ask(service, "SRV", tcp=True))) == self.COUNT + 2,
            "all are there")
        for size in (0, 512, 1232, 4096):
            reply = self.ask(service, "SRV", edns=size)
            self.assertTrue(reply.flags & dns.flags.TC)
            self.assertGreater(len(texts(reply)), 5)
            self.assertLessEqual(len(reply.to_wire()), max(512, min(size, 1232)))
        whole = self.ask(service, "SRV", tcp=True)
        self.assertFalse(whole.flags & dns.flags.TC)
        self.assertEqual(len(set(texts(whole))), self.COUNT + 2)
        self.assertEqual(len(self.addresses("prod.web.joe.berth", tcp=True)), self.COUNT + 2)


class Followed(NamesTest):
    """Trees that are followed as a whole keep nothing of their absent paths."""

    def names_agent(self, name="agent", registry=None, **sections):
        return super().names_agent(name, registry, cache={"warm": "/users/**, /services/**"},
            **sections)

    def test_names_that_are_not_there(self):
        self.put("/services/db", self.record("10.0.0.9", 5432))
        wait_until(lambda: self.ask("db.services.berth").answer, "the trees are followed")
        for name in ("c9.prod.web.joe.berth", "c1.prod.web.jo.berth", "x.services.berth",
                "a.b.services.berth", "ctr-e50-1451931954322-0016-01-000002.joe.berth",
                "c1.prod.web.joe.users.nowhere.berth"):
            reply = self.ask(name)
            self.assertEqual(reply.rcode(), dns.rcode.NXDOMAIN, name)
        self.assertEqual(self.addresses("c1.prod.web.joe.berth"), ["10.0.0.1"])


class Transport(NamesTest):
    def exchange(self, connection, *wires):
        for wire in wires:
            connection.sendall(struct.pack(">H", len(wire)) + wire)
        replies = []
        while len(replies) < len(wires):
            (length,) = struct.unpack(">H", read(connection, 2))
            replies.append(dns.message.from_wire(read(connection, length)))
        return replies

    def test_queries_in_one_connection_are_all_answered(self):
        names = ["c1.prod.web.joe.berth", "c2.prod.web.joe.berth", "nowhere.berth",
            "example.org"] * 50
        wires = [dns.message.make_query(name, "A", id=number).to_wire()
            for number, name in enumerate(names)]
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            replies = self.exchange(connection, *wires)
        self.assertEqual(sorted(reply.id for reply in replies), list(range(len(names))))
        for reply in replies:
            expected = [["A 10.0.0.1"], ["A 10.0.0.2"], [], []][reply.id % 4]
            self.assertEqual(texts(reply), expected)

    def test_a_query_that_comes_byte_by_byte(self):
        wire = dns.message.make_query("c1.prod.web.joe.berth", "A").to_wire()
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in struct.pack(">H", len(wire)) + wire:
                connection.sendall(bytes([byte]))
            (length,) = struct.unpack(">H", read(connection, 2))
            self.assertEqual(texts(dns.message.from_wire(read(connection, length))),
                ["A 10.0.0.1"])

    def test_the_newest_connections_are_served_whoever_holds_the_others(self):
        idle = [socket.create_connection(("127.0.0.1", self.port), PATIENCE) for _ in range(200)]
        try:
            self.assertEqual(texts(self.ask("c1.prod.web.joe.berth", tcp=True)), ["A 10.0.0.1"])
        finally:
            for connection in idle:
                connection.close()

    def test_garbage_is_dropped_or_refused_and_nothing_else(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", self.port))
            good = dns.message.make_query("c1.prod.web.joe.berth", "A", id=7).to_wire()
            for cut in range(len(good)):
                client.send(good[:cut])
            client.send(b"\xff" * 600)
            client.send(dns.message.make_response(dns.message.from_wire(good)).to_wire())
            client.send(good)
            codes = []
            while True:
                reply = dns.message.from_wire(client.recv(65535))
                codes.append(dns.rcode.to_text(reply.rcode()))
                if reply.answer:
                    break
            self.assertEqual(set(codes), {"FORMERR", "NOERROR"})
        self.assertIn("berth_dns_dropped_total", self.server.get("/metrics").body.decode())

    def test_ipv6_and_several_addresses(self):
        other = free_port()
        self.server.stop()
        agent = self.agent("two", dns={"listen": f"127.0.0.1:{self.port}, [::1]:{other}"}).start()
        self.assertEqual(texts(ask(self.port, "c1.prod.web.joe.berth")), ["A 10.0.0.1"])
        self.assertEqual(texts(ask(other, "c1.prod.web.joe.berth", host="::1")), ["A 10.0.0.1"])
        self.assertEqual(texts(ask(other, "c1.prod.web.joe.berth", host="::1", tcp=True)),
            ["A 10.0.0.1"])
        agent.stop()

    def test_an_address_in_use_is_named(self):
        agent = self.agent("second", dns={"listen": f"127.0.0.1:{self.port}"}).start(wait=False)
        self.assertEqual(agent.wait(), 1)
        self.assertIn(f"cannot serve DNS on 127.0.0.1:{self.port} over UDP: Address already in use",
            agent.read_log())


class Forwarding(NamesTest):
    """Names outside the domain go to another server, here a few lines of Python."""

    def setUp(self):
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        self.dns = {"forward": f"127.0.0.1:{free_port()}, 127.0.0.1:{self.upstream.port}"}
        super().setUp()

    def test_over_udp_and_tcp_with_ids_and_ports_that_change(self):
        for tcp in (False, True):
            for _ in range(20):
                reply = self.ask("www.example.org", tcp=tcp)
                self.assertEqual(texts(reply), ["A 192.0.2.1"])
                self.assertTrue(reply.flags & dns.flags.RA)
        seen = [(port, number) for kind, port, number in self.upstream.seen if kind == "udp"]
        self.assertGreater(len({port for port, _ in seen}), 5)
        self.assertGreater(len({number for _, number in seen}), 10)
        self.assertEqual({kind for kind, _, _ in self.upstream.seen}, {"udp", "tcp"})
        self.assertEqual(texts(self.ask("c1.prod.web.joe.berth")), ["A 10.0.0.1"])

    def test_an_alias_is_followed_to_its_addresses(self):
        self.put("/services/mail", self.record("mx.example.org", 25))
        for tcp in (False, True):
            reply = self.ask("mail.services.berth", tcp=tcp)
            self.assertEqual(texts(reply), ["CNAME mx.example.org.", "A 192.0.2.1"])
            self.assertEqual([rrset.ttl for rrset in reply.answer], [1, 60])
            self.assertEqual([rrset.name.to_text() for rrset in reply.answer],
                ["mail.services.berth.", "mx.example.org."])
        self.assertEqual(texts(self.ask("mail.services.berth", "CNAME")), ["CNAME mx.example.org."])
        self.assertEqual(texts(self.ask("mail.services.berth", recursion=False)),
            ["CNAME mx.example.org."])
        self.upstream.silent = True
        self.assertEqual(self.ask("mail.services.berth").rcode(), dns.rcode.SERVFAIL)

    def test_an_alias_of_the_domain_itself_stays_here(self):
        self.put("/services/web", self.record("c1.prod.web.joe.berth", 80))
        self.assertEqual(texts(self.ask("web.services.berth")), ["CNAME c1.prod.web.joe.berth."])
        self.assertEqual(self.upstream.seen, [])

    def test_a_server_that_does_not_answer_is_servfail(self):
        self.upstream.silent = True
        reply = self.ask("www.example.org")
        self.assertEqual(reply.rcode(), dns.rcode.SERVFAIL)
        self.assertEqual(extended_error(reply), 23)


class Life(NamesTest):
    def test_an_upgrade_loses_no_question(self):
        self.assertEqual(self.addresses("c1.prod.web.joe.berth"), ["10.0.0.1"])
        done = threading.Event()
        failures = []

        def resolve():
            while not done.is_set():
                try:
                    if texts(self.ask("c1.prod.web.joe.berth", patience=20)) != ["A 10.0.0.1"]:
                        failures.append("wrong")
                except Exception as error:  # whatever it is, the question was lost
                    failures.append(repr(error))

        resolver = threading.Thread(target=resolve)
        resolver.start()
        try:
            for _ in range(3):
                self.server.upgrade()
        finally:
            done.set()
            resolver.join()
        self.assertEqual(failures, [])

    def test_a_reload_changes_ttl_and_forward_and_refuses_the_address(self):
        config = self.server.config
        config.write_text(config.read_text().replace("[dns]", "[dns]\nttl = 7s"))
        self.assertEqual(self.server.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.ask("c1.prod.web.joe.berth").answer[0].ttl, 7)
        config.write_text(config.read_text().replace("[dns]", "[dns]\ndomain = other"))
        answer = self.server.request("POST", "/v1/agent/reload")
        self.assertNotEqual(answer.status, 200)
        self.assertIn("domain", answer.body.decode())


if __name__ == "__main__":
    unittest.main()
