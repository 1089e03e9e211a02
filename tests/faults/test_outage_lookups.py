"""Lookups while ZooKeeper is away: none of a known path fails, all say how old they are, and soon
after its return all is fresh."""

import dataclasses
import json
import os
import threading
import time

from berth import AgentTest, UnixConnection, amount, wait_until
from streams import Stream
from zk_client import ZkClient
from zookeeper import ZooKeeper

OUTAGE = float(os.environ.get("BERTH_OUTAGE_SECONDS", "12"))
TREE = "/users/joe/web"
PATHS = 50
KNOWN = [f"/v1/resolve{TREE}/n{number}" for number in range(PATHS)] + [f"/v1/{kind}{TREE}"
    for kind in ("list", "records", "endpoints", "stat")]


def record(number):
    return json.dumps({"type": "JSONServiceRecord", "external": [], "internal": [],
        "number": number}).encode()


@dataclasses.dataclass
class Answer:
    """It was made between the two times, and nobody knows how long before the second."""

    asked: float
    seen: float
    target: str
    status: int
    source: str
    age: int


class Load(threading.Thread):
    """Asks for all that is known, over and over; keeps an Answer of each."""

    def __init__(self, agent):
        super().__init__()
        self.agent = agent
        self.seen = []
        self.problem = None
        self.done = threading.Event()

    def run(self):
        connection = UnixConnection(self.agent.socket)
        try:
            while not self.done.wait(0.05):
                for target in KNOWN:
                    asked = time.monotonic()
                    connection.request("GET", target)
                    answer = connection.getresponse()
                    answer.read()
                    heading = answer.status, answer.headers["X-Cache"], int(answer.headers["Age"])
                    self.seen.append(Answer(asked, time.monotonic(), target, *heading))
        except Exception as error:
            self.problem = error
        finally:
            connection.close()

    def finish(self):
        self.done.set()
        self.join()


