"""Look-ups in shared memory: who gets the map, what is in it, and that it is never older than the
socket. The reader is docs/examples/shared.py."""

import array
import http.client
import importlib.util
import json
import os
import pathlib
import resource
import select
import shutil
import signal
import socket
import time
import unittest

from berth import BUILD, PATIENCE, AgentTest, Answer, UnixConnection, service_record, wait_until
from ports import reserve_port
from streams import NDJSON, Stream
from zookeeper import ZooKeeper

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DB = "/services/db"
TARGET = f"/v1/resolve{DB}"


def load_reader():
    specification = importlib.util.spec_from_file_location(
        "shared", SOURCE / "docs/examples/shared.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


reader = load_reader()


def metrics(agent):
    """The agent's metrics that begin with berth_shared_."""
    lines = agent.get("/metrics").body.decode().splitlines()
    return {name: float(value) for name, value in (line.split(" ") for line in lines
        if line.startswith("berth_shared_"))}


def lookups(agent):
    """How many look-ups came over the socket, by their outcome."""
    lines = agent.get("/metrics").body.decode().splitlines()
    return {name: float(value) for name, value in (line.split(" ") for line in lines
        if line.startswith("berth_lookups_total"))}


class SharedTest(AgentTest):
    confirm = "5s"

    def start(self, **agent_options):
        agent = self.agent(agent=agent_options, cache={"confirm": self.confirm}).start()
        self.put(DB, service_record("h1", 1))
        return agent

    def client(self, agent):
        return reader.Client(str(agent.socket))

    def in_memory(self, client, target=TARGET):
        """Waits until the answer comes from memory; its body."""

        def get():
            _, body = client.get(target)
            return body if client.from_memory else None

        return wait_until(get, "the answer comes from memory")

    def port(self, client):
        """The port in the record, and whether it came from memory."""
        _, body = client.get(TARGET)
        return json.loads(body)["external"][0]["addresses"][0]["port"]

    def map_of(self, agent):
        found = wait_until(lambda: reader.fetch(str(agent.socket)), "the agent has a map")
        return found


class Map(SharedTest):
    def test_an_answer_that_a_reader_asks_for_is_in_memory_then(self):
        agent = self.start()
        client = self.client(agent)
        self.put(f"{DB}/a", service_record("h2", 2))
        for target in (TARGET, f"/v1/records{DB}", f"/v1/endpoints{DB}?protocol=http",
                f"/v1/list{DB}", f"/v1/stat{DB}", "/v1/names/db.services.berth",
                f"/v1/targets{DB}"):
            with self.subTest(target):
                self.assertEqual(self.in_memory(client, target), agent.get(target).body)

    def test_the_tag_is_that_of_the_socket(self):
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        _, (code, tag, _) = client.map.read(TARGET)
        self.assertEqual((code, tag), (0, agent.get(TARGET).headers["ETag"]))

    def test_text_is_kept_apart_from_json(self):
        agent = self.start()
        client = self.client(agent)
        target = f"/v1/endpoints{DB}"
        self.in_memory(client, target)
        text = agent.get(target, Accept="text/plain", Prefer="shared").body
        self.assertEqual(client.map.read(f"{target} text/plain")[1][2], text)
        self.assertNotEqual(client.map.read(target)[1][2], text)

    def test_errors_about_a_path_are_kept_too(self):
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client, "/v1/resolve/services/nothing")
        outcome, (code, _, text) = client.map.read("/v1/resolve/services/nothing")
        self.assertEqual((outcome, text), (reader.FOUND, b"no such path: /services/nothing"))
        self.assertEqual(code, 1)

    def test_only_what_readers_ask_for_is_kept(self):
        agent = self.start()
        found = self.map_of(agent)
        agent.get(TARGET)
        self.assertEqual(found.read(TARGET)[0], reader.UNKNOWN)
        agent.get(TARGET, Prefer="shared")
        self.assertEqual(found.read(TARGET)[0], reader.FOUND)

    def test_a_large_answer_comes_by_the_socket(self):
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        self.put("/services/large", service_record("h", 1, note="x" * 17000))
        for _ in range(3):
            client.get("/v1/resolve/services/large")
            self.assertFalse(client.from_memory)

    def test_a_client_without_a_map_costs_no_memory(self):
        agent = self.start()
        agent.get(TARGET, Prefer="shared")
        self.assertEqual(metrics(agent), {"berth_shared_bytes": 0, "berth_shared_entries": 0,
            "berth_shared_maps_total": 0})
        self.map_of(agent)
        agent.get(TARGET, Prefer="shared")
        now = metrics(agent)
        self.assertGreaterEqual(now["berth_shared_bytes"], 256 * 1024)
        self.assertEqual(now["berth_shared_entries"], 1)
        self.assertEqual(now["berth_shared_maps_total"], 1)

    def test_a_map_that_is_full_grows_and_its_readers_follow(self):
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        for number in range(500):
            client.get(f"/v1/resolve/services/nothing{number}")
        self.assertGreater(client.map.size, 256 * 1024)
        self.in_memory(client, "/v1/resolve/services/nothing7")
        self.assertGreaterEqual(metrics(agent)["berth_shared_maps_total"], 2)


