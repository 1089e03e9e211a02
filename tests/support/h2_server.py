"""A server of HTTP/2 that answers a call of gRPC frame by frame, as a test says."""

import contextlib
import socket
import struct
import threading

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAM = 1  # the first of a client


def frame(kind, payload=b"", flags=0, stream=STREAM):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) \
        + struct.pack(">I", stream) + payload


def fields(*pairs):
    """HPACK without a table and without Huffman."""
    return b"".join(b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),))
        + value.encode() for name, value in pairs)


def head(*more, flags=END_HEADERS):
    return frame(HEADERS, fields((":status", "200"), ("content-type", "application/grpc"), *more),
        flags)


def message(payload):
    return frame(DATA, b"\0" + struct.pack(">I", len(payload)) + payload)


def trailers(status, *more):
    return frame(HEADERS, fields(("grpc-status", str(status)), *more), END_HEADERS | END_STREAM)


class H2Server:
    """`answer` gets the connection when the request is complete; `requests` has their DATA."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError, EOFError), connection:
            connection.settimeout(60)
            stream = connection.makefile("rb")
            self.exactly(stream, len(PREFACE))
            connection.sendall(frame(SETTINGS, stream=0))
            body = b""
            while True:
                size = self.exactly(stream, 9)
                payload = self.exactly(stream, int.from_bytes(size[:3], "big"))
                kind, flags = size[3], size[4]
                if kind == SETTINGS and not flags & ACK:
                    connection.sendall(frame(SETTINGS, flags=ACK, stream=0))
                body += payload if kind == DATA else b""
                if kind in (DATA, HEADERS) and flags & END_STREAM:
                    self.requests.append(body)
                    self.answer(connection)
                    # Until the client closes.
                    while stream.read(4096):
                        pass

    @staticmethod
    def exactly(stream, count):
        found = stream.read(count)
        if len(found) < count:
            raise EOFError
        return found

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
