"""A false ZooKeeper: it serves a small tree of its own, and in one of many hostile modes it
lies about it.

A mode is a function of HOSTILE; its name says what it does. Each takes (connection, packet) with
the honest packet, without its length, and returns the bytes to send; None closes the connection.
`connect_…` modes are about the answer to the connect request, the others about every later
answer.
The mode can be changed at any time: it holds for connections and packets from then on.
"""

import contextlib
import itertools
import os
import socket
import struct
import threading
import time

CREATE, DELETE, EXISTS, GET, SET, GET_ACL, CHILDREN, SYNC, PING = 1, 2, 3, 4, 5, 6, 8, 9, 11
CHILDREN2, MULTI, CREATE2, UNWATCH, CLOSE, AUTH = 12, 14, 15, 18, -11, 100
NO_NODE, NODE_EXISTS, AUTH_FAILED = -101, -110, -115
MEGABYTE = 1 << 20


def frame(packet):
    return struct.pack(">i", len(packet)) + packet


def text(value):
    return struct.pack(">i", len(value)) + value


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        (length,) = self.take(">i")
        self.at += max(length, 0)
        return self.data[self.at - max(length, 0) : self.at]


class Tree:
    """Enough of ZooKeeper's tree for an agent that registers and looks up."""

    def __init__(self):
        self.lock = threading.Lock()
        self.zxid = itertools.count(1)
        self.nodes = {"/": (b"", 0, 0)}  # path: data, czxid, owner

    @staticmethod
    def stat(czxid, owner, size, children):
        now = int(time.time() * 1000)
        return struct.pack(">qqqqiiiqiiq", czxid, czxid, now, now, 0, 0, 0, owner, size, children,
            czxid)

    def names(self, path):
        prefix = path.rstrip("/") + "/"
        return [name[len(prefix) :] for name in self.nodes if name.startswith(prefix)
            and "/" not in name[len(prefix) :] and name != path]

    def stat_of(self, path):
        data, czxid, owner = self.nodes[path]
        return self.stat(czxid, owner, len(data), len(self.names(path)))

    def end_session(self, session):
        with self.lock:
            for path in [path for path, node in self.nodes.items() if node[2] == session]:
                del self.nodes[path]

    def end_all_sessions(self):
        with self.lock:
            self.nodes = {path: node for path, node in self.nodes.items() if not node[2]}

    def create(self, path, body, session):
        (length,) = struct.unpack_from(">i", body)
        data = body[4 : 4 + max(length, 0)]
        flags = struct.unpack(">i", body[-4:])[0]
        if path in self.nodes:
            return NODE_EXISTS, b""
        if (os.path.dirname(path) or "/") not in self.nodes:
            return NO_NODE, b""
        self.nodes[path] = (data, next(self.zxid), session if flags & 1 else 0)
        return 0, text(path.encode())

    def transact(self, operations, session):
        """Deletes, creations and new data that the agent knows to be possible."""
        answer = b""
        while True:
            kind, done, _ = operations.take(">i?i")
            if done:
                return answer + struct.pack(">i?i", -1, True, -1)
            answer += struct.pack(">i?i", kind, False, 0)
            path = operations.text().decode()
            if kind == DELETE:
                operations.take(">i")
                self.nodes.pop(path, None)
                continue
            data = operations.text()
            if kind == SET:
                operations.take(">i")
                self.nodes[path] = (data, *self.nodes[path][1:])
                answer += self.stat_of(path)
                continue
            for _ in range(operations.take(">i")[0]):
                operations.take(">i"), operations.text(), operations.text()
            (flags,) = operations.take(">i")
            self.nodes[path] = (data, next(self.zxid), session if flags & 1 else 0)
            answer += text(path.encode())

    def answer(self, kind, body, session):
        """(code, body) of the honest answer."""
        if kind in (PING, UNWATCH, CLOSE, AUTH):
            return 0, b""
        if kind == MULTI:
            with self.lock:
                return 0, self.transact(Reader(body), session)
        (length,) = struct.unpack_from(">i", body)
        path, rest = body[4 : 4 + length].decode(), body[4 + length :]
        with self.lock:
            if kind in (CREATE, CREATE2):
                code, answer = self.create(path, rest, session)
                return code, answer + (self.stat_of(path) if kind == CREATE2 and code == 0 else b"")
            if kind == SYNC:
                return 0, text(path.encode())
            if path not in self.nodes:
                return NO_NODE, b""
            if kind == DELETE:
                del self.nodes[path]
                return 0, b""
            if kind == SET:
                (length,) = struct.unpack_from(">i", rest)
                self.nodes[path] = (rest[4 : 4 + max(length, 0)], *self.nodes[path][1:])
            answers = {
                GET: lambda: text(self.nodes[path][0]),
                CHILDREN: lambda: self.list_of(path),
                CHILDREN2: lambda: self.list_of(path),
                GET_ACL: lambda: struct.pack(">ii", 1, 31) + text(b"world") + text(b"anyone"),
            }
            answer = answers[kind]() if kind in answers else b""
            return 0, answer + (b"" if kind == CHILDREN else self.stat_of(path))

    def list_of(self, path):
        names = self.names(path)
        return struct.pack(">i", len(names)) + b"".join(text(name.encode()) for name in names)


