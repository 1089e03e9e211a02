"""A container's agent with `url = host:`: its records by the host's agent, look-ups from it."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import threading
import unittest

from berth import (Agent, AgentTest, UnixConnection, berth, descriptors_of, service_record,
    wait_until)
from hosting import WEB, BridgeTest
from lifecycle import Directory, Server, Shared, on_both

PATH = Agent.PATH
ALLOWED = {"container *": {"allow": "/users/joe/**"}}


class HostedTest(BridgeTest):
    """A host's agent, and an agent in its container web-1."""

    check = "true"

    def setUp(self):
        super().setUp()
        self.agent_of_host = self.host(**self.policies())
        self.inside = self.container("web-1").parent
        self.agent_inside = self.agent("inside", registry=f"host:{self.inside}")
        self.sections = self.agent_inside.component(self.check)
        self.agent_inside.write_config(self.sections)

    def policies(self):
        return ALLOWED

    def start(self):
        self.agent_inside.start().wait_state("registered")
        return self.agent_inside

    def look_up(self, path=PATH):
        return self.agent_inside.get(f"/v1/resolve{path}")

    def await_cache(self, word, path=PATH):
        wait_until(lambda: self.look_up(path).headers["X-Cache"] == word, f"the answer is {word}")
        return self.look_up(path)


class Records(HostedTest):
    """What becomes of its record."""

    def test_the_hosts_agent_registers_it(self):
        agent = self.start()
        self.assertEqual(json.loads(self.record())["description"], "a test")
        self.assertTrue(self.is_ephemeral())
        self.assertEqual(agent.get("/ready").status, 200)
        self.assertIn('berth_registered{component="web-1"} 1', agent.get("/metrics").body.decode())
        self.assertEqual(self.look_up().json["description"], "a test")
        shown = berth("--socket", agent.socket, "status").stdout
        self.assertIn("session container web-1", shown)
        agent.kill()
        wait_until(lambda: self.record() is None, "the record went with its owner")

    def test_it_needs_no_worker_and_no_network(self):
        agent = self.start()
        self.assertIsNone(agent.worker())
        sockets = descriptors_of(agent.process.pid)
        for table in ("tcp", "tcp6", "udp", "udp6"):
            lines = pathlib.Path(f"/proc/{agent.process.pid}/net/{table}").read_text().splitlines()
            for line in lines[1:]:
                self.assertNotIn(f"socket:[{line.split()[9]}]", sockets)

    def test_a_stop_ends_when_the_record_has_gone(self):
        agent = self.start()
        self.assertEqual(agent.stop(), 0)
        self.assert_gone(agent)

    def test_a_drain_waits_for_the_host(self):
        agent = self.start()
        self.assertEqual(berth("--socket", agent.socket, "drain", "--wait").returncode, 0)
        self.assertIsNone(self.record())
        self.assertEqual(agent.component_state(), "withdrawn")
        berth("--socket", agent.socket, "undrain")
        agent.wait_state("registered")

    def test_a_conflict_on_the_host(self):
        self.put(PATH, service_record("10.0.0.9", 1, **{"yarn:id": "another"}))
        agent = self.agent_inside.start()
        agent.wait_state("conflict")
        ready = agent.get("/ready")
        self.assertEqual(ready.status, 503)
        self.assertIn("the host's agent says conflict", ready.json["detail"])
        waits = berth("--socket", agent.socket, "wait", "--registered", "--timeout", "100ms")
        self.assertNotEqual(waits.returncode, 0)
        self.remove(PATH)
        agent.wait_state("registered")

    def remove(self, path):
        removed = berth("--registry", self.registry, "rm", path)
        self.assertEqual(removed.returncode, 0, removed.stderr)

    def test_a_record_that_is_refused(self):
        self.agent_of_host.write_config({"bridge": {"containers": self.containers},
            "container *": {"allow": "/users/somebody-else/**"}})
        self.agent_of_host.signal(signal.SIGHUP)
        agent = self.agent_inside.start()
        agent.wait_state("failed")
        why = agent.get("/ready").json["detail"]
        self.assertRegex(why, "the host's agent says refused: .*allow")
        self.assertIsNone(self.record())
        self.agent_of_host.write_config({"bridge": {"containers": self.containers}, **ALLOWED})
        self.agent_of_host.signal(signal.SIGHUP)
        agent.wait_state("registered")

    def test_a_check_that_fails(self):
        mark = self.folder / "up"
        mark.touch()
        self.agent_inside.write_config(self.agent_inside.component(f"test -e {mark}"))
        agent = self.start()
        mark.unlink()
        agent.wait_state("withdrawn")
        self.assertIsNone(self.record())
        mark.touch()
        agent.wait_state("registered")

    def test_the_registry_directory_is_away(self):
        (self.inside / "registry").rename(self.folder / "away")
        self.start()  # the host's agent has made another one

    def test_an_agent_that_is_upgraded(self):
        agent = self.start()
        witness = self.witness()
        for _ in range(3):
            agent.upgrade()
            agent.wait_state("registered")
        self.assertEqual(len(witness.end()), 1)


