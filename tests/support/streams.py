"""Event streams of the agent, read by hand in all three framings, and what becomes of a tree when
they are replayed."""

import json
import select
import socket
import time

RECORDIO = "application/recordio"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
PATIENCE = 60.0


class Ended(Exception):
    """The server has ended the stream."""


class Stream:
    """One GET /v1/watch. Events are dictionaries; `tree` is what replaying them gives."""

    def __init__(self, path, target, accept=RECORDIO, receive_bytes=None):
        self.accept = accept
        self.raw = b""  # as it came
        self.body = bytearray()  # without the chunks
        self.tree = None
        self.sequence = 0
        self.stale = False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(str(path))
        self.socket.sendall(
            f"GET {target} HTTP/1.1\r\nHost: berth\r\nAccept: {accept}\r\n\r\n".encode())
        self.head = None

    def close(self):
        self.socket.close()

    def fileno(self):
        return self.socket.fileno()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _receive(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.socket], [], [], left)[0]:
            raise TimeoutError("no event came")
        more = self.socket.recv(1 << 16)
        if not more:
            raise Ended
        self.raw += more
        self._unchunk()

    def _unchunk(self):
        if self.head is None:
            head, found, rest = self.raw.partition(b"\r\n\r\n")
            if not found:
                return
            self.head, self.raw = head.decode(), rest
            if " 200 " not in self.head.splitlines()[0]:
                raise AssertionError(self.head + rest.decode())
        at = 0
        while (line := self.raw.find(b"\r\n", at)) >= 0:
            length = int(self.raw[at:line], 16)
            begin = line + 2
            if len(self.raw) < begin + length + 2:
                break
            if length == 0:
                raise Ended
            self.body += self.raw[begin : begin + length]
            at = begin + length + 2
        self.raw = self.raw[at:]

    def _take(self):
        """The next complete frame's JSON, or None."""
        if self.accept == RECORDIO:
            line = self.body.find(b"\n")
            begin = line + 1
            end = begin + int(self.body[:line]) if line >= 0 else 0
            if line < 0 or len(self.body) < end:
                return None
            frame = bytes(self.body[begin:end])
            del self.body[:end]
            return frame
        separator = b"\n" if self.accept == NDJSON else b"\n\n"
        end = self.body.find(separator)
        if end < 0:
            return None
        frame = bytes(self.body[:end])
        del self.body[: end + len(separator)]
        if self.accept == NDJSON:
            return frame
        fields = dict(line.split(b": ", 1) for line in frame.split(b"\n"))
        event = json.loads(fields[b"data"])
        assert event["type"].encode() == fields[b"event"] and event["sequence"] == int(
            fields[b"id"].rpartition(b"-")[2]), frame
        return fields[b"data"]

    def replay(self, event):
        assert event["sequence"] == self.sequence + 1, f"{event} after {self.sequence}"
        self.sequence = event["sequence"]
        kind = event["type"]
        if kind in ("SUBSCRIBED", "RESYNC"):
            self.tree = dict(event["snapshot"])
            self.stale = False
        elif kind == "UPDATED":
            self.tree[event["path"]] = event["record"]
        elif kind == "DELETED":
            self.tree.pop(event["path"], None)
        elif kind in ("STALE", "FRESH"):
            self.stale = kind == "STALE"
        else:
            assert kind == "HEARTBEAT", event

    def event(self, patience=PATIENCE):
        """The next event, whatever it is, not replayed."""
        deadline = time.monotonic() + patience
        while (frame := self._take()) is None:
            self._receive(deadline)
        return json.loads(frame)

    def next(self, patience=PATIENCE, heartbeats=False):
        """The next event, heartbeats left out unless asked for."""
        deadline = time.monotonic() + patience
        while True:
            event = self.event(max(deadline - time.monotonic(), 0.001))
            self.replay(event)
            if heartbeats or event["type"] != "HEARTBEAT":
                return event

    def until(self, condition, patience=PATIENCE):
        """Reads on until condition(event) holds; returns that event."""
        deadline = time.monotonic() + patience
        while True:
            event = self.next(max(deadline - time.monotonic(), 0.001), heartbeats=True)
            if condition(event):
                return event
