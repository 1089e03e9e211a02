"""Real proxies, and the servers behind them, for tests."""

import collections
import contextlib
import http.client
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

from berth import wait_until


def free_ports(count):
    """Numbers that are free at the moment, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Server:
    """An HTTP server that answers with its port, and may end gracefully: requests under way are
    answered."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self):
            body = f"{self.server.server_port}\n".encode()
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
            """A proxy resets the connections of its health checks."""

    def __init__(self, host="127.0.0.1"):
        self.server = self.Listener((host, 0), self.Handler)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Load:
    """Clients that ask through a proxy without a pause, each request on a connection of its own;
    used as a context."""

    def __init__(self, port, clients=4):
        self.port = port
        self.good = 0
        self.failures = []
        self.seen = set()
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(clients)]

    def run(self):
        while not self.stopping.is_set():
            problem, answer = None, b""
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                connection.request("GET", "/")
                response = connection.getresponse()
                answer = response.read()
                problem = None if response.status == 200 else f"status {response.status}"
            except (OSError, http.client.HTTPException) as error:
                problem = repr(error)
            finally:
                connection.close()
            with self.lock:
                if problem:
                    self.failures.append(f"{time.monotonic():.3f}: {problem}")
                else:
                    self.good += 1
                    self.seen.add(int(answer))
            time.sleep(0.002)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def get(port):
    """The port of the server that answers through the proxy, or None."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        text = response.read()
        return int(text) if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def shares(port, requests):
    """{port of a server: the requests that it got through the proxy}; None: those without an
    answer."""
    return dict(collections.Counter(get(port) for _ in range(requests)))


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# A small payload and short times, so that a change shows at once.
RESOLVERS = """resolvers berth
    nameserver agent 127.0.0.1:{}
    accepted_payload_size 1232
    resolve_retries 3
    timeout resolve 100ms
    timeout retry 1s
    hold valid 100ms
    hold obsolete 100ms
"""


class HAProxy:
    """A HAProxy of its own, as master with one worker; `backend_lines` follow in its backend
    "web". With `names_port` it asks the name server there as its resolvers "berth"."""

    def __init__(self, folder, backend_lines="", more_files=(), names_port=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket = self.folder / "admin.sock"
        (self.port,) = free_ports(1)
        self.config = self.folder / "haproxy.cfg"
        backend = (
            "backend web\n    balance roundrobin\n    option redispatch 1\n    retries "
            f"3\n{backend_lines}\n")
        self.config.write_text(
            f"global\n    stats socket {self.socket} mode 600 level admin\n"
            "defaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout "
            "server 30s\n    timeout queue 10s\n"
            f"    default-server inter 200ms\nfrontend in\n    bind 127.0.0.1:{self.port}\n    "
            "default_backend web\n"
            + ("" if more_files else backend)
            + (RESOLVERS.format(names_port) if names_port else "")
        )
        self.pid_file = self.folder / "pid"
        self.files = [self.config, *more_files]
        self.process = None

    def use(self, config, admin_socket, pid_file, more_files):
        """A configuration of the test's own in place of this one; it listens on 127.0.0.1:8080
        there, here on a free port."""
        self.config.write_text(config.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}"))
        self.socket, self.pid_file, self.files = admin_socket, pid_file, [self.config, *more_files]

    def start(self):
        files = [word for file in self.files for word in ("-f", str(file))]
        command = ["/usr/sbin/haproxy", "-W", "-db", "-p", str(self.pid_file), *files]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
        wait_until(lambda: self.answers() and self.pid_file.exists(),
            "HAProxy answers on its socket")
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"HAProxy ended:\n{(self.folder / 'log').read_text()}")
        with contextlib.suppress(OSError):
            return "Uptime" in self.ask("show info")
        return False

    def ask(self, command):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(command.encode() + b"\n")
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            return answer.decode()

    def servers(self):
        """{name: (address:port, usable)} of the backend."""
        found = {}
        for line in self.ask("show servers state web").splitlines()[2:]:
            fields = line.split()
            if fields:
                found[fields[3]] = (f"{fields[4]}:{fields[18]}", fields[5] == "2"
                    and int(fields[6]) == 0)
        return found

    def worker_pid(self):
        return int(next(line.split()[1] for line in self.ask("show info").splitlines()
            if line.startswith("Pid:")))

    def reload(self):
        """On a busy machine HAProxy may fail to take its sockets over from the old worker, which
        then goes on: once more, as an operator would."""
        before = self.worker_pid()
        for _ in range(3):
            self.process.send_signal(12)  # USR2
            with contextlib.suppress(AssertionError):
                return wait_until(lambda: self.answers() and self.worker_pid() != before,
                    "the new worker answers", patience=20)
        raise AssertionError(f"HAProxy does not reload:\n{(self.folder / 'log').read_text()}")

    def end(self):
        if self.process:
            end(self.process)


class Nginx:
    """An nginx of its own that forwards to the upstream "web", whose server lines are in
    `servers`; `options` belong to its location."""

    def __init__(self, folder, servers, options=""):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.config = self.folder / "nginx.conf"
        self.config.write_text(
            f"daemon off;\npid {self.folder}/nginx.pid;\nerror_log "
            f"{self.folder}/error.log;\nworker_processes 1;\n"
            "events { worker_connections 512; }\n"
            "http "
            f"{{\n    access_log off;\n    client_body_temp_path {self.folder}/body;\n"
            f"    proxy_temp_path {self.folder}/proxy;\n"
            f"    fastcgi_temp_path {self.folder}/fastcgi;\n    uwsgi_temp_path "
            f"{self.folder}/uwsgi;\n    scgi_temp_path {self.folder}/scgi;\n"
            f"    upstream web {{\n        include {servers};\n    }}\n"
            "    server "
            f"{{\n        listen 127.0.0.1:{self.port};\n        location / {{\n"
            "            proxy_pass http://web;\n"
            "            proxy_connect_timeout 1s;\n"
            "            proxy_next_upstream error timeout;\n"
            f"            {options}\n        }}\n    }}\n}}\n"
        )
        self.process = None

    @property
    def reload_command(self):
        return f"/usr/sbin/nginx -q -c {self.config} -s reload"

    def start(self):
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(["/usr/sbin/nginx", "-q", "-c", self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.accepts, "nginx accepts connections")
        return self

    def accepts(self):
        if self.process.poll() is not None:
            raise AssertionError(
                "nginx ended:\n"
                f"{(self.folder / 'log').read_text()}{(self.folder / 'error.log').read_text()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return (self.folder / "nginx.pid").exists()
        return False

    def has_one_generation(self):
        """No worker of an older configuration still takes connections."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        titles = []
        for pid in children.read_text().split():
            with contextlib.suppress(OSError):
                titles.append(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        return sum(b"shutting down" not in title for title in titles) == 1

    def end(self):
        if self.process:
            end(self.process)


def missing(*programs):
    """Why a test cannot run here, or None."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    absent = [program for program in programs if not shutil.which(program, path=path)]
    return f"not installed: {', '.join(absent)}" if absent else None