class Warm(SharedTest):
    def read_later(self, found, target):
        """The body of an answer that nobody has asked for over the socket."""
        def is_there():
            outcome, answer = found.read(target)
            return answer if outcome == reader.FOUND else None

        return wait_until(is_there, f"{target} is in memory")[2]

    def test_warm_answers_are_in_memory_before_anybody_asks(self):
        agent = self.agent(cache={"confirm": self.confirm, "warm": "/services/**"}).start()
        self.put(DB, service_record("h1", 1))
        self.put(f"{DB}/a", service_record("h2", 2))
        found = self.map_of(agent)
        targets = [TARGET, f"/v1/endpoints{DB}", f"/v1/records{DB}", f"/v1/list{DB}",
            "/v1/list/services", f"/v1/resolve{DB}/a", f"/v1/endpoints{DB}/a"]
        for target in targets:
            self.read_later(found, target)
        self.assertGreater(len(lookups(agent)), 0)
        self.assertFalse(any(lookups(agent).values()))
        for target in targets:
            self.assertEqual(self.read_later(found, target), agent.get(target).body)

    def test_a_warm_path_that_changes_is_in_memory_again(self):
        agent = self.agent(cache={"confirm": self.confirm, "warm": DB}).start()
        self.put(DB, service_record("h1", 1))
        found = self.map_of(agent)
        for version in range(2, 6):
            self.put(DB, service_record("h1", version))
            wait_until(lambda version=version: f'"{version}"' in
                self.read_later(found, TARGET).decode(), "the new record is in memory")
        self.assertFalse(any(lookups(agent).values()))


