"""The daemon hung, the host's agent was restarted, and a container that had died meanwhile stayed
in the registry until the daemon answered: nobody else could say what had become of it.

Source: tracker #42, after Registrator's #277: killed while a container died, it never deregistered
that one.
"""

import threading
import unittest

from berth import wait_until
from fake_runtime import FakeRuntime
from lifecycle import SessionTest
from rights import needs


def labels(name):
    return {"berth.path": f"/services/{name}", "berth.endpoint.http.port": "80"}


@needs("freezer")
class ASilentRuntime(SessionTest):
    def setUp(self):
        super().setUp()
        self.runtime = FakeRuntime(self.folder / "api.sock")
        self.addCleanup(self.runtime.end)
        self.dying = self.runtime.run("dying", labels("dying"))
        self.living = self.runtime.run("living", labels("living"))
        self.host = self.agent("host", **{
            "runtime fake": {"socket": self.runtime.path, "address": "192.0.2.7"},
            "container *": {"allow": "/services/**"}}).start()
        for name in ("dying", "living"):
            wait_until(lambda name=name: self.record(f"/services/{name}"), f"{name} is registered")
        self.witness_of_living = self.witness("/services/living")

    def be_silent(self):
        self.runtime.answers[r"/"] = lambda _client: threading.Event().wait()

    def await_verdict(self):
        wait_until(lambda: self.record("/services/dying") is None, "the dead one has gone")
        self.assertIsNotNone(self.record("/services/living"))

    def await_answers(self):
        """The daemon is there again, and knows the truth."""
        self.dying.running = False
        self.runtime.answers.clear()
        for stream in self.runtime.streams:
            stream.close()
        wait_until(lambda: [(one["name"], one["state"])
            for one in self.host.get("/v1/bridge").json["containers"]] ==
            [("fake/living", "served")], "the daemon's word is taken")
        self.assertEqual(len(self.witness_of_living.end()), 1)

    def test_one_that_ends_while_the_agent_is_away(self):
        self.be_silent()
        self.host.kill()
        self.dying.kill()
        self.host.start()
        self.await_verdict()
        self.await_answers()

    def test_one_that_ends_after_the_restart(self):
        self.be_silent()
        self.host.kill()
        self.host.start()
        self.assertIsNotNone(self.record("/services/dying"))
        self.dying.kill()
        self.await_verdict()

    def test_an_upgrade(self):
        self.be_silent()
        self.host.upgrade()
        self.assertIsNotNone(self.record("/services/dying"))
        self.dying.kill()
        self.await_verdict()

    @needs("process numbers")
    def test_a_number_that_another_process_has(self):
        self.be_silent()
        self.host.kill()
        self.dying.kill()
        self.dying.give_number_away()
        self.host.start()
        self.await_verdict()

    def test_one_that_was_removed_while_both_were_away(self):
        self.host.kill()
        self.dying.kill()
        del self.runtime.containers[self.dying.id]
        self.addCleanup(self.runtime.containers.update, {self.dying.id: self.dying})
        self.host.start()
        self.await_verdict()
        wait_until(lambda: [one["name"]
            for one in self.host.get("/v1/bridge").json["containers"]] == ["fake/living"],
            "the dead one is forgotten")


del SessionTest

if __name__ == "__main__":
    unittest.main()
