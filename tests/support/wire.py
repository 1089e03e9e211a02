"""A network that can be cut: a TCP proxy on a loopback port whose connections stay open while nothing passes."""

import selectors
import socket
import threading


class Wire(threading.Thread):
    """Forwards to `target` ("127.0.0.1:2181") until cut() is called, and again after mend(). Use as a context manager, or call stop()."""

    def __init__(self, target, host="127.0.0.1"):
        super().__init__(daemon=True)
        self.host = f"[{host}]" if ":" in host else host
        target_host, port = target.rsplit(":", 1)
        self.target = target_host, int(port)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.flowing = threading.Event()
        self.flowing.set()
        self.ended = threading.Event()
        self.start()

    @property
    def hosts(self):
        return "%s:%d" % (self.host, self.listener.getsockname()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def cut(self):
        """From now on nothing passes; the kernel still accepts connections, as a firewall that drops packets never would refuse them."""
        self.flowing.clear()

    def mend(self):
        self.flowing.set()

    def stop(self):
        self.ended.set()
        self.flowing.set()
        self.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def run(self):
        while not self.ended.is_set():
            self.flowing.wait()
            for key, _ in self.selector.select(timeout=0.05):
                if not self.flowing.is_set():
                    break
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj.fileno() >= 0:
                    self._forward(key.fileobj, key.data)

    def _accept(self):
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(self.target)
        except OSError:
            near.close()
            return
        self.selector.register(near, selectors.EVENT_READ, far)
        self.selector.register(far, selectors.EVENT_READ, near)

    def _forward(self, source, sink):
        try:
            data = source.recv(65536)
            sink.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (source, sink):
                self.selector.unregister(end)
                end.close()
