"""Records that a hostile writer puts into a shared registry, asked for in every way: the agent
lives, stays small and serves what is good."""

import json
import os
import pathlib
import socket

from berth import PATIENCE, AgentTest, wait_until
from figures import figure
from ports import reserve_port

TREE = "/users/joe/web"
GOOD = b'{"type":"JSONServiceRecord","description":"good","external":[],"internal":[]}'
HEAD = b'{"type":"JSONServiceRecord","a":'


def endpoints(count, addresses):
    address = {"uri": "http://127.0.0.1:1/"}
    one = {"api": "x", "addressType": "uri", "protocol": "REST", "addresses": [address] * addresses}
    return json.dumps({"type": "JSONServiceRecord", "external": [one] * count,
        "internal": []}).encode()


HOSTILE = {
    "deep-97": (HEAD + b"[" * 32 + b"]" * 32 + b"}").ljust(97),
    "deep-33": HEAD + b"[" * 33 + b"]" * 33 + b"}",
    "deep-10000": HEAD + b"[" * 10000 + b"]" * 10000 + b"}",
    "cut": GOOD[:-5],
    "nul": GOOD[:20] + b"\0" + GOOD[20:],
    "not-utf8": GOOD.replace(b"good", b"\xff\xfe\x80"),
    "escapes": GOOD.replace(b"good", b"\\u001b[31m\\u202e\\u009b"),
    "lone-surrogate": GOOD.replace(b"good", b"\\ud800"),
    "number": HEAD + b"1" * 5000 + b"}",
    "exponent": HEAD + b"1e99999}",
    "keys-twice": GOOD.replace(b'"external":[]', b'"external":[],"external":{}'),
    "keys": HEAD + b"{" + b",".join(b'"k%d":1' % number for number in range(9000)) + b"}}",
    "other-type": GOOD.replace(b"JSONServiceRecord", b"JSONServiceRecord2"),
    "types": b'{"type":"JSONServiceRecord","external":{"a":[null]},"internal":7,"yarn:id":[]}',
    "endpoints": endpoints(129, 1),
    "addresses": endpoints(1, 65),
    "large": GOOD.replace(b"good", b"x" * (256 << 10)),
    "empty": b"",
}


def memory_kb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text("ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


class HostileRecords(AgentTest):
    def setUp(self):
        super().setUp()
        for name, data in {**HOSTILE, "good": GOOD}.items():
            place = self.folder / "registry" / TREE[1:] / name
            place.mkdir(parents=True)
            (place / "_record").write_bytes(data)
        self.port = reserve_port(self)
        self.server = self.agent(
            agent={"listen": f"127.0.0.1:{self.port}", "listen_hosts": "berth"}).start()
        self.asked = 0

    def connect(self, tcp):
        if tcp:
            return socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(str(self.server.socket))
        return connection

    def ask(self, tcp, target, fields=""):
        """The status of the answer, all of which is read."""
        self.asked += 1
        with self.connect(tcp) as connection, connection.makefile("rb") as answer:
            connection.sendall(
                f"GET {target} HTTP/1.1\r\nHost: localhost\r\n"
                f"Connection: close\r\n{fields}\r\n".encode()
            )
            status = int(answer.readline().split()[1])
            answer.read()
        return status

    def subscribe(self, tcp, target):
        with self.connect(tcp) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            received = b""
            while b"SUBSCRIBED" not in received:
                data = connection.recv(65536)
                self.assertTrue(data, "the stream ends")
                received += data

    def attack(self):
        for tcp in False, True:
            for name in HOSTILE:
                for kind in "resolve", "stat", "endpoints", "records", "list":
                    self.assertIn(self.ask(tcp, f"/v1/{kind}{TREE}/{name}"), (200, 404, 502),
                        (kind, name))
                    self.ask(tcp, f"/v1/{kind}{TREE}/{name}", "Cache-Control: no-cache\r\n")
                self.subscribe(tcp, f"/v1/watch{TREE}/{name}")
            for target in f"/v1/records{TREE}", f"/v1/endpoints{TREE}", f"/v1/find?under={TREE}":
                self.assertEqual(self.ask(tcp, target), 200, target)
            self.subscribe(tcp, f"/v1/watch{TREE}?recursive=yes")

    def files(self):
        """As the agent counts them: its /proc/PID/fd is for root alone."""
        text = self.server.get("/metrics").body.decode()
        return next(int(line.split()[1]) for line in text.splitlines()
            if line.startswith("process_open_fds "))

    def test_nothing_dies_grows_or_hides_its_neighbours(self):
        pid = self.server.process.pid
        self.assertEqual(len(HOSTILE["deep-97"]), 97)
        self.attack()
        files, memory = self.files(), memory_kb(pid)
        self.attack()
        self.assertEqual(self.server.get(f"/v1/resolve{TREE}/good").json["description"], "good")
        # Python's own reader refuses the number of 5,000 digits.
        self.assertIn(f'"{TREE}/good":', self.server.get(f"/v1/records{TREE}").body.decode("utf-8",
            "replace").replace(": ", ":"))
        self.assertEqual(self.server.status()["pid"], pid)
        wait_until(lambda: self.files() <= files, "the descriptors are as before")
        if not os.environ.get("BERTH_SANITIZER"):  # which keeps what was freed
            self.assertLess(memory_kb(pid), memory + (16 << 10))
        figure(self, f"{len(HOSTILE)} records, {self.asked} requests: 0 crashes, the good record "
            f"in each list, {max(0, memory_kb(pid) - memory)} KiB more by the second half of "
            "them")
