"""Outputs with real proxies: HAProxy by its socket and by a file, nginx by a file and a reload."""

import contextlib
import os
import random
import time
import unittest

from berth import wait_until
from outputs import Members, OutputTest
from proxies import HAProxy, Load, Nginx, Server, get, missing, shares

CHANGES = int(os.environ.get("BERTH_CHANGES", "50"))


class ProxyTest(OutputTest):
    def setUp(self):
        super().setUp()
        self.members = Members(self.registry)

    def servers(self, count):
        servers = [Server() for _ in range(count)]
        for server in servers:
            self.addCleanup(server.stop)
        return servers

    def change_under_load(self, port, servers, is_current):
        """Random members come and go, each announced: none is ever asked that has been out for a
        while."""
        chance = random.Random(12)
        members = {}

        def put(number):
            members[f"c{number}"] = servers[number].port
            self.members.put(f"c{number}", servers[number].port)

        for number in range(2):
            put(number)
        wait_until(lambda: is_current(members), "the first two serve")
        longest = 0.0
        with Load(port) as load:
            for _ in range(CHANGES):
                number = chance.randrange(len(servers))
                if f"c{number}" not in members:
                    put(number)
                elif len(members) > 1:
                    del members[f"c{number}"]
                    self.members.remove(f"c{number}")
                else:
                    continue
                began = time.monotonic()
                wait_until(lambda: is_current(members), f"the proxy has {members}")
                longest = max(longest, time.monotonic() - began)
        print(f"# {CHANGES} changes, {load.good} requests, {len(load.failures)} failed; longest "
              f"change {longest * 1000:.0f} ms")
        self.assertEqual(load.failures, [])
        self.assertGreater(load.good, CHANGES)
        return load


@unittest.skipIf(missing("haproxy"), missing("haproxy"))
class HAProxyRuntime(ProxyTest):
    def start(self, lines="", **options):
        self.haproxy = HAProxy(self.folder / "haproxy", lines)
        self.addCleanup(self.haproxy.end)
        return self.output_agent(
            format="haproxy-runtime", path=None, quiet=None, socket=self.haproxy.socket,
            backend="web", **options
        )

    def has(self, members):
        return self.haproxy.servers() == {f"berth:{name}": (f"127.0.0.1:{port}", True)
            for name, port in members.items()}

    def wait_has(self, **members):
        """HAProxy has these, and sends requests to each of them and to nobody else."""
        wait_until(lambda: self.has(members), f"HAProxy has {members}")
        wait_until(lambda: set(shares(self.haproxy.port, 10 * len(members))) ==
            set(members.values()), f"all of {members} serve")

    def test_servers_come_change_and_go_without_a_reload(self):
        one, two, three = self.servers(3)
        agent = self.start()
        self.haproxy.start()
        worker = self.haproxy.worker_pid()
        self.members.put("c1", one.port)
        agent.start()
        self.wait_has(c1=one.port)
        self.wait_state(agent, "current")
        self.members.put("c2", two.port, weight=7)
        self.wait_has(c1=one.port, c2=two.port)
        self.members.remove("c1")
        self.wait_has(c2=two.port)
        self.members.put("c2", three.port)
        self.wait_has(c2=three.port)
        self.assertEqual(self.haproxy.worker_pid(), worker)
        # Health checks run: a server that ends unannounced is not asked any more.
        self.members.put("c1", one.port)
        self.wait_has(c1=one.port, c2=three.port)
        one.stop()
        wait_until(lambda: not self.haproxy.servers()["berth:c1"][1],
            "HAProxy sees that c1 is down")

    def test_servers_that_a_reload_forgets_come_back(self):
        (one,) = self.servers(1)
        agent = self.start("    server page 127.0.0.1:9 disabled\n")
        self.haproxy.start()
        self.members.put("c1", one.port)
        agent.start()
        serves = (f"127.0.0.1:{one.port}", True)
        wait_until(lambda: self.haproxy.servers().get("berth:c1") == serves, "c1 serves")
        self.assertEqual(get(self.haproxy.port), one.port)
        self.haproxy.reload()
        wait_until(lambda: self.haproxy.servers().get("berth:c1") == serves, "c1 serves again")
        self.assertEqual(get(self.haproxy.port), one.port)
        self.assertIn("page", self.haproxy.servers())  # not ours
        self.wait_state(agent, "current")

    def test_a_haproxy_that_is_away_or_too_old_is_reported(self):
        (one,) = self.servers(1)
        agent = self.start("    balance source\n    hash-type map-based")
        self.members.put("c1", one.port)
        agent.start()
        self.wait_state(agent, "failed")
        self.assertIn("No such file or directory", self.output(agent)["why"])
        self.haproxy.start()
        wait_until(lambda: "dynamic load balancing" in self.output(agent)["why"],
            "the reason is HAProxy's own")
        self.haproxy.end()
        self.haproxy.config.write_text(self.haproxy.config.read_text().replace("balance source",
            "balance leastconn"))
        self.haproxy.start()
        self.wait_has(c1=one.port)
        self.wait_state(agent, "current")

    def test_no_request_fails_while_members_change(self):
        servers = self.servers(6)
        agent = self.start()
        self.haproxy.start()
        agent.start()
        worker = self.haproxy.worker_pid()
        load = self.change_under_load(
            self.haproxy.port, servers,
            lambda members: {name: place for name, (place, usable) in self.haproxy.servers().items()
                if usable}
            == {f"berth:{name}": f"127.0.0.1:{port}" for name, port in members.items()},
        )
        self.assertGreater(len(load.seen), 2)
        self.assertEqual(self.haproxy.worker_pid(), worker)


