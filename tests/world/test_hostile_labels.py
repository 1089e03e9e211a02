"""Whoever may start a container could keep the host's agent busy by its labels: hundreds of health
checks, a hundred times a second each, and checks of services that are not allowed at all.

Source: tracker #42: labels are the word of the maker of an image, or of whoever starts it.
"""

import socket
import threading
import unittest

from berth import wait_until
from guests import GuestTest, labels
from rights import needs


class Counter:
    """A server that counts who comes."""

    def __init__(self, test):
        self.count = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        test.addCleanup(self.listening.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                self.listening.accept()[0].close()
                self.count += 1
        except OSError:
            return

    def check(self, name, **more):
        parts = {"type": "tcp", "port": str(self.port), **more}
        return {f"berth.check.{name}.{key}": value for key, value in parts.items()}


@needs("freezer")
class Labels(GuestTest):
    def host(self, **more):
        return super().host(**{"runtime fake": {"socket": self.runtime.path,
            "address": "127.0.0.1", **more}})

    def record_of(self, name):
        records = (self.part(name) or {"records": []})["records"]
        return records[0] if records else {"state": None, "why": ""}

    def test_hundreds_of_checks(self):
        asked = Counter(self)
        many = {}
        for number in range(60):
            many.update(asked.check(f"c{number}", interval="100ms"))
        self.runtime.run("busy", {**labels("busy"), **many})
        self.runtime.run("one", {**labels("one"), **Counter(self).check("it")})
        self.host()
        self.await_in("one")
        wait_until(lambda: self.record_of("busy")["state"] == "refused", "it is refused")
        self.assertEqual(self.record_of("busy")["why"], "a container has 16 checks at most")
        self.assertEqual((self.part("busy")["checks"], asked.count), ([], 0))

    def test_a_path_that_is_a_request_of_its_own(self):
        """Of Registrator's labels, too: what a check sends is one request, whatever is asked."""
        asked = Counter(self)
        path = "/ HTTP/1.1\r\nHost: x\r\n\r\nDELETE /all"
        self.runtime.run("own", {**labels("own"), **asked.check("it", type="http", path=path)})
        self.runtime.run("theirs", {"SERVICE_NAME": "theirs", "SERVICE_CHECK_HTTP": path},
            lambda one: one.more.update({"HostConfig": {"NetworkMode": "bridge"},
                "NetworkSettings": {"Networks": {}, "Ports": {
                    "80/tcp": [{"HostIp": "0.0.0.0", "HostPort": str(asked.port)}]}}}))
        self.host(labels="berth, registrator")
        wait_until(lambda: self.record_of("own")["state"] == "refused", "it is refused")
        self.assertEqual(self.record_of("own")["why"],
            "the path of check it must begin with / and have no spaces")
        wait_until(lambda: self.part("theirs") and self.part("theirs")["problems"], "that, too")
        self.assertIn("has no spaces", self.part("theirs")["problems"][0])
        self.assertEqual(asked.count, 0)

    def test_the_image_of_another_one(self):
        self.runtime.run("one", {**labels("one"), "berth.attribute.docker:image": "trusted",
            "berth.attribute.yarn:hostname": "trusted", "berth.attribute.yarn:id": "trusted"})
        self.host()
        self.await_in("one")
        record = self.record("one")
        self.assertEqual((record["docker:image"], record["yarn:hostname"]), ("image", "inside"))
        self.assertEqual(record["yarn:id"], self.part("one")["id"])
        self.assertEqual(len(self.part("one")["problems"]), 3)

    def test_a_check_all_the_time(self):
        asked = Counter(self)
        self.runtime.run("one", {**labels("one"), **asked.check("it", interval="10ms")})
        self.host()
        self.await_in("one")
        self.assertEqual(self.part("one")["problems"],
            ["check it: its interval is made 100 ms, the shortest one that a label may have"])

    def test_checks_of_what_is_not_allowed(self):
        """A check asks what its port and path say: nobody's labels make the agent ask for more
        than it registers."""
        asked = Counter(self)
        self.runtime.run("stranger", {**labels("x"), "berth.path": "/other/x",
            **asked.check("it", interval="100ms")})
        self.host()
        wait_until(lambda: self.record_of("stranger")["state"] == "refused", "it is refused")
        other = Counter(self)
        self.runtime.run("one", {**labels("one"), **other.check("it", interval="100ms")})
        self.await_in("one")
        wait_until(lambda: other.count > 5, "an allowed one is asked")
        self.assertEqual(asked.count, 0)


if __name__ == "__main__":
    unittest.main()
