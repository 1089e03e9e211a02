"""Servers that answer as a test says, byte by byte, and note what happened to them."""

import contextlib
import socket
import threading

PATIENCE = 60


class OddServer:
    """A TCP server whose answer is a function of the connection, once a request's head has come;
    `errors` has what its writes met. A `pause` between two pieces is the kernel's: each is a
    segment of its own."""

    def __init__(self, answer, reads=True):
        self.answer, self.reads = answer, reads
        self.answered, self.errors = 0, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            connection.settimeout(PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                request = b""
                while self.reads and b"\r\n\r\n" not in request:
                    more = connection.recv(65536)
                    if not more:
                        return
                    request += more
                self.answer(connection)
                self.answered += 1
            except OSError as error:
                self.errors.append(error)

    def close(self):
        # A thread in accept() does not notice close() alone.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
