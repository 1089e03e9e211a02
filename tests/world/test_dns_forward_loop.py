"""Two resolvers forward to each other, or one to itself: a single question became hundreds of
thousands, and took all of a processor for as long as they lived.

Source: coredns #2087, for which CoreDNS has its plugin "loop".
"""

import contextlib
import re
import select
import shlex
import socket
import subprocess
import threading
import unittest

import namespace
from berth import PROGRAMS, AgentTest, berth, wait_until
from names import ask, dns, free_port, texts
from names_upstream import Upstream
from rights import needs

STILL = 1.0  # seconds in which nothing may happen any more
NAME = "www.example.org"


def count(agent, metric):
    text = agent.get("/metrics").body.decode()
    return sum(float(value) for value in re.findall(rf"^{metric}\S* (\S+)$", text, re.M))


class Relay:
    """A forwarder of the old school between an agent and whom it should not ask: it gives each
    question an id of its own and looks for no loop. Names that an agent makes to find one do not
    pass, so that it has to come to rest without."""

    def __init__(self, passes_probes):
        self.port = free_port()
        self.passes_probes = passes_probes
        self.passed = 0
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.to = None
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        waiting = {}
        while True:
            for ready in select.select([self.udp, *waiting], [], [])[0]:
                try:
                    wire, address = ready.recvfrom(65535)
                except OSError:
                    return
                if ready in waiting:
                    number, client = waiting.pop(ready)
                    self.udp.sendto(number + wire[2:], client)
                    ready.close()
                elif b"berth-loop" in wire and not self.passes_probes:
                    query = dns.message.from_wire(wire)
                    self.udp.sendto(dns.message.make_response(query).to_wire(), address)
                else:
                    self.passed += 1
                    onward = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    onward.sendto(b"%02x" % (self.passed & 0xff) + wire[2:],
                        ("127.0.0.1", self.to))
                    waiting[onward] = (wire[:2], address)


