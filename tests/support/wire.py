"""A network that can be cut or slow: a TCP proxy on a loopback port whose connections stay open
while nothing passes."""

import collections
import selectors
import socket
import threading
import time

UP, DOWN = "up", "down"  # to the target, and back
BACKLOG = 128


def deafen(listener):
    """The kernel drops what would connect from now on, because the backlog is full; with those who
    fill it, whom somebody has to close."""
    listener.listen(0)
    clients = []
    for _ in range(4):
        client = socket.socket(listener.family)
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        clients.append(client)
    return clients


class Wire(threading.Thread):
    """
    Forwards to `target` ("127.0.0.1:2181") until cut() is called, and again after mend(); all takes
    `delay` seconds on its way, in each direction. Use as a context manager, or call stop().
    """

    def __init__(self, target, host="127.0.0.1", delay=0.0):
        super().__init__(daemon=True)
        self.delay = delay
        self.blocked = None  # the direction that cut() was told
        self.fillers = []
        self.late = collections.deque()  # (when due, where to, what)
        self.host = f"[{host}]" if ":" in host else host
        target_host, port = target.rsplit(":", 1)
        self.target = target_host, int(port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family, backlog=BACKLOG)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.flowing = threading.Event()
        self.flowing.set()
        self.taking = threading.Lock()  # what is taken has passed
        self.dropping = threading.Event()
        self.ended = threading.Event()
        self.start()

    @property
    def hosts(self):
        return "%s:%d" % (self.host, self.listener.getsockname()[1])

    @property
    def in_use(self):
        """Somebody is connected by this wire."""
        return len(self.selector.get_map()) > 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def cut(self, direction=None, deaf=False):
        """
        From now on nothing passes, or nothing in one direction. The kernel still accepts
        connections, unless it is `deaf`: then it drops them, too.
        """
        with self.taking:
            self.blocked = direction
            if not direction:
                self.flowing.clear()
        if deaf and not self.fillers:
            self.fillers = deafen(self.listener)

    def mend(self):
        for filler in self.fillers:
            filler.close()
        self.fillers = []
        self.listener.listen(BACKLOG)
        self.blocked = None
        self.flowing.set()

    def drop(self):
        """Ends every connection; what was on its way is lost."""
        self.dropping.set()

    def stop(self):
        self.ended.set()
        self.mend()
        self.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def run(self):
        while not self.ended.is_set():
            self.flowing.wait()
            ready = self.selector.select(timeout=0.05)
            for key, _ in ready:
                if not self.flowing.is_set():
                    break
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj.fileno() >= 0:
                    self._forward(key.fileobj, *key.data)
            if self.dropping.is_set():
                self.dropping.clear()
                self._drop()
            self._deliver()
            if self.blocked and ready:
                time.sleep(0.02)  # what is not read stays ready

    def _accept(self):
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(self.target)
        except OSError:
            near.close()
            return
        self.selector.register(near, selectors.EVENT_READ, (far, UP))
        self.selector.register(far, selectors.EVENT_READ, (near, DOWN))

    def _drop(self):
        for key in list(self.selector.get_map().values()):
            if key.fileobj is not self.listener:
                self.selector.unregister(key.fileobj)
                key.fileobj.close()

    def _deliver(self):
        while self.late and self.late[0][0] <= time.monotonic():
            _, sink, data = self.late.popleft()
            try:
                sink.sendall(data)
            except OSError:
                pass  # its other end has gone meanwhile

    def _forward(self, source, sink, direction):
        try:
            with self.taking:
                if direction == self.blocked or not self.flowing.is_set():
                    return
                data = source.recv(65536)
            if self.delay and data:
                self.late.append((time.monotonic() + self.delay, sink, data))
            else:
                sink.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (source, sink):
                self.selector.unregister(end)
                end.close()
