"""One question, one answer: whoever asks who serves X gets the same members in the same order, in
every form and of the agents of two zones: while the registry answers, while it is silent or away,
after failover and back."""

import contextlib
import ctypes
import json
import os
import socket
import threading
import unittest
from concurrent import futures

from berth import BUILD, UnixConnection, berth, wait_until
from names import ask, reserve_names_port
from outputs import OutputTest, record
from proxies import HAProxy, missing
from zookeeper import ZooKeeper

ZONE = "eu/a"  # of the agent
OTHER_ZONE = "us/b"  # of the other one
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
NEAR = ("self", OTHER_ZONE, None, "self there")  # of the agent, and of the other one
FILTERED = {"instance": ("canary", "stable"), "component": ("canary",),  # by an attribute, too
    "node": ("stable", "canary"), "service": ("canary",), "absent": ("canary",)}

IN_THIS_PROCESS = ("members", "pick", "pick by name", "NSS")
ASKING_AT_A_TIME = 32

OF_A_PATH = ("endpoints", "text", "targets", "libberth", "set", "set as text", "members",
    "pick")


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
        self.service, self.protocol, self.track = service, protocol, track
        self.there = near == "self there"
        self.near = "self" if self.there else near
        self.zone = OTHER_ZONE if self.there else ZONE
        self.path, self.name = SERVICES[service]
        if track:
            self.name = f"{track}.track._attr.{self.name}"

    def __str__(self):
        return (f"{self.service}, {self.protocol or 'any'}, near {self.near} in {self.zone}, "
            f"{self.track or 'any'}")

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
        near = self.zone if self.near == "self" else self.near
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


class SetOptions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("api", "protocol", "scope")] + [
        ("attributes", ctypes.POINTER(ctypes.c_char_p)), ("near", ctypes.c_char_p),
        ("failover", ctypes.c_char_p), ("least", ctypes.c_uint)]


class SetMember(ctypes.Structure):
    _fields_ = [("endpoint", ctypes.c_void_p), ("host", ctypes.c_char_p), ("port", ctypes.c_uint),
        ("tier", ctypes.c_uint), ("weight", ctypes.c_uint), ("health", ctypes.c_char_p),
        ("zone", ctypes.c_char_p), ("attributes", ctypes.c_char_p)]

    def __str__(self):
        return address(self.host.decode(), self.port)


class SetMembers(ctypes.Structure):
    _fields_ = [("items", ctypes.POINTER(SetMember)), ("count", ctypes.c_size_t),
        ("exists", ctypes.c_bool), ("age", ctypes.c_long), ("stale", ctypes.c_bool)]


class Library:
    """Sets of libberth, in this process: kept, and by the agent's memory."""

    def __init__(self, test, path):
        self.library = ctypes.CDLL(str(BUILD / "libberth.so.0"))
        self.handle, self.failure = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
        self.sets = {}
        self.call("open", ctypes.byref(self.handle), str(path).encode(), None)
        self.library.berth_close.argtypes = self.library.berth_set_close.argtypes = (
            ctypes.c_void_p,)
        test.addCleanup(self.end)

    def end(self):
        for kept in self.sets.values():
            self.library.berth_set_close(kept)
        self.library.berth_close(self.handle)

    def call(self, name, *arguments):
        return getattr(self.library, f"berth_{name}")(*arguments, self.failure)

    def set(self, what, protocol, near, track):
        key = what, protocol, near, track
        if key not in self.sets:
            attributes = (ctypes.c_char_p * 2)(track and f"track={track}".encode())
            options = SetOptions(protocol=protocol and protocol.encode(), attributes=attributes,
                near=near and near.encode())
            self.sets[key] = ctypes.c_void_p()
            code = self.call("set_open", ctypes.byref(self.sets[key]), self.handle, what.encode(),
                ctypes.byref(options))
            assert code == 0, self.failure.raw
        return self.sets[key]

    def members(self, *question):
        found = ctypes.POINTER(SetMembers)()
        code = self.call("set_members", self.set(*question), ctypes.byref(found))
        return [str(item) for item in found.contents.items[:found.contents.count]] \
            if code == 0 else code

    def pick(self, *question):
        found = ctypes.POINTER(SetMember)()
        code = self.call("pick", self.set(*question), ctypes.byref(found))
        return str(found.contents) if code == 0 else None


class Hostent(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("aliases", ctypes.c_void_p), ("family", ctypes.c_int),
        ("length", ctypes.c_int), ("addresses", ctypes.POINTER(ctypes.c_void_p))]


