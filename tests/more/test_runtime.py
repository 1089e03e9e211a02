"""Containers of images that know nothing of Berth, under real runtimes: Docker's daemon and
podman's service. The registry has what runs, whatever becomes of the runtime.
"""

import os
import pathlib
import signal
import socket
import time
import unittest

from berth import wait_until
from figures import figure, seconds
from rights import needs
from runtimes import Podman, RuntimeTest, labels


class Life:
    """What happens to one container; of both runtimes."""

    def tell(self, text):
        figure(self, f"{self.RUNTIME.__name__}: {text}")

    def test_it_is_registered_as_its_labels_say(self):
        self.runtime.run("web", labels("web", **{"berth.attribute.colour": "blue",
            "berth.endpoint.http.protocol": "http", "berth.description": "a shop"}))
        record = self.await_in("web")
        (endpoint,) = record["external"]
        self.assertEqual(endpoint["addresses"], [{"host": "192.0.2.7", "port": "80"}])
        self.assertEqual((endpoint["api"], endpoint["protocol"]), ("http", "http"))
        self.assertEqual((record["colour"], record["description"]), ("blue", "a shop"))
        self.assertEqual(record["yarn:id"], self.runtime.inspect("web")["Id"])
        self.assertIn("tree", record["docker:image"])

    def test_it_goes_with_its_first_process(self):
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        begin = time.monotonic()
        self.runtime.kill_process("web")
        self.await_out("web")
        self.tell(f"gone {seconds(time.monotonic() - begin)} after the kill, as `berth` sees it")

    def test_it_goes_when_the_runtime_is_frozen(self):
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        pid = self.runtime.pid("web")
        self.runtime.process.send_signal(signal.SIGSTOP)
        try:
            begin = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            self.await_out("web")
            self.tell(f"gone {seconds(time.monotonic() - begin)} after the kill")
        finally:
            self.runtime.process.send_signal(signal.SIGCONT)

    def test_a_pause_and_a_stop(self):
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        self.runtime.order("web", "pause")
        self.await_out("web")
        self.runtime.order("web", "unpause")
        self.await_in("web")
        self.runtime.order("web", "stop")
        self.await_out("web")
        self.runtime.order("web", "start")
        self.await_in("web")
        self.tell("out by each, in again by unpause and start")

    def test_a_signal_that_ends_nothing(self):
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        before = self.host.get("/v1/agent/history").json
        self.runtime.order("web", "kill", signal="HUP")
        self.runtime.run("other", labels("other"))  # its event comes behind the signal's
        self.await_in("other")
        self.assertEqual([one for one in self.host.get("/v1/agent/history").json
            if "web" in one["subject"] and one not in before], [])
        self.tell("0 events")

    def test_a_new_name(self):
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        self.runtime.order("web", "rename", name="shop")
        wait_until(lambda: self.part("shop")["state"] == "served", "it has its new name")
        self.assertTrue(self.record("web"))

    def test_why_it_is_not_registered(self):
        self.runtime.run("plain")
        self.runtime.run("ignored", labels("a", **{"berth.ignore": "yes"}))
        self.runtime.run("unpublished", labels("b"), network="none")
        self.runtime.run("elsewhere", {**labels("c"), "berth.path": "/other/c"})
        self.runtime.run("unchecked", labels("d", **{"berth.check.it.type": "tcp",
            "berth.check.it.port": "9"}), command=())
        for name, state, why in ((("plain", "empty", "no label"), ("ignored", "ignored", "label"))):
            wait_until(lambda name=name, state=state: self.part(name)["state"] == state,
                f"{name} is {state}")
            self.assertIn(why, self.part(name)["why"])
        for name, state, why in (("unpublished", "refused", "is not published"),
                ("elsewhere", "refused", "does not have the path"),
                ("unchecked", "withheld", "check it")):
            wait_until(lambda name=name, state=state: [one["state"] for one in
                self.part(name)["records"]] == [state], f"{name}: {self.part(name)}")
            self.assertIn(why, self.part(name)["records"][0]["why"])

    def test_a_check_decides(self):
        port = self.free_port()
        self.runtime.run("web", {**labels("web"), "berth.endpoint.http.port": str(port),
            "berth.check.it.type": "http", "berth.check.it.interval": "100ms",
            "berth.check.it.fall": "1"}, command=[port])
        # The announced address is nobody's: nothing answers there.
        wait_until(lambda: [one["state"] for one in self.part("web")["records"]] == ["withheld"],
            "it is withheld")
        self.host.write_config({"runtime docker": {"socket": self.runtime.socket,
            "address": "127.0.0.1"}, "container *": {"allow": "/services/**"}})
        self.host.signal(signal.SIGHUP)
        self.await_in("web")

    def test_the_runtime_comes_late_and_goes(self):
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        self.runtime.remove("web")
        self.await_out("web")
        self.runtime.stop()
        wait_until(lambda: self.host.get("/v1/bridge").json["runtimes"][0]["state"] == "away",
            "the runtime is away")
        self.runtime.start()
        self.runtime.run("web", labels("web"))
        self.await_in("web")

    def test_the_agent_is_restarted_and_upgraded(self):
        self.runtime.run("web", labels("web"))
        self.await_in("web")
        before = self.record("web")
        self.host.upgrade()
        wait_until(lambda: self.part("web")["state"] == "served", "the new agent serves it")
        self.assertEqual(self.record("web"), before)
        self.runtime.kill_process("web")
        self.await_out("web")
        self.tell("the same record; it goes with its process")

    @staticmethod
    def free_port():
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]


@needs("mounts", "freezer")
class DockerLife(Life, RuntimeTest):
    def test_its_own_health_check(self):
        self.runtime.run("web", labels("web"), Healthcheck={
            "Test": ["CMD", "/bin/server", "check", "/healthy"], "Interval": 1_000_000_000,
            "Retries": 1})
        wait_until(lambda: [one["state"] for one in self.part("web")["records"]] == ["withheld"],
            "it is not healthy")
        pid = self.runtime.pid("web")
        pathlib.Path(f"/proc/{pid}/root/healthy").touch()
        self.await_in("web")
        pathlib.Path(f"/proc/{pid}/root/healthy").unlink()
        self.await_out("web")


@needs("mounts", "freezer")
class PodmanLife(Life, RuntimeTest):
    RUNTIME = Podman


if __name__ == "__main__":
    unittest.main()
