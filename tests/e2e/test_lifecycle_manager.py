"""Service managers: systemd's protocols against a manager of our own, s6 and runit for real, and
the files in init/."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

from berth import BUILD, FAILS, PATIENCE, Agent, AgentTest, wait_until
from manager import Manager
from names import ask, free_port, texts

import dns.rcode

PASS_SOCKETS = """
import os, socket, sys
names = sys.argv[1].split(":")
for number in range(len(names)):
    os.set_inheritable(3 + number, True)
os.environ["LISTEN_FDS"] = str(len(names))
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDNAMES"] = sys.argv[1]
os.execv(sys.argv[2], sys.argv[2:])
"""

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Systemd(AgentTest):
    def managed(self, agent, path=None, **environment):
        manager = Manager(path or self.folder / "notify")
        self.addCleanup(manager.close)
        agent.start(env=manager.environment(BERTH_LIBEXECDIR=str(BUILD), **environment))
        return manager

    def test_ready_when_it_answers_and_the_status_says_the_rest(self):
        agent = self.web_agent(check=FAILS)
        manager = self.managed(agent)
        manager.wait_for("READY")
        self.assertEqual(agent.get("/ready").status, 503)
        wait_until(lambda: any("check alive" in text for text in manager.values("STATUS")),
            "the status says why")

    def test_an_abstract_address(self):
        manager = self.managed(self.web_agent(), f"@berth-{os.getpid()}-{self.folder.name}")
        manager.wait_for("READY")
        wait_until(lambda: "every component is registered" in manager.values("STATUS"),
            "the status says so")

    def test_reloading_with_its_time_and_ready_again(self):
        agent = self.web_agent()
        manager = self.managed(agent)
        manager.wait_for("READY")
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        for number, spoil in enumerate((False, True), 1):
            agent.write_config({**agent.sections, "nonsense": {"key": "value"}} if spoil
                else agent.sections)
            agent.signal(signal.SIGHUP)
            manager.wait_for("RELOADING", number)
            manager.wait_for("READY", number + 1)
        for usec in manager.values("MONOTONIC_USEC"):
            self.assertGreaterEqual(int(usec) / 1e6, begin - 0.001)
            self.assertLessEqual(int(usec) / 1e6, time.clock_gettime(time.CLOCK_MONOTONIC))

    def test_an_upgrade_is_a_reload_and_a_failed_one_too(self):
        agent = self.web_agent()
        manager = self.managed(agent)
        manager.wait_for("READY")
        agent.upgrade()
        manager.wait_for("READY", 2)
        agent.write_config({"nonsense": {"key": "value"}})
        agent.signal(signal.SIGUSR2)
        manager.wait_for("READY", 3)
        self.assertEqual(manager.count("RELOADING"), 2)

    def test_stopping(self):
        for number in (signal.SIGTERM, signal.SIGQUIT):
            with self.subTest(number=number):
                agent = self.web_agent(f"agent{number}")
                manager = self.managed(agent, self.folder / f"notify{number}")
                agent.signal(number)
                self.assertEqual(agent.wait(), 0)
                manager.wait_for("STOPPING")
                self.assertEqual(manager.count("STOPPING"), 1)

    def test_the_watchdog_is_fed_twice_as_often_as_asked_also_after_an_upgrade(self):
        agent = self.web_agent()
        begin = time.monotonic()
        manager = self.managed(agent, WATCHDOG_USEC="400000")
        manager.wait_for("WATCHDOG", 5)
        agent.upgrade()
        manager.wait_for("WATCHDOG", manager.count("WATCHDOG") + 5)
        times = [when for when, fields in manager.messages if "WATCHDOG" in fields]
        # From before the first turn on: late ones bring the next closer, but none comes before its
        # time.
        self.assertGreater(times[4] - begin, 0.98)

    def test_a_watchdog_for_another_process_is_not_ours(self):
        agent = self.web_agent()
        manager = self.managed(agent, WATCHDOG_USEC="20000", WATCHDOG_PID="1")
        manager.wait_for("READY")
        agent.wait_state("registered")
        self.assertEqual(manager.count("WATCHDOG"), 0)

    def test_a_manager_that_is_gone_is_no_obstacle(self):
        agent = self.web_agent()
        manager = self.managed(agent)
        manager.wait_for("READY")
        os.unlink(manager.path)
        self.assertEqual(agent.stop(), 0)

    # ---- socket activation

    def activated(self, agent, *listeners, names=None):
        """Starts the agent with sockets as descriptors 3 and up."""
        names = names or ["berth"] * len(listeners)
        low = [os.dup(listener.fileno()) for listener in listeners]

        def arrange():
            for number, fd in enumerate(low):
                os.dup2(fd, 100 + number)
            for number in range(len(low)):
                os.dup2(100 + number, 3 + number)

        command = ["python3", "-c", PASS_SOCKETS, ":".join(names), BUILD / "berthd", "-c",
            agent.config]
        with open(agent.log, "ab") as log:
            agent.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=arrange,
                close_fds=False, env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)},
            )
        for fd in low:
            os.close(fd)
        wait_until(agent.answers, f"the agent answers; its log:\n{agent.read_log()}")

    def listener(self, path):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(str(path))
        listener.listen(64)
        return listener

    def test_a_passed_socket_is_served_and_outlives_the_agent(self):
        agent = self.web_agent(extra={"agent": {"socket": self.folder / "unused.sock"}})
        agent.socket = self.folder / "passed.sock"
        listener = self.listener(agent.socket)
        self.activated(agent, listener)
        agent.wait_state("registered")
        self.assertFalse((self.folder / "unused.sock").exists())
        agent.upgrade()
        agent.wait_state("registered")
        inode = agent.socket.stat().st_ino
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(agent.socket.stat().st_ino, inode)
        # A client that connects now waits for the next agent.
        early = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(early.close)
        early.settimeout(PATIENCE)
        early.connect(str(agent.socket))
        early.sendall(b"GET /live HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n\r\n")
        self.activated(agent, listener)
        self.assertTrue(early.recv(100).startswith(b"HTTP/1.1 200"))
        self.assertEqual(agent.stop(), 0)

    def test_an_internet_socket_serves_the_read_only_part(self):
        agent = self.web_agent()
        agent.socket = self.folder / "passed.sock"
        tcp = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(tcp.close)
        self.activated(agent, tcp, self.listener(agent.socket))
        agent.wait_state("registered")
        for _ in range(2):
            with socket.create_connection(tcp.getsockname(), PATIENCE) as client:
                client.sendall(f"GET /v1/resolve{Agent.PATH} HTTP/1.0\r\n\r\n".encode())
                self.assertIn(b" 200 ", client.recv(100))
            agent.upgrade()

    def test_passed_sockets_serve_names(self):
        """The manager holds the addresses, so only its own sockets can answer on them."""
        port, wide = free_port(), free_port()
        addresses = [("127.0.0.1", port), ("0.0.0.0", wide)]
        agent = self.web_agent(extra={"dns": {"listen": ", ".join(f"{host}:{number}"
            for host, number in addresses)}})
        listeners = [self.listener(agent.socket)]
        for address in addresses:
            listeners.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            listeners[-1].bind(address)
            listeners.append(socket.create_server(address))
        for listener in listeners:
            self.addCleanup(listener.close)
        self.activated(agent, *listeners, names=["berth", "", "dns", "", "dns"])
        agent.wait_state("registered")
        elements = Agent.PATH.strip("/").split("/")
        name = ".".join(reversed(elements)) + ".berth"
        for _ in range(2):
            for host, number in (("127.0.0.1", port), ("127.0.0.1", wide), ("127.0.0.2", wide)):
                for tcp in (False, True):
                    reply = ask(number, name, "TXT", tcp=tcp, host=host)
                    self.assertEqual(reply.rcode(), dns.rcode.NOERROR, agent.read_log())
                    self.assertTrue(any("yarn:persistence" in text for text in texts(reply)), reply)
            agent.upgrade()

    def test_sockets_for_another_process_are_not_taken(self):
        agent = self.web_agent()
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD), "LISTEN_FDS": "1",
            "LISTEN_PID": "1"})
        agent.wait_state("registered")


class S6Notification(AgentTest):
    def test_a_newline_when_it_answers_and_never_again(self):
        agent = self.web_agent()
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        agent.command = []
        log = open(agent.log, "ab")
        self.addCleanup(log.close)
        agent.process = subprocess.Popen(
            [BUILD / "berthd", "-c", agent.config, "--ready-fd", str(write)], pass_fds=[write],
            stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)},
        )
        os.close(write)
        wait_until(agent.answers, "it answers")
        self.assertEqual(os.read(read, 10), b"\n")
        self.assertEqual(os.read(read, 10), b"")  # closed
        agent.upgrade()
        agent.wait_state("registered")

    def test_a_descriptor_that_is_none_is_a_usage_error(self):
        for value in ("x", "-1", "999"):
            result = subprocess.run(
                [BUILD / "berthd", "--ready-fd", value], capture_output=True, text=True,
                check=False, timeout=PATIENCE
            )
            self.assertEqual(result.returncode, 2, value)
            self.assertIn("--ready-fd", result.stderr)


class Supervised(AgentTest):
    """The service directories of init/, with this build's programs in the place of installed
    ones."""

    def service(self, kind, agent):
        folder = self.folder / kind
        folder.mkdir()
        source = SOURCE / "init" / kind / "berthd"
        for file in sorted({*source.iterdir(), *(BUILD / "init" / kind / "berthd").iterdir()}):
            target = folder / file.name
            if file.suffix == ".in":
                continue
            text = re.sub(r"\S*/s?bin/(berthd?)\b", rf"{BUILD}/\1", file.read_text())
            target.write_text(text)
            shutil.copymode(file, target)
        return folder

    def supervise(self, program, folder, agent):
        log = open(agent.log, "ab")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [program, folder], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={
                **os.environ, "BERTH_LIBEXECDIR": str(BUILD), "BERTH_CONFIG": str(agent.config),
                "BERTH_SOCKET": str(agent.socket),
            },
        )
        agent.process = process
        return process

    def run_tool(self, *command, **environment):
        return subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, timeout=PATIENCE,
            env={**os.environ, **environment},
        )

    @unittest.skipUnless(shutil.which("s6-supervise"), "s6 is not installed")
    def test_s6(self):
        agent = self.web_agent()
        folder = self.service("s6", agent)
        supervisor = self.supervise("s6-supervise", folder, agent)
        self.addCleanup(supervisor.wait)
        self.addCleanup(supervisor.terminate)
        self.assertEqual(
            wait_until(lambda: self.run_tool("s6-svwait", "-U", "-t", "1000",
                folder).returncode in (0,), "it is ready"),
            True,
        )
        agent.wait_state("registered")
        self.run_tool("s6-svc", "-h", folder)
        wait_until(lambda: "config: in force -> reloaded" in agent.read_log(), "it has reloaded")
        self.run_tool("s6-svc", "-2", folder)
        wait_until(lambda: agent.starts() == 2, "it was upgraded")
        agent.wait_state("registered")
        self.run_tool("s6-svc", "-wD", "-d", folder)
        self.assertIsNone(self.in_registry())
        self.run_tool("s6-svc", "-x", folder)
        self.assertEqual(supervisor.wait(PATIENCE), 0)

    @unittest.skipUnless(shutil.which("runsv"), "runit is not installed")
    def test_runit(self):
        agent = self.web_agent()
        folder = self.service("runit", agent)
        supervisor = self.supervise("runsv", folder, agent)
        self.addCleanup(supervisor.wait)
        self.addCleanup(supervisor.terminate)
        wait_until(lambda: self.run_tool("sv", "status", folder).returncode == 0, "runsv is there")
        environment = {"BERTH_SOCKET": str(agent.socket)}
        started = self.run_tool("sv", "-w", "30", "start", folder, **environment)
        self.assertEqual(started.returncode, 0, started.stdout + agent.read_log())
        agent.wait_state("registered")
        self.run_tool("sv", "hup", folder)
        wait_until(lambda: "config: in force -> reloaded" in agent.read_log(), "it has reloaded")
        self.run_tool("sv", "2", folder)
        wait_until(lambda: agent.starts() == 2, "it was upgraded")
        agent.wait_state("registered")
        self.assertEqual(self.run_tool("sv", "-w", "30", "check", folder, **environment).returncode,
            0)
        stopped = self.run_tool("sv", "-w", "30", "stop", folder, **environment)
        self.assertEqual(stopped.returncode, 0, stopped.stdout)
        self.assertIsNone(self.in_registry())
        self.run_tool("sv", "exit", folder)
        supervisor.wait(PATIENCE)

    def test_the_container_entry_point(self):
        script = self.folder / "entrypoint"
        text = (BUILD / "init/container/entrypoint").read_text()
        script.write_text(re.sub(r"[^\s=]*/sbin/berthd\b", f"{BUILD}/berthd", text))
        script.chmod(0o755)
        agent = self.web_agent()
        environment = {"BERTH_CONFIG": str(agent.config), "BERTH_LIBEXECDIR": str(BUILD)}
        result = self.run_tool(script, "/bin/sh", "-c", "exit 5", **environment)
        self.assertEqual(result.returncode, 5, result.stderr)
        alone = self.run_tool(script, "/bin/sh", "-c", "exit 6", BERTH_DISABLE="yes")
        self.assertEqual((alone.returncode, alone.stderr), (6, ""))


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
class Units(AgentTest):
    def units(self):
        """The units of the build, with its program in the place of the installed one, and with the
        drop-in for a password."""
        drop_ins = self.folder / "berthd.service.d"
        drop_ins.mkdir()
        shutil.copy(SOURCE / "init/systemd/credentials.conf", drop_ins)
        paths = []
        for name in ("berthd.service", "berthd.socket"):
            text = (BUILD / "init/systemd" / name).read_text()
            path = self.folder / name
            path.write_text(re.sub(r"[^\s=]*/sbin/berthd\b", f"{BUILD}/berthd", text))
            paths.append(str(path))
        return paths

    def test_verify_finds_nothing(self):
        result = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *self.units()],
            capture_output=True,
            text=True, check=False, timeout=PATIENCE,
        )
        self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_the_sandbox_is_tight(self):
        result = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", "--threshold=15", self.units()[0]],
            capture_output=True,
            text=True, check=False, timeout=PATIENCE,
        )
        self.assertEqual(result.returncode, 0, result.stdout[-200:] + result.stderr)


class Manual(unittest.TestCase):
    def test_every_option_of_help_is_in_the_manual_and_the_other_way_round(self):
        page = (SOURCE / "docs/berthd.8").read_text()
        text = subprocess.run([BUILD / "berthd", "--help"], capture_output=True, text=True,
            check=True).stdout
        helped = set(re.findall(r"(?<![\w-])(--?[a-zA-Z][a-z-]*)",
            text.partition("\n\n")[2].partition("Signals:")[0]))
        documented = set()
        for line in page.splitlines():
            if line.startswith(".It Fl"):
                for item in line.removeprefix(".It ").split(" , "):
                    words = item.split()
                    if words[:2] == ["Fl", "Fl"] and words[2][0].islower():
                        documented.add(f"--{words[2]}")
                    elif words[1] not in ("Fl", "-"):
                        documented.add(f"-{words[1]}")
        self.assertEqual(helped, documented)

    def test_every_signal_of_help_is_in_the_manual(self):
        page = (SOURCE / "docs/berthd.8").read_text()
        text = subprocess.run([BUILD / "berthd", "--help"], capture_output=True, text=True,
            check=True).stdout
        for name in re.findall(r"\b([A-Z]{3,4}[0-9]?)\b", text.partition("Signals:")[2]):
            self.assertRegex(page, rf"\.It .*Dv {name}\b")


del AgentTest

if __name__ == "__main__":
    unittest.main()
