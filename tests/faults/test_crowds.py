"""Clients that take what they can get: what one user or address may have, so that others are served
and memory is bounded."""

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import unittest

from berth import PATIENCE, AgentTest, wait_until
from figures import figure
from ports import reserve_port
from rights import needs

TREE = "/users/joe/web"
RECORDS, SIZE = 64, 60_000  # an answer of 4 MB
CROWD = 40
LARGE = 24  # answers of 4 MB: more than the budget holds
BUDGET = 64 << 20
STRANGER, NEIGHBOUR = 65534, 65533


@needs("users")
class CrowdTest(AgentTest):
    options = {}
    files = 8192
    size = SIZE

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        for number in range(RECORDS):
            place = self.folder / "registry" / TREE[1:] / f"n{number}"
            place.mkdir(parents=True)
            record = {"type": "JSONServiceRecord", "description": "x" * self.size, "external": [],
                "internal": []}
            (place / "_record").write_text(json.dumps(record))
        self.server = self.agent(agent={"socket_mode": "0666", **self.options}).start(
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))
        )
        self.server.folder.chmod(0o755)
        self.assertEqual(self.server.get(f"/v1/records{TREE}").status, 200)

    def connect(self, user, port=None):
        if port:
            connection = socket.create_connection(("127.0.0.1", port))
        else:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            os.seteuid(user)
            try:
                connection.connect(str(self.server.socket))
            finally:
                os.seteuid(0)
        self.addCleanup(connection.close)
        connection.settimeout(PATIENCE)
        return connection

    def ask(self, user, target, fields="", **options):
        """Sends a request and reads no more of the answer than its status."""
        connection = self.connect(user, **options)
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode())
        return connection, int(connection.recv(12).split()[1])

    def statuses(self, user, count, target, **options):
        return [self.ask(user, target, **options)[1] for _ in range(count)]

    def metric(self, name):
        text = self.server.get("/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines()
            if line.startswith(f"{name} "))

    def resident(self):
        return self.metric("process_resident_memory_bytes")