class Loops(AgentTest):
    def resolver(self, name, port, *servers, **options):
        return self.agent(name, dns={"listen": f"127.0.0.1:{port}",
            "forward": ", ".join(f"127.0.0.1:{server}" for server in servers), **options})

    def servers(self, agent):
        return {item["server"]: item["state"] for item in agent.status()["dns"]["forward"]}

    def assert_at_rest(self, *agents):
        before = sum(count(agent, "berth_dns_queries_total") for agent in agents)
        select.select([], [], [], STILL)
        after = sum(count(agent, "berth_dns_queries_total") for agent in agents)
        self.assertLess(after - before, 5)

    def test_two_agents_that_forward_to_each_other(self):
        first, second = free_port(), free_port()
        agents = {first: self.resolver("first", first, second),
            second: self.resolver("second", second, first)}
        for agent in agents.values():
            agent.start()
        states = lambda: [self.servers(agent).popitem()[1] for agent in agents.values()]
        wait_until(lambda: "loop" in states(), "one of them has found the loop")
        for port in agents:
            self.assertIn(ask(port, NAME).rcode(), (dns.rcode.REFUSED, dns.rcode.SERVFAIL))
        self.assertLess(sum(count(agent, "berth_dns_queries_total") for agent in agents.values()),
            50)
        self.assert_at_rest(*agents.values())
        finder, other = next((agents[port], rest) for port in agents for rest in agents
            if port != rest and self.servers(agents[port]).popitem()[1] == "loop")
        self.assertEqual(count(finder, r'berth_dns_servers\{state="loop"\}'), 1)
        self.assertIn(f"dns server 127.0.0.1:{other}: asked -> loop: a question that was sent "
            "there came back", finder.read_log())
        self.assertIn(f"nothing is forwarded to 127.0.0.1:{other}: a question that was sent there",
            berth("--socket", finder.socket, "status").stdout)
        self.assertIn(f"dns server 127.0.0.1:{other}",
            [event["subject"] for event in finder.get("/v1/agent/history").json])

    def test_a_loop_that_was_mended_is_forgotten_by_a_reload(self):
        first, second = free_port(), free_port()
        upstream = Upstream()
        self.addCleanup(upstream.close)
        agent, other = self.resolver("first", first, second), self.resolver("second", second, first)
        other.start()
        agent.start()
        wait_until(lambda: "loop" in [*self.servers(agent).values(), *self.servers(other).values()],
            "the loop is found")
        self.resolver("second", second, upstream.port)
        for each in (other, agent):
            self.assertEqual(each.request("POST", "/v1/agent/reload").status, 200)
        wait_until(lambda: texts(ask(first, NAME)) == ["A 192.0.2.1"], "the first one forwards")
        self.assertEqual(set(self.servers(agent).values()), {"asked"})

    def test_a_relay_that_hides_what_agents_look_for_ends_by_equal_questions(self):
        relay = Relay(passes_probes=False)
        port = free_port()
        relay.to = port
        agent = self.resolver("agent", port, relay.port).start()
        self.assertEqual(ask(port, NAME).rcode(), dns.rcode.SERVFAIL)
        self.assertLess(relay.passed, 10)
        self.assert_at_rest(agent)

    def test_a_relay_that_turns_to_us_later_is_found_by_the_first_question(self):
        relay = Relay(passes_probes=True)
        upstream = Upstream()
        self.addCleanup(upstream.close)
        port = free_port()
        relay.to = upstream.port
        agent = self.resolver("agent", port, relay.port).start()
        wait_until(lambda: relay.passed, "the agent has looked for a loop")
        self.assertEqual(texts(ask(port, NAME)), ["A 192.0.2.1"])
        relay.to = port
        def is_found():
            with contextlib.suppress(dns.exception.Timeout):
                ask(port, NAME, patience=1)
            return self.servers(agent) == {f"127.0.0.1:{relay.port}": "loop"}

        wait_until(is_found, "the loop is found")
        self.assertIn(ask(port, NAME).rcode(), (dns.rcode.REFUSED, dns.rcode.SERVFAIL))

    def test_the_other_server_is_asked_and_ourselves_are_not(self):
        port = free_port()
        upstream = Upstream()
        self.addCleanup(upstream.close)
        for listen, own in (("0.0.0.0", "127.0.0.2"), ("127.0.0.1", "0.0.0.0"),
                ("0.0.0.0", "[::ffff:127.0.0.3]"), ("[::]", "[::1]")):
            with self.subTest(listen=listen, own=own):
                agent = self.agent("agent", dns={"listen": f"{listen}:{port}",
                    "forward": f"{own}:{port}, 127.0.0.1:{upstream.port}"}).start()
                # A reply comes from the address that was asked.
                host = {"[::]": "::1", "0.0.0.0": "127.0.0.4"}.get(listen, listen)
                self.assertEqual(texts(ask(port, NAME, host=host)), ["A 192.0.2.1"])
                self.assertEqual(self.servers(agent)[f"{own}:{port}"], "own")
                self.assertLess(count(agent, "berth_dns_queries_total"), 3)
                checked = self.check(agent)
                self.assertIn(f"{own}:{port} is what `listen` serves as {listen}:{port}", checked)
                self.assertNotIn(f"{upstream.port} is what", checked)
                agent.stop()

    def check(self, agent):
        return subprocess.run([PROGRAMS / "berthd", "-t", "-c", agent.config], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout

    @needs("network namespace")
    def test_resolv_conf_that_names_the_agent_by_an_address_of_this_machine(self):
        file = self.folder / "host" / "etc" / "resolv.conf"
        file.parent.mkdir(parents=True)
        file.write_text("nameserver 10.9.9.9\n")
        agent = self.agent("agent", dns={"listen": "0.0.0.0:53", "forward": "system"})
        wrapper = self.folder / "hosted"
        words = namespace.command(self.folder / "host", "sh", "-c",
            'ip addr add 10.9.9.8/24 dev lo && ip addr add 10.9.9.9/24 dev lo && exec "$@"', "sh",
            agent.program)
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        wrapper.chmod(0o755)
        agent.program = wrapper
        checked = subprocess.run([wrapper, "-t", "-c", agent.config], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertIn("/etc/resolv.conf here names no server but this agent", checked.stdout)
        agent.start()
        self.assertEqual(self.servers(agent), {"10.9.9.9:53": "own"})
        self.assertIn("names no server to forward to but ourselves", agent.read_log())


class Crowds(AgentTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        self.server = self.agent(dns={"listen": f"127.0.0.1:{self.port}",
            "forward": f"127.0.0.1:{self.upstream.port}"}).start()
        wait_until(lambda: self.upstream.probes, "the agent has looked for a loop")

    def send(self, name, number):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(client.close)
        client.settimeout(60)
        query = dns.message.make_query(name, "A")
        query.id = number
        client.sendto(query.to_wire(), ("127.0.0.1", self.port))
        return client

    def test_equal_questions_are_one_and_each_client_gets_its_own_answer(self):
        names = ["www.example.org", "WWW.Example.ORG", "www.EXAMPLE.org"]
        self.upstream.silent = True  # the first round; the second one is answered
        asked = [(name, number, self.send(name, number))
            for number in range(10) for name in names]
        wait_until(lambda: count(self.server, "berth_dns_queries_total") == len(asked),
            "all have asked")
        self.upstream.silent = False
        for name, number, client in asked:
            reply = dns.message.from_wire(client.recv(4096))
            self.assertEqual((reply.id, texts(reply)), (number, ["A 192.0.2.1"]))
            self.assertIn(name.encode(), b".".join(reply.question[0].name.labels))
        self.assertEqual(len(self.upstream.seen), 2)

    def test_more_questions_than_it_keeps_are_refused_and_it_goes_on(self):
        self.upstream.silent = True
        clients = []
        for number in range(600):
            clients.append(self.send(f"n{number}.example.org", number))
            if len(clients) % 100 == 0:  # a socket's buffer has no room for all of them
                wait_until(lambda: count(self.server, "berth_dns_queries_total") == len(clients),
                    "the agent has read them")
        rcodes = {dns.message.from_wire(client.recv(4096)).rcode() for client in clients}
        self.assertLessEqual(rcodes, {dns.rcode.SERVFAIL, dns.rcode.REFUSED})
        self.assertLessEqual(len(self.upstream.seen), 600 * 2)
        self.upstream.silent = False
        self.assertEqual(texts(ask(self.port, NAME)), ["A 192.0.2.1"])


if __name__ == "__main__":
    unittest.main()