on_both(globals(), Records)


class LookUps(HostedTest):
    """What it sees of the registry."""

    def test_all_kinds_of_look_ups(self):
        agent = self.start()
        self.put(f"{WEB}/c1", service_record("10.0.0.1", 80))
        self.put(f"{WEB}/c2", service_record("10.0.0.2", 80, description="Größe"))
        berth("--registry", self.registry, "mknode", f"{WEB}/empty")
        self.assertEqual(agent.get(f"/v1/list{WEB}").json,
            [f"{WEB}/c1", f"{WEB}/c2", f"{WEB}/empty"])
        self.assertEqual(list(agent.get(f"/v1/records{WEB}").json), [f"{WEB}/c1", f"{WEB}/c2"])
        self.assertEqual(agent.get(f"/v1/resolve{WEB}/c2").json["description"], "Größe")
        self.assertEqual(agent.get(f"/v1/resolve{WEB}/empty").json["title"], "NoRecord")
        self.assertEqual(agent.get(f"/v1/resolve{WEB}/none").json["title"], "PathNotFound")
        addresses = agent.get(f"/v1/endpoints{WEB}", Accept="text/plain").body.decode()
        self.assertEqual(addresses.split(), ["10.0.0.1:80", "10.0.0.2:80"])
        self.assertEqual(len(agent.get("/v1/find?protocol=http").json), 2)
        mine = agent.get(f"/v1/stat{WEB}").json
        self.assertEqual(mine, self.agent_of_host.get(f"/v1/stat{WEB}").json)
        self.assertEqual(mine["children"], 3)
        names = agent.get("/v1/names/prod.web.joe.berth?type=A").json
        self.assertEqual(sorted(names["addresses"]), ["10.0.0.1", "10.0.0.2"])
        self.assertEqual(agent.get(f"/v1/resolve{WEB}/c2").headers["X-Cache"], "HIT")

    def test_changes_are_followed(self):
        agent = self.start()
        self.put(f"{WEB}/c1", service_record("10.0.0.1", 80))
        first = agent.get(f"/v1/records{WEB}")
        self.assertEqual(list(first.json), [f"{WEB}/c1"])
        self.put(f"{WEB}/c2", service_record("10.0.0.2", 80))
        second = agent.get(f"/v1/records{WEB}", If_None_Match=first.headers["ETag"],
            Prefer="wait=60")
        self.assertEqual(list(second.json), [f"{WEB}/c1", f"{WEB}/c2"])
        berth("--registry", self.registry, "rm", f"{WEB}/c1")
        third = agent.get(f"/v1/records{WEB}", If_None_Match=second.headers["ETag"],
            Prefer="wait=60")
        self.assertEqual(list(third.json), [f"{WEB}/c2"])
        self.assertEqual(agent.get(f"/v1/resolve{WEB}/c1").status, 404)

    def test_a_stream(self):
        agent = self.start()
        self.put(f"{WEB}/c1", service_record("10.0.0.1", 80))
        connection = UnixConnection(agent.socket)
        self.addCleanup(connection.close)
        connection.request("GET", f"/v1/watch{WEB}?recursive=yes",
            headers={"Accept": "application/x-ndjson"})
        answer = connection.getresponse()
        self.addCleanup(answer.close)
        self.assertIn(f"{WEB}/c1", json.loads(answer.readline())["snapshot"])
        self.put(f"{WEB}/c1", service_record("10.0.0.7", 80))
        event = json.loads(answer.readline())
        self.assertEqual((event["type"], event["path"]), ("UPDATED", f"{WEB}/c1"))
        berth("--registry", self.registry, "rm", f"{WEB}/c1")
        event = json.loads(answer.readline())
        self.assertEqual((event["type"], event["path"]), ("DELETED", f"{WEB}/c1"))

    def test_read_again(self):
        agent = self.start()
        self.put(f"{WEB}/c1", service_record("10.0.0.1", 80))
        again = agent.get(f"/v1/resolve{WEB}/c1", Cache_Control="no-cache")
        self.assertEqual((again.status, again.headers["Age"]), (200, "0"))
        for port in range(20):
            self.put(f"{WEB}/c1", service_record("10.0.0.1", port + 1))
            again = agent.get(f"/v1/resolve{WEB}/c1", Cache_Control="no-cache")
            self.assertEqual(again.json["external"][0]["addresses"][0]["port"], str(port + 1))

    def test_nothing_is_written_through_the_host(self):
        refused = berth("--registry", f"host:{self.inside}", "mknode", "/users/joe")
        self.assertEqual(refused.returncode, 5)
        self.assertIn(f"dir:{self.inside}/registry", refused.stderr)
        self.put("/users/joe", service_record("10.0.0.1", 80))
        seen = berth("--registry", f"host:{self.inside}", "resolve", "/users/joe")
        self.assertEqual(seen.returncode, 0, seen.stderr)


