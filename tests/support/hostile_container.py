"""What a container can do in its registry/, faster than with our programs: nodes with live owners,
by the files and locks of lib/registry/dir/node.h."""

import fcntl
import json
import os
import struct

from berth import service_record

F_OFD_SETLK = 37


class HostileContainer:
    """`registry`: its registry/. What it holds goes with close()."""

    def __init__(self, registry):
        self.registry = registry
        self.owners = {}

    def hold(self, path, record=None):
        """A node whose owner lives, with a record as an object or as bytes."""
        folder = f"{self.registry}{path}"
        os.makedirs(folder, exist_ok=True)
        # No buffer: its owner may be a child that is killed.
        owner = open(f"{folder}/_owner", "wb", buffering=0)  # pylint: disable=consider-using-with
        owner.write(b"pid 1\n")
        fcntl.fcntl(owner, F_OFD_SETLK,
            struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        self.owners[path] = owner
        self.write(path, record or service_record("10.0.0.9", 80))

    def write(self, path, record):
        folder = f"{self.registry}{path}"
        data = record if isinstance(record, bytes) else json.dumps(record).encode()
        with open(f"{folder}/_new", "wb") as file:
            file.write(data)
        os.rename(f"{folder}/_new", f"{folder}/_record")

    def give_up(self, path):
        """As an owner that withdraws: the node goes, too, with the directories above it that are
        empty."""
        owner = self.owners.pop(path)
        owner.truncate(0)
        owner.close()
        folder = f"{self.registry}{path}"
        for name in ("_record", "_owner"):
            os.unlink(f"{folder}/{name}")
        os.removedirs(folder)  # up to the first one that is not empty

    def close(self):
        for owner in self.owners.values():
            owner.close()
        self.owners.clear()
