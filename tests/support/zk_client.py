"""ZooKeeper's protocol, as much as tests need: an independent witness, and a writer that can keep
many requests under way."""

import socket
import struct

CREATE, DELETE, EXISTS, GET, SET, SYNC, PING, CHILDREN = 1, 2, 3, 4, 5, 9, 11, 12
EPHEMERAL_SEQUENTIAL = 3
NO_NODE = -101
BAD_VERSION = -103
NODE_EXISTS = -110
ANY_VERSION = -1
VERSION_AT = 32  # in a stat, behind four times and transactions of 8 bytes
SESSION_MS = 10000


def _text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">i", len(data)) + data


ANYONE = struct.pack(">ii", 1, 31) + _text("world") + _text("anyone")


class ZkError(Exception):
    def __init__(self, code):
        super().__init__(f"ZooKeeper says {code}")
        self.code = code


class ZkClient:
    """One session; send() and receive() for requests in a row, the others wait for their answer."""

    def __init__(self, hosts, patience=30):
        """`patience`: how many seconds each answer may take."""
        host, _, port = hosts.partition(":")
        self.socket = socket.create_connection((host, int(port)), patience)
        self.file = self.socket.makefile("rb")
        self.xid = 0
        self._write(struct.pack(">iqiq", 0, 0, SESSION_MS, 0) + _text(bytes(16)))
        self._read()

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _write(self, packet):
        self.socket.sendall(struct.pack(">i", len(packet)) + packet)

    def _read(self):
        (length,) = struct.unpack(">i", self.file.read(4))
        return self.file.read(length)

    def send(self, kind, body):
        self.xid += 1
        self._write(struct.pack(">ii", self.xid, kind) + body)

    def receive(self):
        """The body of the next answer; its error code otherwise, as ZkError."""
        packet = self._read()
        _, _, code = struct.unpack_from(">iqi", packet)
        if code:
            raise ZkError(code)
        return packet[16:]

    def request(self, kind, body):
        self.send(kind, body)
        return self.receive()

    def send_create(self, path, data=b"", ephemeral=False):
        self.send(CREATE, _text(path) + _text(data) + ANYONE + struct.pack(">i", int(ephemeral)))

    def send_set(self, path, data, version=ANY_VERSION):
        self.send(SET, _text(path) + _text(data) + struct.pack(">i", version))

    def send_delete(self, path, version=ANY_VERSION):
        self.send(DELETE, _text(path) + struct.pack(">i", version))

    def create(self, path, data=b""):
        self.send_create(path, data)
        self.receive()

    def create_sequential(self, path, data):
        """Ephemeral; returns the path with the digits that the server has added."""
        self.send(CREATE, _text(path) + _text(data) + ANYONE + struct.pack(">i",
            EPHEMERAL_SEQUENTIAL))
        packet = self.receive()
        (length,) = struct.unpack_from(">i", packet)
        return packet[4 : 4 + length].decode()

    def set(self, path, data, version=ANY_VERSION):
        """Returns the version that it made."""
        self.send_set(path, data, version)
        return struct.unpack_from(">i", self.receive(), VERSION_AT)[0]

    def delete(self, path, version=ANY_VERSION):
        self.send_delete(path, version)
        self.receive()

    def sync(self, path):
        """The server's later reads are no older than all earlier writes."""
        self.request(SYNC, _text(path))

    def make(self, path):
        """The node and what is missing above it."""
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            try:
                self.create("/" + "/".join(parts[:count]))
            except ZkError as error:
                if error.code != NODE_EXISTS:
                    raise

    def get(self, path):
        """The data, or None."""
        data, _ = self.get_version(path)
        return data

    def get_version(self, path):
        """The data and their version; None for both without the node."""
        try:
            packet = self.request(GET, _text(path) + b"\0")
        except ZkError as error:
            if error.code == NO_NODE:
                return None, None
            raise
        (length,) = struct.unpack_from(">i", packet)
        end = 4 + max(length, 0)
        return packet[4:end], struct.unpack_from(">i", packet, end + VERSION_AT)[0]

    def children(self, path):
        packet = self.request(CHILDREN, _text(path) + b"\0")
        (count,) = struct.unpack_from(">i", packet)
        names, at = [], 4
        for _ in range(count):
            (length,) = struct.unpack_from(">i", packet, at)
            names.append(packet[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return sorted(names)

    def create_many(self, nodes, window=64):
        """(path, data) pairs, `window` of them under way."""
        under_way = 0
        for path, data in nodes:
            if under_way == window:
                self.receive()
                under_way -= 1
            self.send_create(path, data)
            under_way += 1
        for _ in range(under_way):
            self.receive()