def event(kind, path, state=3):
    return frame(struct.pack(">iqi", -1, -1, 0) + struct.pack(">ii", kind, state) + text(path))


def with_length(length):
    return lambda _, packet: struct.pack(">i", length) + packet


def answer_body(body):
    """All successful answers have this body."""
    return lambda _, packet: frame(packet[:16] + body) if len(packet) > 16 else frame(packet)


def answer_head(xid=None, zxid=None, code=None):
    """All answers have another head."""

    def mutate(_, packet):
        old = struct.unpack_from(">iqi", packet)
        head = [was if new is None else new(was) if callable(new) else new
            for was, new in zip(old, (xid, zxid, code))]
        return frame(struct.pack(">iqi", *head) + packet[16:])

    return mutate


def children_answer(count, names=b""):
    return answer_body(struct.pack(">i", count) + names)


def data_answer(length, data=b""):
    return answer_body(struct.pack(">i", length) + data + Tree.stat(1, 0, 5, 0))


def connect_answer(timeout=None, session=None, password=None, tail=b""):
    def mutate(_, packet):
        version, old_timeout, old_session = struct.unpack_from(">iiq", packet)
        head = struct.pack(
            ">iiq", version, old_timeout if timeout is None else timeout, old_session if session
            is None else session
        )
        return frame(head + (packet[16:] if password is None else password) + tail)

    return mutate


def slowly(delay):
    def mutate(connection, packet):
        with contextlib.suppress(OSError):
            for byte in frame(packet):
                connection.socket.sendall(bytes([byte]))
                if connection.fake.changed.wait(delay):
                    break
        return None

    return mutate


def late(delay):
    def mutate(connection, packet):
        connection.fake.changed.wait(delay)
        return frame(packet)

    return mutate


def reversed_pairs(connection, packet):
    held, connection.held = connection.held, None
    if held is None:
        connection.held = packet
        return b""
    return frame(packet) + frame(held)


def a_few_then_close(connection, packet):
    connection.answered += 1
    return frame(packet) if connection.answered <= 3 else None


def endless_events(connection, packet):
    paths = [path.encode() for path in connection.fake.tree.nodes] or [b"/"]
    return frame(packet) + b"".join(event(kind, path) for kind in (3, 4) for path in paths)


DEEP = b'{"type":"JSONServiceRecord","a":' + b"[" * 5000 + b"]" * 5000 + b"}"

