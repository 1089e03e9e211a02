"""Real runtimes and their containers fail: records of the living stay, those of the dead go.

$BERTH_ROUNDS is the number of restarts of the daemon.
"""

import os
import signal
import time
import unittest

from berth import wait_until
from figures import figure, seconds
from grpc_health import NOT_SERVING, SERVING, Health, serve
from lifecycle import Directory, Shared, rounds
from own_network import OwnNetwork
from rights import needs
from runtimes import Docker, Podman, RuntimeTest, labels

CHECK = {"berth.check.it.interval": "100ms", "berth.check.it.fall": "1"}


class Faults(RuntimeTest):
    registry_kind = Shared

    def watch(self, name):
        return self.witness(f"/services/{name}/components/c1")

    def await_served(self):
        wait_until(lambda: self.host.get("/v1/bridge").json["runtimes"][0]["state"] == "served",
            "the runtime is served")


@needs("mounts", "freezer")
class DockerFaults(Faults):
    def make_runtime(self):
        return Docker(self.folder / "runtime", live_restore=True)

    @needs("memory limits")
    def test_a_container_is_out_of_memory(self):
        self.runtime.run("web", labels("web"), host={"Memory": 32 << 20, "MemorySwap": 32 << 20})
        self.runtime.run("other", labels("other"))
        self.await_in("web")
        self.await_in("other")
        witness = self.watch("other")
        end = os.pidfd_open(self.runtime.pid("web"))
        signal.pidfd_send_signal(end, signal.SIGUSR1)
        os.close(end)
        self.await_out("web")
        wait_until(lambda: self.runtime.inspect("web")["State"]["OOMKilled"], "it was killed so")
        self.assertEqual(len(witness.end()), 1)
        figure(self, "its record has gone; another one's: 0 events")

    def test_a_container_restarts_in_a_loop(self):
        self.runtime.run("web", labels("web"), host={"RestartPolicy": {"Name": "always"}})
        self.await_in("web")
        slowest = 0
        for _ in range(4):
            begin = time.monotonic()
            before = self.runtime.pid("web")
            os.kill(before, signal.SIGKILL)
            wait_until(lambda before=before: self.runtime.pid("web") not in (0, before),
                "it has been started again")
            started = time.monotonic()
            pid = self.runtime.pid("web")
            wait_until(lambda pid=pid: self.part("web")["state"] == "served" and self.record("web")
                and os.path.exists(f"/proc/{pid}"), "this life is registered")
            slowest = max(slowest, time.monotonic() - max(begin, started))
        self.runtime.remove("web")
        self.await_out("web")
        figure(self, f"4 lives, each registered {seconds(slowest)} at most after its start")

    def test_the_agent_is_there_before_the_daemon(self):
        self.host.kill()
        self.runtime.stop()
        self.host.start()
        wait_until(lambda: self.host.get("/v1/bridge").json["runtimes"][0]["state"] == "away",
            "the runtime is away")
        self.runtime.start()
        begin = time.monotonic()
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        figure(self, f"registered {seconds(time.monotonic() - begin)} after the order to run it")

    def test_a_check_of_its_label_asks_a_server_of_grpc(self):
        health = Health()
        port = serve(self, health)
        self.host.kill()
        self.host = self.make_host(address="127.0.0.1").start()
        self.runtime.run("web", {**labels("web"), **CHECK, "berth.endpoint.http.port": str(port),
            "berth.check.it.type": "grpc", "berth.check.it.service": "app.Greeter",
            "berth.check.it.timeout": "20s"})
        self.await_in("web")
        health.statuses["app.Greeter"] = NOT_SERVING
        self.await_out("web")
        self.assertIn("NOT_SERVING", self.part("web")["records"][0]["why"])
        health.statuses["app.Greeter"] = SERVING
        self.await_in("web")


@needs("mounts", "freezer")
class DockerRestarts(Faults):
    """With live-restore its containers live on, and its socket is another one each time."""

    count = rounds(3)

    def make_runtime(self):
        return Docker(self.folder / "runtime", live_restore=True)

    def test_the_daemon_is_killed_and_started_again(self):
        for name in ("lives", "dies"):
            self.runtime.run(name, labels(name))
            self.await_in(name)
        lives, dies = self.watch("lives"), self.watch("dies")
        sockets = {self.runtime.socket.stat().st_ctime_ns}
        for number in range(self.count):
            pid = self.runtime.pid("dies")
            if number % 2:
                self.runtime.stop()
            else:
                self.runtime.kill()
            if number == 0:
                os.kill(pid, signal.SIGKILL)
                self.await_out("dies")
            self.runtime.start()
            sockets.add(self.runtime.socket.stat().st_ctime_ns)
            self.runtime.run(f"new{number}", labels(f"new{number}"))
            self.await_in(f"new{number}")
            self.runtime.remove(f"new{number}")
            self.await_out(f"new{number}")
        self.assertEqual(len(sockets), 1 + self.count)
        self.await_served()
        self.assertEqual((len(lives.end()), len(dies.end())), (1, 2))
        figure(self, f"{self.count} restarts with live-restore, another socket each: 0 events for "
            "a living container, one that dies meanwhile goes at once")