class UnreadAnswers(CrowdTest):
    def test_one_budget_holds_for_all_and_one_user_does_not_get_all_of_it(self):
        before = self.resident()
        statuses = self.statuses(STRANGER, LARGE, f"/v1/find?under={TREE}")
        self.assertEqual(set(statuses), {200, 503})
        self.assertGreaterEqual(statuses.count(200) * RECORDS * SIZE, BUDGET // 2)
        more = self.resident() - before
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(more, BUDGET + (16 << 20))
        self.assertEqual(self.statuses(NEIGHBOUR, 2, f"/v1/find?under={TREE}"), [200, 200])
        self.assertEqual(self.statuses(STRANGER, 1, f"/v1/stat{TREE}"), [200],
            "a small answer needs no room")
        figure(self, f"of {LARGE} answers of 4 MB that nobody reads {statuses.count(200)} are "
            f"kept, in {more / (1 << 20):.0f} MiB; neighbours are served")

    def test_room_comes_back_with_the_readers(self):
        waiting = [self.ask(STRANGER, f"/v1/find?under={TREE}") for _ in range(LARGE)]
        self.assertIn(503, [status for _, status in waiting])
        for connection, _ in waiting:
            connection.close()
        wait_until(lambda: self.ask(STRANGER, f"/v1/find?under={TREE}")[1] == 200,
            "there is room again")

    def test_a_body_that_many_wait_for_is_counted_once(self):
        before = self.resident()
        self.assertEqual(set(self.statuses(STRANGER, CROWD, f"/v1/records{TREE}")), {200})
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(self.resident() - before, BUDGET // 4)

    def test_requests_that_wait_for_their_turn_count_too(self):
        before = self.resident()
        head = f"GET /v1/find?under={TREE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for _ in range(CROWD):
            connection = self.connect(STRANGER)
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                connection.send(head * 2000)
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(self.resident() - before, BUDGET + (16 << 20))
        self.assertEqual(self.statuses(NEIGHBOUR, 1, f"/v1/stat{TREE}"), [200])


class HalfBodies(CrowdTest):
    COUNT = 1000

    def test_a_body_is_kept_only_for_those_who_may_send_it(self):
        before = self.resident()
        for number in range(self.COUNT):
            connection = self.connect(STRANGER)
            path = ("/v1/agent/drain", "/v1/agent/checks/x", "/v1/agent/endpoints/x")[number % 3]
            method = "PUT" if number % 3 else "POST"
            connection.sendall(
                f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 60000\r\n\r\n".encode()
                + b" " * 59000)
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(self.resident() - before, self.COUNT * 4096)
        connection.sendall(b" " * 1000)
        self.assertIn(int(connection.recv(12).split()[1]), (403, 404))

    def test_and_then_it_is_read(self):
        connection = self.connect(0)
        body = b'{"reason": "' + b"x" * 1000 + b'"}'
        connection.sendall(
            "POST /v1/agent/drain HTTP/1.1\r\nHost: a\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        self.assertEqual(int(connection.recv(12).split()[1]), 204)
        self.assertTrue(self.server.status()["drain"]["active"])


class Shares(CrowdTest):
    options = {"max_watchers": "16"}
    files = 300

    def crowd(self, user, target, **options):
        """Asks until the agent refuses; how many were served."""
        served = []
        while True:
            connection, status = self.ask(user, target, **options)
            if status != 200:
                self.assertEqual(status, 503)
                return len(served)
            served.append(connection)
            self.assertLess(len(served), self.files)

    def test_connections_of_one_user_leave_room_for_others(self):
        first = self.crowd(STRANGER, "/live")
        self.assertGreater(first, 50)
        second = self.crowd(NEIGHBOUR, "/live")
        self.assertGreater(second, 10)
        self.assertEqual(self.statuses(0, 3, "/live"), [200] * 3)
        self.assertIn("has its share of the connections", self.server.read_log())

    def test_watchers_of_one_user_leave_room_for_others(self):
        self.assertEqual(self.crowd(STRANGER, f"/v1/watch{TREE}"), 12)
        tag = self.server.get(f"/v1/stat{TREE}").headers["ETag"]
        waits = f"If-None-Match: {tag}\r\nPrefer: wait=60\r\n"
        self.assertEqual(self.ask(STRANGER, f"/v1/stat{TREE}", waits)[1], 503,
            "a long poll is a watcher too")
        self.assertEqual(self.crowd(NEIGHBOUR, f"/v1/watch{TREE}"), 3)

    def test_the_share_comes_back(self):
        streams = [self.ask(STRANGER, f"/v1/watch{TREE}") for _ in range(13)]
        self.assertEqual(streams[-1][1], 503)
        streams[0][0].close()
        wait_until(lambda: self.ask(STRANGER, f"/v1/watch{TREE}")[1] == 200, "one more is served")


SEARCHES = 40  # at once: more than an agent has under way for all


def search_for_ever(agent, refused):
    """Has SEARCHES searches, each another one, under way until it is killed; writes to `refused`,
    if there is room, at each 503."""
    ready = selectors.DefaultSelector()
    number = 0
    os.set_blocking(refused, False)
    for _ in range(SEARCHES):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(agent))
        ready.register(connection, selectors.EVENT_WRITE | selectors.EVENT_READ)
    while True:
        for key, events in ready.select():
            connection = key.fileobj
            if events & selectors.EVENT_READ:
                if b" 503 " in connection.recv(65536):
                    with contextlib.suppress(BlockingIOError):
                        os.write(refused, b"!")
            number += 1
            connection.sendall(f"GET /v1/find?under=/users&type=t{number} HTTP/1.1\r\n"
                "Host: localhost\r\n\r\n".encode())
            ready.modify(connection, selectors.EVENT_READ)


class Searches(CrowdTest):
    size = 10

    def start_stranger(self):
        """A process of the stranger's that searches without end; returns where it writes at each
        refusal."""
        refused, told = os.pipe()
        self.addCleanup(os.close, refused)
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(STRANGER)
                os.setuid(STRANGER)
                search_for_ever(self.server.socket, told)
            finally:
                os._exit(1)
        os.close(told)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        return refused

    def test_one_user_s_do_not_keep_root_from_its_own(self):
        refused = self.start_stranger()
        self.assertEqual(os.read(refused, 1), b"!", "the stranger asks for more than its share")
        statuses = [self.server.get(f"/v1/find?under=/users&type=r{number}").status
            for number in range(60)]
        self.assertEqual(statuses, [200] * 60)
        os.read(refused, 1 << 20)
        self.assertEqual(os.read(refused, 1), b"!", "and does so all the time")


class SharesOverTcp(Shares):
    def setUp(self):
        self.port = reserve_port(self)
        self.options = {"max_watchers": "16", "listen": f"127.0.0.1:{self.port}",
            "listen_hosts": "berth"}
        super().setUp()

    def connect(self, user, port=None):
        """The stranger comes from 127.0.0.1, the neighbour from another address."""
        if user == 0:
            return super().connect(user)
        connection = socket.create_connection(
            ("127.0.0.1", self.port), source_address=("127.0.0.2" if user == NEIGHBOUR
                else "127.0.0.1", 0)
        )
        self.addCleanup(connection.close)
        connection.settimeout(PATIENCE)
        return connection

    def test_connections_of_one_user_leave_room_for_others(self):
        first = self.crowd(STRANGER, "/live")
        self.assertGreater(first, 5)
        self.assertGreaterEqual(self.crowd(NEIGHBOUR, "/live"), 1)
        self.assertEqual(self.statuses(0, 3, "/live"), [200] * 3, "the Unix socket is apart")

    def test_watchers_of_one_user_leave_room_for_others(self):
        self.assertEqual(self.crowd(STRANGER, f"/v1/watch{TREE}"), 3)
        self.assertEqual(self.crowd(NEIGHBOUR, f"/v1/watch{TREE}"), 1)

    def test_the_share_comes_back(self):
        streams = [self.ask(STRANGER, f"/v1/watch{TREE}") for _ in range(4)]
        self.assertEqual([status for _, status in streams], [200, 200, 200, 503])
        streams[0][0].close()
        wait_until(lambda: self.ask(STRANGER, f"/v1/watch{TREE}")[1] == 200, "one more is served")


del AgentTest, CrowdTest

if __name__ == "__main__":
    unittest.main()
