"""The NSS module and the agent's shared memory: a name that a process asks for again and again
comes without a system call, and never behind the socket."""

import os
import select
import shlex
import signal
import subprocess
import unittest

from berth import BUILD, PATIENCE, AgentTest, service_record, wait_until
from test_libberth import SOURCE, config

DB = "/services/db"
NAME = "db.services.berth"
HITS = 1000
MODULE = BUILD / "libnss_berth.so.2"
SUCCESS, NOT_FOUND = 1, 0


@unittest.skipUnless(MODULE.exists(), "this build has no NSS module")
@unittest.skipIf(os.environ.get("BERTH_SANITIZER"),
    "a module with a sanitizer needs a program with one")
class SharedNss(AgentTest):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "nss_look_up"
        subprocess.run([*shlex.split(config("CC") or "cc"), "-Wall", "-Wextra", "-Werror",
            SOURCE / "tests/e2e/programs/nss_look_up.c", "-o", self.program, "-ldl"], check=True,
            timeout=PATIENCE)
        self.east = f"dir:{self.folder}/east"
        self.agent_under_test = self.agent(cache={"confirm": "1s"},
            **{"registry east": {"url": self.east}}).start()
        self.put(DB, service_record("10.0.0.1", 1))

    def client(self, *tracer, name=NAME, **environment):
        process = subprocess.Popen([*tracer, self.program, MODULE, name],
            env={**os.environ, "BERTH_SOCKET": str(self.agent_under_test.socket), **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, process, count=1):
        """(status, [address, …])"""
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
        self.assertTrue(select.select([process.stdout], [], [], PATIENCE)[0])
        status, _, *addresses = process.stdout.readline().split()
        return int(status), addresses

    def shared_entries(self):
        text = self.agent_under_test.get("/metrics").body.decode()
        return float(text.rpartition("\nberth_shared_entries ")[2].split("\n")[0])

    def test_a_hit_makes_no_system_call(self):
        trace = self.folder / "trace"
        client = self.client("strace", "-o", trace)
        wait_until(lambda: self.ask(client, 5) and self.shared_entries() == 1,
            "the name is in memory")
        for _ in range(5):
            self.assertEqual(self.ask(client, HITS), (SUCCESS, ["10.0.0.1"]))
        client.stdin.close()
        client.wait(PATIENCE)
        lines = trace.read_text().splitlines()
        called = [lines[number + 1] for number, line in enumerate(lines)
            if f'write(2, "begin {HITS}\\n"' in line]
        # The file with the module's domains is read once a second.
        quiet = [line for line in called if line.startswith('write(2, "end')]
        self.assertGreaterEqual(len(quiet), 3, called)

    def test_it_follows_changes_upgrades_and_new_agents(self):
        agent, client = self.agent_under_test, self.client()
        for number in range(2, 5):
            self.put(DB, service_record(f"10.0.0.{number}", 1))
            wait_until(lambda number=number: self.ask(client, 3) ==
                (SUCCESS, [f"10.0.0.{number}"]), "the name has the new address")
            wait_until(lambda: self.ask(client) and self.shared_entries() == 1,
                "it is in memory")
            agent.upgrade()
            self.assertEqual(self.ask(client), (SUCCESS, [f"10.0.0.{number}"]))
            agent.kill()
            agent.start()
        self.remove(DB)
        wait_until(lambda: self.ask(client, 3)[0] == NOT_FOUND, "the name is gone")

    def test_a_name_of_a_further_registry_has_its_addresses_there(self):
        own, far = self.client(), self.client(name="db.services.east.net.berth")
        for number in range(1, 4):
            self.put(DB, service_record(f"10.0.1.{number}", 1), self.east)
            wait_until(lambda number=number: self.ask(far, 3) ==
                (SUCCESS, [f"10.0.1.{number}"]), "the name has the address")
            self.assertEqual(self.ask(own), (SUCCESS, ["10.0.0.1"]))
        self.remove(DB, self.east)
        wait_until(lambda: self.ask(far, 3)[0] == NOT_FOUND, "the name is gone")
        self.assertEqual(self.ask(own), (SUCCESS, ["10.0.0.1"]))

    def test_the_environment_turns_it_off(self):
        client = self.client(BERTH_SHARED="off")
        self.ask(client, 20)
        self.assertIn("berth_shared_maps_total 0",
            self.agent_under_test.get("/metrics").body.decode())

    def test_a_frozen_agent_answers_no_longer_than_the_lease(self):
        client = self.client()
        wait_until(lambda: self.ask(client, 5) and self.shared_entries() == 1,
            "the name is in memory")
        self.agent_under_test.signal(signal.SIGSTOP)
        wait_until(lambda: self.ask(client)[0] not in (SUCCESS, NOT_FOUND), "the lease is over")
        self.agent_under_test.signal(signal.SIGCONT)


if __name__ == "__main__":
    unittest.main()
