"""Whoever had to work on one container of a host could stop it, or drain the whole host: there was
no maintenance for one of them, as Registrator and Consul have it.

Source: tracker #42: `drain --container` was promised for containers of directories and of runtimes,
and no agent had it.
"""

import json
import unittest

from berth import berth, wait_until
from fake_runtime import FakeRuntime
from hosting import WEB, BridgeTest
from rights import needs


@needs("freezer")
class Drain(BridgeTest):
    def setUp(self):
        super().setUp()
        self.runtime = FakeRuntime(self.folder / "api.sock")
        self.addCleanup(self.runtime.end)
        self.runtime.run("one", {"berth.path": f"{WEB}/one", "berth.endpoint.http.port": "80"})
        self.runtime.run("two", {"berth.path": f"{WEB}/two", "berth.endpoint.http.port": "80"})
        self.agent_of_host = self.host(bridge={"linger": "1m"}, **{
            "runtime fake": {"socket": self.runtime.path, "address": "192.0.2.7"},
            "container *": {"allow": "/users/joe/web/**"}})
        self.await_record(f"{WEB}/one")
        self.await_record(f"{WEB}/two")

    def berth(self, *arguments):
        return berth("--socket", self.agent_of_host.socket, *arguments)

    def drain(self, *arguments):
        result = self.berth("drain", "--wait", "--container", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)

    def undrain(self, name):
        self.assertEqual(self.berth("undrain", "--container", name).returncode, 0)

    def assert_draining(self, name, path, reason):
        self.assertIsNone(self.record(path))
        part = self.part(self.agent_of_host, name)
        self.assertEqual((part["state"], part["why"]), ("draining", reason))
        (record,) = part["records"]
        self.assertEqual((record["state"], record["why"]), ("withheld", f"draining: {reason}"))

    def restart(self):
        self.agent_of_host.kill()
        self.agent_of_host.start()
        self.await_record(f"{WEB}/two")

    def test_of_a_runtime(self):
        self.drain("fake/one", "--reason", "new disk")
        self.assert_draining("fake/one", f"{WEB}/one", "new disk")
        self.assertIsNotNone(self.record(f"{WEB}/two"))
        self.restart()
        wait_until(lambda: self.state(self.agent_of_host, "fake/one", f"{WEB}/one"),
            "its labels have been read")
        self.assert_draining("fake/one", f"{WEB}/one", "new disk")
        self.undrain("fake/one")
        self.await_record(f"{WEB}/one")

    def test_of_a_directory(self):
        registry = self.container("web-1")
        self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        self.drain("dir/web-1", "--reason", "new disk")
        self.assert_draining("web-1", f"{WEB}/c1", "new disk")
        self.restart()
        wait_until(lambda: self.state(self.agent_of_host, "web-1", f"{WEB}/c1"), "it is read")
        self.assert_draining("web-1", f"{WEB}/c1", "new disk")
        self.undrain("dir/web-1")
        self.await_record(f"{WEB}/c1")

    def test_it_is_for_the_name(self):
        self.drain("fake/one")
        before = next(iter(self.runtime.containers.values()))
        self.runtime.remove(before)
        again = self.runtime.run("one", before.labels)
        wait_until(lambda: (self.part(self.agent_of_host, "fake/one") or {}).get("id") == again.id,
            "the new one is there")
        self.await_state(self.agent_of_host, "fake/one", f"{WEB}/one", "withheld")
        self.undrain("fake/one")
        self.await_record(f"{WEB}/one")

    def test_it_ends_by_itself(self):
        answer = self.agent_of_host.request("POST", "/v1/bridge/fake/one/drain",
            {"reason": "a moment", "for": "1s"})
        self.assertEqual(answer.status, 204)
        self.await_gone(f"{WEB}/one")
        self.await_record(f"{WEB}/one")
        wait_until(lambda: self.agent_of_host.status()["bridge"]["drains"] == {}, "it is over")
        events = [(one["from"], one["to"], one["why"])
            for one in self.agent_of_host.get("/v1/agent/history").json
            if one["subject"] == "drain of fake/one"]
        self.assertEqual(events, [("serving", "draining", "a moment"),
            ("draining", "serving", "its time is over")])

    def test_mistakes(self):
        for name, words in (("fake/nobody", "no container of this host is named"),
                ("one", "SOURCE/NAME"), ("web-1", "SOURCE/NAME")):
            for verb in "drain", "undrain":
                result = self.berth(verb, "--container", name)
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn(words, result.stderr)
        result = self.berth("drain", "--container", "fake/one", "component")
        self.assertEqual(result.returncode, 2, result.stderr)
        drain = json.loads(self.berth("--format", "json", "drain", "--container", "fake/one",
            "--wait").stdout)
        self.assertEqual((drain["active"], drain["records"], drain["done"]), (True, 0, True))


del BridgeTest

if __name__ == "__main__":
    unittest.main()
