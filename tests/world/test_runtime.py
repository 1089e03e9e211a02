"""Whoever registered containers by their labels had dead services for ever when the daemon missed
an event, hung, or was restarted; and a daemon that lies must register nobody else's process.

Source: tracker #42, after Registrator's #325, #339, #377 and #248: missed die events, a stream of
events that ends, a HUP that deregisters.
"""

import os
import signal
import time
import unittest

from berth import wait_until
from fake_runtime import FakeRuntime, HEAD
from figures import figure, seconds
from guests import GuestTest, labels
from rights import needs


def hang(_client):
    time.sleep(1000)


@needs("freezer")
class ARuntime(GuestTest):
    def test_no_event_comes(self):
        one = self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        one.kill()  # and the runtime says that it runs
        self.await_out("one")
        self.assertEqual(self.state_of("one"), "ended")

    def test_only_get_requests_are_sent(self):
        self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        self.assertEqual({line.split()[0] for line in self.runtime.requests}, {"GET"})

    def test_the_stream_of_events_ends(self):
        self.host()
        wait_until(lambda: self.runtime.streams, "the agent hears events")
        self.runtime.streams.pop().shutdown(2)
        self.runtime.run("one", labels("one"))
        self.await_in("one")

    def test_the_runtime_hangs(self):
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host()
        self.await_in("one", "two")
        self.runtime.answers[r"/containers"] = hang
        one.kill()
        self.await_out("one")
        self.assertTrue(self.record("two"))

    def test_the_runtime_comes_back_as_another_socket(self):
        self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        self.runtime.stop_listening()
        self.runtime.path.unlink()
        for stream in self.runtime.streams:
            stream.shutdown(2)
        wait_until(lambda: self.source()["state"] == "away", "the runtime is away")
        self.assertTrue(self.record("one"))
        other = FakeRuntime(self.runtime.path)
        self.addCleanup(other.end)
        other.containers.update(self.runtime.containers)
        wait_until(lambda: self.source()["state"] == "served", "it is served again")
        self.assertTrue(self.record("one"))
        figure(self, "served by the new one; its container's record stays")
        other.containers.clear()

    def test_the_process_of_another_container_is_named(self):
        one = self.runtime.run("one", labels("one"))
        liar = self.runtime.run("liar", labels("liar"))
        liar.pid = one.pid
        self.host()
        self.await_in("one")
        wait_until(lambda: self.state_of("liar") == "no pid namespace", "it is not trusted")
        self.assertIn("control group", self.part("liar")["why"])
        self.assertFalse(self.record("liar"))
        figure(self, "0 registered by the process of another container")

    def test_a_process_that_is_not_there_is_named(self):
        self.runtime.run("liar", labels("liar")).pid = 2 ** 22 - 3
        self.host()
        wait_until(lambda: self.state_of("liar") == "no pid namespace", "it is not trusted")
        self.assertFalse(self.record("liar"))

    def test_a_list_without_end(self):
        self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")

        def flood(client):
            client.sendall(HEAD)
            begin = b'{"Id":"00","Labels":{"a":"'
            client.sendall(f"{len(begin):x}\r\n".encode() + begin + b"\r\n")
            while True:
                client.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        wait_until(lambda: self.runtime.streams, "the agent hears events")
        self.runtime.answers[r"/containers/json"] = flood
        before = list(self.runtime.streams)
        for stream in before:  # so that it asks
            stream.shutdown(2)
        wait_until(lambda: self.source()["why"] and len(self.runtime.streams) > len(before),
            "the list is given up, and the agent hears events again")
        self.assertTrue(self.record("one"))
        self.runtime.run("two", labels("two"))
        self.await_in("two")
        figure(self, "given up at 128 MiB: a living container's record stays, a new one comes")

    def test_labels_without_end(self):
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))

        def flood(client):
            client.sendall(HEAD)
            while True:
                client.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        self.runtime.answers[f"/containers/{one.id}"] = flood
        self.host()
        self.await_in("two")
        wait_until(lambda: self.part(one.id) and self.part(one.id)["state"] == "refused",
            "the other one is refused")
        self.assertIn("1 MiB", self.part(one.id)["why"])
        figure(self, "given up at 1 MiB: that container is refused, another one is registered")

    def test_the_helper_ends_or_is_replaced(self):
        one = self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        before = self.helper()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: self.helper() not in (None, before), "there is another one")
        self.assertTrue(self.record("one"), self.agent_of_host.read_log())
        self.runtime.run("two", labels("two"))
        self.await_in("two")
        one.kill()
        self.await_out("one")
        figure(self, "another one is there; the record stays, a new one comes")

    def test_a_helper_that_stands_still_keeps_no_dead_record(self):
        one = self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        os.kill(self.helper(), signal.SIGSTOP)
        begin = time.monotonic()
        one.kill()
        self.await_out("one")
        figure(self, f"gone {seconds(time.monotonic() - begin)} after the kill")

    def test_orders_to_stop(self):
        one = self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        wait_until(lambda: self.runtime.streams, "the agent hears events")
        self.runtime.event("kill", one, signal="1")
        self.runtime.run("two", labels("two"))
        self.await_in("two")
        self.assertTrue(self.record("one"))
        self.runtime.event("kill", one, signal="15")
        self.await_out("one")

    def test_the_agent_is_killed_while_the_runtime_is_there(self):
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host()
        self.await_in("one", "two")
        self.agent_of_host.kill()
        one.kill()
        one.running = False
        begin = time.monotonic()
        self.agent_of_host.start()
        self.await_out("one")
        took = time.monotonic() - begin
        self.await_in("two")
        figure(self, f"who died meanwhile is gone {seconds(took)} after the start")


if __name__ == "__main__":
    unittest.main()
