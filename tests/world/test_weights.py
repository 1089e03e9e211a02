"""HAProxy's `server-template` sends no request to a service, though its servers are UP: each SRV
record has weight 0. A service with weights of 1 and 3 gets equal shares, since HAProxy takes a
256th of a weight, rounded up. A member that was given weight 0, to take it out of the traffic, gets
a full share from every other proxy. gRPC and Envoy refuse a whole set for a weight of 0, or for an
address that two records have.

Source: haproxy #195, #1910, #3300, d2iq-archive/mesos-dns #515, traefik #3130; grpc/proposal A27
"""

import json
import re
import unittest

from berth import berth, wait_until
from names import ask, reserve_names_port, texts
from outputs import FROM, Members, OutputTest
from proxies import HAProxy, Nginx, Server, missing, shares
from xds import NAME

SERVICE = f"_http._tcp.{NAME}.berth"
REQUESTS = 40
FORMATS = ("haproxy", "nginx", "envoy")


class WeightTest(OutputTest):
    """An agent that answers names and writes each kind of output of the same members."""

    def start_agent(self, **agent):
        self.members = Members(self.registry)
        self.names_port = reserve_names_port(self)
        outputs = {f"output {name}": self.output_options(format=name, path=self.of(name),
            failover=f"/far{FROM}", failover_hold="100ms", **self.reload.get(name, {}))
            for name in FORMATS}
        outputs["output haproxy"]["backend"] = "web"
        self.client = self.agent("client", agent=agent,
            dns={"listen": f"127.0.0.1:{self.names_port}"}, **outputs, **self.more).start()

    reload, more = {}, {}

    def of(self, name):
        return self.directory / name


