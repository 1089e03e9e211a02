"""An image FROM nginx, php-fpm, httpd or haproxy inherits its base's STOPSIGNAL: QUIT was Berth's
hand-over, so the program stopped at once and its record stayed for a session timeout; WINCH and
USR1 drained the program while its record still attracted clients.

Source: tracker #45, B.3; docker-nginx #377, php #816, httpd #145.
"""

import http.client
import os
import pathlib
import signal
import subprocess
import unittest

from berth import PROGRAMS, has_ended, wait_until
from lifecycle import Directory, SessionTest, Shared
from proxies import HAProxy, Nginx, Server, get
from rights import needs

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
NGINX, HAPROXY = "/usr/sbin/nginx", "/usr/sbin/haproxy"


class Case(SessionTest):
    registry_kind = Shared

    def serving(self, command, port, **options):
        """A registered agent whose main process serves on a port, until no client is left there."""
        agent = self.web_agent(command=command,
            extra={"agent": {"drain_delay": "1h", "drain_early": "yes", **options},
                "endpoint rest": {"address": f"http://127.0.0.1:{port}/"}})
        agent.start()
        agent.wait_state("registered")
        wait_until(lambda: get(port), "the program serves")
        return agent

    def follow_the_stop(self, agent, port, number):
        """The record goes, a client that still is there is served, and then all ends well."""
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.ask(client)
        agent.signal(number)
        wait_until(lambda: self.identity() is None, "the record has gone")
        wait_until(lambda: agent.status()["phase"] == "lingering", "the agent waits for clients")
        self.ask(client)
        main = agent.status()["main_process"]["pid"]
        self.assertFalse(has_ended(main))
        client.close()
        self.assertEqual(agent.wait(), 0, agent.read_log())

    def ask(self, client):
        client.request("GET", "/")
        answer = client.getresponse()
        answer.read()
        self.assertEqual(answer.status, 200)

    def nginx(self):
        server = Server()
        self.addCleanup(server.stop)
        servers = self.folder / "servers"
        servers.write_text(f"server 127.0.0.1:{server.port};\n")
        return Nginx(self.folder / "nginx", servers, "keepalive_timeout 1h;")

    def trapping(self, traps, **options):
        """An agent whose main process notes what it gets."""
        self.got = self.folder / "got"
        words = "; ".join(f"trap 'echo {name} >> {self.got}; {then}' {name}"
            for name, then in traps.items())
        script = f"{words}; echo ready >> {self.got}; while :; do sleep 0.02; done"
        return self.web_agent(command=["/bin/sh", "-c", script],
            extra={"agent": {"stop_timeout": "60s", **options}})

    def has(self, *words):
        return self.got.exists() and self.got.read_text().split() == ["ready", *words]


class InOrder(Case):
    def test_nginx_and_php_fpm_by_quit(self):
        nginx = self.nginx()
        agent = self.serving([NGINX, "-q", "-c", str(nginx.config)], nginx.port,
            stop_on="TERM, INT, QUIT", stop_signal="QUIT")
        self.follow_the_stop(agent, nginx.port, signal.SIGQUIT)

    def test_haproxy_by_usr1(self):
        server = Server()
        self.addCleanup(server.stop)
        haproxy = HAProxy(self.folder / "haproxy", f"    server one 127.0.0.1:{server.port}")
        agent = self.serving([HAPROXY, "-W", "-db", "-f", str(haproxy.config)], haproxy.port,
            stop_on="SIGTERM, SIGUSR1", stop_signal="USR1")
        self.follow_the_stop(agent, haproxy.port, signal.SIGUSR1)

    def test_httpd_by_winch_and_systemd_by_a_real_time_signal(self):
        for name, number in (("WINCH", signal.SIGWINCH), ("RTMIN+3", signal.SIGRTMIN + 3)):
            with self.subTest(name=name):
                agent = self.trapping({"TERM": "exit 0"}, stop_on=name).start()
                agent.wait_state("registered")
                agent.signal(number)
                self.assertEqual(agent.wait(), 0)
                self.assert_gone(agent)
                self.assertTrue(self.has("TERM"), "it got its own stop signal, and no other")
                self.got.unlink()

    def test_quit_without_a_state_directory_that_could_keep_the_session(self):
        (self.folder / "file").touch()
        agent = self.trapping({"TERM": "exit 0"}, state_dir=self.folder / "file/state").start()
        agent.wait_state("registered")
        agent.signal(signal.SIGQUIT)
        self.assertEqual(agent.wait(), 0)
        self.assert_gone(agent)

    def test_before_the_loop_runs(self):
        agent = self.web_agent(command=["/bin/sleep", "1000"],
            extra={"agent": {"stop_on": "USR1"}})

        def send_first():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
            os.kill(os.getpid(), signal.SIGUSR1)

        agent.start(wait=False, preexec_fn=send_first)
        self.assertEqual(agent.wait(), 128 + signal.SIGTERM, agent.read_log())
        self.assert_gone(agent)
        self.assertIn("stopping: SIGUSR1", agent.read_log())


