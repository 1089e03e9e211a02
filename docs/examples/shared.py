#!/usr/bin/env python3
"""Looks up in the agent's shared memory (docs/PROTOCOL.md, "Shared memory"), else by its socket.

    shared.py [SOCKET] TARGET…      such as /v1/resolve/services/db

Needs nothing but Python. An interpreter has no atomic loads; it copies aligned words of 8 bytes, and
on x86 no load passes an earlier one. Elsewhere a reader needs a language with fences.
"""

import array
import fcntl
import http.client
import json
import mmap
import os
import socket
import struct
import sys
import time

MASK = (1 << 64) - 1
MAGIC = 0x50414D4854524542
VERSION = 1
HEADER_BYTES, SLOT_BYTES, TAG_BYTES = 4096, 64, 24
MAX_KEY, MAX_VALUE = 1024, 16384
PROBES, TRIES = 32, 16
LIVE, RETIRED = 1, 2
ANSWER, ERROR = 1, 2
F_GET_SEALS = 1034
SEALS = 0x2 | 0x4 | 0x10  # SHRINK, GROW, FUTURE_WRITE
FOUND, UNKNOWN, EXPIRED, GONE = "found", "unknown", "expired", "gone"


def siphash_1_3(key, data):
    v0, v1, v2, v3 = (key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573)

    def step(v0, v1, v2, v3):
        v0 = (v0 + v1) & MASK
        v2 = (v2 + v3) & MASK
        v1 = ((v1 << 13 | v1 >> 51) & MASK) ^ v0
        v3 = ((v3 << 16 | v3 >> 48) & MASK) ^ v2
        v0 = ((v0 << 32 | v0 >> 32) + v3) & MASK
        v2 = (v2 + v1) & MASK
        v3 = ((v3 << 21 | v3 >> 43) & MASK) ^ v0
        v1 = ((v1 << 17 | v1 >> 47) & MASK) ^ v2
        v2 = (v2 << 32 | v2 >> 32) & MASK
        return v0, v1, v2, v3

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack("<Q", padded):
        v0, v1, v2, v3 = step(v0, v1, v2, v3 ^ word)
        v0 ^= word
    v2 ^= 255
    for _ in range(3):
        v0, v1, v2, v3 = step(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3 or 1


class Map:
    """A map behind a descriptor, which is closed. ValueError: it is none that can be read here."""

    def __init__(self, descriptor):
        try:
            size = os.fstat(descriptor).st_size
            if fcntl.fcntl(descriptor, F_GET_SEALS) & SEALS != SEALS or size < HEADER_BYTES:
                raise ValueError("the file may shrink or change")
            self.memory = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self.words = memoryview(self.memory).cast("Q")
        (magic, version, told, self.slots, self.arena, key_0, key_1,
            time_namespace) = self.words[:8]
        if (magic, version, told) != (MAGIC, VERSION, size):
            raise ValueError("another version")
        if self.slots == 0 or self.slots & self.slots - 1:
            raise ValueError("a damaged header")
        if not HEADER_BYTES + self.slots * SLOT_BYTES == self.arena <= size:
            raise ValueError("a damaged header")
        if time_namespace != os.stat("/proc/self/ns/time").st_ino:
            raise ValueError("another time namespace: its clocks differ")
        self.size, self.key = size, (key_0, key_1)

    def judge(self):
        state, live_until = self.words[16], self.words[17]
        if state != LIVE:
            return GONE if state == RETIRED else UNKNOWN
        return FOUND if time.clock_gettime_ns(time.CLOCK_BOOTTIME) < live_until else EXPIRED

    def read_slot(self, index, key):
        """(here, answer): whether the slot is the key's, and what it says; None: ask the socket."""
        at = (HEADER_BYTES + index * SLOT_BYTES) // 8
        for _ in range(TRIES):
            sequence = self.words[at]
            if sequence & 1:
                continue
            offset, lengths, status = self.words[at + 2], self.words[at + 3], self.words[at + 4]
            here, answer = self.copy(offset, lengths, status, key)
            outcome = self.judge() if answer else UNKNOWN
            if self.words[at] == sequence:
                return here, answer if outcome == FOUND else None
        return True, None

    def copy(self, offset, lengths, status, key):
        key_len, value_len = lengths & 0xFFFFFFFF, lengths >> 32
        if key_len != len(key):
            return False, None
        room = (key_len + 8) // 8 * 8
        end = offset + room + TAG_BYTES + (value_len + 8) // 8 * 8
        if value_len > MAX_VALUE or offset % 8 or offset < self.arena or end > self.size:
            return True, None
        block = self.words[offset // 8:end // 8].tobytes()
        if block[:key_len] != key:
            return False, None
        value = block[room + TAG_BYTES:][:value_len]
        tag = block[room:][:TAG_BYTES].rstrip(b"\0").decode()
        if status & 0xFFFFFFFF == ANSWER:
            return True, (0, tag, value)
        if status & 0xFFFFFFFF == ERROR:
            return True, (status >> 32, tag, value)
        return True, None

    def read(self, key):
        """(FOUND, (code, tag, value)) or (UNKNOWN | EXPIRED | GONE, None)."""
        key = key.encode()
        wanted = siphash_1_3(self.key, key)
        for index in range(PROBES if len(key) <= MAX_KEY else 0):
            index = wanted + index & self.slots - 1
            found = self.words[(HEADER_BYTES + index * SLOT_BYTES) // 8 + 1]
            if found == 0:
                break
            if found == wanted:
                here, answer = self.read_slot(index, key)
                if answer:
                    return FOUND, answer
                if here:
                    break
        outcome = self.judge()
        return UNKNOWN if outcome == FOUND else outcome, None


def fetch(socket_path):
    """A new map of the agent, or None."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(socket_path)
        connection.sendall(b"GET /v1/shared HTTP/1.1\r\nHost: berth\r\n\r\n")
        _, rights, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        descriptors = array.array("i")
        for level, kind, data in rights:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data)
        while connection.recv(4096):
            pass  # the agent ends the connection behind this answer
    try:
        return Map(descriptors[0]) if descriptors else None
    except ValueError:
        return None


class Client:
    """Look-ups by target; from memory when it is there, else from the socket."""

    def __init__(self, socket_path):
        self.path = socket_path
        self.map = None
        self.expired = None  # since when the lease was found to be over
        self.from_memory = False

    def is_worthless(self, outcome):
        """A killed agent has not retired its map: its lease stays over, whatever we ask for."""
        if outcome != EXPIRED:
            self.expired = None
        elif self.expired is None:
            self.expired = time.monotonic()
        return outcome == GONE or (self.expired and time.monotonic() - self.expired >= 1)

    def get(self, target):
        """(HTTP status, or the code of an error from memory, body)."""
        self.from_memory = False
        outcome, answer = self.map.read(target) if self.map else (GONE, None)
        if answer:
            self.from_memory = True
            return answer[0] or 200, answer[2]
        if self.is_worthless(outcome):
            self.map, self.expired = fetch(self.path), None
        connection = http.client.HTTPConnection("berth")
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.connect(self.path)
        # The agent keeps in memory what readers of the memory have asked for.
        connection.request("GET", target, headers={"Prefer": "shared"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body


def main(arguments):
    path = os.environ.get("BERTH_SOCKET", "/run/berth/berth.sock")
    if arguments and not arguments[0].startswith("/v1/"):
        path = arguments.pop(0)
    client = Client(path)
    for target in arguments:
        for _ in range(2):
            status, body = client.get(target)
            print(json.dumps({"target": target, "status": status, "memory": client.from_memory,
                "body": body.decode()}))


if __name__ == "__main__":
    main(sys.argv[1:])