class Outage(AgentTest):
    def setUp(self):
        super().setUp()
        self.zookeeper = ZooKeeper()
        self.addCleanup(self.zookeeper.stop)
        with ZkClient(self.zookeeper.hosts) as client:
            client.make(f"/registry{TREE}")
            client.create_many((f"/registry{TREE}/n{number}", record(number))
                for number in range(PATHS))
        self.server = self.agent(registry=self.zookeeper.url, agent={"log_level": "info"}).start()
        for target in KNOWN:
            wait_until(lambda: self.server.get(target).status == 200,
                f"{target} is known")

        # A HIT claims no more than that the server was heard within a third of the session timeout.
        self.confirm = self.server.status()["registry"]["session_timeout_ms"] / 3000

    def connected(self, agent=None):
        return (agent or self.server).status()["registry"]["state"] == "connected"

    def caches(self, agent=None):
        return {(agent or self.server).get(target).headers["X-Cache"] for target in KNOWN}

    def load(self):
        load = Load(self.server)
        load.start()
        self.addCleanup(load.finish)
        return load

    def test_nothing_known_fails_and_every_answer_tells_its_age(self):
        load = self.load()
        stream = Stream(self.server.socket, f"/v1/watch{TREE}?recursive=yes")
        self.addCleanup(stream.close)
        stream.next()

        def last_true():
            before = time.monotonic()
            return before if self.connected() and self.caches() == {"HIT"} else None

        # From here, for the agent may notice before we know that the server has ended.
        gone = wait_until(last_true, "all is fresh")
        self.zookeeper.kill()
        wait_until(lambda: not self.connected(), "the agent has noticed")
        noticed = time.monotonic()
        stream.until(lambda event: event["type"] == "STALE")
        self.assertEqual(self.server.get("/v1/resolve/users/unknown").status, 503)
        self.assertEqual(self.server.get("/v1/resolve/users/unknown").headers["Retry-After"], "1")
        self.assertEqual(self.server.get("/v1/watch/users/unknown?recursive=yes").status, 503)

        def meanwhile():
            return [answer for answer in list(load.seen) if noticed < answer.asked]

        wait_until(lambda: time.monotonic() >= gone + OUTAGE, "the outage has lasted",
            patience=OUTAGE + 60)
        wait_until(lambda: load.problem or len(meanwhile()) > 1000, "enough was asked meanwhile")
        self.assertEqual(self.caches(), {"STALE"})
        stale = meanwhile()
        self.zookeeper.restart()
        wait_until(self.connected, "the agent is connected again")
        back = time.monotonic()
        stream.until(lambda event: event["type"] == "FRESH")
        fresh = time.monotonic() - back
        load.finish()
        self.assertIsNone(load.problem)
        self.assertEqual({answer.status for answer in load.seen}, {200})
        self.assertGreater(len(stale), 1000)
        self.assertEqual({answer.source for answer in stale}, {"STALE"})
        for answer in stale:
            # It counts from when the server was heard last, and is rounded up to whole seconds.
            self.assertLessEqual(answer.age, answer.seen - gone + self.confirm + 1, answer)
            self.assertGreaterEqual(answer.age, answer.asked - noticed, answer)
        oldest = max(answer.age for answer in stale)
        print(f"# {OUTAGE:g} s away, {len(stale)} stale answers, oldest {oldest} s; fresh "
              f"{fresh:.2f} s after the reconnect")
        self.assertEqual(self.caches(), {"HIT"})

    def test_a_frozen_server_is_not_believed(self):
        load = self.load()
        stream = Stream(self.server.socket, f"/v1/watch{TREE}?recursive=yes")
        self.addCleanup(stream.close)
        stream.next()
        wait_until(lambda: len(load.seen) > 100, "lookups are under way")
        self.zookeeper.pause()
        frozen = time.monotonic()
        try:
            wait_until(lambda: load.seen[-1].source == "STALE", "the silence shows")
            self.assertTrue(self.connected(), "before the connection is given up")
            stream.until(lambda event: event["type"] == "STALE")
            wait_until(lambda: load.problem or load.seen[-1].age > self.confirm + 1, "it goes on")
        finally:
            self.zookeeper.resume()
        thawed = time.monotonic()
        stream.until(lambda event: event["type"] == "FRESH")
        wait_until(lambda: self.caches() == {"HIT"}, "all is fresh")
        load.finish()
        self.assertIsNone(load.problem)
        meanwhile = [answer for answer in load.seen if frozen < answer.asked
            and answer.seen < thawed]
        for answer in meanwhile:
            claimed = answer.age + (self.confirm if answer.source == "HIT" else 0)
            self.assertGreaterEqual(claimed, answer.asked - frozen, answer)
        hits = [answer for answer in meanwhile if answer.source == "HIT"]
        print(f"# {len(meanwhile)} answers of a frozen server's agent, the last HIT after "
              f"{hits[-1].seen - frozen:.2f} s of {self.confirm:.2f}")

    def test_a_client_that_wants_no_age_hears_of_the_silence_at_once(self):
        def look():
            return self.server.get(KNOWN[0], Cache_Control="max-age=0")

        self.assertEqual(look().headers["X-Cache"], "HIT")
        self.zookeeper.pause()
        frozen = time.monotonic()
        try:
            for _ in range(3):
                asked = time.monotonic()
                answer = look()
                self.assertEqual(answer.headers["X-Cache"], "STALE")
                self.assertGreaterEqual(int(answer.headers["Age"]), asked - frozen)
        finally:
            self.zookeeper.resume()
        answer = wait_until(lambda: (a := look()).headers["X-Cache"] == "HIT" and a,
            "it is confirmed again")
        self.assertEqual(answer.headers["Age"], "0")

    def test_changes_of_the_outage_show_after_the_return(self):
        stream = Stream(self.server.socket, f"/v1/watch{TREE}?recursive=yes")
        self.addCleanup(stream.close)
        stream.next()
        self.server.process.send_signal(19)  # SIGSTOP: it cannot see what happens now
        try:
            with ZkClient(self.zookeeper.hosts) as client:
                client.set(f"/registry{TREE}/n1", record(1001))
                client.delete(f"/registry{TREE}/n2")
                client.create(f"/registry{TREE}/new", record(7))
            self.zookeeper.restart()
        finally:
            self.server.process.send_signal(18)
        wait_until(lambda: self.server.get(f"/v1/resolve{TREE}/n1").json["number"] == 1001,
            "the change shows")
        wait_until(lambda: self.server.get(f"/v1/resolve{TREE}/n2").status == 404,
            "the deletion shows")
        stream.until(lambda event: f"{TREE}/new" in stream.tree and f"{TREE}/n2" not in stream.tree)

    def test_a_restart_meanwhile_still_answers(self):
        self.zookeeper.kill()
        wait_until(lambda: not self.connected(), "the agent has noticed")
        wait_until(lambda: int(self.server.get(KNOWN[0]).headers["Age"]) >= 2,
            "some time has passed")
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        answers = [self.server.get(target) for target in KNOWN]
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual({answer.headers["X-Cache"] for answer in answers}, {"STALE"})
        self.assertTrue(all(int(answer.headers["Age"]) >= 2 for answer in answers))
        self.assertEqual(self.server.get("/v1/resolve/users/unknown").status, 503)
        self.zookeeper.restart()
        wait_until(lambda: self.caches() == {"HIT"}, "all is fresh")

    def test_a_damaged_snapshot_is_ignored(self):
        self.assertEqual(self.server.stop(), 0)
        snapshot = self.server.folder / "state" / "cache"
        content = bytearray(snapshot.read_bytes())
        content[len(content) // 2] ^= 1
        snapshot.write_bytes(content)
        self.zookeeper.kill()
        self.server.start()
        self.assertEqual(self.server.get(KNOWN[0]).status, 503)
        self.assertIn("the saved cache is ignored", self.server.read_log())
        self.zookeeper.restart()
        wait_until(lambda: self.server.get(KNOWN[0]).status == 200, "it answers again")

    def test_nothing_older_than_max_stale(self):
        agent = self.agent("strict", registry=self.zookeeper.url, cache={"max_stale": "1s"}).start()
        wait_until(lambda: agent.get(KNOWN[0]).status == 200, "it is known")
        self.zookeeper.kill()
        wait_until(lambda: agent.get(KNOWN[0]).status == 503, "it is too old")


class ManyWatches(AgentTest):
    """More than a ZooKeeper connection could re-arm in one packet: 20,000 paths of 60 bytes and
    more (a fifth in a sanitized build)."""

    COUNT = int(os.environ.get("BERTH_WATCHED_PATHS", amount(20000)))

    def number_at(self, agent, target):
        answer = agent.get(target)
        self.assertEqual(answer.status, 200,
            f"{answer.body} {answer.headers}\n{agent.read_log()[-2000:]}")
        return answer.json["number"]

    def test_all_are_watched_again_after_a_restart_of_the_server(self):
        folder = f"{TREE}/{'a' * 30}"
        # However long the restart takes, the session lasts.
        with ZooKeeper("maxSessionTimeout=60000\n") as zookeeper:
            with ZkClient(zookeeper.hosts) as client:
                client.make(f"/registry{folder}")
                client.create_many((f"/registry{folder}/component-{number:06}", record(number))
                    for number in range(self.COUNT))
            agent = self.agent(registry=zookeeper.url)
            agent.write_config({
                "agent": {"log_level": "info"}, "registry": {"session_timeout": "60s"},
                "cache": {"max_size": "256M", "warm": f"{TREE}/**"},
            })
            agent.start()

            def loaded():
                """A stream begins when all of it is known, and is refused when that takes too
                long."""
                try:
                    with Stream(agent.socket, f"/v1/watch{TREE}?recursive=yes") as stream:
                        return len(stream.next()["snapshot"]) == self.COUNT + 2
                except AssertionError:
                    return False

            wait_until(loaded, "everything is loaded", patience=120)
            session = agent.status()["registry"]["session"]
            begin = time.monotonic()
            zookeeper.restart()
            served = time.monotonic()
            wait_until(lambda: agent.status()["registry"]["state"] == "connected",
                "the agent is connected again")
            wait_until(lambda: agent.get(
                f"/v1/resolve{folder}/component-{self.COUNT - 1:06}").headers["X-Cache"] == "HIT",
                "the last one is live")
            with ZkClient(zookeeper.hosts) as client:
                for number in (0, self.COUNT // 2, self.COUNT - 1):
                    client.set(f"/registry{folder}/component-{number:06}", record(-1))
            for number in (0, self.COUNT // 2, self.COUNT - 1):
                target = f"/v1/resolve{folder}/component-{number:06}"
                wait_until(lambda: self.number_at(agent, target) == -1,
                    f"{target} shows its change")
            print(f"# {2 * self.COUNT} watches: server away {served - begin:.1f} s, everything "
                  f"live and told {time.monotonic() - served:.1f} s later")
            self.assertEqual(agent.status()["registry"]["session"], session)


if __name__ == "__main__":
    import unittest

    unittest.main()
