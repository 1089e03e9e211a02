"""Domains whose names an agent answers from Registrar's nodes, as Binder does."""

import unittest

from berth import PATIENCE, AgentTest, wait_until
from binder_answers import ANSWERS, DOMAIN, NODES
from foreign_nodes import InDirectory, OnZooKeeper
from names import extended_error, reserve_names_port

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype


def full(name):
    """@ is the domain; a name with a dot at its end is whole."""
    if name == "@":
        return f"{DOMAIN}."
    return name if name.endswith(".") else f"{name}.{DOMAIN}."


def questions():
    """(name, type, code, {(section, owner, ttl, type, data)}) of each of Binder's answers."""
    found = []
    for line in ANSWERS.splitlines():
        if not line.startswith(" "):
            name, kind, code = line.split()
            records = set()
            found.append((full(name), kind, code, records))
            continue
        section, owner, ttl, of_type, data = line.split(maxsplit=4)
        words = data.split()
        if of_type in ("SRV", "PTR"):
            words[-1] = full(words[-1])
        if of_type == "SOA":
            words[:2] = full(words[0]), full(words[1])
        records.add((section, full(owner), int(ttl), of_type, " ".join(words)))
    return found


def records_of(reply):
    found = set()
    for section in "answer", "authority", "additional":
        for rrset in getattr(reply, section):
            for item in rrset:
                kind = dns.rdatatype.to_text(rrset.rdtype)
                found.add((section, rrset.name.to_text().lower(), rrset.ttl, kind,
                    item.to_text()))
    return found


def code_of(reply):
    return dns.rcode.to_text(reply.rcode())


SOA = f"{DOMAIN}. hostmaster.{DOMAIN}. 0 86400 7200 1209600 30"
NO_DATA = {("authority", f"{DOMAIN}.", 30, "SOA", SOA)}
# Names that are not there, whatever the type is that Binder has not implemented.
NOT_THERE = {full("nothing"), full("nothing.web")}


class Zone:
    zone = {"type": "registrar"}

    def setUp(self):
        super().setUp()
        self.prepare()
        self.port = reserve_names_port(self)

    def start(self, **sections):
        listen = {"listen": f"127.0.0.1:{self.port}"}
        zone = {f"zone {DOMAIN}": self.zone}
        return self.agent(**{"dns": listen, **zone, **sections}).start()

    def write_all(self):
        for path, content in NODES.items():
            self.write(path, content)

    def ask(self, name, kind="A", tcp=False):
        """As ask() of names.py, with each record's own time to live."""
        question = dns.message.make_query(name, kind, use_edns=0, payload=1232)
        exchange = dns.query.tcp if tcp else dns.query.udp
        return exchange(question, "127.0.0.1", port=self.port, timeout=PATIENCE,
            one_rr_per_rrset=True)

    def addresses(self, name):
        return sorted(item[4] for item in records_of(self.ask(full(name))))

    def wait_addresses(self, name, expected):
        wait_until(lambda: self.addresses(name) == expected, f"{name} has {expected}")

    def reload(self, agent, **sections):
        agent.write_config(sections)
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)

    def check_answers(self):
        asked = questions()
        self.assertEqual(len(asked), 68)
        for name, kind, code, records in asked:
            with self.subTest(name=name, kind=kind):
                reply = self.ask(name, kind)
                if code == "NOTIMP" and name in NOT_THERE:
                    code = "REFUSED"
                elif code == "NOTIMP":
                    code, records = "NOERROR", NO_DATA
                self.assertEqual((code_of(reply), records_of(reply)), (code, records))
                over_tcp = self.ask(name, kind, tcp=True)
                self.assertEqual(records_of(over_tcp), records)


