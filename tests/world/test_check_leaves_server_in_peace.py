"""An application logs a broken pipe at each health check: the check closes its connection behind
the status line, while the application still writes the rest of its answer, or its banner.

Source: yaoweibin/nginx_upstream_check_module #171, spring-boot #6153
"""

import socket
import time
import unittest

from berth import AgentTest, wait_until
from odd_server import OddServer

RUNS = 8
PIECE = 0.02  # seconds between two writes of an application
LARGE = b"x" * 300000


def in_two_writes(connection):
    """As most frameworks write: the head, then the body."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n")
    time.sleep(PIECE)
    connection.sendall(b'{"status":"UP"}')
    read_to_the_end(connection)


def read_to_the_end(connection):
    """The client closes in order: its end comes, and no reset."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass


def large(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE))
    time.sleep(PIECE)
    connection.sendall(LARGE)
    read_to_the_end(connection)


def banner(connection):
    for line in b"220-mail.example.org ESMTP\r\n", b"220 ready\r\n":
        time.sleep(PIECE)
        connection.sendall(line)
    read_to_the_end(connection)


def endless(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


class ServerInPeace(AgentTest):
    def check(self, answer, reads=True, **options):
        """The states and errors of a server after some runs of a check."""
        server = OddServer(answer, reads)
        self.addCleanup(server.close)
        self.watcher = self.web_agent(check="", extra={"check app": {"interval": "250ms",
            "timeout": "10s", "fast_interval": "250ms", **{key: value.format(server.port)
            for key, value in options.items()}}}).start()
        wait_until(lambda: server.answered + len(server.errors) >= RUNS, "it was asked often")
        self.assertEqual(self.watcher.check_named("app")["state"], "up")
        return server

    def http(self, answer, **options):
        return self.check(answer, type="http", target="http://127.0.0.1:{}/health", **options)

    def test_a_body_in_a_second_write(self):
        self.assertEqual(self.http(in_two_writes).errors, [])

    def test_a_large_body(self):
        self.assertEqual(self.http(large).errors, [])

    def test_a_body_whose_first_part_decides(self):
        self.assertEqual(self.http(large, match="x").errors, [])

    def test_a_banner_that_nobody_waits_for(self):
        server = self.check(banner, reads=False, type="tcp", target="127.0.0.1:{}")
        self.assertEqual(server.errors, [])

    def test_an_answer_without_an_end_holds_no_more_than_a_connection(self):
        server = self.http(endless)
        wait_until(lambda: len(server.errors) >= 2 * RUNS, "each is closed some time")


if __name__ == "__main__":
    unittest.main()