@unittest.skipIf(missing("haproxy"), missing("haproxy"))
class OneAnswer(OutputTest):
    away = False

    def setUp(self):
        super().setUp()
        self.one_at_a_time = threading.Lock()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url
        self.names_ports = [reserve_names_port(self), reserve_names_port(self)]
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
            for track in (None, *FILTERED.get(service, ()))]
        self.agents = [self.agent(name,
                agent={"zone": zone, "failover": FAR, "failover_hold": "200ms"},
                dns={"listen": f"127.0.0.1:{port}", "prefer": "zone"}, **more).start()
            for name, zone, port, more in (
                ("here", ZONE, self.names_ports[0], {
                    "xds": {"listen": self.xds_socket, "failover": FAR, "failover_hold": "200ms"},
                    **self.outputs()}),
                ("there", OTHER_ZONE, self.names_ports[1], {}))]
        self.asked = self.agents[0]
        # A sanitizer's run time loads before a program, not into one.
        self.libraries = not os.environ.get("BERTH_SANITIZER") and [
            Library(self, agent.socket) for agent in self.agents]

    def outputs(self):
        sections = {}
        for question in self.questions:
            # A format is not asked for each question: a file is written for each.
            for format in FORMATS if question.near == "self" and not question.there else ():
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
        answer = self.agents[question.there].get(
            f"/v1/{kind}{question.path}?{question.parameters()}", **headers)
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
        answer = self.agents[question.there].get(f"/v1/set/{question.whole_name}{near}")
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

    def of_members(self, question):
        return self.libraries[question.there].members(
            question.path, question.protocol, question.near, question.track)

    def of_pick(self, question):
        return self.libraries[question.there].pick(
            question.path, question.protocol, question.near, question.track)

    def of_pick_by_name(self, question):
        return self.libraries[question.there].pick(
            question.whole_name, None, question.near, None)

    def of_names(self, question):
        name, more = question.whole_name, f"&near={question.near}" if question.near else ""
        if question.track and question.near:  # the parameter says what labels say else
            name = name.replace(f"{question.track}.track._attr.", "")
            more += f"&attribute.track={question.track}"
        answer = self.agents[question.there].get(f"/v1/names/{name}.berth?type=SRV{more}")
        targets = answer.json.get("targets", []) if answer.status == 200 else []
        return [address(item["address"], item["port"]) for item in targets]

    def of_srv(self, question):
        reply = ask(self.names_ports[question.there], f"{question.whole_name}.berth", "SRV")
        hosts = {name.name: str(item) for name in reply.additional for item in name
            if name.rdtype == 1}
        tiers = {}
        for target in (item for answer in reply.answer for item in answer):
            tiers.setdefault(target.priority, []).append(
                address(hosts.get(target.target), target.port))
        return [tiers[tier] for tier in sorted(tiers)]

    def of_a(self, question):
        reply = ask(self.names_ports[question.there], f"{question.name}.berth")
        return {item.address for answer in reply.answer for item in answer}

    def of_nss(self, question):
        os.environ["BERTH_SOCKET"] = str(self.asked.socket)  # of the first call for good
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
        if self.libraries:
            forms.update({"members": self.of_members, "pick": self.of_pick,
                "pick by name": self.of_pick_by_name})
        if question.near == "self":
            forms["SRV"] = self.of_srv
            if not question.protocol:
                forms["A"] = self.of_a
        if question.near == "self" and not question.there:
            forms["EDS"] = self.of_eds
            if question.track:
                forms["EDS by query"] = self.of_eds_by_query
            else:
                forms["libberth"] = self.of_libberth
            if not question.protocol and self.libraries:
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
        if form.startswith("pick"):
            tiers = [[member for member in tier if member.weight] for tier in tiers]
            return [address(member.host, member.port)
                for member in next(filter(None, tiers), [])] or [None]
        groups = [[address(member.host, member.port) for member in tier] for tier in tiers]
        if form in ("SRV", "EDS", "EDS by query", "envoy", "HAProxy's plan"):
            return [sorted(group) for group in groups]
        return [item for group in groups for item in group]

    def difference(self, question, form, ask_it):
        alone = self.one_at_a_time if form in IN_THIS_PROCESS else contextlib.nullcontext()
        with alone:
            found = ask_it(question)
        expected = self.expectation(question, form)
        if found and isinstance(found, list) and isinstance(found[0], list):
            found = [sorted(group) for group in found]
        if found in expected if form.startswith("pick") else found == expected:
            return None
        return f"{question}, {form}: {found}, not {expected}"

    def check(self, stage):
        """Every form comes to give the members that the table has."""
        left = [(question, form, ask_it) for question in self.questions
            for form, ask_it in self.forms(question).items()
            if not self.is_let_go(question, form)]
        count = len(left)

        differences = []

        def all_agree():
            # While the registry is away many answers wait for a second, for what may still come.
            with futures.ThreadPoolExecutor(ASKING_AT_A_TIME) as pool:
                differences[:] = pool.map(lambda item: self.difference(*item), left)
            left[:] = [item for item, differs in zip(left, differences) if differs]
            return not left

        try:
            wait_until(all_agree, "all agree")
        except AssertionError:
            differences = list(filter(None, differences))
            self.fail(f"{stage}: {len(differences)} differences\n" + "\n".join(differences))
        print(f"# {stage}: {len(self.questions)} questions, {count} answers")

    def change(self, host, **attributes):
        for member in self.world:
            if member.host == host:
                member.attributes.update(attributes)
                member.weight = member.attributes.get("weight", 1)
                self.put(member.path, member.content())

    def wait_for(self, source):
        wait_until(lambda: all(agent.get(f"/v1/endpoints{WEB}").headers["X-Cache"] == source
            for agent in self.agents), f"answers are {source}")

    def test_every_form_names_the_same_members_in_the_same_order(self):
        wait_until(lambda: all((self.directory / name.removeprefix("output ")).exists()
            for name in self.outputs() if name != "output runtime"), "all outputs are written")
        self.check("live")
        for stage, leave, come in (("stale", self.server.pause, self.server.resume),
                ("away", self.server.kill, self.server.restart)):
            leave()
            self.away = True
            self.wait_for("STALE")
            self.check(stage)
            come()
            self.away = False
            self.wait_for("HIT")
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
