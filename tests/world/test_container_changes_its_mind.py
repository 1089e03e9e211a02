"""A container withdraws its record while the registry does not answer, and wants it again before it
does: the record is there afterwards, and goes when the container's process dies.

Source: a plant in the bridge that no test had found (a record that came back stayed on its way out)
"""

import unittest

from berth import wait_until
from hosting import WEB, BridgeTest
from lifecycle import Server

PATH = f"{WEB}/c1"


class ChangesItsMind(BridgeTest):
    session_timeout = "120s"

    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url

    def test_the_record_is_as_alive_as_any(self):
        host = self.host()
        inside = self.container("web-1")
        first = self.register(inside, PATH)
        self.await_state(host, "web-1", PATH, "registered")
        self.server.pause()
        self.addCleanup(self.server.resume)
        first.terminate()
        first.wait()
        self.await_state(host, "web-1", PATH, "withdrawing")
        second = self.register(inside, PATH, mark="second")
        wait_until(lambda: self.state(host, "web-1", PATH) != "withdrawing", "it is wanted again")
        self.server.resume()
        self.await_state(host, "web-1", PATH, "registered")
        self.assertEqual(self.await_record(PATH)["mark"], "second")
        second.kill()
        second.wait()
        self.await_gone(PATH)


if __name__ == "__main__":
    unittest.main()
