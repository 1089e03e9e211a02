"""berth-xds: discovery by REST and by HTTP/2, its command line, and clients that mean no good."""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import threading

import http2
from berth import PROGRAMS, UnixConnection, berth, has_ended, wait_until
from http2 import (
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, PING, PRIORITY,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, Client, frame, message, settings,
)
from outputs import Members
from ports import reserve_port
from xds import CLUSTER, ENDPOINTS, NAME, XdsTest, dump


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


def ask(client, stream, *names, kind=ENDPOINTS):
    client.send(frame(DATA, 0, stream,
        message(*(http2.text(3, name) for name in names), http2.text(4, kind))))


class Rest(XdsTest):
    def setUp(self):
        super().setUp()
        self.members.put("c1", 8001, **{"berth:zone": "eu/a/r1", "weight": 3})
        self.members.put("c2", 8002, **{"berth:zone": "eu/b"})
        self.server = self.xds(self.agent().start(), "--zone", "eu/b").start()

    def post(self, what, body, connection=None):
        connection = connection or UnixConnection(self.server.socket)
        connection.request("POST", f"/v3/discovery:{what}",
            body if isinstance(body, str) else json.dumps(body),
            {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def endpoints(self, name=NAME, **more):
        status, body = self.post("endpoints", {"resource_names": [name], **more})
        return json.loads(body) if status == 200 else status

    def test_endpoints_have_localities_by_nearness(self):
        answer = self.endpoints()
        (resource,) = answer["resources"]
        self.assertEqual((resource["@type"], resource["cluster_name"]), (ENDPOINTS, NAME))
        near, far = resource["endpoints"]
        self.assertEqual(near["locality"], {"region": "eu", "zone": "b"})
        self.assertEqual((near.get("priority", 0), near["load_balancing_weight"]), (0, 1))
        self.assertEqual(far["locality"], {"region": "eu", "zone": "a", "sub_zone": "r1"})
        self.assertEqual((far["priority"], far["load_balancing_weight"]), (1, 3))
        self.assertEqual(far["lb_endpoints"], [{
            "endpoint": {
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": 8001}}
            },
            "load_balancing_weight": 3,
        }])

    def test_a_set_with_fewer_instances_than_wanted_stays(self):
        server = self.xds(self.server.agent, "--min-instances", 2,
            listen=self.folder / "two.sock").start()
        connection = UnixConnection(server.socket)

        def count():
            answer = json.loads(self.post("endpoints", {"resource_names": [NAME]}, connection)[1])
            return sum(len(part["lb_endpoints"]) for part in answer["resources"][0]["endpoints"])

        def count_of_one():
            return sum(len(part["lb_endpoints"])
                for part in self.endpoints()["resources"][0]["endpoints"])

        wait_until(lambda: count() == 2, "both are there")
        self.members.remove("c2")
        wait_until(lambda: count_of_one() == 1, "the one that takes single instances knows")
        self.assertEqual(count(), 2)
        self.members.put("c3", 8003)
        self.members.put("c4", 8004)
        wait_until(lambda: count() == 3, "three are enough")

    def test_an_unchanged_version_is_304(self):
        version = self.endpoints()["version_info"]
        self.assertEqual(self.endpoints(version_info=version), 304)
        self.members.put("c3", 8003)
        wait_until(lambda: self.endpoints(version_info=version) != 304, "another version")
        self.assertNotEqual(self.endpoints()["version_info"], version)

    def test_a_version_outlives_the_program(self):
        version = self.endpoints()["version_info"]
        self.server.kill()
        self.server.start()
        self.assertEqual(self.endpoints(version_info=version), 304)

    def test_clusters_are_those_that_are_served(self):
        status, body = self.post("clusters", {})
        self.assertEqual(status, 200)
        answer = json.loads(body)
        (cluster,) = answer["resources"]
        self.assertEqual((cluster["@type"], cluster["name"]), (CLUSTER, NAME))
        self.assertEqual(self.post("clusters", {"version_info": answer["version_info"]}),
            (304, b""))

    def test_an_absent_name_has_an_empty_set(self):
        (resource,) = self.endpoints("not.there.joe")["resources"]
        self.assertEqual(resource["endpoints"], [])

    def test_a_connection_carries_many_requests(self):
        connection = UnixConnection(self.server.socket)
        for _ in range(3):
            self.assertEqual(self.post("endpoints", {"resourceNames": [NAME]}, connection)[0], 200)

    def test_bad_requests_are_named(self):
        for body, reason in (("{", "DiscoveryRequest"), ('{"resource_names": 1}', "Discovery"),
                ("[]", "DiscoveryRequest"), ("{}", "names no cluster"),
                ('{"resource_names": [""]}', "1 to 1024"), ('{"resource_names": [7]}', "1 to")):
            status, answer = self.post("endpoints", body)
            self.assertEqual((status, reason in answer.decode()), (400, True), answer)
        self.assertEqual(self.post("listeners", {})[0], 404)
        connection = UnixConnection(self.server.socket)
        connection.request("GET", "/v3/discovery:endpoints")
        self.assertEqual(connection.getresponse().status, 405)
        self.assertEqual(self.post("endpoints", "x" * 600000)[0], 413)

    def test_an_answer_that_is_too_long_is_refused(self):
        for number in range(40):
            self.members.put(f"m{number}", 10000 + number)

        def count():
            answer = self.endpoints()
            return isinstance(answer, dict) and sum(len(locality["lb_endpoints"])
                for locality in answer["resources"][0]["endpoints"])

        wait_until(lambda: count() == 42, "the members are there")
        status, text = self.post("endpoints", {"resource_names": [NAME] * 4000})
        self.assertEqual((status, b"fewer names" in text), (400, True))
        self.assertEqual(self.post("endpoints", {"resource_names": [NAME]})[0], 200)

    def test_speaks_http2_as_well(self):
        result = subprocess.run(
            ["curl", "-sS", "--http2-prior-knowledge", "--unix-socket", self.server.socket,
                "-d", json.dumps({"resource_names": [NAME]}), "-w", "%{http_code} %{http_version}",
                "http://berth/v3/discovery:endpoints"],
            capture_output=True, text=True, timeout=60, check=True,
        )
        body, _, status = result.stdout.rpartition("\n")
        self.assertEqual(status, "200 2")
        self.assertEqual(json.loads(body)["resources"][0]["cluster_name"], NAME)


class Program(XdsTest):
    def run_program(self, *arguments):
        return subprocess.run([PROGRAMS / "berth-xds", *map(str, arguments)], capture_output=True,
            text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)

    def test_a_dump_shows_what_would_be_sent(self):
        self.members.put("c1", 8001)
        agent = self.agent().start()
        for name in (NAME, f"{NAME}.berth", f"_http._tcp.{NAME}", "c1.prod.web.joe",
                "/users/joe/web/prod/components"):
            shown = json.loads(dump(agent, name).stdout)
            (locality,) = shown["endpoints"]["endpoints"]
            self.assertEqual(len(locality["lb_endpoints"]), 1)
            self.assertEqual(shown["cluster"]["name"], name)
        shown = json.loads(dump(agent, f"_jmx._tcp.{NAME}").stdout)
        self.assertEqual(shown["endpoints"]["endpoints"], [])

    def test_berth_prints_the_same(self):
        self.members.put("c1", 8001)
        agent = self.agent().start()
        shown = subprocess.run([PROGRAMS / "berth", "--socket", agent.socket, "xds-dump", NAME],
            env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS)}, capture_output=True, text=True,
            timeout=60, check=True, stdin=subprocess.DEVNULL)
        self.assertEqual(shown.stdout, dump(agent, NAME).stdout)
        absent = subprocess.run([PROGRAMS / "berth", "--socket", agent.socket, "xds-dump", NAME],
            env={**os.environ, "BERTH_LIBEXECDIR": str(self.folder)}, capture_output=True,
            text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(absent.returncode, 1)
        self.assertIn("it is a package of its own", absent.stderr)

    def test_berth_prints_what_the_agent_s_own_clients_get(self):
        self.members.put("c1", 8001, **{"berth:zone": "us/a"})
        self.members.put("c2", 8002, **{"berth:zone": "eu/a"})
        Members(self.registry, "/far/users/joe/web/prod/components").put("f1", 8003)
        agent = self.agent(agent={"zone": "eu/a"}, xds={"listen": self.folder / "xds.sock",
            "failover": "/far", "min_instances": "3"}).start()
        said = agent.status()["xds"]
        self.assertEqual([said[key] for key in ("domain", "zone", "min_instances", "failover")],
            ["berth", "eu/a", 3, ["/far"]])
        done = subprocess.run([PROGRAMS / "berth", "--socket", agent.socket, "xds-dump", NAME],
            env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS)}, capture_output=True, text=True,
            timeout=60, check=True, stdin=subprocess.DEVNULL)
        ports = [[endpoint["endpoint"]["address"]["socket_address"]["port_value"]
            for endpoint in locality["lb_endpoints"]]
            for locality in sorted(json.loads(done.stdout)["endpoints"]["endpoints"],
                key=lambda locality: locality.get("priority", 0))]
        self.assertEqual(ports, [[8002], [8001], [8003]])

    def test_a_further_path_comes_behind_the_nearest_without_a_zone_too(self):
        self.members.put("c1", 8001)
        Members(self.registry, "/far/users/joe/web/prod/components").put("f1", 8002)
        result = dump(self.agent().start(), NAME, "--failover", "/far", "--min-instances", 2)
        found = json.loads(result.stdout)["endpoints"]["endpoints"]
        self.assertEqual([locality.get("priority", 0) for locality in found], [0, 1])

    def test_a_dump_names_a_further_path_that_it_could_not_wait_for(self):
        self.members.put("c1", 8001)
        away = f"zookeeper://127.0.0.1:{reserve_port(self)}"
        agent = self.agent(**{"registry away": {"url": away}})
        result = dump(agent.start(), NAME, "--failover", "/net/away", "--min-instances", 2)
        self.assertEqual(result.returncode, 0)
        self.assertIn("a further path is not confirmed", result.stderr)
        (near,) = json.loads(result.stdout)["endpoints"]["endpoints"]
        self.assertEqual(len(near["lb_endpoints"]), 1)

    def test_a_dump_without_an_agent_says_so(self):
        agent = self.agent()
        result = dump(agent, NAME)
        self.assertEqual(result.returncode, 4)
        self.assertIn(str(agent.socket), result.stderr)

    def test_mistakes_on_the_command_line_are_named(self):
        for arguments, word in (
            ((), "--listen"), (("--listen", "nowhere:x"), "address:port"),
            (("--serve", "/Users"), "--serve"), (("--min-instances", "x"), "--min-instances"),
            (("--status-fd", "-1"), "--status-fd"), (("word",), "word"),
            (("--nothing",), "nothing"),
        ):
            result = self.run_program(*arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(word, result.stderr)
        self.assertEqual(self.run_program("--help").returncode, 0)

    def test_a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not(self):
        agent = self.agent().start()
        server = self.xds(agent).start()
        second = self.run_program("--socket", agent.socket, "--listen", server.socket)
        self.assertEqual(second.returncode, 1)
        self.assertIn("Address already in use", second.stderr)
        server.kill()
        server.start()

    def test_says_how_it_is_to_whoever_asks(self):
        agent = self.agent().start()
        self.members.put("c1", 8001)
        reader, writer = socket.socketpair()
        with reader, writer:
            reader.settimeout(60)
            process = subprocess.Popen(
                [PROGRAMS / "berth-xds", "--socket", agent.socket, "--listen",
                    agent.folder / "xds.sock", "--status-fd", str(writer.fileno())],
                pass_fds=[writer.fileno()], stdin=subprocess.DEVNULL,
            )
            lines = reader.makefile()
            self.assertEqual(json.loads(lines.readline())["connections"], 0)
            client = Client(agent.folder / "xds.sock")
            self.addCleanup(client.close)
            self.assertEqual(json.loads(lines.readline())["connections"], 1)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)


