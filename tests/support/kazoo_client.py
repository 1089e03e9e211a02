"""Python's kazoo, a ZooKeeper client that shares nothing with ours: an independent reader and
writer."""

import contextlib
import sys
import threading

__all__ = ["Group", "kazoo", "make_digest_acl", "nodes_below"]

try:
    from kazoo.client import KazooClient
except ImportError:  # a Python that is not the system's
    sys.path.append("/usr/lib/python3/dist-packages")
    from kazoo.client import KazooClient

from kazoo.exceptions import NoNodeError
from kazoo.security import make_digest_acl


@contextlib.contextmanager
def kazoo(hosts):
    client = KazooClient(hosts=hosts, timeout=30)
    client.start(timeout=60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def nodes_below(client, top):
    """{path: (data, stat)} of all nodes below."""
    nodes = {}
    with contextlib.suppress(NoNodeError):
        for name in client.get_children(top):
            path = f"{top.rstrip('/')}/{name}"
            data, stat = client.get(path)
            nodes[path] = (data.decode(), stat)
            nodes.update(nodes_below(client, path))
    return nodes


class Group:
    """A reader that watches a group, as the clients of these schemes do: its members, and the
    fewest that it ever saw."""

    def __init__(self, client, path, is_member=lambda name: True):
        self.client = client
        self.path = path
        self.is_member = is_member
        self.lock = threading.Lock()
        self.data = {}
        self.names = set()
        self.fewest = None
        client.ChildrenWatch(path)(self._on_children)

    def _on_children(self, names):
        names = {name for name in names if self.is_member(name)}
        with self.lock:
            fresh = names - self.data.keys()
            self.names = names
            self._count()
        for name in fresh:
            self.client.handler.spawn(self._watch, name)  # a watch may not wait for an answer

    def _watch(self, name):
        self.client.DataWatch(f"{self.path}/{name}")(lambda data, stat: self._on_data(name, data))

    def _on_data(self, name, data):
        with self.lock:
            if data is None:
                self.data.pop(name, None)
            else:
                self.data[name] = data.decode()

    def _count(self):
        if self.fewest is not None:
            self.fewest = min(self.fewest, len(self.names))

    def begin(self):
        with self.lock:
            self.fewest = len(self.names)

    def texts(self):
        with self.lock:
            return [self.data.get(name, "") for name in self.names]
