"""Failover: the instances at hand go, and every form in which the agent says where to go names
those of a further path; they come back, and so does it."""

import contextlib
import json
import time
import unittest

from berth import AgentTest, UnixConnection, berth, wait_until
from names import ask, reserve_names_port
from outputs import FROM, Members, OutputTest, record
from proxies import HAProxy, Load, Nginx, Server, get, missing
from xds import NAME
from zookeeper import ZooKeeper

FAR = "/far"
HOLD = "300ms"
RELOAD = "/bin/sh -c 'test ! -e {0} || kill -{1} $(cat {0})'"
PROGRAMS_NEEDED = missing("haproxy", "nginx")


@unittest.skipIf(PROGRAMS_NEEDED, PROGRAMS_NEEDED)
class Failover(OutputTest):
    def setUp(self):
        super().setUp()
        self.near, self.far = Server(), Server()
        for server in (self.near, self.far):
            self.addCleanup(server.stop)
        Members(self.registry, FAR + FROM).put("f1", self.far.port, **{"berth:zone": "us/a"})
        self.proxies()
        self.client = self.agent("client", **self.client_sections()).start()
        self.server = self.web_agent("server", check="", path=f"{FROM}/c1")
        self.server.sections["endpoint rest"].update(
            address_type="host/port", address=f"127.0.0.1:{self.near.port}", protocol="http")
        self.server.write_config(self.server.sections)

    def proxies(self):
        self.run_time = HAProxy(self.folder / "runtime")
        self.by_file = HAProxy(self.folder / "by-file",
            more_files=[self.directory / "haproxy.cfg"])
        self.nginx = Nginx(self.folder / "nginx", self.directory / "nginx.conf")
        for proxy in (self.run_time, self.by_file, self.nginx):
            self.addCleanup(proxy.end)

    def xds_options(self):
        self.xds_socket = self.folder / "xds.sock"
        return {"listen": self.xds_socket, "failover": FAR}

    def client_sections(self, hold=HOLD):
        self.names_port = getattr(self, "names_port", None) or reserve_names_port(self)
        sections = {
            "agent": {"zone": "eu/a", "failover": FAR, "failover_hold": hold},
            "dns": {"listen": f"127.0.0.1:{self.names_port}", "prefer": "zone"},
            "xds": {**self.xds_options(), "failover_hold": hold},
        }
        for name, options in self.outputs().items():
            sections[name] = {**options, "failover_hold": hold}
        return sections

    def outputs(self):
        common = {"from": FROM, "failover": FAR + FROM, "prefer": "zone"}
        return {
            "output run-time": {**common, "format": "haproxy-runtime", "backend": "web",
                "socket": self.run_time.socket},
            "output by-file": {**common, "format": "haproxy", "backend": "web",
                "path": self.directory / "haproxy.cfg", "quiet": "20ms",
                "on_change": RELOAD.format(self.by_file.pid_file, "USR2")},
            "output nginx": {**common, "format": "nginx", "quiet": "20ms",
                "path": self.directory / "nginx.conf",
                "on_change": RELOAD.format(f"{self.folder}/nginx/nginx.pid", "HUP")},
        }

    # ---- the forms, each as the ports that it names, those that serve first ----

    def of_run_time(self):
        servers = self.run_time.servers()
        return [int(place.rpartition(":")[2]) for name, (place, usable)
            in sorted(servers.items(), key=lambda item: "backup" in item[0]) if usable]

    def of_file(self, name, word):
        with contextlib.suppress(FileNotFoundError):
            lines = [line.split() for line in (self.directory / name).read_text().splitlines()]
            return [int(line[word].strip(";").rpartition(":")[2])
                for line in sorted(lines, key=lambda line: line[-1].strip(";") == "backup")
                if line[0] == "server"]
        return []

    def of_eds(self):
        connection = UnixConnection(self.xds_socket)
        with contextlib.closing(connection):
            connection.request("POST", "/v3/discovery:endpoints",
                json.dumps({"resource_names": [NAME]}))
            answer = json.loads(connection.getresponse().read())
        localities = sorted(answer["resources"][0]["endpoints"],
            key=lambda locality: locality.get("priority", 0))
        return [endpoint["endpoint"]["address"]["socket_address"]["port_value"]
            for locality in localities for endpoint in locality["lb_endpoints"]]

    def of_endpoints(self):
        answer = self.client.get(f"/v1/endpoints{FROM}?near=self")
        found = answer.json if answer.status == 200 else []
        self.assertEqual([item["tier"] for item in found],
            sorted(item["tier"] for item in found))
        return [int(item["address"]["port"]) for item in found]

    def of_srv(self):
        reply = ask(self.names_port, f"_http._tcp.{NAME}.berth", "SRV")
        targets = [item for answer in reply.answer for item in answer]
        self.assertEqual(sorted(item.priority for item in targets), list(range(len(targets))))
        return [item.port for item in sorted(targets, key=lambda item: item.priority)]

    def forms(self):
        return {
            "endpoints": self.of_endpoints,
            "SRV": self.of_srv,
            "HAProxy at run time": self.of_run_time,
            "HAProxy by a file": lambda: self.of_file("haproxy.cfg", 2),
            "nginx": lambda: self.of_file("nginx.conf", 1),
            "EDS": self.of_eds,
        }

    def wait_all(self, *ports):
        """Every form names these; prints when each of them did."""
        began = time.monotonic()
        missing_forms = self.forms()
        took = {}

        def all_name_them():
            for name in list(missing_forms):
                if missing_forms[name]() == list(ports):
                    took[name] = time.monotonic() - began
                    del missing_forms[name]
            return not missing_forms

        try:
            wait_until(all_name_them, f"all name {ports}")
        except AssertionError as error:
            found = {name: form() for name, form in missing_forms.items()}
            raise AssertionError(f"{error}: {found}, near {self.near.port}, far {self.far.port}\n"
                f"{self.client.status()['outputs']}") from None
        print(f"# {ports}: " + ", ".join(
            f"{name} {seconds * 1000:.0f} ms" for name, seconds in took.items()))

    def wait_proxies(self, port):
        for proxy in (self.run_time, self.by_file, self.nginx):
            wait_until(lambda proxy=proxy: {get(proxy.port) for _ in range(8)} == {port},
                f"{type(proxy).__name__} asks {port} alone")

    def order(self, *words):
        done = berth("--socket", self.server.socket, *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_form_fails_over_and_goes_back_and_no_request_fails(self):
        near, far = self.near.port, self.far.port
        self.run_time.start()
        self.server.start()
        self.wait_all(near)
        self.by_file.start()
        self.nginx.start()
        self.wait_proxies(near)
        with contextlib.ExitStack() as stack:
            loads = [stack.enter_context(Load(proxy.port, clients=2))
                for proxy in (self.run_time, self.by_file, self.nginx)]
            # As with a drain_delay that is long enough: the server goes when nobody asks it.
            self.order("drain")
            self.wait_all(far)
            self.wait_proxies(far)
            self.assertIn(f"failed over to {FAR}{FROM}", self.output(self.client, "nginx")["why"])
            self.order("undrain")
            self.wait_all(near)
            self.wait_proxies(near)
        for load in loads:
            self.assertEqual(load.failures, [])
            self.assertEqual(load.seen, {near, far})

    def test_while_both_are_in_the_far_ones_are_behind(self):
        """For the time of the hold, here without an end: the near instance is back."""
        self.client.stop()
        self.client.write_config(self.client_sections(hold="1h"))
        self.run_time.start()
        self.client.start()
        self.wait_all(self.far.port)
        self.server.start()
        self.wait_all(self.near.port, self.far.port)
        self.assertIn(f"{self.far.port} backup", (self.directory / "haproxy.cfg").read_text())
        self.assertIn(f"{self.far.port} backup;", (self.directory / "nginx.conf").read_text())
        self.assertIn(f"berth:backup:.far{FROM.replace('/', '.')}.f1", self.run_time.servers())


class ToAnotherRegistry(OutputTest):
    """Failover to the same paths of another cluster, which is a server of its own."""

    def setUp(self):
        super().setUp()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.put_member("f1", 8003, self.server.url, **{"berth:zone": "us/a"})
        self.members = Members(self.registry)
        self.members.put("c1", 8001, **{"berth:zone": "eu/a"})
        self.asked = self.output_agent(failover=f"/net/east{FROM}", failover_hold=HOLD, more={
            "agent": {"zone": "eu/a", "failover": "/net/east", "failover_hold": HOLD},
            "registry east": {"url": self.server.url, "session_timeout": "3s"},
            "xds": {"listen": self.folder / "xds.sock", "failover": "/net/east",
                "failover_hold": HOLD},
        }).start()

    def look_up(self):
        """The ports, and whether the answer is stale."""
        answer = self.asked.get(f"/v1/endpoints{FROM}?near=self")
        self.assertEqual(answer.status, 200, answer.body)
        return [int(item["address"]["port"]) for item in answer.json], \
            answer.headers["X-Cache"] == "STALE"

    def dump(self):
        done = berth("--socket", self.asked.socket, "xds-dump", NAME)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [endpoint["endpoint"]["address"]["socket_address"]["port_value"]
            for locality in json.loads(done.stdout)["endpoints"]["endpoints"]
            for endpoint in locality["lb_endpoints"]]

    def host(self):
        done = berth("--socket", self.asked.socket, "host", "--json", "--near", "self",
            f"_http._tcp.{NAME}.berth")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [target["port"] for target in json.loads(done.stdout)["targets"]]

    def wait_all(self, port):
        wait_until(lambda: self.look_up() == ([port], False), f"the look-up answers {port}")
        self.wait_text(f"127.0.0.1:{port}\n")
        wait_until(lambda: self.host() == [port], f"the name leads to {port}")
        self.assertEqual(self.dump(), [port])

    def test_it_comes_in_while_it_can_be_confirmed(self):
        self.wait_all(8001)
        self.members.remove("c1")
        self.wait_all(8003)
        self.server.pause()
        wait_until(lambda: self.look_up() == ([8003], True), "its answers are stale")
        # The nearer one is not concerned.
        self.members.put("c1", 8001, **{"berth:zone": "eu/a"})
        wait_until(lambda: self.look_up() == ([8001], False), "the near one alone answers")
        self.wait_text("127.0.0.1:8001\n")
        # A path that cannot be confirmed does not come in, and the set stays as it was.
        self.members.remove("c1")
        self.wait_state(self.asked, "held")
        self.assertEqual(self.look_up(), ([8001], False))
        self.assertIn(f"/net/east{FROM} is not confirmed", self.output(self.asked)["why"])
        self.assertEqual(self.file.read_text(), "127.0.0.1:8001\n")
        self.server.resume()
        self.wait_all(8003)


class LongPaths(AgentTest):
    def test_a_path_that_is_too_long_below_a_root_is_not_there(self):
        agent = self.agent()
        agent.write_config({"agent": {"failover": f"{FAR}, /backup"}})
        agent.start()
        element = "a" * 60
        for length in range(1000, 1025):
            path = "/".join([element] * 20)[:length - 1].rstrip("/")
            answer = agent.get(f"/v1/endpoints/{path}?near=eu")
            self.assertEqual(answer.status, 404, answer.body)
        self.assertEqual(agent.get("/live").status, 200)


class Absent(OutputTest):
    def test_a_path_that_a_followed_list_lacks_has_no_targets(self):
        """The cache keeps no answer about such a path: it needs a read each time."""
        self.put_member("c1", 8001)
        self.put(f"{FAR}{FROM}/f1", record(8002))
        asked = self.output_agent(failover=FAR + FROM, protocol="sql",
            more={"agent": {"failover": FAR}}).start()
        self.wait_state(asked, "held")
        for path in (f"{FROM}/none", f"{FAR}{FROM}/none"):
            for control in ("", "no-cache"):
                answer = asked.get(f"/v1/targets{path}?near=eu", Cache_Control=control)
                self.assertEqual((answer.status, answer.json), (200, []), answer.body)


class Near(OutputTest):
    """Look-ups by nearness, without failover."""

    def setUp(self):
        super().setUp()
        members = Members(self.registry)
        for name, zone in (("a", "us/b"), ("b", "eu/a"), ("c", "eu/b"), ("d", None)):
            members.put(name, 8000 + ord(name), **({"berth:zone": zone} if zone else {}))
        self.asked = self.agent(agent={"zone": "eu/a"}).start()

    def names(self, target, **headers):
        answer = self.asked.get(f"/v1/{target}", **headers)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def test_endpoints_and_targets_say_their_tiers_in_this_order(self):
        for near, order in (("self", "bcad"), ("eu/b", "cbad"), ("us", "abcd")):
            found = self.names(f"endpoints{FROM}?near={near}").json
            self.assertEqual("".join(item["path"][-1] for item in found), order)
            tiers = {item["path"][-1]: item["tier"] for item in found}
            targets = self.names(f"targets{FROM}?near={near}").json
            self.assertEqual([(item["labels"]["__meta_berth_name"],
                int(item["labels"]["__meta_berth_tier"])) for item in targets],
                [(name, tiers[name]) for name in order])
        self.assertEqual(tiers, {"a": 0, "b": 1, "c": 1, "d": 1})
        lines = self.names(f"endpoints{FROM}?near=self", Accept="text/plain").body.decode()
        self.assertEqual(lines.split(), [f"127.0.0.1:{8000 + ord(name)}" for name in "bcad"])
        self.assertNotIn("tier", self.names(f"endpoints{FROM}").body.decode())

    def test_names_are_in_this_order(self):
        answer = self.names(f"names/_http._tcp.{NAME}.berth?near=self&type=SRV").json
        self.assertEqual([(item["port"] - 8000, item["tier"]) for item in answer["targets"]],
            [(ord("b"), 0), (ord("c"), 1), (ord("a"), 2), (ord("d"), 2)])
        answer = self.names(f"names/{NAME}.berth?near=eu/b").json
        self.assertEqual((answer["addresses"], answer["tiers"]), (["127.0.0.1"], [2]))

    def berth(self, *words, status=0):
        done = berth("--socket", self.asked.socket, *words)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_the_command_line_says_the_same(self):
        def port(name):
            return 8000 + ord(name)
        for near, order in (("self", "bcad"), ("eu/b", "cbad")):
            found = json.loads(self.berth("endpoints", "--json", "--near", near, FROM))
            self.assertEqual(found, self.names(f"endpoints{FROM}?near={near}").json)
            heading, *rows = self.berth("endpoints", "--near", near, FROM).splitlines()
            self.assertEqual(heading.split()[:2], ["ADDRESS", "TIER"])
            self.assertEqual([row.split()[:2] for row in rows],
                [[f"127.0.0.1:{port(name)}", str(item["tier"])]
                    for name, item in zip(order, found)])
            for one in ("--first", "--random"):
                self.assertEqual(self.berth("endpoints", one, "--near", near, FROM),
                    f"127.0.0.1:{port(order[0])}\n")
        self.assertNotIn("TIER", self.berth("endpoints", FROM))
        lines = self.berth("host", "--near", "self", "--type", "SRV", f"_http._tcp.{NAME}.berth")
        self.assertRegex(lines, f" {port('b')} .*, tier 0\n.* {port('c')} .*, tier 1\n"
            f".* {port('a')} .*, tier 2\n.* {port('d')} .*, tier 2\n")
        self.assertEqual(self.berth("host", "--type", "A", "--near", "eu/b", f"{NAME}.berth"),
            f"{NAME}.berth has address 127.0.0.1, tier 2\n")
        self.assertNotIn("tier", self.berth("host", f"{NAME}.berth"))
        self.assertIn("near: a zone is made of",
            self.berth("endpoints", "--near", "a//b", FROM, status=1))
        done = berth("--registry", self.registry, "endpoints", "--near", "self", FROM)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--near is for an agent", done.stderr)

    def test_a_change_of_the_zone_is_an_answer_of_its_own(self):
        first = self.names(f"endpoints{FROM}?near=self")
        again = self.asked.get(f"/v1/endpoints{FROM}?near=self",
            **{"If-None-Match": first.headers["ETag"]})
        self.assertEqual(again.status, 304)
        Members(self.registry).put("b", 8000 + ord("b"), **{"berth:zone": "us/b"})
        wait_until(lambda: self.names(f"endpoints{FROM}?near=self").json[0]["path"][-1] == "c",
            "another one is the nearest")

    def test_a_zone_that_is_none_is_refused(self):
        for target in (f"endpoints{FROM}", f"targets{FROM}", f"names/{NAME}.berth"):
            answer = self.asked.get(f"/v1/{target}?near=a//b")
            self.assertEqual(answer.status, 400)
            self.assertIn("query parameter near: a zone is made of", answer.body.decode())


if __name__ == "__main__":
    unittest.main()
