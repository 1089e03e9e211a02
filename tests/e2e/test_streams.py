"""Event streams: framings, replay, resynchronisation, limits; thousands of them."""

import json
import os
import pathlib
import resource
import socket
import subprocess
import time
import unittest

from berth import AgentTest, UnixConnection, wait_until
from streams import EVENT_STREAM, NDJSON, RECORDIO, Ended, Stream

TREE = "/users/joe/web"
FRAMINGS = (RECORDIO, NDJSON, EVENT_STREAM)
STREAMS = int(os.environ.get("BERTH_STREAMS", "1000"))
POLLS = int(os.environ.get("BERTH_POLLS", "400"))


class StreamTest(AgentTest):
    """An agent on a directory that the test writes itself, as any program may that knows the
    layout."""

    options = {}

    def setUp(self):
        super().setUp()
        self.root = self.folder / "registry"
        self.put(f"{TREE}/a", 1)
        self.server = self.agent(agent={"log_level": "info", "heartbeat_interval": "200ms",
            **self.options}).start()

    def put(self, path, number, size=0):
        folder = pathlib.Path(f"{self.root}{path}")
        folder.mkdir(parents=True, exist_ok=True)
        record = {"type": "JSONServiceRecord", "description": "x" * size, "external": [],
            "internal": [], "number": number}
        scratch = self.folder / "scratch"
        scratch.write_text(json.dumps(record))
        scratch.rename(folder / "_record")

    def remove(self, path):
        folder = pathlib.Path(f"{self.root}{path}")
        (folder / "_record").unlink()
        folder.rmdir()

    def watch(self, path=TREE, accept=RECORDIO, recursive=True, **options):
        stream = Stream(self.server.socket,
            f"/v1/watch{path}?recursive={'yes' if recursive else 'no'}", accept, **options)
        self.addCleanup(stream.close)
        return stream

    def metric(self, name):
        for line in self.server.get("/metrics").body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise AssertionError(f"no {name}")