on_both(globals(), LookUps)


def own_record(registry):
    """Whether a live record is at the usual path of a container's registry."""
    store = Directory(registry.parent)
    return store.identity() is not None


class Failures(HostedTest):
    """The host's agent ends, freezes, or is another one."""

    registry_kind = Shared

    def test_the_host_is_killed(self):
        agent = self.start()
        self.look_up()
        witness = self.witness()
        self.agent_of_host.kill()
        stale = self.await_cache("STALE")
        self.assertGreaterEqual(int(stale.headers["Age"]), 1)
        self.assertEqual(stale.json["description"], "a test")
        self.assertEqual(self.look_up("/users/nobody").status, 503)
        agent.wait_state("waiting")
        self.assertEqual(agent.get("/ready").status, 503)
        self.assertEqual(agent.get("/ready?away=ok").status, 200)
        self.assertIn("berth_registry_connected 0", agent.get("/metrics").body.decode())
        self.agent_of_host.start()
        agent.wait_state("registered")
        self.await_cache("HIT")
        self.assertEqual(len(witness.end()), 1)

    def test_the_host_is_upgraded(self):
        agent = self.start()
        self.look_up()
        witness = self.witness()
        client = self.client(agent, keep=True)
        for _ in range(3):
            self.agent_of_host.upgrade()
            self.await_cache("HIT")
            agent.wait_state("registered")
        self.assertEqual(client.end(), [])
        self.assertEqual(len(witness.end()), 1)

    def test_the_host_is_frozen(self):
        self.sections["cache"] = {"confirm": "1s"}
        self.agent_inside.write_config(self.sections)
        agent = self.start()
        self.look_up()
        self.agent_of_host.signal(signal.SIGSTOP)
        self.addCleanup(self.agent_of_host.signal, signal.SIGCONT)
        self.await_cache("STALE")
        wait_until(lambda: int(self.look_up().headers["Age"]) >= 3, "it says how old it is")
        self.put(f"{WEB}/c1", service_record("10.0.0.1", 80))
        self.agent_of_host.signal(signal.SIGCONT)
        self.await_cache("HIT")
        agent.wait_state("registered")
        self.assertEqual(self.look_up(f"{WEB}/c1").status, 200)

    def test_a_record_that_is_withdrawn_before_the_host_has_seen_it(self):
        """The host's agent may have seen it, so it is asked before the record counts as gone."""
        agent = self.start()
        self.assertEqual(berth("--socket", agent.socket, "drain", "--wait").returncode, 0)
        agent.wait_state("withdrawn")
        self.agent_of_host.signal(signal.SIGSTOP)
        self.addCleanup(self.agent_of_host.signal, signal.SIGCONT)
        berth("--socket", agent.socket, "undrain")
        wait_until(lambda: own_record(self.inside / "registry"), "it is written")
        berth("--socket", agent.socket, "drain")
        wait_until(lambda: not own_record(self.inside / "registry"), "it is withdrawn")
        self.assertEqual(agent.component_state(), "withdrawing")
        self.agent_of_host.signal(signal.SIGCONT)
        agent.wait_state("withdrawn")
        self.assertIsNone(self.record())

    def test_a_change_while_the_host_was_away(self):
        self.start()
        self.put(f"{WEB}/c1", service_record("10.0.0.1", 80))
        self.look_up(f"{WEB}/c1")
        self.agent_of_host.kill()
        self.await_cache("STALE", f"{WEB}/c1")
        self.put(f"{WEB}/c1", service_record("10.0.0.2", 80))
        self.agent_of_host.start()
        answer = self.await_cache("HIT", f"{WEB}/c1")
        self.assertEqual(answer.json["external"][0]["addresses"][0]["host"], "10.0.0.2")

    def test_a_check_that_fails_while_the_host_is_away(self):
        mark = self.folder / "up"
        mark.touch()
        self.agent_inside.write_config(self.agent_inside.component(f"test -e {mark}"))
        agent = self.start()
        self.agent_of_host.kill()
        agent.wait_state("waiting")
        mark.unlink()
        agent.wait_state("withdrawing")
        self.assertIsNotNone(self.record())
        self.agent_of_host.start()
        agent.wait_state("withdrawn")
        self.assertIsNone(self.record())

    def test_the_containers_directory_is_another_one(self):
        agent = self.start()
        self.inside.rename(self.folder / "away")
        wait_until(lambda: self.record() is None, "its records went with the directory")
        agent.wait_state("waiting")
        self.inside.mkdir()
        agent.wait_state("registered")
        self.await_cache("HIT")

    def test_two_agents_want_one_path(self):
        self.start()
        other = self.agent("other", registry=f"host:{self.container('web-2').parent}")
        other.write_config(other.component("true"))
        other.start().wait_state("conflict")
        self.assertIn("another container of this host has", other.get("/ready").json["detail"])
        self.agent_inside.kill()
        other.wait_state("registered")


