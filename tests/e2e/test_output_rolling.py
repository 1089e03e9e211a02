"""A service that is scaled, restarted and drained behind the proxies of docs/FOLLOW.md, each with
its recipe, under clients that ask without a pause. Every container is an agent with its server as
main process; the server drops what it has in hand when it gets TERM."""

import http.server
import os
import re
import signal
import sys
import threading
import time
import unittest

from berth import wait_until
from proxies import HAProxy, Load, Nginx, free_ports, get, missing
from recipes import RecipeTest, blocks
from wire import deafen

SERVER = r"""
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b"%d\n" % self.server.server_port
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    def handle_error(self, *_):
        pass
Listener(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

ANSWER_S = 3  # so long a proxy waits for an answer here
# In place of the recipe's 2 s: a busy machine may take that long to check and reload a proxy.
DRAIN_DELAY = "6s"


def options_of(text):
    """{section: {key: value}} of a recipe."""
    sections = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"\[(.*)\]", line):
            section = sections.setdefault(match[1], {})
        elif "=" in line:
            key, _, value = line.partition(" = ")
            section[key] = value
    return sections


class Container:
    """One container of the service."""

    def __init__(self, test, number):
        (self.port,) = free_ports(1)
        self.agent = test.agent(f"container-{number}",
            command=[sys.executable, "-c", SERVER, str(self.port)])
        sections = options_of(next(block for block in blocks("ini")
            if block.startswith("; recipe: server\n")))
        sections["agent"]["drain_delay"] = DRAIN_DELAY
        sections["component"]["name"] = f"c{number}"
        sections["endpoint http"]["address"] = f"127.0.0.1:{self.port}"
        sections["check http"]["target"] = f"http://127.0.0.1:{self.port}/"
        self.agent.write_config(sections)

    def start(self):
        self.agent.start()
        return self

    def server_pid(self):
        return self.agent.status()["main_process"]["pid"]


class MortalHost:
    """A server on a host that may die: then no connection to it comes about or is refused, and what
    it has in hand gets no answer and no end."""

    HELD_S = 0.05  # so that requests are in hand when it dies

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.server.host.serve(self)

        def log_message(self, *_):
            pass

    class Listener(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def get_request(self):
            connection, address = super().get_request()
            self.host.connections.append(connection)
            return connection, address

        def handle_error(self, *_):
            """A proxy resets the connections of its health checks."""

    def __init__(self):
        self.lock = threading.Lock()
        self.in_hand = 0
        self.connections = []
        self.over = threading.Event()
        self.server = self.Listener(("127.0.0.1", 0), self.Handler)
        self.server.host = self
        self.port = self.server.server_port
        self.died_at = None
        self.connections_at_death = 0
        self.queued = []
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def serve(self, request):
        with self.lock:
            self.in_hand += 1
        time.sleep(self.HELD_S)
        with self.lock:
            dead = self.died_at is not None
            self.in_hand -= not dead
        if dead:
            self.over.wait()
            request.close_connection = True
            return
        body = f"{self.port}\n".encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def die(self):
        """With a request in hand."""
        wait_until(lambda: self.in_hand > 0, "the proxy asks the host")
        with self.lock:
            self.died_at = time.monotonic()
            self.connections_at_death = sum(one.fileno() >= 0 for one in self.connections)
        self.server.shutdown()
        self.queued = deafen(self.server.socket)

    def was_asked_since(self):
        """Somebody, whose connection does not come about, sends SYNs to it."""
        wanted = f":{self.port:04X}"
        with open("/proc/net/tcp", encoding="ascii") as table:
            rows = [line.split() for line in table]
        return any(row[2].endswith(wanted) and row[3] == "02" for row in rows)

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        for one in (*self.connections, *self.queued):
            one.close()


class Service(RecipeTest):
    def setUp(self):
        super().setUp()
        self.containers = {}
        self.is_alone = lambda: True
        self.numbers = iter(range(1, 100))

    def add(self, count):
        for _ in range(count):
            number = next(self.numbers)
            self.containers[number] = Container(self, number).start()

    def ports(self):
        return {container.port for container in self.containers.values()}

    def wait_all_serve(self, port):
        seen = set()

        def all_serve():
            seen.add(get(port))
            return self.ports() <= seen

        wait_until(all_serve, "each container has answered through the proxy")

    def work(self, port, follows):
        """A day of the service, told as (what, failed requests) for each part."""
        self.add(2)
        wait_until(lambda: follows(self.ports()), "the proxy knows the first two")
        self.wait_all_serve(port)
        wait_until(self.is_alone, "the proxy's worker that knew none has ended")
        parts = []
        for what, part in (("scaling up", self.scale_up), ("scaling down", self.scale_down),
                ("a rolling restart", self.restart_each), ("a drain", self.drain),
                ("kill -9 of a container", self.kill),
                ("the death of a host", self.lose_a_host)):
            with Load(port) as load:
                part()
                wait_until(lambda: follows(self.ports()), f"the proxy has followed {what}")
                self.wait_all_serve(port)
            parts.append((what, load))
            print(f"# {self.id().rpartition('_by_')[2]}: {what}: {load.good} requests, "
                  f"{len(load.failures)} failed {load.failures[:3]}")
            if what.startswith("the death"):
                self.tell_until_when(load)
        for what, load in parts:
            # Each client may have one request in the hand of what is killed or dies, and the proxy
            # sends one more on each connection that it keeps to a dead host.
            clients = len(load.threads)
            most = {"kill -9 of a container": clients,
                "the death of a host": clients + self.host.connections_at_death}.get(what, 0)
            self.assertLessEqual(len(load.failures), most, f"{what}: {load.failures}")
            self.assertGreater(load.good, 0)

    def tell_until_when(self, load):
        times = [float(failure.partition(":")[0]) - self.host.died_at for failure in load.failures]
        print(f"# the host had {self.host.in_hand} requests in hand and "
              f"{self.host.connections_at_death} connections; "
              f"{'the last failed after %.1f s' % max(times) if times else 'none failed'}")

    def scale_up(self):
        self.add(2)

    def scale_down(self):
        for number in list(self.containers)[:2]:
            self.containers.pop(number).agent.signal(signal.SIGTERM)

    def restart_each(self):
        for container in self.containers.values():
            container.agent.stop()
            container.start()
            container.agent.wait_state("registered")

    def drain(self):
        """As an operator does: the answer to a drain that is done, then work on the machine."""
        agent = next(iter(self.containers.values())).agent
        agent.request("POST", "/v1/agent/drain", {"reason": "new disk"})
        wait_until(lambda: agent.status()["drain"]["done"], "the drain is done")
        agent.kill()
        agent.start()
        agent.request("DELETE", "/v1/agent/drain")
        agent.wait_state("registered")

    def kill(self):
        """All processes of one container at the same time, in the middle of requests."""
        number, container = next(iter(self.containers.items()))
        del self.containers[number]
        server = container.server_pid()
        # The server first: an agent that is killed lets the kernel end its main process, too.
        os.kill(server, signal.SIGKILL)
        container.agent.kill()

    def lose_a_host(self):
        """Nobody answers there any more, not even with a refusal, and the record is still there."""
        self.host = MortalHost()
        self.addCleanup(self.host.close)
        self.members.put("dead", self.host.port)
        self.host.die()
        wait_until(self.host.was_asked_since, "the proxy has asked the dead host")
        self.members.remove("dead")

    @unittest.skipIf(missing("haproxy"), missing("haproxy"))
    def test_by_haproxy_at_run_time(self):
        haproxy = self.start_haproxy(blocks("haproxy")[0])
        self.recipe("haproxy-runtime").start()
        self.work(haproxy.port, lambda ports: haproxy.servers().keys() == {f"berth:c{number}" for
            number in self.containers})

    @unittest.skipIf(missing("haproxy"), missing("haproxy"))
    def test_by_haproxy_with_a_file(self):
        file = self.root / "etc/haproxy/web.cfg"
        file.write_text("backend web\n")
        haproxy = self.start_haproxy(blocks("haproxy")[1], file)
        agent = self.recipe("haproxy-file").start()
        self.work(haproxy.port, lambda ports: self.is_current(agent, file, ports))

    @unittest.skipIf(missing("nginx"), missing("nginx"))
    def test_by_nginx(self):
        file = self.root / "etc/nginx/web.servers"
        file.write_text("server 127.0.0.1:9 down;\n")
        nginx = Nginx(self.root / "nginx", file, f"proxy_read_timeout {ANSWER_S}s;")
        self.addCleanup(nginx.end)
        nginx.start()
        self.is_alone = nginx.has_one_generation
        agent = self.recipe("nginx",
            command=("/usr/sbin/nginx -q -s reload", nginx.reload_command)).start()
        self.work(nginx.port, lambda ports: self.is_current(agent, file, ports))

    def start_haproxy(self, text, *files):
        haproxy = HAProxy(self.root / "etc/haproxy")
        # A request in hand on a dead host fails after this time, 30 s in the recipe.
        self.assertIn("timeout server 30s", text)
        text = text.replace("timeout server 30s", f"timeout server {ANSWER_S}s")
        haproxy.use(self.place_below(text), self.root / "run/haproxy/admin.sock",
            self.root / "run/haproxy.pid", files)
        self.addCleanup(haproxy.end)
        return haproxy.start()

    def is_current(self, agent, file, ports):
        listed = {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", file.read_text())}
        return listed == ports and self.output(agent)["state"] == "current"


if __name__ == "__main__":
    unittest.main()