class OnDirectory(Case):
    registry_kind = Directory

    def test_quit_has_nothing_to_leave(self):
        nginx = self.nginx()
        agent = self.serving([NGINX, "-q", "-c", str(nginx.config)], nginx.port,
            stop_signal="QUIT")
        self.follow_the_stop(agent, nginx.port, signal.SIGQUIT)

    def test_hup_and_usr2_keep_their_meanings(self):
        agent = self.trapping({}, stop_on="TERM, HUP, SIGUSR2, KILL, NONE")
        said = subprocess.run([PROGRAMS / "berthd", "-t", "-c", agent.config],
            capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 1)
        self.assertIn("HUP always means a reload", said.stderr)


class FromOutside(Case):
    """What units and manifests send, and programs expect, as before."""

    def test_quit_leaves_the_session_and_the_other_signals_go_to_the_program(self):
        agent = self.trapping({"USR1": "", "WINCH": "", "PWR": "", "TERM": "exit 0"}).start()
        agent.wait_state("registered")
        before = self.identity()
        wait_until(self.has, "the traps are set")
        for index, number in enumerate((signal.SIGUSR1, signal.SIGWINCH, signal.SIGPWR)):
            agent.signal(number)
            expected = ["USR1", "WINCH", "PWR"][:index + 1]
            wait_until(lambda words=expected: self.has(*words), f"it got {expected}")
        agent.signal(signal.SIGQUIT)
        self.assertEqual(agent.wait(), 0)
        self.assertEqual(self.identity(), before)
        self.assertNotIn("STOPSIGNAL", agent.read_log(), "it was no container's first process")

    @needs("process namespace")
    def test_the_first_process_of_a_container_warns_once_of_each(self):
        agent = self.trapping({"USR1": "", "WINCH": "", "TERM": "exit 0"})
        with open(agent.log, "ab") as log:
            agent.process = subprocess.Popen(
                [*UNSHARE, PROGRAMS / "berthd", "-c", agent.config, "--", *agent.command],
                env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        wait_until(agent.answers, "the agent answers")
        agent.wait_state("registered")
        wait_until(self.has, "the traps are set")
        children = f"/proc/{agent.process.pid}/task/{agent.process.pid}/children"
        first = int(pathlib.Path(children).read_text())
        sent = []
        for name in ("USR1", "USR1", "WINCH", "WINCH"):
            os.kill(first, getattr(signal, f"SIG{name}"))
            sent.append(name)
            wait_until(lambda: self.has(*sent), f"it got {sent}")
        os.kill(first, signal.SIGQUIT)
        self.assertEqual(agent.wait(), 0)
        for name in ("USR1", "WINCH", "QUIT"):
            warnings = [line for line in agent.read_log().splitlines()
                if f" SIG{name} " in line and "STOPSIGNAL SIGTERM" in line]
            self.assertEqual(len(warnings), 1, agent.read_log())
        self.assertIsNotNone(self.identity(), "QUIT leaves the record to a successor")


if __name__ == "__main__":
    unittest.main()