class HandingOut(SharedTest):
    def ask(self, agent, requests=b"GET /v1/shared HTTP/1.1\r\nHost: x\r\n\r\n"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(connection.close)
        connection.connect(str(agent.socket))
        connection.sendall(requests)
        return connection

    def receive(self, connection):
        """All that comes until the agent ends the connection: bytes, and by which byte each
        descriptor came."""
        text, places = b"", []
        while True:
            part, rights, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(64),
                socket.MSG_CMSG_CLOEXEC)
            for _, _, data in rights:
                descriptors = array.array("i", data)
                for descriptor in descriptors:
                    os.close(descriptor)
                    places.append(len(text))
            if not part:
                return text, places
            text += part

    def test_the_answer_says_version_and_size_and_is_the_last_one(self):
        agent = self.start()
        again = b"GET /v1/shared HTTP/1.1\r\nHost: x\r\n\r\n" \
            b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"
        text, places = self.receive(self.ask(agent, again))
        self.assertEqual(places, [0])
        self.assertEqual(text.count(b"HTTP/1.1 200"), 1)
        self.assertIn(b"Connection: close", text)
        body = json.loads(text.rpartition(b"\r\n\r\n")[2])
        self.assertEqual(body, {"version": 1, "size": 256 * 1024})

    def test_behind_other_requests_the_descriptor_comes_with_its_own_answer(self):
        agent = self.start()
        requests = f"GET {TARGET} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 3
        connection = self.ask(agent, requests + b"GET /v1/shared HTTP/1.1\r\nHost: x\r\n\r\n")
        text, places = self.receive(connection)
        self.assertEqual(text.count(b"HTTP/1.1 200"), 4)
        self.assertEqual(len(places), 1)
        # A read ends before bytes with a descriptor: it came with the bytes that begin there.
        self.assertTrue(text[places[0]:].startswith(b"HTTP/1.1 200"), text[places[0]:][:80])
        self.assertIn(b'"version"', text[places[0]:])

    def test_it_does_not_exist_on_tcp(self):
        port = reserve_port(self)
        agent = self.start(listen=f"127.0.0.1:{port}")
        connection = http.client.HTTPConnection("127.0.0.1", port)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/shared")
        self.assertEqual(Answer(connection.getresponse()).status, 404)
        connection.request("GET", "/")
        self.assertNotIn("/v1/shared", Answer(connection.getresponse()).body.decode())
        self.assertIn("/v1/shared", agent.get("/").body.decode())

    def test_other_methods_are_refused(self):
        agent = self.start()
        self.assertEqual(agent.request("HEAD", "/v1/shared").status, 405)
        self.assertEqual(agent.request("POST", "/v1/shared").status, 405)

    def test_an_option_turns_it_off(self):
        agent = self.start(shared="no")
        self.assertEqual(agent.get("/v1/shared").status, 404)

    def test_a_reload_turns_it_off_and_on(self):
        agent = self.start()
        found = self.map_of(agent)
        agent.write_config({"agent": {"shared": "no"}})
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(found.judge(), reader.GONE)
        self.assertEqual(agent.get("/v1/shared").status, 404)
        agent.write_config({})
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.map_of(agent).judge(), reader.FOUND)

    def test_a_client_that_does_not_read_gets_one_descriptor(self):
        agent = self.start()
        first = self.ask(agent)
        self.assertTrue(select.select([first], [], [], PATIENCE)[0], "the agent has answered")
        refused = agent.get("/v1/shared")
        self.assertEqual((refused.status, refused.json["title"]), (503, "LimitExceeded"))
        self.receive(first)
        self.assertEqual(agent.get("/v1/shared").status, 200)

    def test_an_agent_without_a_free_descriptor_says_so(self):
        agent = self.start()
        connection = UnixConnection(agent.socket)
        self.addCleanup(connection.close)
        connection.request("GET", "/live")
        self.assertEqual(Answer(connection.getresponse()).status, 200)
        before = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (0, before[1]))
        connection.request("GET", "/v1/shared")
        refused = Answer(connection.getresponse())
        self.assertEqual((refused.status, refused.json["title"]), (503, "LimitExceeded"))
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, before)
        self.assertEqual(self.map_of(agent).judge(), reader.FOUND)

    def test_a_client_that_has_ended_its_half_gets_none(self):
        agent = self.start()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(connection.close)
        connection.connect(str(agent.socket))
        agent.signal(signal.SIGSTOP)
        connection.sendall(b"GET /v1/shared HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        agent.signal(signal.SIGCONT)
        text, places = self.receive(connection)
        # The request may be read before the end of it.
        self.assertTrue(b" 503 " in text or places, text)


class Truth(SharedTest):
    def test_a_client_that_hears_of_a_change_never_reads_the_older_answer(self):
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        stream = Stream(agent.socket, f"/v1/watch{DB}", NDJSON)
        self.addCleanup(stream.close)
        stream.next()
        for version in range(2, 40):
            self.put(DB, service_record("h1", version))
            while True:
                event = stream.next()
                if event["type"] == "UPDATED":
                    told = int(event["record"]["external"][0]["addresses"][0]["port"])
                    self.assertGreaterEqual(int(self.port(client)), told)
                    if told == version:
                        break
            self.in_memory(client)

    def test_a_killed_agent_answers_for_the_lease_and_no_longer(self):
        self.confirm = "1s"
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        found = client.map
        agent.kill()
        killed = time.clock_gettime(time.CLOCK_BOOTTIME)
        wait_until(lambda: found.read(TARGET)[0] == reader.EXPIRED, "the lease is over")
        self.assertLess(found.words[17] / 1e9 - killed, 1.0)

    def test_a_frozen_agent_lets_the_lease_run_out(self):
        self.confirm = "1s"
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        found = client.map
        agent.signal(signal.SIGSTOP)
        frozen = time.clock_gettime(time.CLOCK_BOOTTIME)
        wait_until(lambda: found.read(TARGET)[0] == reader.EXPIRED, "the lease is over")
        self.assertLess(found.words[17] / 1e9 - frozen, 1.0)
        agent.signal(signal.SIGCONT)
        self.in_memory(client)

    def test_a_directory_as_registry_extends_the_lease_again_and_again(self):
        self.confirm = "200ms"
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        found, leases = client.map, set()

        def is_extended():
            leases.add(found.words[17])
            return len(leases) > 10

        wait_until(is_extended, "the lease was extended ten times")

    def test_an_upgrade_retires_the_map_and_makes_another(self):
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        old = client.map
        for _ in range(3):
            agent.upgrade()
            self.assertEqual(old.judge(), reader.GONE)
            self.in_memory(client)
            self.assertIsNot(client.map, old)
            old = client.map

    def test_an_upgrade_that_fails_has_a_map_all_the_same(self):
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        agent.config.write_text("[nonsense]\n")
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: "the old one stays" in agent.read_log(), "the upgrade has failed")
        self.assertEqual(json.loads(self.in_memory(client))["type"], "JSONServiceRecord")

    def test_an_exec_that_fails_after_the_map_was_retired_leads_to_a_new_one(self):
        agent = self.agent(agent={}, cache={"confirm": self.confirm})
        program = self.folder / "berthd"
        shutil.copy(BUILD / "berthd", program)
        agent.program = program
        agent.start()
        self.put(DB, service_record("h1", 1))
        client = self.client(agent)
        self.in_memory(client)
        old = client.map
        program.unlink()
        # It passes the test of the configuration, and is not there any more when it is executed.
        program.write_text('#!/bin/sh\nrm "$0"\n')
        program.chmod(0o755)
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: "executing the old program again" in agent.read_log(), "exec() fails")
        self.assertEqual(old.judge(), reader.GONE)
        self.assertEqual(json.loads(self.in_memory(client))["type"], "JSONServiceRecord")
        self.assertEqual(client.map.judge(), reader.FOUND)
        self.assertIsNot(client.map, old)

    def test_an_end_retires_the_map(self):
        agent = self.start()
        found = self.map_of(agent)
        agent.stop()
        self.assertEqual(found.judge(), reader.GONE)


