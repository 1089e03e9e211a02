"""One question, one answer: whoever asks who serves X gets the same members in the same order, in
every form, while the registry answers, while it is away, after failover and back."""

import contextlib
import ctypes
import json
import os
import socket
import unittest

from berth import BUILD, UnixConnection, berth, wait_until
from names import ask, reserve_names_port
from outputs import OutputTest, record
from proxies import HAProxy, missing
from zookeeper import ZooKeeper

ZONE = "eu/a"  # of the agent
FAR = "/far"
FORMATS = ("lines", "json", "prometheus", "envoy", "haproxy", "nginx", "hosts", "env")
WEB = "/users/joe/web/prod/components"
HADOOP = "/users/ann/services/app/x1/components"
CART = "/services/cart/components"

# Each is asked for by its path and by its name.
SERVICES = {
    "instance": (WEB, "prod.web.joe"),
    "whole name": (WEB, "prod.web.joe.users"),
    "component": (f"{WEB}/c1", "c1.prod.web.joe"),
    "node": ("/services/db", "db.services"),
    "service": (CART, "cart.services"),
    "component of a service": (f"{CART}/i1", "i1.cart.services"),
    "Hadoop": (HADOOP, "x1.app.ann"),
    "Hadoop component": (f"{HADOOP}/h1", "h1.x1.app.ann"),
    "Hadoop without class": (f"{HADOOP}/h2", "main.x1.ann"),
    "absent": ("/services/none", "none.services"),
}
PROTOCOLS = (None, "http", "sql")
NEAR = ("self", "us/b", None)
FILTERED = ("instance", "component", "node", "service", "absent")  # these by an attribute, too

OF_A_PATH = ("endpoints", "text", "targets", "libberth", "set", "set as text")


def element_tier(rank, zone, near):
    own = near.split("/") if near else []
    shared = 0
    for mine, other in zip(own, zone.split("/")):
        if mine != other:
            break
        shared += 1
    return rank * (len(own) + 1) + len(own) - shared


class Member:
    def __init__(self, path, host, protocol, **attributes):
        self.path, self.host, self.protocol = path, host, protocol
        self.port = 8000 + int(host.rpartition(".")[2])
        self.attributes = attributes
        self.weight = attributes.get("weight", 1)
        self.zone = attributes.get("berth:zone", "")

    def content(self):
        return record(self.port, self.host, self.protocol, **self.attributes)


class Question:
    def __init__(self, service, protocol, near, track):
        self.service, self.protocol, self.near, self.track = service, protocol, near, track
        self.path, self.name = SERVICES[service]
        if track:
            self.name = f"{track}.track._attr.{self.name}"

    def __str__(self):
        return f"{self.service}, {self.protocol or 'any'}, near {self.near}, {self.track or 'any'}"

    @property
    def whole_name(self):
        return f"{f'_{self.protocol}._tcp.' if self.protocol else ''}{self.name}"

    @property
    def name_with_query(self):
        """As Envoy may ask."""
        return self.whole_name.replace(f"{self.track}.track._attr.", "") + (
            f"?attribute.track={self.track}")

    def parameters(self):
        pairs = {"protocol": self.protocol, "near": self.near, "attribute.track": self.track}
        return "&".join(f"{key}={value}" for key, value in pairs.items() if value)

    def of_output(self):
        """Its outputs are below this word."""
        return f"{list(SERVICES).index(self.service)}-{self.protocol or 'any'}-{self.track}"

    def expected(self, world, further):
        """[[members of a tier], …]; `further`: a path that fails over is in use."""
        near = ZONE if self.near == "self" else self.near
        tiers = {}
        for rank, root in enumerate(("", FAR)[:1 + further]):
            for member in sorted(world, key=lambda member: member.path):
                parent = member.path.rpartition("/")[0]
                if root + self.path in (member.path, parent) and (
                        not self.protocol or member.protocol == self.protocol) and (
                        not self.track or member.attributes.get("track") == self.track):
                    tier = element_tier(rank, member.zone, near or "")
                    tiers.setdefault(tier, []).append(member)
        return [tiers[tier] for tier in sorted(tiers)]

    def serving(self, world, root=""):
        return any(member.weight for tier in self.expected([
            Member(item.path.removeprefix(root), item.host, item.protocol, **item.attributes)
            for item in world if item.path.startswith(root)], False) for member in tier)


