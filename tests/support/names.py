"""DNS questions to an agent, as resolvers ask them; every reply is parsed and built again."""

import socket
import sys

try:
    import dns.exception
except ImportError:  # a Python that is not the system's
    sys.path.append("/usr/lib/python3/dist-packages")
    import dns.exception

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from berth import PATIENCE, AgentTest, service_record
from ports import claim_port


def free_port():
    """A number that is free over UDP and TCP, on IPv4 and IPv6, at the moment."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind(("127.0.0.1", 0))
            port = udp.getsockname()[1]
            try:
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def reserve_names_port(test):
    """The same, whose TCP port nobody else takes until the test ends: see ports.py."""
    while True:
        claim = claim_port()
        port = claim.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        test.addCleanup(claim.close)
        return port


def check_message(message):
    """What a library makes of the reply is the same when it is written and read again."""
    again = dns.message.from_wire(message.to_wire(max_size=65535))
    assert again == message, (again, message)
    assert again.flags == message.flags


def ask(port, name, kind="A", tcp=False, edns=1232, host="127.0.0.1", recursion=True,
        patience=PATIENCE):
    question = dns.message.make_query(name, kind, use_edns=0 if edns else -1, payload=edns or 0)
    if not recursion:
        question.flags &= ~dns.flags.RD
    exchange = dns.query.tcp if tcp else dns.query.udp
    reply = exchange(question, host, port=port, timeout=patience)
    check_message(reply)
    return reply


def extended_error(reply):
    """The number of the extended error, or None."""
    for option in reply.options:
        if option.otype == dns.edns.EDE:
            return int(option.code)
    return None


def texts(reply, section=None):
    """Every record of the answer, or of another section, as text without TTL."""
    found = []
    for rrset in reply.answer if section is None else section:
        for item in rrset:
            found.append(f"{dns.rdatatype.to_text(rrset.rdtype)} {item.to_text()}")
    return found


class NamesTest(AgentTest):
    """An agent that serves names from a registry with one instance of two components."""

    dns = {}
    WEB = "/users/joe/web/prod"
    record = staticmethod(service_record)

    def setUp(self):
        super().setUp()
        self.port = reserve_names_port(self)
        self.put(f"{self.WEB}/components/c1", self.record("10.0.0.1", 8080))
        self.put(f"{self.WEB}/components/c2", self.record("10.0.0.2", 8081))
        self.server = self.names_agent().start()

    def names_agent(self, name="agent", registry=None, **sections):
        listen = f"127.0.0.1:{self.port}"
        return self.agent(name, registry=registry, dns={"listen": listen, **self.dns}, **sections)

    def ask(self, name, kind="A", **keywords):
        return ask(self.port, name, kind, **keywords)

    def addresses(self, name, **keywords):
        reply = self.ask(name, **keywords)
        self.assertEqual(reply.rcode(), dns.rcode.NOERROR, reply)
        return sorted(item.split()[1] for item in texts(reply))
