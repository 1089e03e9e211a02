"""A service was announced at an address that nobody can reach: that of the link alone (a task of
ECS), of docker0, or a passing IPv6 one. When DHCP gave another address, or a network was attached
later, the old one stayed announced until somebody thought of a reload; without any address at the
start the agent ended.

Source: tracker #45, item B.9; registrator and nomad have the same questions in their trackers
"""

import json
import re
import unittest

import without_netlink
from berth import AgentTest, berth, wait_until
from own_network import OwnNetwork
from rights import needs
from zookeeper import share_zookeeper

HOST_PORT = {"api": "http://example.org/web", "protocol": "http", "address_type": "host/port"}
RECORD = "/users/joe/org-example-web/test/components/web-1"


class OwnAddress(AgentTest):
    @needs("network namespace")
    def setUp(self):
        super().setUp()
        self.network = OwnNetwork(self, self.folder)

    def web(self, address="${berth.ip}:8080", check="true", registry=None, **sections):
        agent = self.agent(registry=registry)
        parts = {**agent.component(check), **sections}
        parts["endpoint restweb-1"] = parts.pop("endpoint rest") | HOST_PORT | {"address": address}
        agent.write_config(parts)
        return self.network.enter(agent)

    def chosen(self, what):
        """The value of a reference, as -T prints it."""
        place = f"[{what}]" if what == "${berth.ip6}" else what
        printed = self.network.check(self.web(f"{place}:8080"), "-T").stdout
        found = re.search(r"^address = \[?(\S+?)\]?:8080$", printed, re.M)
        self.assertTrue(found, printed)
        return found[1]

    def announced(self):
        record = self.in_registry() or {}
        parts = record.get("external", [])
        return [place["host"] for part in parts for place in part["addresses"]]

    def wait_announced(self, *hosts):
        wait_until(lambda: self.announced() == list(hosts), f"{hosts} is announced")

    def history(self, agent, subject):
        return [(event["from"], event["to"]) for event in agent.get("/v1/agent/history").json
            if event["subject"] == subject]