class Followers(HostedTest):
    """What a container may do with the stream of its agent."""

    def policies(self):
        return {**ALLOWED, "cache": {"max_size": "64M"}}  # room for all that one stream may watch

    def follow(self, name="web-1"):
        """A stream: the answer, and its first event."""
        connection = UnixConnection(self.containers / name / "berth.sock")
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/follow")
        answer = connection.getresponse()
        self.addCleanup(answer.close)
        return answer, self.event(answer)

    def event(self, answer):
        return json.loads(answer.read(int(answer.readline())))

    def ask(self, stream, body, name="web-1"):
        connection = UnixConnection(self.containers / name / "berth.sock")
        try:
            connection.request("POST", f"/v1/follow/{stream}", body=json.dumps(body))
            return connection.getresponse().status
        finally:
            connection.close()

    def test_a_stream_is_its_containers_alone(self):
        self.container("web-2")
        _, first = self.follow()
        self.assertEqual(self.ask(first["stream_id"], {}), 204)
        self.assertEqual(self.ask(first["stream_id"], {}, "web-2"), 404)
        self.assertEqual(self.ask("0", {}), 404)
        self.assertEqual(self.ask(first["stream_id"], []), 400)
        self.assertEqual(first["container"]["name"], "web-1")

    def test_a_third_stream_ends_the_first(self):
        first, event = self.follow()
        self.follow()
        self.follow()
        with self.assertRaises((ValueError, http.client.HTTPException)):
            while True:
                self.event(first)
        self.assertEqual(self.ask(event["stream_id"], {}), 404)

    def test_a_stream_has_so_many_reads(self):
        stream, event = self.follow()
        paths = [f"/users/joe/n{number}" for number in range(4100)]
        for begin in range(0, len(paths), 400):
            reads = [{"id": begin + i + 1, "path": path, "watch": True}
                for i, path in enumerate(paths[begin:begin + 400])]
            self.assertEqual(self.ask(event["stream_id"], {"reads": reads}), 204)
        refused = 0
        for _ in paths:
            event = self.event(stream)
            while event["type"] != "READ":
                event = self.event(stream)
            refused += event.get("error") == "LimitExceeded"
        self.assertEqual(refused, 4)

    def test_data_that_are_no_record_are_not_shown(self):
        berth("--registry", self.registry, "mknode", "-p", "/users/joe")
        stream, event = self.follow()
        self.ask(event["stream_id"], {"reads": [{"id": 1, "path": "/users/joe"},
            {"id": 2, "path": "/users", "list": True}, {"id": 3, "path": "users"}]})
        answers = {}
        while len(answers) < 3:
            event = self.event(stream)
            if event["type"] == "READ":
                answers[event["id"]] = event
        self.assertNotIn("data", answers[1]["node"])
        self.assertEqual(answers[2]["node"]["names"], ["joe"])
        self.assertEqual(answers[3]["error"], "InvalidPathname")

    def test_look_ups_in_memory_without_an_agent(self):
        """A process in the container gets the host's map over the container's socket."""
        self.put(f"{WEB}/c1", service_record("10.0.0.1", 80))
        environment = {"BERTH_SOCKET": str(self.inside / "berth.sock")}
        for _ in range(3):
            seen = berth("resolve", f"{WEB}/c1", environment=environment)
            self.assertEqual(seen.returncode, 0, seen.stderr)
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.connect(str(self.inside / "berth.sock"))
        client.sendall(b"GET /v1/shared HTTP/1.1\r\nHost: berth\r\n\r\n")
        head, descriptors, _, _ = socket.recv_fds(client, 4096, 1)
        for descriptor in descriptors:
            os.close(descriptor)
        self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
        self.assertEqual(len(descriptors), 1)


