"""A container links one record of 128 KiB, or one file with thousands of locks, into hundreds of
nodes and touches it again and again: the host's agent did nothing else for seconds at a time.

Source: tracker #39, items 2 and 3; fcntl(2), F_OFD_GETLK, whose time grows with an inode's locks.
"""

import fcntl
import json
import os
import pathlib
import struct
import unittest

from berth import service_record
from hosting import WEB, BridgeTest

F_OFD_SETLK = 37
NODES = 128
LOCKS = 3000


def lock(file, kind, start, length):
    fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


class OneFileInManyNodes(BridgeTest):
    def setUp(self):
        super().setUp()
        self.host_agent = self.host()
        self.bad, self.good = self.container("bad"), self.container("good")

    def node(self, name, record, owner):
        node = pathlib.Path(f"{self.bad}{WEB}/{name}")
        node.mkdir(parents=True)
        os.link(owner, node / "_owner")
        os.link(record, node / "_record")
        return node

    def file(self, name, content):
        path = self.bad / name
        path.write_text(content)
        return path

    def others_live(self):
        owner = self.register(self.good, f"{WEB}/good")
        self.await_record(f"{WEB}/good")
        owner.kill()
        self.await_gone(f"{WEB}/good")

    def own(self, path):
        owner = open(path, "r+b")
        self.addCleanup(owner.close)
        return owner

    def test_one_record_is_read_for_none_of_them(self):
        record = self.file("record", json.dumps(service_record("10.0.0.1", 80, x="y" * 100000)))
        for i in range(NODES):
            owner = self.file(f"owner-{i}", "pid 1")
            node = self.node(f"c{i}", record, owner)
            owner.unlink()
            lock(self.own(node / "_owner"), fcntl.F_WRLCK, 0, 0)
        self.assertIn("has a second name", self.await_state(self.host_agent, "bad", f"{WEB}/c1",
            "refused"))
        for _ in range(5):
            os.utime(record)
            self.others_live()
        self.assertIsNone(self.record(f"{WEB}/c1"))

    def test_one_owner_lives_in_none_of_them(self):
        record = json.dumps(service_record("10.0.0.1", 80))
        owner = self.file("owner", "pid 1")
        held = self.own(owner)
        for i in range(LOCKS):
            lock(held, fcntl.F_RDLCK, 2 * i, 1)
        lock(held, fcntl.F_WRLCK, 2 * LOCKS, 1)
        for i in range(NODES):
            file = self.file(f"record-{i}", record)
            self.node(f"c{i}", file, owner)
            file.unlink()
        self.others_live()
        self.assertEqual(self.part(self.host_agent, "bad")["records"], [])


if __name__ == "__main__":
    unittest.main()
