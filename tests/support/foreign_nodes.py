"""Nodes that another program writes, in a dir: registry or on a ZooKeeper server: for tests that
are AgentTests, too."""

import json
import shutil

from zk_client import ZkClient
from zookeeper import ZooKeeper


class InDirectory:
    """Another program that writes nodes into a dir: registry, as lib/registry/dir/node.h describes
    them."""

    def prepare(self):
        self.root = self.folder / "registry"
        self.root.mkdir()

    def make(self, path):
        node = self.root / path[1:]
        if not node.exists():
            self.make(path.rsplit("/", 1)[0])
            new = self.folder / "new"
            new.mkdir()
            (new / "_foreign").touch()
            new.rename(node)
        return node

    def write(self, path, content=None):
        record = self.make(path) / "_record"
        if content is not None:
            new = self.folder / "new"
            new.write_text(content if isinstance(content, str) else json.dumps(content))
            new.rename(record)

    def erase(self, path):
        gone = self.folder / "gone"
        (self.root / path[1:]).rename(gone)
        shutil.rmtree(gone)


class OnZooKeeper:
    """Another program with a ZooKeeper client of its own."""

    def prepare(self):
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url
        self.client = ZkClient(self.server.hosts)
        self.addCleanup(self.client.close)

    def write(self, path, content=None):
        self.client.make(path)
        text = content if isinstance(content, str) else json.dumps(content)
        self.client.set(path, b"" if content is None else text.encode())

    def erase(self, path):
        self.client.delete(path)