def address(host, port):
    return f"{host}:{port}"


class Hostent(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("aliases", ctypes.c_void_p), ("family", ctypes.c_int),
        ("length", ctypes.c_int), ("addresses", ctypes.POINTER(ctypes.c_void_p))]


@unittest.skipIf(missing("haproxy"), missing("haproxy"))
class OneAnswer(OutputTest):
    away = False

    def setUp(self):
        super().setUp()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url
        self.names_port = reserve_names_port(self)
        self.xds_socket = self.folder / "xds.sock"
        self.proxy = HAProxy(self.folder / "runtime")
        self.addCleanup(self.proxy.end)
        self.proxy.start()
        self.world = [
            Member(f"{WEB}/c1", "10.0.0.1", "http", **{"berth:zone": "us/b"}),
            Member(f"{WEB}/c2", "10.0.0.2", "http", track="canary", weight=3,
                **{"berth:zone": "eu/a"}),
            Member(f"{WEB}/c3", "10.0.0.3", "sql", track="stable", **{"berth:zone": "eu/b"}),
            Member(f"{WEB}/c4", "10.0.0.4", "http", weight=0, **{"berth:zone": "eu/a/r1"}),
            Member("/services/db", "10.0.0.5", "sql", track="stable"),
            Member(f"{CART}/i1", "10.0.0.11", "http", track="canary"),
            Member(f"{CART}/i2", "10.0.0.12", "sql", **{"berth:zone": "eu/a"}),
            Member(f"{HADOOP}/h1", "10.0.0.6", "http", **{"berth:zone": "us/b"}),
            Member(f"{HADOOP}/h2", "10.0.0.7", "sql", description="main"),
            Member(f"{FAR}{WEB}/f1", "10.0.0.8", "http", track="canary",
                **{"berth:zone": "us/b"}),
            Member(f"{FAR}{WEB}/f2", "10.0.0.9", "sql", **{"berth:zone": "eu/a"}),
            Member(f"{FAR}/services/db", "10.0.0.10", "sql"),
        ]
        for member in self.world:
            self.put(member.path, member.content())
        self.questions = [Question(service, protocol, near, track)
            for service in SERVICES for protocol in PROTOCOLS for near in NEAR
            for track in (None, *(["canary"] if service in FILTERED else []))]
        # berth-xds needs a stream for each name.
        self.asked = self.agent(agent={"zone": ZONE, "failover": FAR, "failover_hold": "200ms",
                "max_watchers": 2048},
            dns={"listen": f"127.0.0.1:{self.names_port}", "prefer": "zone"},
            xds={"listen": self.xds_socket, "failover": FAR, "failover_hold": "200ms"},
            **self.outputs()).start()

    def outputs(self):
        sections = {}
        for question in self.questions:
            # A format is not asked for each question: a file is written for each.
            for format in FORMATS if question.near == "self" else ():
                common = {"from": question.path, "prefer": "zone", "when_empty": "write",
                    "failover": FAR + question.path, "failover_hold": "200ms", "quiet": "20ms",
                    **({"protocol": question.protocol} if question.protocol else {}),
                    **({"attribute.track": question.track} if question.track else {})}
                name = f"{question.of_output()}-{format}"
                if question.service in ("instance", "node", "service", "Hadoop", "absent"):
                    sections[f"output {name}"] = {**common, "format": format,
                        "path": self.directory / name}
        common.pop("attribute.track", None)
        sections["output runtime"] = {**common, "from": WEB, "failover": FAR + WEB,
            "protocol": "http", "format": "haproxy-runtime", "backend": "web",
            "socket": self.proxy.socket}
        return sections

    # ---- the forms: tiers of addresses; or a flat list, in order; or a set ----

    def look_up(self, kind, question, **headers):
        answer = self.asked.get(f"/v1/{kind}{question.path}?{question.parameters()}", **headers)
        return answer if answer.status == 200 else None

    def of_endpoints(self, question):
        answer = self.look_up("endpoints", question)
        return [address(**item["address"]) for item in answer.json] if answer else []

    def of_text(self, question):
        answer = self.look_up("endpoints", question, Accept="text/plain")
        return answer.body.decode().split() if answer else []

    def of_set(self, question):
        answer = self.look_up("set", question)
        return [address(item["host"], item["port"]) for item in answer.json["members"]] \
            if answer else []

    def of_set_as_text(self, question):
        answer = self.look_up("set", question, Accept="text/plain")
        return answer.body.decode().split() if answer else []

    def of_set_by_name(self, question):
        near = f"?near={question.near}" if question.near else ""
        answer = self.asked.get(f"/v1/set/{question.whole_name}{near}")
        return [address(item["host"], item["port"]) for item in answer.json["members"]] \
            if answer.status == 200 else []

    def of_targets(self, question):
        answer = self.look_up("targets", question)
        return [item["targets"][0] for item in answer.json] if answer else []

    def of_libberth(self, question):
        done = berth("--socket", self.asked.socket, "endpoints", "--json", "--near",
            question.near, *(["--protocol", question.protocol] if question.protocol else []),
            question.path)
        return [address(**item["address"]) for item in json.loads(done.stdout or "[]")]

    def of_names(self, question):
        name, more = question.whole_name, f"&near={question.near}" if question.near else ""
        if question.track and question.near:  # the parameter says what labels say else
            name = name.replace(f"{question.track}.track._attr.", "")
            more += f"&attribute.track={question.track}"
        answer = self.asked.get(f"/v1/names/{name}.berth?type=SRV{more}")
        targets = answer.json.get("targets", []) if answer.status == 200 else []
        return [address(item["address"], item["port"]) for item in targets]

    def of_srv(self, question):
        reply = ask(self.names_port, f"{question.whole_name}.berth", "SRV")
        hosts = {name.name: str(item) for name in reply.additional for item in name
            if name.rdtype == 1}
        tiers = {}
        for target in (item for answer in reply.answer for item in answer):
            tiers.setdefault(target.priority, []).append(
                address(hosts.get(target.target), target.port))
        return [tiers[tier] for tier in sorted(tiers)]

    def of_a(self, question):
        reply = ask(self.names_port, f"{question.name}.berth")
        return {item.address for answer in reply.answer for item in answer}

    def of_nss(self, question):
        os.environ["BERTH_SOCKET"] = str(self.asked.socket)
        host, room = Hostent(), ctypes.create_string_buffer(4096)
        errors = ctypes.c_int(), ctypes.c_int()
        status = ctypes.CDLL(str(BUILD / "libnss_berth.so.2"))._nss_berth_gethostbyname_r(
            f"{question.name}.berth".encode(), ctypes.byref(host), room, len(room),
            *map(ctypes.byref, errors))
        found = set()
        while status == 1 and host.addresses[len(found)]:
            found.add(socket.inet_ntoa(ctypes.string_at(host.addresses[len(found)], 4)))
        return found

    @staticmethod
    def tiers_of_envoy(resource):
        tiers = {}
        for locality in resource.get("endpoints", []):
            for item in locality["lb_endpoints"]:
                at = item["endpoint"]["address"]["socket_address"]
                tiers.setdefault(locality.get("priority", 0), []).append(
                    address(at["address"], at["port_value"]))
        return [tiers[tier] for tier in sorted(tiers)]

    def of_eds_by_query(self, question):
        return self.of_eds(question, question.name_with_query)

    def of_eds(self, question, name=None):
        with contextlib.closing(UnixConnection(self.xds_socket)) as connection:
            connection.request("POST", "/v3/discovery:endpoints",
                json.dumps({"resource_names": [name or question.whole_name]}))
            response = connection.getresponse()
            text = response.read().decode()
        return self.tiers_of_envoy(json.loads(text)["resources"][0]) \
            if response.status == 200 else text

    def of_run_time(self, _):
        servers = self.proxy.servers()
        return [sorted(place for name, (place, _) in servers.items()
            if ("backup:" in name) == backup) for backup in (False, True)]

    def of_file(self, question, format):
        file = self.directory / f"{question.of_output()}-{format}"
        if not file.exists():
            return None
        lines = [line.split() for line in file.read_text().splitlines()]
        if format == "lines":
            return [line[0] for line in lines]
        if format == "hosts":
            return [line[0] for line in lines if line[0] != "#" and "." in line[0]]
        if format in ("haproxy", "nginx"):
            return [line[2 if format == "haproxy" else 1].strip(";") for line in lines
                if line and line[0] == "server" and "127.0.0.1:9" not in line]
        if format == "env":
            return file.read_text().rpartition('="')[2].strip().strip('"').split()
        found = json.loads(file.read_text())
        if format == "json":
            return [address(**item["address"]) for item in found]
        if format == "prometheus":
            return [item["targets"][0] for item in found]
        return self.tiers_of_envoy(found["resources"][0])

    def forms(self, question):
        forms = {"endpoints": self.of_endpoints, "text": self.of_text, "targets": self.of_targets,
            "names": self.of_names, "set": self.of_set, "set as text": self.of_set_as_text,
            "set of a name": self.of_set_by_name}
        if question.near == "self":
            forms.update({"SRV": self.of_srv, "EDS": self.of_eds})
            if question.track:
                forms["EDS by query"] = self.of_eds_by_query
            else:
                forms["libberth"] = self.of_libberth
            if not question.protocol:
                forms["A"] = self.of_a
                if not os.environ.get("BERTH_SANITIZER"):  # it loads into sanitized programs alone
                    forms["NSS"] = self.of_nss
            for format in FORMATS:
                if (self.directory / f"{question.of_output()}-{format}").exists():
                    forms[format] = lambda asked, format=format: self.of_file(asked, format)
            if (question.service, question.protocol, question.track) == (
                    "instance", "http", None):
                forms["HAProxy's plan"] = self.of_run_time
        return forms

    # ---- the comparison ----

    def is_let_go(self, question, form):
        """berth-xds may let go of a name that nobody asks for any more, and while the registry is
        away it learns of no absence."""
        return form.startswith("EDS") and self.away and not self.expectation(question, form)

    def expectation(self, question, form):
        """In a look-up of a path, a further one comes in by nearness alone."""
        further = not question.serving(self.world) and (
            form not in OF_A_PATH or question.near)
        tiers = question.expected(self.world, bool(further))
        if form in ("A", "NSS"):
            return {member.host for tier in tiers for member in tier}
        if form == "hosts":
            return [member.host for tier in tiers for member in tier]
        if form == "HAProxy's plan":
            tiers = [tiers[0], [member for tier in tiers[1:] for member in tier]]
        groups = [[address(member.host, member.port) for member in tier] for tier in tiers]
        if form in ("SRV", "EDS", "EDS by query", "envoy", "HAProxy's plan"):
            return [sorted(group) for group in groups]
        return [item for group in groups for item in group]

    def is_same(self, question, form, ask_it):
        found, expected = ask_it(question), self.expectation(question, form)
        if found and isinstance(found, list) and isinstance(found[0], list):
            found = [sorted(group) for group in found]
        self.last = f"{question}, {form}: {found}, not {expected}"
        return found == expected

    def check(self, stage):
        """Every form comes to give the members that the table has."""
        left = [(question, form, ask_it) for question in self.questions
            for form, ask_it in self.forms(question).items()
            if not self.is_let_go(question, form)]
        count = len(left)

        def all_agree():
            left[:] = [item for item in left if not self.is_same(*item)]
            return not left

        try:
            wait_until(all_agree, "all agree")
        except AssertionError:
            differences = []
            for item in left:
                if not self.is_same(*item):
                    differences.append(self.last)
            self.fail(f"{stage}: {len(differences)} differences\n" + "\n".join(differences))
        print(f"# {stage}: {len(self.questions)} questions, {count} answers")

    def change(self, host, **attributes):
        for member in self.world:
            if member.host == host:
                member.attributes.update(attributes)
                member.weight = member.attributes.get("weight", 1)
                self.put(member.path, member.content())

    def test_every_form_names_the_same_members_in_the_same_order(self):
        wait_until(lambda: all((self.directory / name.removeprefix("output ")).exists()
            for name in self.outputs() if name != "output runtime"), "all outputs are written")
        self.check("live")
        self.server.pause()
        self.away = True
        wait_until(lambda: self.look_up("endpoints", self.questions[0]).headers["X-Cache"]
            == "STALE", "answers are stale")
        self.check("stale")
        self.server.resume()
        self.away = False
        wait_until(lambda: self.look_up("endpoints", self.questions[0]).headers["X-Cache"]
            == "HIT", "answers are live")
        self.change("10.0.0.1", weight=0)
        self.change("10.0.0.2", weight=0)
        self.change("10.0.0.3", weight=0)
        self.check("failed over")
        self.change("10.0.0.2", weight=2)
        self.change("10.0.0.3", weight=4)
        self.change("10.0.0.1", weight=1)
        self.check("back")


if __name__ == "__main__":
    unittest.main()
