"""Names while the registry comes and goes: stale answers say so, and nothing known ever turns into
nothing."""

import collections
import json
import os
import threading
import unittest

from berth import wait_until
from figures import figure
from names import NamesTest, extended_error, texts
from zookeeper import ZooKeeper

import dns.exception
import dns.rcode

PROD = "prod.web.joe.berth"


class Outage(NamesTest):
    session_timeout = "4s"

    def setUp(self):
        self.zookeeper = ZooKeeper().__enter__()
        self.addCleanup(self.zookeeper.__exit__, None, None, None)
        super().setUp()

    def agent(self, name="agent", command=(), registry=None, **sections):
        return super().agent(name, command, self.zookeeper.url, **sections)

    def put(self, path, content, registry=None):
        super().put(path, content, self.zookeeper.url)

    def remove(self, path, registry=None):
        super().remove(path, self.zookeeper.url)

    def test_a_known_name_is_stale_and_an_unknown_one_servfail(self):
        wait_until(lambda: self.addresses(PROD) == ["10.0.0.1", "10.0.0.2"], "both are there")
        self.assertEqual(self.ask("nowhere.services.berth").rcode(), dns.rcode.NXDOMAIN)
        self.zookeeper.kill()
        wait_until(lambda: extended_error(self.ask(PROD)) == 3, "the answer is stale")
        reply = self.ask(PROD)
        self.assertEqual(sorted(texts(reply)), ["A 10.0.0.1", "A 10.0.0.2"])
        self.assertEqual(reply.answer[0].ttl, 30)
        reply = self.ask("nowhere.services.berth")
        self.assertEqual((reply.rcode(), extended_error(reply)), (dns.rcode.NXDOMAIN, 19))
        for name in ("other.services.berth", "c1.test.web.joe.berth"):
            reply = self.ask(name)
            self.assertEqual((reply.rcode(), extended_error(reply)), (dns.rcode.SERVFAIL, 22), name)
        self.zookeeper.restart()
        wait_until(lambda: extended_error(self.ask(PROD)) is None, "the answer is live again")
        self.assertEqual(self.ask(PROD).answer[0].ttl, 1)
        self.assertEqual(self.ask("other.services.berth").rcode(), dns.rcode.NXDOMAIN)

    def test_a_stopped_server_makes_answers_stale(self):
        wait_until(lambda: self.addresses(PROD) == ["10.0.0.1", "10.0.0.2"], "both are there")
        self.zookeeper.pause()
        try:
            wait_until(lambda: extended_error(self.ask(PROD)) == 3, "the silence shows")
            self.assertEqual(sorted(texts(self.ask(PROD))), ["A 10.0.0.1", "A 10.0.0.2"])
        finally:
            self.zookeeper.resume()
        wait_until(lambda: extended_error(self.ask(PROD)) is None, "the answer is live again")

    def test_a_client_that_asks_all_the_time_gets_no_wrong_answer(self):
        """Two components stay, a third one comes and goes; in the middle the registry is away."""
        changes, done, wrong = int(os.environ.get("BERTH_CHANGES", "300")), threading.Event(), []
        seen, answers = set(), collections.Counter()

        def resolve():
            while not done.is_set():
                try:
                    reply = self.ask(PROD, patience=30)
                except dns.exception.Timeout:
                    wrong.append("no answer")
                    continue
                answers[extended_error(reply)] += 1
                addresses = frozenset(texts(reply))
                seen.add(addresses)
                if reply.rcode() != dns.rcode.NOERROR or not {"A 10.0.0.1",
                        "A 10.0.0.2"} <= addresses:
                    wrong.append(reply.to_text())

        wait_until(lambda: self.addresses(PROD) == ["10.0.0.1", "10.0.0.2"], "both are there")
        resolver = threading.Thread(target=resolve)
        resolver.start()
        try:
            path = "/registry/users/joe/web/prod/components/c3"
            for number in range(changes):
                if number == changes // 2:
                    self.zookeeper.kill()
                    wait_until(lambda: wrong or answers[3], "the answer is stale")
                    self.zookeeper.restart()
                    wait_until(lambda: extended_error(self.ask(PROD)) is None,
                        "the answer is live again")
                if number % 2 == 0:
                    self.zookeeper.probe("create", path, self.text("10.0.0.3"))
                else:
                    self.zookeeper.probe("delete", path)
        finally:
            done.set()
            resolver.join()
        self.assertEqual(wrong, [])
        self.assertEqual(len(seen), 2, "the third component was seen to come and go")
        figure(self, f"{sum(answers.values())} answers, {answers[3]} of them with EDE 3: 0 wrong")

    def text(self, host):
        return json.dumps(self.record(host, 1))


if __name__ == "__main__":
    unittest.main()
