"""HTTP/2 frames by hand (RFC 9113, RFC 7541), for what no client library sends."""

import contextlib
import socket
import struct

from berth import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 2, 3, 4, 6, 7, 8, 9)
ACK = END_STREAM = 1
END_HEADERS = 4
ENHANCE_YOUR_CALM = 11
SERVICE = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values):
    return frame(SETTINGS, payload=b"".join(
        struct.pack(">HI", number, value)
        for number, value in ((int(name[1:]), value) for name, value in values.items())))


def integer(value, bits):
    """An integer of HPACK, with a prefix of that many bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out = [most]
    value -= most
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def fields(*pairs):
    """Literal fields without indexing."""
    return b"".join(b"\0" + b"".join(integer(len(text), 7) + text for text in (
        part.encode() for part in pair)) for pair in pairs)


def request_fields(path, kind="application/grpc"):
    return fields((":method", "POST"), (":scheme", "http"), (":path", path),
        (":authority", "berth"), ("content-type", kind), ("te", "trailers"))


def varint(value):
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def text(field, value):
    data = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def message(*parts):
    """A message of gRPC."""
    data = b"".join(parts)
    return struct.pack(">BI", 0, len(data)) + data


class Client:
    """A connection that says exactly what it is told to."""

    def __init__(self, path, greeting=settings(), connection=None):
        """To the socket at the path, or on a connection that is there."""
        self.socket = connection or socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        if not connection:
            self.socket.connect(str(path))
        self.bytes = b""
        self.send(PREFACE + greeting)

    def send(self, data):
        self.socket.sendall(data)

    def drain(self):
        """Forgets what has come; a client that does not read is not listened to."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(65536):
                pass
        self.socket.settimeout(PATIENCE)

    def open(self, stream, path=f"{SERVICE}StreamAggregatedResources"):
        self.send(frame(HEADERS, END_HEADERS, stream, request_fields(path)))

    def take(self, length):
        while len(self.bytes) < length:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self.bytes += data
        data, self.bytes = self.bytes[:length], self.bytes[length:]
        return data

    def next(self):
        """(type, flags, stream, payload) of the next frame; EOFError at the end."""
        head = self.take(9)
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return kind, flags, stream, self.take(int.from_bytes(head[:3], "big"))

    def wait(self, kind, stream=None):
        """The payload of the next frame of that type."""
        while True:
            got, _, of, payload = self.next()
            if got == kind and stream in (None, of):
                return payload

    def end(self):
        """Reads to the end; the error of the GOAWAY that came before, None without one."""
        error = None
        try:
            while True:
                kind, _, _, payload = self.next()
                if kind == GOAWAY:
                    error = int.from_bytes(payload[4:8], "big")
        except (EOFError, ConnectionError):
            return error

    def close(self):
        self.socket.close()