class Events(StreamTest):
    def test_begins_with_everything(self):
        for accept in FRAMINGS:
            stream = self.watch(accept=accept)
            event = stream.next()
            self.assertIn(f"Content-Type: {accept}", stream.head)
            self.assertEqual((event["type"], event["sequence"]), ("SUBSCRIBED", 1))
            self.assertEqual(event["heartbeat_interval_seconds"], 0.2)
            self.assertTrue(event["stream_id"])
            self.assertAlmostEqual(event["time"], time.time(), delta=300)
            self.assertEqual(set(event["snapshot"]), {TREE, f"{TREE}/a"})
            self.assertIsNone(event["snapshot"][TREE])
            self.assertEqual(event["snapshot"][f"{TREE}/a"]["number"], 1)

    def test_then_every_change_as_it_happens(self):
        for number, accept in enumerate(FRAMINGS, 2):
            stream = self.watch(accept=accept)
            stream.next()
            self.put(f"{TREE}/a", number)
            event = stream.until(lambda event: event["type"] == "UPDATED")
            self.assertEqual((event["path"], event["record"]["number"]), (f"{TREE}/a", number))
            self.put(f"{TREE}/deep/b", 3)
            stream.until(lambda event: stream.tree.get(f"{TREE}/deep/b"))
            self.remove(f"{TREE}/deep/b")
            event = stream.until(lambda event: event["type"] == "DELETED")
            self.assertEqual(event["path"], f"{TREE}/deep/b")

    def test_one_path_alone(self):
        stream = self.watch(recursive=False)
        self.assertEqual(stream.next()["snapshot"], {TREE: None})
        self.put(f"{TREE}/a", 5)
        self.put(TREE, 6)
        event = stream.next()
        self.assertEqual((event["type"], event["path"], event["record"]["number"]),
            ("UPDATED", TREE, 6))

    def test_a_client_that_comes_again_goes_on_but_not_with_another_agent(self):
        stream = self.watch()
        begin = stream.next()
        stream.close()
        wait_until(lambda: self.metric("berth_watchers") == 0, "the agent has seen it leave")
        self.put(f"{TREE}/a", 2)
        target = f"/v1/watch{TREE}?recursive=yes&after={begin['stream_id']}-{stream.sequence}"
        with Stream(self.server.socket, target) as again:
            again.sequence, again.tree = stream.sequence, stream.tree
            event = again.next()
            self.assertEqual((event["type"], event["path"], event["record"]["number"]),
                ("UPDATED", f"{TREE}/a", 2))
        for renew in (self.server.upgrade, self.restart):
            renew()
            with Stream(self.server.socket, target) as anew:
                event = anew.next()
                self.assertEqual((event["type"], event["sequence"]), ("RESYNC", 1))
                self.assertEqual(event["snapshot"][f"{TREE}/a"]["number"], 2)

    def restart(self):
        self.server.stop()
        self.server.start()

    def test_a_path_that_is_not_there_yet(self):
        stream = self.watch(f"{TREE}/new", recursive=False)
        self.assertEqual(stream.next()["snapshot"], {})
        self.put(f"{TREE}/new", 7)
        stream.until(lambda event: (stream.tree.get(f"{TREE}/new") or {}).get("number") == 7)

    def test_a_path_that_was_looked_up_before_is_not_reported_twice(self):
        self.server.get(f"/v1/resolve{TREE}/a")
        self.server.get(f"/v1/resolve{TREE}/later")
        stream = self.watch()
        stream.next()
        changed = []

        def until_changed(*names):
            while not {f"{TREE}/{name}" for name in names} <= set(changed):
                event = stream.next()
                if event["type"] == "UPDATED" and event["record"]:
                    changed.append(event["path"])

        self.put(f"{TREE}/later", 1)
        self.put(f"{TREE}/other", 1)
        until_changed("later", "other")  # in any order, if the agent sees both at once
        self.put(f"{TREE}/last", 1)
        until_changed("last")
        self.assertEqual(sorted(changed), [f"{TREE}/last", f"{TREE}/later", f"{TREE}/other"])

    def test_heartbeats(self):
        stream = self.watch()
        stream.next()
        for _ in range(3):
            self.assertEqual(stream.next(heartbeats=True)["type"], "HEARTBEAT")

    def test_curl_shows_events_as_they_happen(self):
        for number, accept in enumerate(FRAMINGS, 101):
            command = ["curl", "-sSN", "--unix-socket", self.server.socket, "-H",
                f"Accept: {accept}", f"http://berth/v1/watch{TREE}/a"]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as curl:
                self.addCleanup(curl.kill)
                output = b""
                changed = False
                while f'"number": {number}'.encode() not in output:
                    more = os.read(curl.stdout.fileno(), 65536)
                    self.assertTrue(more, output)
                    output += more
                    if b"SUBSCRIBED" in output and not changed:
                        changed = True
                        self.put(f"{TREE}/a", number)
                curl.kill()

    def test_head_has_the_type_and_no_stream(self):
        answer = self.server.request("HEAD", f"/v1/watch{TREE}", headers={"Accept": NDJSON})
        self.assertEqual((answer.status, answer.headers["Content-Type"], answer.body),
            (200, NDJSON, b""))
        self.assertNotIn("Content-Length", answer.headers)

    def test_records_are_as_stored_on_one_line(self):
        text = '{"type": "JSONServiceRecord",\r\n "x": 1.10,\n\n "external": []}'
        path = pathlib.Path(f"{self.root}{TREE}/odd")
        path.mkdir(parents=True)
        (path / "_record").write_text(text, newline="")
        stream = self.watch(accept=NDJSON)
        stream.next()
        self.assertEqual(set(stream.tree[f"{TREE}/odd"]), {"type", "x", "external"})
        with self.watch(f"{TREE}/odd", accept=NDJSON, recursive=False) as stream:
            stream.next()
            self.assertEqual(stream.tree[f"{TREE}/odd"], json.loads(text))