class RegistryAway(SharedTest):
    def setUp(self):
        super().setUp()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url

    def test_while_the_registry_is_away_the_socket_says_how_stale_it_is(self):
        self.confirm = "1s"
        agent = self.start()
        client = self.client(agent)
        self.in_memory(client)
        found = client.map
        self.server.pause()
        try:
            wait_until(lambda: found.judge() == reader.EXPIRED, "the lease is over")
            wait_until(lambda: agent.get(TARGET).headers["X-Cache"] == "STALE", "it is stale")
            client.get(TARGET)
            self.assertFalse(client.from_memory)
        finally:
            self.server.resume()
        self.in_memory(client)


FAR = f"/v1/resolve/net/east{DB}"


class FurtherRegistry(SharedTest):
    """[registry east], on a server of its own, next to a directory."""

    def setUp(self):
        super().setUp()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.sections = {"registry east": {"url": self.server.url, "session_timeout": "6s"}}
        self.agent_of_both = self.agent(**self.sections).start()
        self.reader = self.client(self.agent_of_both)
        self.put(DB, service_record("h1", 1))
        self.put(DB, service_record("h2", 2), self.server.url)

    def far_port(self):
        return json.loads(self.in_memory(self.reader, FAR))["external"][0]["addresses"][0]["port"]

    def test_its_answers_are_in_memory_and_follow_its_changes(self):
        self.assertEqual(self.far_port(), "2")
        self.assertEqual(self.port(self.reader), "1")
        self.put(DB, service_record("h3", 3), self.server.url)
        wait_until(lambda: self.far_port() == "3", "the change is in memory")
        self.put(DB, service_record("h4", 4))
        wait_until(lambda: self.port(self.reader) == "4", "so is one of the own registry")

    def test_its_silence_takes_its_answers_out_and_no_others(self):
        self.far_port()
        self.server.pause()
        wait_until(lambda: self.agent_of_both.get(FAR).headers["X-Cache"] == "STALE", "it is stale")
        self.in_memory(self.reader)
        for _ in range(3):
            self.reader.get(FAR)
            self.assertFalse(self.reader.from_memory)
        self.in_memory(self.reader)
        self.server.resume()
        self.assertEqual(self.far_port(), "2")

    def test_a_reload_without_it_takes_them_out(self):
        self.far_port()
        self.agent_of_both.write_config({})
        self.assertEqual(self.agent_of_both.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.reader.get(FAR)[0], 404)
        self.in_memory(self.reader)
        self.agent_of_both.write_config(self.sections)
        self.assertEqual(self.agent_of_both.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.far_port(), "2")


if __name__ == "__main__":
    unittest.main()