@unittest.skipIf(missing("haproxy", "nginx"), missing("haproxy", "nginx"))
class Traffic(WeightTest):
    """Real proxies, by each way that leads to them, and what their servers get."""

    def setUp(self):
        super().setUp()
        again = "/bin/sh -c 'test ! -e {0} || kill -{1} $(cat {0})'"
        self.proxies = {}
        self.by_runtime = self.proxy(HAProxy, "runtime")
        by_file = self.proxy(HAProxy, "file", more_files=[self.of("haproxy")])
        nginx = self.proxy(Nginx, "nginx", self.of("nginx"))
        self.reload = {
            "haproxy": {"on_change": again.format(by_file.pid_file, "USR2")},
            "nginx": {"on_change": again.format(self.folder / "nginx/nginx.pid", "HUP")},
        }
        self.more = {"output runtime": {"from": FROM, "format": "haproxy-runtime",
            "socket": self.by_runtime.socket, "backend": "web", "failover": f"/far{FROM}",
            "failover_hold": "100ms"}}
        self.by_runtime.start()
        self.start_agent(zone="eu/a", failover="/far", failover_hold="100ms")
        self.proxy(HAProxy, "names", names_port=self.names_port,
            backend_lines=f"    server-template web 5 {SERVICE} resolvers berth init-addr none")

    def proxy(self, kind, name, *arguments, **keywords):
        proxy = kind(self.folder / name, *arguments, **keywords)
        self.addCleanup(proxy.end)
        self.proxies[name] = proxy
        return proxy

    def server(self, number, members=None, **attributes):
        server = Server(f"127.0.0.{number}")
        self.addCleanup(server.stop)
        self.put_weight(number, server.port, members, **attributes)
        return server.port

    def put_weight(self, number, port, members=None, **attributes):
        (members or self.members).put(f"c{number}", port, host=f"127.0.0.{number}", **attributes)

    def check_shares(self, expected, what):
        for name, proxy in self.proxies.items():
            if not proxy.process:
                wait_until(lambda name=name: name not in FORMATS or self.of(name).exists(), name)
                proxy.start()
            wait_until(lambda port=proxy.port: shares(port, REQUESTS) == expected,
                f"{name}: {what}, {expected}: {shares(proxy.port, REQUESTS)}")

    def test_requests_go_in_proportion_and_none_to_weight_0(self):
        light, heavy = self.server(1), self.server(2)
        self.check_shares({light: REQUESTS // 2, heavy: REQUESTS // 2}, "no weights")
        self.put_weight(2, heavy, weight=3)
        self.check_shares({light: REQUESTS // 4, heavy: REQUESTS * 3 // 4}, "1 and 3")
        self.put_weight(1, light, weight="500")
        self.put_weight(2, heavy, weight=1500)
        self.check_shares({light: REQUESTS // 4, heavy: REQUESTS * 3 // 4}, "above 256")
        self.put_weight(2, heavy, weight=0)
        self.check_shares({light: REQUESTS}, "nothing to weight 0")

    def test_where_all_have_weight_0_the_next_path_serves(self):
        near = self.server(1)
        far = self.server(2, Members(self.registry, f"/far{FROM}"))
        self.check_shares({near: REQUESTS}, "the nearest path")
        self.put_weight(1, near, weight=0)
        self.check_shares({far: REQUESTS}, "the next one")
        found = self.client.get(f"/v1/endpoints{FROM}?near=self").json
        self.assertEqual([int(item["address"]["port"]) for item in found], [near, far])


class Sets(WeightTest):
    """What those who refuse a whole set get: no weight of 0, no address twice, no number that is
    none."""

    WEIGHTS = ("0", "4294967296", "abc", None, 10, -1, 256)

    def setUp(self):
        super().setUp()
        self.start_agent(zone="eu/a")
        for number, weight in enumerate(self.WEIGHTS):
            host = f"10.0.0.{4 if number == 4 else number + 1}"
            attributes = {} if weight is None else {"weight": weight}
            self.members.put(f"c{number}", 8080, host=host, **attributes)
        wait_until(lambda: all(self.of(name).exists() and "10.0.0.7" in self.of(name).read_text()
            for name in FORMATS), "all are written")

    def endpoints(self, text):
        """{address: (weight, health)} of a set; an address is there once."""
        found = {}
        for locality in text["endpoints"]:
            self.assertGreater(locality.get("load_balancing_weight", 1), 0)
            for item in locality["lb_endpoints"]:
                address = item["endpoint"]["address"]["socket_address"]["address"]
                self.assertNotIn(address, found)
                found[address] = (item.get("load_balancing_weight", 1),
                    item.get("health_status", ""))
        return found

    EXPECTED = {"10.0.0.1": (1, "DRAINING"), "10.0.0.2": (1, ""), "10.0.0.3": (1, ""),
        "10.0.0.4": (1, ""), "10.0.0.6": (1, ""), "10.0.0.7": (256, "")}

    def test_envoy_and_grpc_get_each_address_once_and_no_weight_of_0(self):
        written = json.loads(self.of("envoy").read_text())["resources"][0]
        self.assertEqual(self.endpoints(written), self.EXPECTED)
        dumped = berth("-s", self.client.socket, "xds-dump", NAME)
        self.assertEqual(dumped.returncode, 0, dumped.stderr)
        self.assertEqual(self.endpoints(json.loads(dumped.stdout)["endpoints"]), self.EXPECTED)

    def test_of_two_records_with_an_address_the_one_that_takes_traffic_counts(self):
        self.members.put("c7", 8080, host="10.0.0.1", weight=7)
        wait_until(lambda: self.endpoints(json.loads(self.of("envoy").read_text())["resources"][0])[
            "10.0.0.1"] == (7, ""), "the successor's weight")

    def test_names_and_lists_say_the_weight(self):
        reply = ask(self.names_port, SERVICE, "SRV", tcp=True)
        self.assertEqual(sorted(int(text.split()[2]) for text in texts(reply)),
            [0, 256, 256, 256, 256, 2560, 65535])
        answer = self.client.get(f"/v1/endpoints{FROM}").json
        self.assertEqual([item.get("weight") for item in answer], [0, None, None, None, 10, None,
            256])
        for name, pattern in (("haproxy", r" weight (\d+)"), ("nginx", r"weight=(\d+)")):
            found = re.findall(pattern, self.of(name).read_text())
            self.assertLessEqual(set(found), {"0", "10", "256"}, name)
        self.assertIn("server 10.0.0.1:8080 down;", self.of("nginx").read_text())


if __name__ == "__main__":
    unittest.main()