class SlowReaders(StreamTest):
    def test_a_client_that_does_not_read_costs_little_and_catches_up(self):
        stream = self.watch(receive_bytes=2048)
        stream.next()
        follower = self.watch()
        follower.next()
        before = self.metric("process_resident_memory_bytes")
        for number in range(300):
            self.put(f"{TREE}/a", number, size=20000)  # 6 MB in all
            # One event each, so that the agent cannot skip states.
            follower.until(lambda event: follower.tree[f"{TREE}/a"]["number"]
                == number)
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(self.metric("process_resident_memory_bytes") - before, 4 << 20)
        self.put(f"{TREE}/a", 1000)
        follower.until(lambda _: follower.tree[f"{TREE}/a"]["number"] == 1000)
        event = stream.until(lambda event: event["type"] == "RESYNC")
        self.assertEqual(event["snapshot"][f"{TREE}/a"]["number"], 1000)
        self.put(f"{TREE}/a", 1001)
        stream.until(lambda event: stream.tree[f"{TREE}/a"]["number"] == 1001)


class Crowds(StreamTest):
    """More snapshots at once than the agent holds for its readers (64 MiB), who may take as long as
    they like."""

    options = {"heartbeat_interval": "1h"}
    RECORDS, SIZE, CROWD = 64, 60_000, 32

    def setUp(self):
        super().setUp()
        for number in range(self.RECORDS):
            self.put(f"{TREE}/n{number}", number, self.SIZE)
        self.watch().next()
        self.before = self.metric("process_resident_memory_bytes")

    def held(self):
        return self.metric("process_resident_memory_bytes") - self.before

    def test_are_served_in_turns(self):
        streams = [self.watch(accept=FRAMINGS[number % 3]) for number in range(self.CROWD)]
        for stream in streams:
            event = stream.next()
            self.assertEqual((event["type"], len(event["snapshot"])),
                ("SUBSCRIBED", self.RECORDS + 2))
        self.put(f"{TREE}/a", 2)
        for stream in streams:
            stream.until(lambda event: stream.tree[f"{TREE}/a"]["number"] == 2)
        self.assertNotIn("broken off", self.server.read_log())
        if not os.environ.get("BERTH_SANITIZER"):
            wait_until(lambda: self.held() < 8 << 20, "the memory has been given back")


class CrowdsThatDoNotRead(Crowds):
    options = {"heartbeat_interval": "3s"}  # the reader may be stopped for twice as long

    def test_are_served_in_turns(self):
        """Not these: they are broken off when they keep others waiting."""
        idle = [self.watch() for _ in range(self.CROWD)]
        reader = self.watch()
        self.assertEqual(reader.next()["type"], "SUBSCRIBED")
        self.assertEqual(self.server.get(f"/v1/resolve{TREE}/a").status, 200)
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(self.held(), 90 << 20)
        self.put(f"{TREE}/a", 2)
        reader.until(lambda event: reader.tree[f"{TREE}/a"]["number"] == 2)
        # Of those who come at once the reader may have been the first, and idle[0] one who had to
        # wait.
        wait_until(lambda: "broken off to make room" in self.server.read_log(),
            "others are broken off")
        self.assertTrue(any(self.has_ended(stream) for stream in idle))

    def has_ended(self, stream):
        try:
            stream.next()
        except Ended:
            return True
        return False


class Limits(StreamTest):
    options = {"max_watchers": "3"}

    def test_only_so_many_watchers(self):
        streams = [self.watch() for _ in range(3)]
        for stream in streams:
            stream.next()
        answer = self.server.get(f"/v1/watch{TREE}")
        self.assertEqual((answer.status, answer.json["title"]), (503, "LimitExceeded"))
        self.assertEqual(answer.headers["Retry-After"], "1")
        tag = self.server.get(f"/v1/resolve{TREE}/a").headers["ETag"]
        answer = self.server.request("GET", f"/v1/resolve{TREE}/a",
            headers={"If-None-Match": tag, "Prefer": "wait=9"})
        self.assertEqual(answer.status, 503)
        streams[0].close()
        wait_until(lambda: self.metric("berth_watchers") == 2, "the stream is gone")
        self.watch().next()


