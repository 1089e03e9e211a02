"""libberth and the agent's shared memory: by itself, without a system call, and never behind the
socket."""

import os
import re
import select
import signal
import subprocess
import unittest

from berth import PATIENCE, amount, service_record, wait_until
from streams import NDJSON, Stream
from test_libberth import SOURCE, InstallTest

DB = "/services/db"
NAME = "db.services.berth"
HITS = 1000


class LookUp:
    """The program tests/e2e/programs/look_up.c, told line by line."""

    def __init__(self, test, program, agent, *tracer, **environment):
        self.process = subprocess.Popen(
            [*tracer, program, agent.socket],
            env={**test.environment, **environment}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        test.addCleanup(self.end)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        if not ready:
            raise AssertionError(f"no answer to: {line}")
        return self.process.stdout.readline().strip()

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        return self.process.returncode


class SharedLibberth(InstallTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = None

    def start(self, confirm="5s"):
        agent = self.agent(cache={"confirm": confirm}).start()
        self.put(DB, service_record("h1", 1))
        return agent

    def client(self, agent, *tracer, **environment):
        if not SharedLibberth.program:
            made = self.compile(SOURCE / "tests/e2e/programs/look_up.c")
            SharedLibberth.program = made.rename(self.root / "look_up")
        return LookUp(self, self.program, agent, *tracer, **environment)

    def looked_up(self, agent):
        """How many look-ups came over the socket until now."""
        text = agent.get("/metrics").body.decode()
        return sum(float(value) for value in re.findall(
            r'^berth_lookups_total\{.*\} (\S+)$', text, re.M))

    def fill(self, agent, client, line):
        """Until the answer comes from memory."""

        def is_there():
            client.tell(line)
            before = self.looked_up(agent)
            client.tell(line)
            return self.looked_up(agent) == before

        wait_until(is_there, f"{line}: the answer comes from memory")

    @unittest.skipIf(os.environ.get("BERTH_SANITIZER"), "a sanitizer's malloc() makes some")
    def test_a_hit_makes_no_system_call(self):
        agent = self.start()
        trace = self.folder / "trace"
        client = self.client(agent, "strace", "-f", "-o", trace, ASAN_OPTIONS="detect_leaks=0")
        for word, what in (("resolve", DB), ("lookup", DB), ("name", NAME), ("exists", DB),
                ("pick", DB)):
            self.fill(agent, client, f"{word} 4 {what}")
            client.tell(f"{word} {HITS} {what}")
        self.assertEqual(client.end(), 0)
        lines = trace.read_text().splitlines()
        begins = [number for number, line in enumerate(lines)
            if f'write(2, "begin {HITS}\\n"' in line]
        self.assertEqual(len(begins), 5)
        for begin in begins:
            self.assertIn('write(2, "end', lines[begin + 1])

    def test_hits_are_not_the_agents_work(self):
        agent = self.start()
        client = self.client(agent)
        self.fill(agent, client, f"resolve 4 {DB}")
        before = self.looked_up(agent)
        answer = client.tell(f"resolve {HITS} {DB}")
        self.assertEqual(self.looked_up(agent), before)
        self.assertTrue(answer.startswith("0 stale=0 age=0 "), answer)
        self.assertIn(agent.get(f"/v1/resolve{DB}").headers["ETag"], answer)
        self.assertTrue(answer.endswith(agent.get(f"/v1/resolve{DB}").body.decode()), answer)

    def test_a_program_that_looks_up_twice_asks_for_no_map(self):
        agent = self.start()
        client = self.client(agent)
        client.tell(f"resolve 2 {DB}")
        self.assertIn("berth_shared_maps_total 0", agent.get("/metrics").body.decode())
        client.tell(f"resolve 1 {DB}")
        self.assertIn("berth_shared_maps_total 1", agent.get("/metrics").body.decode())

    def test_the_environment_and_a_call_turn_it_off(self):
        agent = self.start()
        client = self.client(agent, BERTH_SHARED="off")
        before = self.looked_up(agent)
        client.tell(f"resolve {HITS} {DB}")
        self.assertEqual(self.looked_up(agent), before + HITS)
        client.tell("shared on")
        self.fill(agent, client, f"resolve 4 {DB}")
        client.tell("shared off")
        before = self.looked_up(agent)
        client.tell(f"resolve {HITS} {DB}")
        self.assertEqual(self.looked_up(agent), before + HITS)

    def test_errors_are_those_of_the_socket(self):
        agent = self.start()
        client = self.client(agent)
        expected = client.tell("resolve 1 /services/nothing")
        self.assertTrue(expected.startswith("-1 "), expected)
        self.fill(agent, client, "resolve 4 /services/nothing")
        self.assertEqual(client.tell("resolve 1 /services/nothing"), expected)
        self.assertEqual(client.tell("exists 1 /services/nothing"), "0")

    def test_a_kept_lookup_follows_the_registry(self):
        agent = self.start()
        client = self.client(agent)
        self.assertIn("h1:1", client.tell(f"lookup 1 {DB}"))
        self.fill(agent, client, f"resolve 4 {DB}")
        for port in range(2, 2 + amount(10)):
            self.put(DB, service_record("h1", port))
            wait_until(lambda port=port: f"h1:{port}" in client.tell(f"lookup 1 {DB}"),
                "it has the new address")

    def picked(self, client, what=DB, count=1):
        code, *picks = client.tell(f"pick {count} {what}").split()
        self.assertEqual(code, "0")
        return {int(port): int(times) for port, _, times in
            (pick.partition("=") for pick in picks)}

    def test_a_pick_is_by_weight_in_the_nearest_tier_that_serves(self):
        agent = self.agent(agent={"zone": "eu/a"}).start()
        for port, zone, weight in ((1, "eu/a", 0), (2, "eu/b", 3), (3, "eu/b", 1), (4, "us", 9)):
            self.put(f"{DB}/c{port}", service_record("h1", port,
                **{"berth:zone": zone, "weight": weight}))
        client = self.client(agent)
        picks = self.picked(client, count=4000)
        self.assertEqual(set(picks), {2, 3})
        self.assertTrue(800 < picks[3] < 1200, picks)
        self.remove(f"{DB}/c2")
        self.remove(f"{DB}/c3")
        wait_until(lambda: set(self.picked(client, count=20)) == {4}, "the next tier is picked")
        self.remove(f"{DB}/c4")
        wait_until(lambda: client.tell(f"pick 1 {DB}").startswith("-5 nobody serves"),
            "who takes no traffic is never picked")

    def test_a_pick_is_never_older_than_what_the_client_heard(self):
        agent = self.start("60s")
        for what in (DB, NAME):
            client = self.client(agent)
            self.fill(agent, client, f"resolve 4 {DB}")
            with Stream(agent.socket, f"/v1/watch{DB}", NDJSON) as stream:
                stream.next()

                def follows(port):
                    self.put(DB, service_record("h1", port))
                    stream.until(lambda event: event["type"] == "UPDATED" and
                        f'"{port}"' in str(event).replace("'", '"'))
                    return self.picked(client, what, 3) == {port: 3}

                wait_until(lambda: follows(100) and follows(101), "the set is in memory")
                for port in range(2, 2 + amount(50)):
                    self.assertTrue(follows(port), port)

    def test_a_set_waits_for_its_next_members(self):
        agent = self.start()
        client = self.client(agent)
        self.assertEqual(client.tell(f"next 0 {DB}/x"), "0")
        self.assertEqual(client.tell(f"next 1 {DB}/x"), "-12 nothing has changed")
        client.process.stdin.write(f"next 60 {DB}/x\n")
        client.process.stdin.flush()
        self.put(f"{DB}/x", service_record("h2", 7))
        self.assertEqual(client.process.stdout.readline(), "0 h2:7\n")
        self.assertEqual(self.picked(client, f"{DB}/x"), {7: 1})

    def test_a_client_that_hears_of_a_change_never_reads_the_older_answer(self):
        agent = self.start()
        client = self.client(agent)
        self.fill(agent, client, f"resolve 4 {DB}")
        stream = Stream(agent.socket, f"/v1/watch{DB}", NDJSON)
        self.addCleanup(stream.close)
        stream.next()
        for port in range(2, 2 + amount(50)):
            self.put(DB, service_record("h1", port))
            event = stream.until(lambda event: event["type"] == "UPDATED")
            told = event["record"]["external"][0]["addresses"][0]["port"]
            self.assertEqual(told, str(port))
            self.assertIn(f'"port":"{port}"'.replace(" ", ""),
                client.tell(f"resolve 3 {DB}").replace(" ", ""))

    def test_upgrades_kills_and_new_agents_are_followed(self):
        agent = self.start("1s")
        client = self.client(agent)
        for turn in range(3):
            self.fill(agent, client, f"resolve 4 {DB}")
            agent.upgrade()
            self.assertTrue(client.tell(f"resolve 1 {DB}").startswith("0 "))
            self.fill(agent, client, f"resolve 4 {DB}")
            agent.kill()
            wait_until(lambda: client.tell(f"resolve 1 {DB}").startswith("-14 "),
                "the lease of the dead agent is over")
            agent.start()
            self.put(DB, service_record("h1", 100 + turn))
            wait_until(lambda turn=turn: f'"{100 + turn}"' in client.tell(f"resolve 1 {DB}"),
                "the new agent answers")

    def test_a_frozen_agent_is_noticed(self):
        agent = self.start("1s")
        client = self.client(agent)
        self.fill(agent, client, f"resolve 4 {DB}")
        agent.signal(signal.SIGSTOP)
        self.addCleanup(os.kill, agent.process.pid, signal.SIGCONT)
        def is_over():
            client.process.stdin.write(f"resolve 1 {DB}\n")
            client.process.stdin.flush()
            ready, _, _ = select.select([client.process.stdout], [], [], 3)
            if ready:
                client.process.stdout.readline()
            return not ready

        wait_until(is_over, "the client waits for the agent")
        agent.signal(signal.SIGCONT)
        self.assertTrue(client.process.stdout.readline().startswith("0 "))


if __name__ == "__main__":
    unittest.main()