class Frames(XdsTest):
    """HTTP/2 by hand. After each of these another client is served as before, from bounded memory.
    """

    def setUp(self):
        super().setUp()
        self.members.put("c1", 8001)
        self.server = self.xds(self.agent().start()).start()
        self.work()
        self.before = private_kib(self.server.process.pid)

    def tearDown(self):
        self.work()
        grown = private_kib(self.server.process.pid) - self.before
        self.assertLess(grown, 16 * 1024)
        super().tearDown()

    def client(self, *arguments):
        client = Client(self.server.socket, *arguments)
        self.addCleanup(client.close)
        return client

    def work(self):
        """A stream that asks and gets."""
        client = self.client()
        client.open(1)
        ask(client, 1, NAME)
        self.assertIn(NAME.encode(), client.wait(DATA, 1))
        client.close()

    def flood(self, client, data, times):
        """Sends until the server has had enough, or so often; the error that it gives."""
        try:
            for _ in range(times):
                client.send(data)
        except OSError:
            pass
        try:
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        return client.end()

    def test_a_flood_of_pings_is_ended(self):
        self.assertIn(self.flood(self.client(), 100 * frame(PING, payload=bytes(8)), 1000),
            (ENHANCE_YOUR_CALM, None))

    def test_a_flood_of_settings_is_ended(self):
        self.assertIn(self.flood(self.client(), 100 * settings(_4=65535), 1000),
            (ENHANCE_YOUR_CALM, None))

    def test_rapid_resets_are_ended(self):
        client = self.client()
        head = http2.request_fields(f"{http2.SERVICE}StreamAggregatedResources")
        try:
            for number in range(1, 100001, 2):
                client.send(frame(HEADERS, END_HEADERS, number, head) +
                    frame(RST_STREAM, 0, number, bytes(4)))
            self.fail("50,000 resets were taken")
        except OSError:
            pass

    def test_a_flood_of_continuations_is_ended(self):
        client = self.client()
        client.send(frame(HEADERS, 0, 1, http2.request_fields("/")))
        part = frame(CONTINUATION, 0, 1, http2.fields(("x" * 1000, "y" * 1000)))
        self.flood(client, part, 10000)

    def test_a_flood_of_empty_data_is_ended(self):
        client = self.client()
        client.open(1)
        self.flood(client, 100 * frame(DATA, 0, 1), 1000)

    def test_a_header_that_is_too_long_is_refused(self):
        client = self.client()
        head = http2.request_fields("/") + http2.fields(*(("a", "b" * 8000) for _ in range(12)))
        parts = [head[at:at + 16000] for at in range(0, len(head), 16000)]
        for number, part in enumerate(parts):
            last = END_HEADERS if number == len(parts) - 1 else 0
            client.send(frame(HEADERS if number == 0 else CONTINUATION, last, 1, part))
        self.assertNotEqual(self.flood(client, b"", 1), 0)

    def test_more_streams_than_allowed_are_refused(self):
        client = self.client()
        client.wait(SETTINGS)
        for number in range(1, 400, 2):
            client.open(number)
        self.assertEqual(client.wait(RST_STREAM)[3], 7)  # REFUSED_STREAM

    def test_a_client_that_reads_nothing_costs_no_memory(self):
        client = self.client(settings(_4=0))
        client.open(1)
        ask(client, 1, NAME)
        for number in range(200):
            self.members.put("c2", 9000 + number)
        # It gets the last state in the end.
        client.send(frame(8, 0, 1, (1 << 20).to_bytes(4, "big")))
        client.wait(DATA, 1)

        def has_last():
            with_last = b"\x18" + http2.varint(9199)
            return with_last in client.wait(DATA, 1)

        self.members.put("c3", 1)
        wait_until(has_last, "the last state came")

    def test_a_message_that_is_too_long_ends_the_stream_alone(self):
        client = self.client()
        client.open(1)
        client.open(3)
        client.send(frame(DATA, 0, 1, b"\0\x7f\xff\xff\xff"))
        while True:
            kind, flags, stream, payload = client.next()
            if stream == 1 and kind == HEADERS and flags & END_STREAM:
                break
        ask(client, 3, NAME)
        self.assertIn(NAME.encode(), client.wait(DATA, 3))

    def test_bytes_that_are_not_a_message_end_the_stream(self):
        for data in (b"\0\0\0\0\x02\x0a\x05", b"\x01\0\0\0\0",
                message(http2.text(3, ""), http2.text(4, ENDPOINTS))):
            client = self.client()
            client.open(1)
            client.send(frame(DATA, 0, 1, data))
            while True:
                kind, flags, _, _ = client.next()
                self.assertNotEqual(kind, DATA)
                if kind == HEADERS and flags & END_STREAM:
                    break

    def test_an_unknown_method_ends_its_stream_alone(self):
        client = self.client()
        client.open(1, "/envoy.service.discovery.v3.ClusterDiscoveryService/StreamClusters")
        client.wait(HEADERS, 1)
        kind, flags, stream, _ = client.next()
        self.assertEqual((kind, flags & END_STREAM, stream), (HEADERS, END_STREAM, 1))
        client.open(3)
        ask(client, 3, NAME)
        self.assertIn(NAME.encode(), client.wait(DATA, 3))

    def test_messages_that_never_end_take_bounded_memory(self):
        """Each stream may hold half a mebibyte, and a connection has a hundred of them."""
        clients = [self.client(), self.client()]
        with self.assertRaises(OSError, msg="100 MB were taken"):
            for client in clients:
                for stream in range(1, 200, 2):
                    client.open(stream)
                    client.send(frame(DATA, 0, stream, b"\0" + (500000).to_bytes(4, "big")))
                    for _ in range(31):
                        client.send(frame(DATA, 0, stream, bytes(16000)))
                    client.drain()
        wait_until(lambda: "more memory, than one may take" in self.server.read_log(),
            "the log says so")
        for client in clients:
            client.close()

    def test_a_refusal_is_logged_once(self):
        client = self.client()
        client.open(1)
        ask(client, 1, NAME)
        client.wait(DATA, 1)
        status = http2.varint(1 << 3) + http2.varint(3) + http2.text(2, "it is not good")
        for _ in range(3):
            client.send(frame(DATA, 0, 1, message(http2.text(3, NAME), http2.text(4, ENDPOINTS),
                http2.text(5, "1"), http2.text(6, status))))
        # The next answer is that to another question: a refused one is not sent again.
        ask(client, 1, "other.web.joe")
        self.assertIn(b"other.web.joe", client.wait(DATA, 1))
        refusals = lambda: self.server.read_log().count("refuses endpoints: it is not good")
        # A child writes the log.
        wait_until(refusals, "the refusal is logged")
        self.assertEqual(refusals(), 1)

    def test_the_end_says_goodbye(self):
        client = self.client()
        client.open(1)
        ask(client, 1, NAME)
        client.wait(DATA, 1)
        self.server.process.terminate()
        self.assertEqual(client.end(), 0)
        self.assertEqual(self.server.process.wait(60), 0)
        self.server.start()

    def test_bytes_that_are_nothing_are_refused(self):
        for data in (b"\0" * 100 + b"\r\n", http2.PREFACE + b"x" * 20,
                b"PRI * HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(60)
                stranger.connect(str(self.server.socket))
                stranger.sendall(data)
                try:
                    while stranger.recv(65536):
                        pass
                except ConnectionError:
                    pass

    def test_a_byte_at_a_time_is_as_good(self):
        client = Client(self.server.socket)
        self.addCleanup(client.close)
        request = (frame(HEADERS, END_HEADERS, 1,
            http2.request_fields(f"{http2.SERVICE}StreamAggregatedResources")) +
            frame(DATA, 0, 1, message(http2.text(3, NAME), http2.text(4, ENDPOINTS))))
        for byte in request:
            client.send(bytes([byte]))
        self.assertIn(NAME.encode(), client.wait(DATA, 1))


def resets():
    """Streams that are opened and reset, by frames without end."""
    head = http2.request_fields(f"{http2.SERVICE}StreamAggregatedResources")
    for first in itertools.count(1, 200):
        yield b"".join(
            frame(HEADERS, END_HEADERS, number, head) + frame(RST_STREAM, 0, number, bytes(4))
            for number in range(first, first + 200, 2))


def long_heads():
    """A head of 96 KB for each stream."""
    part = http2.fields(("a", "b" * 8000))
    head = http2.request_fields("/")
    for number in itertools.count(1, 2):
        yield frame(HEADERS, 0, number, head) + b"".join(
            frame(CONTINUATION, END_HEADERS if last else 0, number, part)
            for last in [False] * 11 + [True])


def continuations():
    """One head without an end."""
    yield frame(HEADERS, 0, 1, http2.request_fields("/"))
    yield from itertools.repeat(100 * frame(CONTINUATION, 0, 1, http2.fields(("x", "y" * 100))))


def subscribed(*frames):
    """A stream that has asked for endpoints, and then these frames without end."""
    yield (frame(HEADERS, END_HEADERS, 1,
            http2.request_fields(f"{http2.SERVICE}StreamAggregatedResources")) +
        frame(DATA, 0, 1, message(http2.text(3, NAME), http2.text(4, ENDPOINTS))))
    yield from itertools.repeat(100 * b"".join(frames))


def window(stream, bytes_more):
    return frame(WINDOW_UPDATE, 0, stream, bytes_more.to_bytes(4, "big"))


FLOODS = {
    "ping": lambda: itertools.repeat(100 * frame(PING, payload=bytes(8))),
    "settings": lambda: itertools.repeat(100 * settings(_4=65535)),
    "windows": lambda: subscribed(settings(_4=0), settings(_4=65535)),
    "drip": lambda: itertools.chain([settings(_4=0)], subscribed(window(1, 1))),
    "updates": lambda: itertools.repeat(100 * window(0, 1)),
    "priorities": lambda: itertools.repeat(
        100 * frame(PRIORITY, 0, 1, (3).to_bytes(4, "big") + b"\1")),
    "unknown": lambda: itertools.repeat(100 * frame(99, 0, 1, bytes(8))),
    "empty": lambda: subscribed(frame(DATA, 0, 1)),
    "resets": resets,
    "continuations": continuations,
    "heads": long_heads,
}
IGNORED = {"unknown"}  # by nghttp2, as the standard has it: they cost as little as their bytes


class Floods(XdsTest):
    """While clients of one address flood the server, that of another one is served."""

    def setUp(self):
        super().setUp()
        self.members.put("c1", 8001)
        self.port = reserve_port(self)
        self.server = self.xds(self.agent().start(), "--listen", f"127.0.0.1:{self.port}").start()
        self.ended = 0

    def connect(self, last, *greeting):
        connection = socket.create_connection(("127.0.0.1", self.port), http2.PATIENCE,
            (f"127.0.0.{last}", 0))
        self.addCleanup(connection.close)
        return Client(None, *greeting, connection=connection)

    def flood(self, name, begun, stopped):
        """One connection after the other, each until the server has had enough of it."""
        while not stopped.is_set():
            client = self.connect(1)
            try:
                for data in FLOODS[name]():
                    client.send(data)
                    client.drain()
                    begun.set()
                    if stopped.is_set():
                        break
            except OSError:
                self.ended += 1
            client.close()

    def test_others_are_served_meanwhile_and_each_flood_is_ended(self):
        others = self.connect(2)
        others.open(1)
        ask(others, 1, NAME)
        others.wait(DATA, 1)
        for name in FLOODS:
            with self.subTest(name):
                # For each flood anew: a sanitizer's own memory grows with every allocation.
                before = private_kib(self.server.process.pid)
                self.ended = 0
                begun, stopped = threading.Event(), threading.Event()
                threads = [threading.Thread(target=self.flood, args=(name, begun, stopped))
                    for _ in range(2)]
                for thread in threads:
                    thread.start()
                try:
                    self.assertTrue(begun.wait(http2.PATIENCE))
                    for number in range(10):
                        new = f"_{name}{number}._tcp.{NAME}"
                        ask(others, 1, new)
                        self.assertIn(new.encode(), others.wait(DATA, 1))
                        self.assertLess(private_kib(self.server.process.pid) - before, 16 * 1024)
                    wait_until(lambda: self.ended > 0 or name in IGNORED,
                        "the server ended a connection")
                finally:
                    stopped.set()
                    for thread in threads:
                        thread.join()


class Shares(XdsTest):
    """Two clients by TCP, with addresses of their own."""

    def setUp(self):
        super().setUp()
        self.members.put("c1", 8001)
        self.port = reserve_port(self)
        self.reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.addCleanup(os.close, self.reader)
        self.text = ""
        self.server = self.xds(self.agent().start(), "--listen", f"127.0.0.1:{self.port}",
            "--status-fd", self.writer)

    def start(self, **keywords):
        self.server.start(pass_fds=[self.writer], **keywords)
        os.close(self.writer)

    def connect(self, last):
        """A connection of the client 127.0.0.LAST."""
        connection = socket.create_connection(("127.0.0.1", self.port), 60,
            (f"127.0.0.{last}", 0))
        self.addCleanup(connection.close)
        return connection

    def expect_service(self, client, times=1):
        client.open(1)
        for number in range(times):
            name = f"_x{number}._tcp.{NAME}"
            ask(client, 1, name)
            self.assertIn(name.encode(), client.wait(DATA, 1))

    def test_connections_of_one_client_leave_others_theirs(self):
        # Half of the files are for connections, three quarters of these for one client.
        self.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))
        for _ in range(100):
            self.connect(1)
        self.expect_service(Client(None, connection=self.connect(2)))
        wait_until(lambda: "had more of them" in self.server.read_log(), "the log says so")

    def test_a_client_that_makes_much_work_waits_and_others_do_not(self):
        self.start()
        stopped = threading.Event()
        threads = [threading.Thread(target=self.flood, args=(stopped,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            other = Client(None, connection=self.connect(2))
            self.expect_service(other, 50)
            wait_until(lambda: self.figures()["pauses"] > 0, "the client had to wait")
            other.send(frame(PING, payload=bytes(8)))
            other.wait(PING)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()

    def figures(self):
        """The last line of the server's figures, which come when they change."""
        with contextlib.suppress(BlockingIOError):
            self.text += os.read(self.reader, 65536).decode()
        lines = self.text.splitlines()[:self.text.count("\n")]
        return json.loads(lines[-1]) if lines else {"pauses": 0}

    def flood(self, stopped):
        """Requests by REST without end, each of 2,000 sets."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60,
            source_address=("127.0.0.1", 0))
        body = json.dumps({"resource_names": [NAME] * 2000})
        while not stopped.is_set():
            connection.request("POST", "/v3/discovery:endpoints", body)
            self.assertEqual(connection.getresponse().read()[:1], b"{")
        connection.close()


class Tcp(XdsTest):
    def test_listens_at_an_address_as_well(self):
        self.members.put("c1", 8001)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        agent = self.agent().start()
        self.xds(agent, "--listen", f"127.0.0.1:{port}").start()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v3/discovery:endpoints",
            json.dumps({"resource_names": [NAME]}))
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()


class OfTheAgent(XdsTest):
    """berth-xds as the agent runs it."""

    def start(self, **options):
        self.members.put("c1", 8001, **{"berth:zone": "eu/b"})
        self.members.put("c2", 8002, **{"berth:zone": "eu/a"})
        self.socket = self.folder / "agent" / "xds.sock"
        agent = self.agent(xds={"listen": self.socket, **options}, agent={"zone": "eu/a"})
        return agent.start()

    def endpoints(self):
        connection = UnixConnection(self.socket)
        connection.request("POST", "/v3/discovery:endpoints",
            json.dumps({"resource_names": [NAME]}))
        (resource,) = json.loads(connection.getresponse().read())["resources"]
        connection.close()
        return [(locality["locality"]["zone"], locality.get("priority", 0))
            for locality in resource["endpoints"]]

    def wait_running(self, agent):
        wait_until(lambda: agent.status()["xds"]["running"], "berth-xds runs")
        return agent.status()["xds"]["pid"]

    def test_it_serves_with_the_zone_of_the_agent(self):
        agent = self.start()
        self.assertEqual(self.endpoints(), [("a", 0), ("b", 1)])
        self.assertEqual(agent.status()["xds"]["listen"], str(self.socket))
        wait_until(lambda: agent.status()["xds"].get("names") == 1, "its figures came")
        self.assertIn("berth_xds_running 1", agent.get("/metrics").body.decode())
        self.assertIn("berth_xds_names 1", agent.get("/metrics").body.decode())
        shown = berth("--socket", agent.socket, "status")
        self.assertIn(f"xds: {self.socket}", shown.stdout)

    def test_a_command_that_ends_leaves_it_alone(self):
        socket_path = self.folder / "xds.sock"
        agent = self.web_agent(extra={"xds": {"listen": socket_path},
            "check alive": {"interval": "20ms", "fast_interval": "20ms"}}).start()
        pid = self.wait_running(agent)
        wait_until(lambda: sum(agent.check_named("alive")["counts"].values()) >= 5,
            "commands have ended")
        self.assertEqual(agent.status()["xds"]["pid"], pid)
        self.assertEqual(agent.status()["xds"]["restarts"], 0)

    def test_it_is_in_the_cage_that_the_log_names(self):
        agent = self.start()
        pid = self.wait_running(agent)
        wait_until(lambda: "xds: cage: " in agent.read_log(), "the log names the cage")
        words = agent.read_log().split("xds: cage: ")[1].splitlines()[0]
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        caged = "built without sandbox" not in words
        self.assertEqual((words.startswith("seccomp, "), fields["NoNewPrivs"]), (caged, "1"))
        if caged:
            self.assertEqual(fields["Seccomp"], "2")
            self.assertEqual(int(fields["CapPrm"], 16), 0)
            self.assertEqual(int(fields["CapEff"], 16), 0)

    def test_without_a_preference_zones_are_equal(self):
        self.start(prefer="none")
        self.assertEqual(self.endpoints(), [("a", 0), ("b", 0)])

    def test_it_is_started_again_and_its_socket_never_refuses(self):
        agent = self.start()
        for _ in range(2):
            pid = self.wait_running(agent)
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(len(self.endpoints()), 2)
            wait_until(lambda: agent.status()["xds"]["pid"] not in (0, pid), "another runs")
        self.assertEqual(agent.status()["xds"]["restarts"], 2)
        self.assertIn("killed by signal 9", agent.read_log())

    def test_an_upgrade_keeps_the_socket(self):
        agent = self.start()
        inode = self.socket.stat().st_ino
        pid = self.wait_running(agent)
        agent.upgrade()
        self.assertEqual(len(self.endpoints()), 2)
        self.assertNotEqual(self.wait_running(agent), pid)
        self.assertEqual(self.socket.stat().st_ino, inode)
        wait_until(lambda: has_ended(pid), "the one before has ended")

    def test_it_ends_with_the_agent(self):
        agent = self.start()
        pid = self.wait_running(agent)
        agent.kill()
        wait_until(lambda: has_ended(pid), "berth-xds has ended")
        agent.start()
        pid = self.wait_running(agent)
        self.assertEqual(agent.stop(), 0)
        wait_until(lambda: has_ended(pid), "berth-xds has ended")
        self.assertFalse(self.socket.exists())

    def test_a_program_that_is_not_there_is_named(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.members.put("c1", 8001)
        agent = self.agent(xds={"listen": self.folder / "xds.sock"})
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(empty)})
        self.assertFalse(agent.status()["xds"]["running"])
        self.assertIn(f"{empty}/berth-xds", agent.read_log())

    def test_the_zone_is_in_the_record(self):
        agent = self.web_agent(extra={"agent": {"zone": "eu/a"}})
        agent.start()
        agent.wait_state("registered")
        self.assertEqual(self.in_registry()["berth:zone"], "eu/a")

    def test_mistakes_in_the_configuration_are_named(self):
        for sections, word in (
            ({"xds": {"listen": "nowhere"}}, "listen"),
            ({"xds": {"listen": "/" + "x" * 110}}, "107"),
            ({"xds": {"serve": "/Users/**"}}, "serve"), ({"xds": {"prefer": "x"}}, "prefer"),
            ({"agent": {"zone": "eu//a"}}, "zone"), ({"agent": {"zone": "/eu"}}, "zone"),
            ({"agent": {"zone": "eu/"}}, "zone"),
        ):
            agent = self.agent(**sections)
            result = subprocess.run([PROGRAMS / "berthd", "-t", "-c", agent.config],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((result.returncode, word in result.stderr), (1, True), result.stderr)