class ZoneInDirectory(InDirectory, Zone, AgentTest):
    def test_every_answer_is_binders(self):
        self.write_all()
        self.start()
        self.check_answers()

    def test_a_question_right_after_the_start_waits_for_the_nodes(self):
        self.write_all()
        self.start()
        self.assertEqual(self.addresses("h1.web"), ["10.9.8.1"])

    def test_instances_come_and_go(self):
        host = {"type": "load_balancer", "load_balancer": {"address": "10.9.8.7"}}
        self.write_all()
        self.start()
        self.wait_addresses("flat", ["10.9.7.1"])
        self.write("/org/example/t1/flat/R2", host)
        self.wait_addresses("flat", ["10.9.7.1", "10.9.8.7"])
        self.assertEqual(self.addresses("r2.flat"), ["10.9.8.7"])
        first = {self.ask(full("flat")).answer[0][0].to_text() for _ in range(10)}
        self.assertEqual(first, {"10.9.7.1", "10.9.8.7"}, "answers take turns")
        host["load_balancer"]["address"] = "10.9.8.8"
        self.write("/org/example/t1/flat/R2", host)
        self.wait_addresses("flat", ["10.9.7.1", "10.9.8.8"])
        self.erase("/org/example/t1/flat/R2")
        self.wait_addresses("flat", ["10.9.7.1"])
        self.assertEqual(code_of(self.ask(full("r2.flat"))), "REFUSED")
        self.assertEqual(code_of(self.ask("8.8.9.10.in-addr.arpa", "PTR")), "REFUSED")

    def test_values_of_which_binder_dies(self):
        base = "/org/example/t1/odd"
        service = {"srvce": "_http", "proto": "_tcp", "port": 80, "ttl": -5}
        self.write("/org/example/t1")
        self.write(base, {"type": "service", "service": service})
        for name, host in {"null": {"address": None}, "empty": {"address": ""}, "none": {},
                "six": {"address": "2001:db8::1"}, "name": {"address": "h.example.org"},
                "ports": {"address": "10.0.0.1", "ports": ["1", None, 65536, 8080]},
                "ttl": {"address": "10.0.0.2", "ttl": "5"}}.items():
            self.write(f"{base}/{name}", {"type": "moray_host", "moray_host": host})
        self.write(f"{base}/garbage", "{")
        self.write(f"{base}/list", [])
        self.start()
        self.assertEqual(self.addresses("odd"), ["10.0.0.1", "10.0.0.2"])
        reply = self.ask(full("_http._tcp.odd"), "SRV")
        self.assertEqual({item[2:] for item in records_of(reply) if item[0] == "answer"},
            {(30, "SRV", f"0 10 8080 {full('ports.odd')}"),
                (30, "SRV", f"0 10 80 {full('ttl.odd')}")})
        for name in "null", "empty", "none", "six", "name":
            reply = self.ask(full(f"{name}.odd"))
            self.assertEqual((code_of(reply), records_of(reply)), ("NOERROR", NO_DATA), name)
        for name in "garbage", "list":
            self.assertEqual(code_of(self.ask(full(f"{name}.odd"))), "SERVFAIL", name)

    def test_an_upgrade_and_a_reload_lose_no_answer(self):
        self.write_all()
        agent = self.start()
        self.wait_addresses("flat", ["10.9.7.1"])
        agent.upgrade()
        self.assertEqual(self.addresses("flat"), ["10.9.7.1"])
        listen = {"dns": {"listen": f"127.0.0.1:{self.port}"}}
        self.reload(agent, **listen, **{f"zone {DOMAIN}": {"unknown": "nxdomain"}})
        self.assertEqual(self.addresses("flat"), ["10.9.7.1"])
        reply = self.ask(full("nothing"))
        self.assertEqual((code_of(reply), records_of(reply)), ("NXDOMAIN", NO_DATA))
        for name in "_tcp.web", "_http._tcp.web":  # whose denial would deny the SRV records
            reply = self.ask(full(name))
            self.assertEqual((code_of(reply), records_of(reply)), ("NOERROR", NO_DATA), name)
        self.reload(agent, **listen)
        self.assertEqual(code_of(self.ask(full("flat"))), "REFUSED")


class ZoneOnZooKeeper(OnZooKeeper, Zone, AgentTest):
    def test_every_answer_is_binders_and_while_the_registry_is_away_stale_and_short(self):
        self.write_all()
        agent = self.start(dns={"listen": f"127.0.0.1:{self.port}", "stale_ttl": "5s"})
        self.check_answers()
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected", "it is away")
        reply = self.ask(full("h2.web"))
        self.assertEqual((extended_error(reply), {item[2] for item in records_of(reply)}),
            (3, {5}))
        self.server.restart()
        wait_until(lambda: extended_error(self.ask(full("h2.web"))) is None, "it is back")
        self.assertEqual(records_of(self.ask(full("h2.web"))),
            {("answer", full("h2.web"), 30, "A", "10.9.8.2")})


if __name__ == "__main__":
    unittest.main()