class TreesThatDoNotFit(StreamTest):
    def setUp(self):
        super().setUp()
        self.server.stop()
        self.server = self.agent("small", cache={"max_size": "256K"}).start()

    def test_are_refused_and_the_cache_keeps_its_limit(self):
        for number in range(400):
            self.put(f"{TREE}/n{number}", number, size=1000)
        answer = self.server.get(f"/v1/watch{TREE}?recursive=yes")
        self.assertEqual((answer.status, answer.json["title"]), (503, "LimitExceeded"))
        self.assertIn("max_size", answer.json["detail"])
        self.assertLess(self.metric("berth_cache_bytes"), 256 * 1024 * 1.1)
        self.assertGreaterEqual(self.metric("berth_cache_refusals_total"), 1)
        self.assertIn("does not fit into the cache", self.server.read_log())
        self.assertEqual(self.server.get(f"/v1/resolve{TREE}/n7").status, 200)

    def test_streams_end_when_their_tree_grows_out_of_it(self):
        stream = self.watch()
        stream.next()
        with self.assertRaises(Ended):
            for number in range(1000):
                self.put(f"{TREE}/n{number}", number, size=1000)
                stream.until(lambda event: f"{TREE}/n{number}" in stream.tree)
        self.assertLess(self.metric("berth_cache_bytes"), 256 * 1024 * 1.1)
        self.assertEqual(self.server.get(f"/v1/resolve{TREE}/a").status, 200)


class Thousands(StreamTest):
    """BERTH_STREAMS and BERTH_POLLS say how many; `make soak` takes 5,000 and 2,000."""

    # One client alone has three quarters of it.
    options = {"max_watchers": str((STREAMS + POLLS) * 4 // 3 + 1), "heartbeat_interval": "1h"}

    def setUp(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < STREAMS + POLLS + 300:
            self.skipTest(f"the limit of open files is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        super().setUp()

    def resident(self):
        return self.metric("process_resident_memory_bytes") / 1024

    def connect(self, target, **headers):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.server.socket))
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: berth\r\n{lines}\r\n".encode())
        return connection

    def open_all(self):
        tag = self.server.get(f"/v1/resolve{TREE}/a").headers["ETag"]
        streams = [self.connect(f"/v1/watch{TREE}/a") for _ in range(STREAMS)]
        for stream in streams:
            stream.settimeout(60)
            received = b""
            while b"SUBSCRIBED" not in received:
                received += stream.recv(65536)
        after_streams = self.resident()
        polls = [self.connect(f"/v1/resolve{TREE}/a", If_None_Match=tag, Prefer="wait=600")
            for _ in range(POLLS)]
        wait_until(lambda: self.metric("berth_watchers") == STREAMS + POLLS, "all are served")
        return streams + polls, after_streams

    def test_cost_little_and_leave_nothing(self):
        before = self.resident()
        everybody, after_streams = self.open_all()
        after_all = self.resident()
        print(
            f"# {STREAMS} streams cost {(after_streams - before) / STREAMS:.2f} KiB each,"
            f" {POLLS} long polls {(after_all - after_streams) / POLLS:.2f} KiB each"
        )
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess((after_streams - before) / STREAMS, 10)
        self.put(f"{TREE}/a", 2)
        for connection in everybody[:3] + everybody[-3:]:
            connection.settimeout(60)
            received = b""
            while b'"number": 2' not in received:
                more = connection.recv(65536)
                self.assertTrue(more)
                received += more
        for connection in everybody:
            connection.close()
        wait_until(lambda: self.metric("berth_watchers") == 0, "nobody is left")
        wait_until(lambda: self.metric("berth_clients") == 1, "no connection is left")
        dropped = self.resident()
        everybody, _ = self.open_all()
        for connection in everybody:
            connection.close()
        wait_until(lambda: self.metric("berth_clients") == 1, "no connection is left")
        if not os.environ.get("BERTH_SANITIZER"):
            # KiB: the second time takes what the first gave back
            self.assertLess(self.resident() - dropped, 1024)
        self.assertEqual(self.server.stop(), 0)

    def test_a_kept_connection_still_hits(self):
        connection = UnixConnection(self.server.socket)
        self.addCleanup(connection.close)
        for _ in range(2):
            connection.request("GET", f"/v1/resolve{TREE}/a")
            answer = connection.getresponse()
            answer.read()
        self.assertEqual(answer.headers["X-Cache"], "HIT")


if __name__ == "__main__":
    unittest.main()