class Crowded(HostedTest):
    """A host full of containers, on a server that serves it alone."""

    registry_kind = Server

    def test_50_containers_are_one_connection_and_one_session(self):
        self.start()
        paths = [PATH, *(f"{WEB}/c{number}" for number in range(1, 50))]
        for path in paths[1:]:
            name = path.rpartition("/")[2]
            self.register(self.container(name), path)
        for path in paths:
            self.await_record(path)
            self.assertEqual(self.look_up(path).status, 200)
        # One line for each connection; the question's own has no session.
        lines = self.server.command("cons").split("\n")
        sessions = re.findall(r"sid=(\w+)", "\n".join(lines))
        self.assertEqual(sessions, [self.agent_of_host.status()["registry"]["session"]])
        self.assertEqual(len([line for line in lines if line.strip()]), 2)
        owners = {self.server.stat(self.node(path))["ephemeralOwner"] for path in paths}
        self.assertEqual(owners, {int(sessions[0], 16)})


class Moves(HostedTest):
    """A running host moves its containers from sessions of their own to the bridge, and back."""

    registry_kind = Shared

    def host(self, bridge=None, **policies):
        return super().host(bridge={"linger": "5s"}, **policies)

    def restart_with(self, registry):
        self.agent_inside.registry = registry
        self.agent_inside.write_config(self.sections)
        self.agent_inside.start().wait_state("registered")

    def test_a_session_is_left_for_the_bridge(self):
        agent = self.agent_inside
        self.restart_with(self.registry)
        witness = self.witness()
        agent.signal(signal.SIGQUIT)
        agent.wait()
        self.restart_with(f"host:{self.inside}")
        self.assertNotIn(None, witness.end())
        self.assertEqual(len(witness.seen), 2)

    def test_the_bridge_is_left_for_a_session(self):
        agent = self.start()
        witness = self.witness()
        agent.signal(signal.SIGQUIT)
        agent.wait()
        self.restart_with(self.registry)
        wait_until(lambda: self.part(self.agent_of_host, "web-1")["records"] == [],
            "the host's agent has forgotten it")
        self.assertIsNotNone(self.record())
        self.assertEqual(agent.component_state(), "registered")
        self.assertNotIn(None, witness.end())
        self.assertEqual(len(witness.seen), 2)


class Strange(AgentTest):
    """Something else answers at the host's socket."""

    def listen(self, serve):
        folder = self.folder / "host"
        (folder / "registry").mkdir(parents=True)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(folder / "berth.sock"))
        listener.listen()

        def run():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    serve(client)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        agent = self.agent("inside", registry=f"host:{folder}")
        agent.write_config(agent.component("true"))
        return agent.start()

    def test_a_host_that_does_not_know_the_request(self):
        body = b'{"title":"Not Found","status":404,"detail":"no such resource"}'
        head = (b"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body))
        agent = self.listen(lambda client: client.sendall(head + body))
        wait_until(lambda: agent.status()["registry"]["state"] == "away", "it is away")
        self.assertIn("is it older than this agent?", agent.status()["registry"]["error"])
        agent.wait_state("waiting")
        self.assertIn("agent cannot be reached", agent.get("/ready").json["detail"])

    def test_noise(self):
        agent = self.listen(lambda client: client.sendall(os.urandom(1000)))
        wait_until(lambda: agent.status()["registry"]["state"] == "away", "it is away")
        self.assertEqual(agent.get("/v1/resolve/users").status, 503)


if __name__ == "__main__":
    unittest.main()
