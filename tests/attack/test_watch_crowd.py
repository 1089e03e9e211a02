"""500 recursive watches of a tree of 20,000 nodes begin at once, and every node changes: look-ups
and the health of the agent go on meanwhile, however long all the snapshots take."""

import json
import os
import resource
import selectors
import socket
import threading
import time
import unittest

from berth import PATIENCE, AgentTest, service_record, wait_until

NODES = int(os.environ.get("BERTH_WATCH_NODES", "20000"))
STREAMS = int(os.environ.get("BERTH_WATCH_STREAMS", "500"))
CHANGES = 200
LARGEST = "256M"
REQUEST = (b"GET /v1/watch/svc?recursive=yes HTTP/1.1\r\nHost: berth\r\n"
    b"Accept: application/x-ndjson\r\n\r\n")


class WatchCrowd(AgentTest):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = STREAMS + 500
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.skipTest(f"{wanted} files are needed, and {hard} may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.put("/svc/n00000", service_record("10.0.0.1", 80))
        self.make_nodes()
        self.server = self.agent(cache={"max_size": LARGEST, "warm": "/svc/**"},
            agent={"max_watchers": str(2 * STREAMS)}).start()
        wait_until(lambda: len(self.server.get("/v1/list/svc").json) == NODES, "all is listed")
        wait_until(self.is_loaded, "all is loaded")

    def make_nodes(self):
        """As the directory keeps them; a command for each would take an hour."""
        folder = self.folder / "registry" / "svc"
        record = (folder / "n00000" / "_record").read_bytes()
        for number in range(1, NODES):
            node = folder / f"n{number:05d}"
            node.mkdir(mode=0o755)
            (node / "_record").write_bytes(record)

    def is_loaded(self):
        """A watch that begins has the whole tree; a watch that cannot is answered with 503."""
        with self.connect() as connection:
            connection.sendall(REQUEST)
            return b" 200 " in connection.recv(4096)[:20]

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(str(self.server.socket))
        return connection

    def slowest(self, ended):
        """Asks /live on a connection of its own until told to end; the seconds of each answer."""
        seconds = []
        with self.connect() as connection:
            while not ended.is_set():
                begin = time.monotonic()
                connection.sendall(b"GET /live HTTP/1.1\r\nHost: berth\r\n\r\n")
                self.assertIn(b" 200 ", connection.recv(65536)[:20])
                seconds.append(time.monotonic() - begin)
                ended.wait(0.005)
        return seconds

    def read_until(self, selector, word):
        """Reads all streams until each has shown the word."""
        left = {key.fd: b"" for key in selector.get_map().values()}
        while left:
            ready = selector.select(PATIENCE)
            self.assertTrue(ready, f"{len(left)} streams show nothing more")
            for key, _ in ready:
                data = key.fileobj.recv(1 << 20)
                self.assertTrue(data, "a stream has ended")
                self.assertNotIn(b"HTTP/1.1 503", data[:20])
                if key.fd in left:
                    if word in left[key.fd] + data:
                        del left[key.fd]
                    else:
                        left[key.fd] = data[-len(word):]

    def test_the_agent_answers_while_all_streams_begin_and_all_hear_of_changes(self):
        selector = selectors.DefaultSelector()
        ended = threading.Event()
        seconds = []
        prober = threading.Thread(target=lambda: seconds.extend(self.slowest(ended)))
        connections = [self.connect() for _ in range(STREAMS)]
        prober.start()
        begin = time.monotonic()
        try:
            for connection in connections:
                connection.sendall(REQUEST)
                selector.register(connection, selectors.EVENT_READ)
            self.read_until(selector, f"/svc/n{NODES - 1:05d}\"".encode())
            subscribed = time.monotonic() - begin
            for number in range(CHANGES):
                file = self.folder / "registry" / "svc" / f"n{number:05d}" / "_record"
                content = json.dumps(service_record("10.0.0.2", 81, description="changed")).encode()
                file.with_name("_new").write_bytes(content)
                file.with_name("_new").rename(file)
            self.put("/svc/zz-last", service_record("10.0.0.3", 80))
            self.read_until(selector, b"/svc/zz-last\"")
        finally:
            ended.set()
            prober.join()
            for connection in connections:
                connection.close()
        seconds.sort()
        print(f"{STREAMS} recursive watches of {NODES} nodes: all had their snapshot after "
            f"{subscribed:.1f} s; /live took {seconds[len(seconds) // 2] * 1000:.1f} ms in the "
            f"middle and {seconds[-1] * 1000:.0f} ms at most, of {len(seconds)}")
        self.assertGreater(len(seconds), 1)


if __name__ == "__main__":
    unittest.main()