@needs("mounts", "freezer")
class DockerStops(Faults):
    """Without live-restore its containers end with the daemon."""

    RUNTIME = Docker

    def test_the_daemon_is_stopped_and_started_again(self):
        self.runtime.run("web", labels("web"))
        self.runtime.run("again", labels("again"), host={"RestartPolicy": {"Name": "always"}})
        self.await_in("web")
        self.await_in("again")
        self.runtime.stop()
        self.await_out("web")
        self.await_out("again")
        self.runtime.start()
        self.await_in("again")
        self.assertFalse(self.record("web"))
        figure(self, "its containers' records go with them; what its policy starts again is "
            "registered again")


    def test_the_daemon_is_killed_without_live_restore(self):
        """It ends what it finds, which has lived on without it."""
        self.runtime.run("web", labels("web"))
        self.runtime.run("again", labels("again"), host={"RestartPolicy": {"Name": "always"}})
        self.await_in("web")
        self.await_in("again")
        witness, life = self.watch("web"), self.runtime.pid("again")
        self.runtime.kill()
        wait_until(lambda: self.host.get("/v1/bridge").json["runtimes"][0]["state"] == "away",
            "the runtime is away")
        self.assertEqual(len(witness.end()), 1)
        self.runtime.start()
        self.await_out("web")
        wait_until(lambda: self.runtime.pid("again") not in (0, life), "it has another life")
        self.await_in("again")
        figure(self, "0 events while it is away; what it ends goes, what it starts again is "
            "registered again")


class Ports:
    """Published ports, and the container's own address, in a network of the test's own."""

    registry_kind = Directory  # no server is there

    def make_runtime(self):
        self.network = OwnNetwork(self, self.folder)
        return self.RUNTIME(self.folder / "runtime", inside=self.network.inside)

    def make_host(self, address="127.0.0.1", **sections):
        return self.network.enter(super().make_host(address, **sections))

    def address(self, name):
        (endpoint,) = self.await_in(name)["external"]
        (address,) = endpoint["addresses"]
        return address["host"], int(address["port"])

    def test_published_ports_and_own_addresses(self):
        exposed = {"command": [80], "network": "bridge", "ExposedPorts": {"80/tcp": {}}}
        checked = {**CHECK, "berth.endpoint.http.port": "80", "berth.check.it.type": "http",
            "berth.check.it.timeout": "20s"}
        self.runtime.run("web", {**labels("web"), **checked}, **exposed,
            host={"PortBindings": {"80/tcp": [{"HostPort": ""}]}})
        self.runtime.run("local", labels("local"), **exposed,
            host={"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}})
        self.runtime.run("own", {**labels("own"), **checked}, **exposed)
        host, port = self.address("web")
        bound = {one["HostPort"] for one in
            self.runtime.inspect("web")["NetworkSettings"]["Ports"]["80/tcp"]}
        self.assertEqual((host, {str(port)}), ("127.0.0.1", bound))
        for name, why in (("local", "is published at 127.0.0.1 alone"),
                ("own", "is not published")):
            wait_until(lambda name=name: [one["state"] for one in self.part(name)["records"]] ==
                ["refused"], f"{name} is refused: {self.part(name)}")
            self.assertIn(why, self.part(name)["records"][0]["why"])
        sections = {"runtime docker": {"socket": self.runtime.socket, "address": "container"},
            "container *": {"allow": "/services/**"}}
        self.host.write_config(sections)
        self.host.signal(signal.SIGHUP)
        (network,) = self.runtime.inspect("own")["NetworkSettings"]["Networks"].values()
        self.assertEqual(self.address("own"), (network["IPAddress"], 80))
        wait_until(lambda: self.address("web")[1] == 80, "its own address is announced")


@needs("mounts", "freezer", "network namespace")
class DockerPorts(Ports, Faults):
    RUNTIME = Docker


@needs("mounts", "freezer", "network namespace")
class PodmanPorts(Ports, Faults):
    RUNTIME = Podman


if __name__ == "__main__":
    unittest.main()