class Choice(OwnAddress):
    def test_an_address_of_the_link_alone_is_none(self):
        self.network.interface("ecs-eth0", "169.254.172.2/22")
        self.network.interface("eth1", "10.0.3.17/24", default="10.0.3.1")
        self.assertEqual(self.chosen("${berth.ip}"), "10.0.3.17")
        self.assertEqual(self.chosen("${berth.ip.ecs-eth0}"), "169.254.172.2")
        self.network.ip("link del eth1")
        status = self.network.check(self.web(), "-t", "--strict")
        self.assertEqual(status.returncode, 1)
        self.assertIn("no interface is up with an IPv4 address that others can reach: the agent "
            "waits for one", status.stdout)

    def test_the_default_route_goes_before_the_order_of_interfaces(self):
        self.network.interface("lan0", "10.8.0.5/24")
        self.network.interface("eth0", "10.0.3.17/24", default="10.0.3.1")
        self.assertEqual(self.chosen("${berth.ip}"), "10.0.3.17")

    def test_a_source_address_of_the_default_route_counts(self):
        self.network.interface("eth0", "10.0.3.17/24", "10.0.3.18/24")
        self.network.ip("route add default via 10.0.3.1 dev eth0 src 10.0.3.18")
        self.assertEqual(self.chosen("${berth.ip}"), "10.0.3.18")

    def test_the_route_to_the_registry_goes_before_the_default_route(self):
        self.network.interface("eth0", "10.0.3.17/24", default="10.0.3.1")
        self.network.interface("lan0", "10.8.0.5/24")
        self.network.ip("route add 10.9.0.0/16 via 10.8.0.1")
        for url, chosen in {"zookeeper://10.9.1.1:2181": "10.8.0.5",
                "zookeeper://127.0.0.1:2181": "10.0.3.17",
                "zookeeper://zk.example.org,10.8.0.9:2181": "10.8.0.5",
                "dir:/nowhere": "10.0.3.17"}.items():
            with self.subTest(url=url):
                self.registry = url
                self.assertEqual(self.chosen("${berth.ip}"), chosen)

    def test_networks_within_the_machine_come_last(self):
        for name in ("docker0", "br-1a2b3c4d5e6f", "eth0"):
            self.network.ip(f"link add {name} type bridge", f"link set {name} up")
        self.network.ip("addr add 172.17.0.1/16 dev docker0")
        self.assertEqual(self.chosen("${berth.ip}"), "172.17.0.1")
        self.network.ip("addr add 172.18.0.1/16 dev br-1a2b3c4d5e6f",
            "addr add 10.0.3.17/24 dev eth0")
        self.assertEqual(self.chosen("${berth.ip}"), "10.0.3.17")

    def test_a_passing_ipv6_address_is_none(self):
        self.network.interface("eth0", "2001:db8::beef/64")
        self.network.ip("addr add 2001:db8::dead/64 dev eth0 preferred_lft 0 nodad",
            "addr add 2001:db8::face/64 dev eth0 preferred_lft 0 nodad")
        self.assertEqual(self.chosen("${berth.ip6}"), "2001:db8::beef")
        # A temporary one of the privacy extensions, which the kernel itself prefers to send from.
        self.network.run("sh", "-c", "echo 2 >/proc/sys/net/ipv6/conf/eth0/use_tempaddr")
        self.network.ip("addr flush dev eth0 scope global",
            "addr add 2001:db8:1::1/64 dev eth0 mngtmpaddr nodad",
            "-6 route add default via fe80::1 dev eth0")
        wait_until(lambda: "temporary" in self.network.run("ip", "addr", "show", "eth0").stdout,
            "the kernel has made a temporary address")
        self.assertEqual(self.chosen("${berth.ip6}"), "2001:db8:1::1")


    def test_a_server_that_is_known_by_name_decides_once_it_is_connected(self):
        server = share_zookeeper()
        self.addCleanup(server.stop)
        place, slash, root = server.hosts.partition("/")
        self.network.interface("eth0", "10.0.3.17/24", default="10.0.3.1")
        self.network.interface("lan0", "10.8.0.5/24")
        self.network.ip("addr add 10.8.0.9/24 dev lan0")
        port = self.network.relay("10.8.0.9", place)
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n10.8.0.9 zk.example.org\n")
        agent = self.web(registry=f"zookeeper://zk.example.org:{port}{slash}{root}/registry")
        self.network.enter(agent, "unshare", "--mount", "--propagation", "private", "sh", "-c",
            f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh").start()
        self.registry = server.url
        # No other address was ever written: the first record waited for the connection anyway.
        for _ in range(2):
            agent.wait_state("registered")
            self.assertEqual(self.announced(), ["10.8.0.5"])
            agent.upgrade()
        self.assertEqual(self.history(agent, "address ${berth.ip}"), [("10.0.3.17", "10.8.0.5")])


class Change(OwnAddress):
    def test_the_record_follows_with_a_line_and_an_event(self):
        self.network.interface("eth0", "10.0.3.17/24", default="10.0.3.1")
        agent = self.web().start()
        self.wait_announced("10.0.3.17")
        self.assertEqual(self.in_registry()["yarn:ip"], "10.0.3.17")
        runs = sum(agent.check_named("alive")["counts"].values())
        self.network.ip("addr del 10.0.3.17/24 dev eth0", "addr add 10.0.3.44/24 dev eth0")
        self.wait_announced("10.0.3.44")
        self.assertEqual(self.in_registry()["yarn:ip"], "10.0.3.44")
        self.assertIn("address ${berth.ip}: 10.0.3.17 -> 10.0.3.44", agent.read_log())
        self.assertEqual(self.history(agent, "address ${berth.ip}"), [("10.0.3.17", "10.0.3.44")])
        # Nothing else was loaded again: the component never left, the check went on.
        self.assertNotIn(("in", "withdrawing"), self.history(agent, "component web-1"))
        self.assertGreaterEqual(sum(agent.check_named("alive")["counts"].values()), runs)
        self.assertNotIn("config", {event["subject"]
            for event in agent.get("/v1/agent/history").json})

    def test_a_network_that_is_attached_later_is_waited_for(self):
        agent = self.web().start()
        reason = ("the agent waits for an address|it waits for an address: "
            r"\[endpoint restweb-1\] address: \$\{berth.ip\}: no interface is up")
        ready = agent.get("/ready")
        self.assertEqual(ready.status, 503)
        self.assertRegex(ready.body.decode(), reason)
        self.assertRegex(agent.status()["components"][0]["reason"], reason)
        self.assertEqual(len(agent.status()["waits"]), 1)
        self.assertIn("waits for an address: [endpoint restweb-1] address: ${berth.ip}",
            berth("--socket", agent.socket, "status").stdout)
        self.assertIsNone(self.in_registry())
        self.network.interface("eth1", "10.5.0.2/24")
        self.wait_announced("10.5.0.2")
        wait_until(lambda: agent.get("/ready").status == 200, "it is ready")
        self.assertEqual(agent.status()["waits"], [])
        self.assertEqual(self.history(agent, "address ${berth.ip}"), [("none", "10.5.0.2")])
        agent.upgrade()
        wait_until(lambda: agent.get("/ready").status == 200, "the successor is ready")
        self.assertEqual(self.announced(), ["10.5.0.2"])
        self.assertEqual(self.history(agent, "address ${berth.ip}"), [("none", "10.5.0.2")])

    def test_without_any_address_for_a_while_the_record_goes(self):
        self.network.interface("eth0", "10.0.3.17/24")
        agent = self.web().start()
        self.wait_announced("10.0.3.17")
        self.network.ip("link set eth0 down")
        self.wait_announced()
        self.assertIn("it waits for an address", agent.status()["components"][0]["reason"])
        self.network.ip("link set eth0 up")
        self.wait_announced("10.0.3.17")
        self.assertEqual(self.history(agent, "address ${berth.ip}"),
            [("10.0.3.17", "none"), ("none", "10.0.3.17")])

    def test_an_address_that_comes_back_at_once_was_never_gone(self):
        self.network.interface("eth0", "10.0.3.17/24")
        agent = self.web().start()
        self.wait_announced("10.0.3.17")
        for _ in range(3):
            self.network.ip("addr del 10.0.3.17/24 dev eth0", "addr add 10.0.3.17/24 dev eth0")
        self.network.interface("eth1", "10.7.0.1/24")
        self.network.ip("addr del 10.0.3.17/24 dev eth0")
        self.wait_announced("10.7.0.1")
        self.assertEqual(self.history(agent, "address ${berth.ip}"), [("10.0.3.17", "10.7.0.1")])

    def test_every_place_of_an_address_follows(self):
        self.network.interface("eth0", "10.0.3.17/24")
        self.network.interface("lan0", "10.8.0.5/24")
        self.network.ip("route add default via 10.0.3.1 dev eth0")
        seen = self.folder / "seen"
        agent = self.web("${berth.ip.lan0}:80",
            **{"agent": {"listen": "${berth.ip}:8930"},
                "listen shown": {"address": "${berth.ip.lan0}:8931", "under": "/**"},
                "dns": {"listen": "127.0.0.1:8953, ${berth.ip}:8953"},
                "check shell": {"type": "command", "shell": "yes", "interval": "100ms",
                    "command": f"echo $BERTH_IP $BERTH_IP_lan0 >{seen}"},
                "check argument": {"type": "command", "interval": "100ms",
                    "command": f"/bin/sh -c 'echo $1 >{seen}.2' sh ${{berth.ip}}"},
                "check tcp": {"type": "tcp", "target": "${berth.ip}:8930", "interval": "100ms"},
            }).start()
        self.wait_announced("10.8.0.5")
        places = [(8930, "10.0.3.17"), (8931, "10.8.0.5"), (8953, "10.0.3.17")]
        for port, host in places:
            self.network.wait_for(port, host)
        self.network.ip("addr del 10.0.3.17/24 dev eth0", "addr add 10.0.3.44/24 dev eth0",
            "route replace default via 10.0.3.1 dev eth0", "addr del 10.8.0.5/24 dev lan0",
            "addr add 10.8.0.6/24 dev lan0")
        self.wait_announced("10.8.0.6")
        for port, host in [(8930, "10.0.3.44"), (8931, "10.8.0.6"), (8953, "10.0.3.44"),
                (8953, "127.0.0.1")]:
            self.network.wait_for(port, host)
        wait_until(lambda: seen.read_text() == "10.0.3.44 10.8.0.6\n", "the shell sees them")
        wait_until(lambda: (self.folder / "seen.2").read_text() == "10.0.3.44\n",
            "the argument follows")
        agent.wait_state("registered")
        self.assertEqual({check["state"] for check in agent.get("/v1/agent/checks").json}, {"up"})
        # The operator's reload finds nothing to refuse.
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        agent.upgrade()
        self.network.wait_for(8930, "10.0.3.44")
        self.network.wait_for(8953, "10.0.3.44")

    def test_listeners_wait_too_and_the_socket_answers_meanwhile(self):
        agent = self.agent("listens", agent={"listen": "${berth.ip}:8930"},
            dns={"listen": "${berth.ip}:8953"},
            **{"output web": {"from": "/services", "format": "env", "path":
                f"{self.folder}/out-${{berth.ip}}", "when_empty": "write", "quiet": "10ms"}})
        self.network.enter(agent).start()
        self.assertEqual(len(agent.status()["waits"]), 3)
        self.assertEqual(agent.get("/ready").status, 503)
        self.assertIn("it waits for an address", agent.status()["outputs"][0]["why"])
        self.network.interface("eth0", "10.0.3.17/24")
        self.network.wait_for(8930, "10.0.3.17")
        self.network.wait_for(8953, "10.0.3.17")
        wait_until((self.folder / "out-10.0.3.17").exists, "the output is written")
        wait_until(lambda: agent.get("/ready").status == 200, "it is ready")

    def test_the_records_of_containers_and_other_schemes_follow(self):
        containers = self.folder / "containers"
        containers.mkdir()
        host = self.network.enter(self.agent("host", bridge={"containers": containers},
            component={"path": "/services/other", "znode": "ephemeral"},
            **{"dialect binder": {"type": "registrar", "domain": "web.example.org",
                    "host_name": "h1", "host_type": "host"},
                "container *": {"allow": "/users/joe/**", "attribute.yarn:ip": "${berth.ip}"}}))
        host.start()
        (containers / "c1").mkdir()
        inner = containers / "c1" / "registry"
        wait_until(inner.is_dir, "the host's agent has taken the container up")
        web = self.agent("web", registry=f"dir:{inner}")
        web.write_config(web.component())
        web.start().wait_state("registered")
        wait_until(lambda: "waits for an address" in host.get("/v1/bridge").body.decode(),
            "its record waits")
        self.network.interface("eth0", "10.0.3.17/24")
        for address in ("10.0.3.17", "10.0.3.44"):
            wait_until(lambda: (self.in_registry() or {}).get("yarn:ip") == address,
                f"the container's record has {address}")
            wait_until(lambda: self.host_record() == address, f"the host record has {address}")
            self.network.ip("addr flush dev eth0", "addr add 10.0.3.44/24 dev eth0")

    def host_record(self):
        """The address that Registrar's scheme has, in the node of the reversed domain."""
        for file in (self.folder / "registry").glob("org/example/web/h1/_record"):
            return json.loads(file.read_text())["address"]
        return None

    def test_a_main_process_runs_and_stops_while_its_component_waits(self):
        agent = self.web()
        agent.command = ["sleep", "1000"]
        agent.start()
        wait_until(lambda: agent.status()["main_process"]["running"], "the program runs")
        self.assertEqual(agent.get("/ready").status, 503)
        self.assertEqual(agent.stop(), 128 + 15)

    def test_without_netlink_it_looks_once_in_a_while_and_says_so(self):
        self.network.interface("eth0", "10.0.3.17/24")
        agent = self.web()
        self.network.enter(agent, "python3", without_netlink.__file__).start()
        self.wait_announced("10.0.3.17")
        self.assertIn("the kernel does not report changes of addresses (netlink: Operation not "
            "permitted): they are looked at every 10 s", agent.read_log())
        self.network.ip("addr del 10.0.3.17/24 dev eth0", "addr add 10.0.3.44/24 dev eth0")
        self.wait_announced("10.0.3.44")


if __name__ == "__main__":
    unittest.main()