HOSTILE = {
    "connect_close": lambda *_: None,
    "connect_silence": lambda *_: b"",
    "connect_garbage": lambda *_: os.urandom(4096),
    "connect_http": lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "connect_tls_alert": lambda *_: b"\x15\x03\x01\x00\x02\x02\x46",
    "connect_half": lambda _, packet: frame(packet)[:20],
    "connect_length_zero": with_length(0),
    "connect_length_negative": with_length(-1),
    "connect_length_huge": with_length(0x7FFFFFFF),
    "connect_length_too_small": with_length(5),
    "connect_timeout_zero": connect_answer(timeout=0),
    "connect_timeout_negative": connect_answer(timeout=-5),
    "connect_timeout_huge": connect_answer(timeout=0x7FFFFFFF),
    "connect_session_zero": connect_answer(session=0),
    "connect_session_of_others": connect_answer(session=0x1234),
    "connect_session_expired": connect_answer(timeout=0, session=0),
    "connect_password_negative": connect_answer(password=struct.pack(">i", -1)),
    "connect_password_huge": connect_answer(password=struct.pack(">i", 0x7FFFFFFF)),
    "connect_password_short": connect_answer(password=text(b"abc")),
    "connect_trailing_junk": connect_answer(tail=os.urandom(64)),
    "connect_byte_by_byte": slowly(0.05),
    "silence": lambda *_: b"",
    "close": lambda *_: None,
    "close_after_a_few": a_few_then_close,
    "truncated": lambda _, packet: frame(packet)[:-1],
    "length_zero": with_length(0),
    "length_negative": with_length(-1),
    "length_huge": with_length(0x7FFFFFFF),
    "length_too_large": lambda _, packet: struct.pack(">i", len(packet) + 1000) + packet,
    "length_too_small": lambda _, packet: struct.pack(">i", len(packet) - 3) + packet,
    "head_only_half": lambda _, packet: frame(packet[:8]),
    "xid_of_another": answer_head(xid=lambda xid: xid + 1 if xid > 0 else xid),
    "xid_zero": answer_head(xid=0),
    "xid_unknown_and_negative": answer_head(xid=-77),
    "zxid_negative": answer_head(zxid=-(2**62)),
    "code_unknown": answer_head(code=-9999),
    "code_positive": answer_head(code=42),
    "code_session_moved": answer_head(code=-118),
    "code_auth_failed_for_each": answer_head(code=-115),
    "twice": lambda _, packet: frame(packet) * 2,
    "in_reverse": reversed_pairs,
    "empty_bodies": answer_body(b""),
    "random_bodies": answer_body(os.urandom(512)),
    "huge_bodies": answer_body(b"\xff" * (2 * MEGABYTE)),
    "half_bodies": lambda _, packet: frame(packet[: 16 + (len(packet) - 16) // 2]),
    "children_negative": children_answer(-2),
    "children_billions": children_answer(0x7FFFFFFF),
    "children_more_than_sent": children_answer(1000, text(b"a")),
    "child_name_negative": children_answer(1, struct.pack(">i", -7)),
    "child_name_huge": children_answer(1, struct.pack(">i", 0x7FFFFF00)),
    "child_names_odd": children_answer(4, text(b"../..") + text(b"a\0b") + text(b"\x1b[31m")
        + text(b"\xff\xfe") + bytes(68)),
    "children_in_masses": children_answer(50000, b"".join(text(b"c%d" % i) for i in range(50000))
        + bytes(68)),
    "children_by_the_million": children_answer(1000000, b"".join(text(b"c%d" % i)
        for i in range(1000000)) + bytes(68)),
    "children_doubled": children_answer(50000, text(b"twin") * 50000 + bytes(68)),
    "data_length_negative": data_answer(-2),
    "data_length_huge": data_answer(0x7FFFFFF0),
    "data_larger_than_sent": data_answer(1000, b"x"),
    "data_of_megabytes": data_answer(2 * MEGABYTE, b'{"type":"JSONServiceRecord","a":"'
        + b"x" * (2 * MEGABYTE - 35) + b'"}'),
    "data_deep": data_answer(len(DEEP), DEEP),
    "stats_of_minus_one": answer_body(b"\xff" * 80),
    "event_of_unknown_kind": lambda _, packet: event(4711, b"/registry") + frame(packet),
    "event_path_negative": lambda _, packet: frame(struct.pack(">iqiiii", -1, -1, 0, 3, 3, -9))
    + frame(packet),
    "event_path_odd": lambda _, packet: event(3, b"\x1b]0;x\x07/../\xff") + frame(packet),
    "event_session_expired": lambda _, packet: event(-1, b"", state=-112) + frame(packet),
    "events_without_end": endless_events,
    "events_by_thousands": lambda _, packet: event(3, b"/registry/nobody") * 5000 + frame(packet),
    "pings_nobody_sent": lambda _, packet: frame(struct.pack(">iqi", -2, 0, 0)) * 50
    + frame(packet),
    "auth_refused": lambda _, packet: frame(struct.pack(">iqi", -4, 0, -115)) + frame(packet),
    "late": late(0.3),
}


class Connection(threading.Thread):
    def __init__(self, fake, peer):
        super().__init__(daemon=True)
        self.fake = fake
        self.socket = peer
        self.file = peer.makefile("rb")
        self.held = None
        self.answered = 0
        self.session = 0
        fake.connections.add(self)
        self.start()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def read(self):
        (length,) = struct.unpack(">i", self.file.read(4))
        return self.file.read(length)

    def send(self, packet, connecting):
        mode = self.fake.mode
        mutate = HOSTILE.get(mode) if mode.startswith("connect_") == connecting else None
        data = mutate(self, packet) if mutate else frame(packet)
        if mutate:
            self.fake.lied.set()
        if data is None:
            raise EOFError
        self.socket.sendall(data)

    def serve(self):
        _, _, timeout, wanted = struct.unpack_from(">iqiq", self.read())
        self.fake.give_session(self, wanted)
        self.send(struct.pack(">iiq", 0, timeout, self.session) + text(bytes(16)) + b"\0", True)
        while True:
            request = self.read()
            xid, kind = struct.unpack_from(">ii", request)
            if kind == AUTH and not self.fake.takes(request):
                self.send(struct.pack(">iqi", xid, 0, AUTH_FAILED), False)
                return
            code, body = self.fake.tree.answer(kind, request[8:], self.session)
            self.send(struct.pack(">iqi", xid, next(self.fake.tree.zxid), code) + body, False)
            if kind == CLOSE:
                self.fake.end_session(self.session)
                return

    def run(self):
        with contextlib.suppress(OSError, EOFError, struct.error):
            self.serve()
        self.file.close()
        self.socket.close()
        self.fake.connections.discard(self)


class FakeZooKeeper(threading.Thread):
    """Honest until set_mode(). Use as a context manager, or call stop()."""

    def __init__(self, address=("127.0.0.1", 0)):
        super().__init__(daemon=True)
        self.tree = Tree()
        self.mode = "honest"
        self.credential = None  # user:password; None: any is taken
        self.refused = 0
        self.accepted = 0  # connections
        self.lied = threading.Event()
        self.changed = threading.Event()
        self.sessions = set()
        self.next_session = itertools.count(0x100001)
        self.gate = threading.Lock()  # no connection gets a session while the mode changes
        self.connections = set()
        self.listener = socket.create_server(address)
        self.start()

    @property
    def url(self):
        return "zookeeper://127.0.0.1:%d/registry" % self.listener.getsockname()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def set_mode(self, mode):
        """From now on; all connections begin anew."""
        self.mode = mode
        self.lied.clear()
        self.changed.set()
        with self.gate:
            for connection in list(self.connections):
                connection.close()
                if connection.session:
                    connection.join()  # it writes no more
        self.changed.clear()

    def give_session(self, connection, wanted):
        """There is one client: when it begins another session, those before are over, which a real
        server would find out by their timeouts."""
        with self.gate:
            if wanted not in self.sessions:
                self.sessions.clear()
                self.tree.end_all_sessions()
                wanted = next(self.next_session)
                self.sessions.add(wanted)
            connection.session = wanted

    def takes(self, auth_request):
        good = self.credential is None or text(self.credential.encode()) in auth_request
        self.refused += not good
        return good

    def end_session(self, session):
        self.sessions.discard(session)
        self.tree.end_session(session)

    def stop(self):
        self.changed.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in list(self.connections):
            connection.close()
        self.join()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                self.accepted += 1
                Connection(self, peer)