@unittest.skipIf(missing("haproxy"), missing("haproxy"))
class HAProxyFile(ProxyTest):
    def test_a_file_that_haproxy_accepts_and_reads(self):
        one, two = self.servers(2)
        self.file = self.directory / "web.cfg"
        self.haproxy = HAProxy(self.folder / "haproxy", more_files=[self.file])
        self.addCleanup(self.haproxy.end)
        self.members.put("c1", one.port)
        agent = self.output_agent(
            format="haproxy", backend="web",
            check=f"/usr/sbin/haproxy -c -q -f {self.haproxy.config} -f {{}}",
            on_change=f"/bin/sh -c 'test ! -e {self.haproxy.pid_file} || kill -USR2 $(cat "
                      f"{self.haproxy.pid_file})'",
        ).start()
        self.wait_state(agent, "current")
        self.haproxy.start()
        self.assertEqual(get(self.haproxy.port), one.port)
        self.members.put("c1", two.port)
        wait_until(lambda: get(self.haproxy.port) == two.port, "HAProxy has read the file again")
        self.members.put("c9", one.port, weight=3)
        wait_until(lambda: shares(self.haproxy.port, 8) == {one.port: 6, two.port: 2},
            "c9 has three quarters")


@unittest.skipIf(missing("nginx"), missing("nginx"))
class NginxFile(ProxyTest):
    def test_no_request_fails_while_members_change(self):
        servers = self.servers(6)
        self.file = self.directory / "web.conf"
        nginx = Nginx(self.folder / "nginx", self.file)
        self.addCleanup(nginx.end)
        self.members.put("c0", servers[0].port)
        agent = self.output_agent(
            format="nginx",
            on_change=f"/bin/sh -c 'test ! -e {self.folder}/nginx/nginx.pid || exec "
                      f"{nginx.reload_command}'"
        ).start()
        self.wait_state(agent, "current")
        nginx.start()

        def is_current(members):
            with contextlib.suppress(FileNotFoundError):
                wanted = {f"server 127.0.0.1:{port};" for port in members.values()}
                return set(self.file.read_text().splitlines()) == wanted and self.output(agent)[
                    "state"] == "current"

        load = self.change_under_load(nginx.port, servers, is_current)
        self.assertGreater(len(load.seen), 2)


if __name__ == "__main__":
    unittest.main()
