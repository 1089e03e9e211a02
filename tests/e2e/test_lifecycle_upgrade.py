"""USR2: what carries over, and new programs that do not start."""

import http.client
import json
import os
import shutil
import signal
import threading
import time
import unittest

from berth import BUILD, Agent, Answer, UnixConnection, exists, wait_until
from lifecycle import LifeTest, Server, on_both

EVENT_STREAM = {"Accept": "application/x-ndjson"}


class Upgrade(LifeTest):
    def own_program(self, agent):
        """Gives the agent a program of its own, which tests may spoil."""
        program = self.folder / "bin/berthd"
        program.parent.mkdir(exist_ok=True)
        shutil.copy(BUILD / "berthd", program)
        agent.program = program
        return program

    def test_states_counts_and_history_carry_over(self):
        flag = self.folder / "flag"
        agent = self.web_agent(check=exists(flag),
            extra={"check alive": {"interval": "100ms"}}).start()
        wait_until(lambda: agent.check_named("alive")["state"] == "down", "it is down")
        counts = agent.check_named("alive")["counts"]
        started = agent.status()["started"]
        history = agent.get("/v1/agent/history").json
        agent.upgrade()
        check = agent.check_named("alive")
        self.assertEqual(check["state"], "down")
        self.assertGreaterEqual(check["counts"]["failing"], counts["failing"])
        self.assertEqual(agent.get("/v1/agent/history").json[: len(history)], history)
        self.assertEqual(agent.status()["started"], started)

    def test_the_schedule_carries_over(self):
        agent = self.web_agent(extra={"check alive": {"interval": "1h"}}).start()
        agent.wait_state("registered")
        before = agent.check_named("alive")
        for _ in range(3):
            agent.upgrade()
        after = agent.check_named("alive")
        self.assertEqual(after["counts"], before["counts"])
        self.assertAlmostEqual(after["next_run"], before["next_run"], delta=1)

    def test_ttl_reports_and_dynamic_endpoints_carry_over(self):
        agent = self.web_agent(
            check=None,
            extra={
                "check beat": {"type": "ttl", "interval": "1h"},
                "endpoint live": {
                    "api": "http://example.org/live", "protocol": "REST",
                    "address_type": "host/port", "dynamic": "yes",
                },
            },
        ).start()
        self.assertLess(agent.request("PUT", "/v1/agent/checks/beat", {"status": "passing"}).status,
            300)
        self.assertLess(agent.request("PUT", "/v1/agent/endpoints/live",
            {"addresses": ["h1:4711"]}).status, 300)
        wait_until(lambda: "4711" in (self.record() or ""), "the address is in the record")
        witness, before = self.witness(), self.version()
        for _ in range(3):
            agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)
        self.assertEqual(len(witness.end()), 1)
        self.assertEqual(agent.check_named("beat")["state"], "up")

    def test_a_connection_that_holds_an_endpoint_goes_on_holding_it(self):
        agent = self.web_agent(
            check=None,
            extra={
                "endpoint live": {
                    "api": "http://example.org/live", "protocol": "REST",
                    "address_type": "host/port", "dynamic": "yes",
                    "hold": "connection",
                },
            },
        ).start()
        holder = UnixConnection(agent.socket)
        self.addCleanup(holder.close)
        holder.request("PUT", "/v1/agent/endpoints/live",
            body=json.dumps({"addresses": ["h1:4711"]}))
        self.assertLess(Answer(holder.getresponse()).status, 300)
        wait_until(lambda: "4711" in (self.record() or ""), "the address is in the record")
        before = self.version()
        for _ in range(3):
            agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)
        holder.request("GET", "/live")
        self.assertEqual(Answer(holder.getresponse()).status, 200)
        holder.close()
        wait_until(lambda: "4711" not in (self.record() or ""), "the address is withdrawn")

    def test_connections_stay_whatever_they_are_in(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        idle = [UnixConnection(agent.socket) for _ in range(20)]
        for connection in idle:
            self.addCleanup(connection.close)
            connection.request("GET", "/live")
            self.assertEqual(Answer(connection.getresponse()).status, 200)
        fresh = UnixConnection(agent.socket)  # connected, and nothing sent yet
        self.addCleanup(fresh.close)
        fresh.connect()
        agent.upgrade()
        for connection in [*idle, fresh]:
            connection.request("GET", f"/v1/resolve{Agent.PATH}")
            self.assertEqual(Answer(connection.getresponse()).status, 200)
        status = agent.status()
        self.assertEqual(status["phase"], "running")

    def test_long_polls_are_answered(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        path = f"/v1/resolve{Agent.PATH}"
        etag = agent.get(path).headers["ETag"]
        connection = UnixConnection(agent.socket)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers={"If-None-Match": etag, "Prefer": "wait=60"})
        wait_until(lambda: b"berth_watchers 1" in agent.get("/metrics").body, "it polls")
        agent.upgrade()
        self.assertEqual(Answer(connection.getresponse()).status, 304)
        connection.request("GET", path)
        self.assertEqual(Answer(connection.getresponse()).status, 200)

    def test_streams_end_and_can_be_had_again(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        for _ in range(2):
            connection = UnixConnection(agent.socket)
            connection.request("GET", f"/v1/watch{Agent.PATH}", headers=EVENT_STREAM)
            response = connection.getresponse()
            self.assertEqual(response.status, 200, response.status != 200 and response.read())
            first = json.loads(response.readline())
            self.assertEqual(first["type"], "SUBSCRIBED")
            self.assertIn(Agent.PATH, first["snapshot"])
            agent.upgrade()
            try:
                self.assertNotIn(b"DELETED", response.read())
            except http.client.IncompleteRead:
                pass
            connection.close()

    def test_a_request_that_takes_a_while_is_finished_first(self):
        gate, hold = self.folder / "gate", self.folder / "hold"
        os.mkfifo(gate)
        agent = self.web_agent(
            check=f"/bin/sh -c 'test -e {hold} || exit 0; read line < {gate}'",
            extra={"check alive": {"interval": "1h", "timeout": "60s"}},
        ).start()
        agent.wait_state("registered")
        hold.touch()
        statuses = []

        def ask():
            try:
                statuses.append(agent.request("POST", "/v1/agent/checks/alive/run").status)
            except (OSError, http.client.HTTPException):
                statuses.append("cut off")

        for _ in range(5):
            before, said = agent.starts(), len(agent.read_log())
            asker = threading.Thread(target=ask)
            asker.start()
            wait_until(lambda: agent.check_named("alive")["running"], "it runs")
            begin = time.monotonic()
            agent.signal(signal.SIGUSR2)
            gate.write_text("go\n")
            asker.join()
            wait_until(lambda: agent.starts() > before, "the new program runs")
            if "requests under way take too long" not in agent.read_log()[said:]:
                break
            # The check, or we, have stood still for as long as an agent waits; once more.
            self.assertGreaterEqual(time.monotonic() - begin, 2)
            agent.wait_state("registered")
            statuses.clear()
        self.assertEqual(statuses, [200])

    def test_a_check_that_runs_is_ended_and_runs_again(self):
        marks = self.folder / "marks"
        script = self.folder / "slow.sh"
        script.write_text(f"#!/bin/sh\necho $$ >> {marks}\nexec sleep 1000\n")
        script.chmod(0o755)
        agent = self.web_agent(check=str(script),
            extra={"check alive": {"timeout": "1h", "interval": "1h"}}).start()
        wait_until(lambda: marks.exists() and len(marks.read_text().split()) == 1, "it runs")
        agent.upgrade()
        wait_until(lambda: len(marks.read_text().split()) == 2, "it runs again")
        first = int(marks.read_text().split()[0])
        wait_until(lambda: not os.path.exists(f"/proc/{first}"), "the first run is gone")

    # ---- new programs that do not start

    def test_a_new_program_that_does_not_start_leaves_the_old_one_serving(self):
        agent = self.web_agent()
        program = self.own_program(agent)
        agent.start()
        agent.wait_state("registered")
        before = self.version()
        client = self.client(agent, keep=True)

        def not_executable():
            program.chmod(0o644)

        def not_a_program():
            program.write_bytes(b"\x7fELF nonsense")

        def crashes():
            program.write_text("#!/bin/sh\nkill -SEGV $$\n")

        def refuses():
            program.write_text("#!/bin/sh\nexit 1\n")

        for number, spoil in enumerate((None, not_executable, not_a_program, crashes, refuses), 1):
            with self.subTest(number=number):
                program.unlink(missing_ok=True)  # what runs is not overwritten
                if spoil:
                    program.touch(0o755)
                    spoil()
                agent.signal(signal.SIGUSR2)
                wait_until(lambda: agent.read_log().count("the old one stays") == number,
                    "it says that it stays")
        self.assertEqual(client.end(), [])
        self.assertEqual(self.version(), before)
        program.unlink()
        shutil.copy(BUILD / "berthd", program)
        for _ in range(2):
            agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)

    def test_a_bad_configuration_leaves_the_old_one_serving(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.version()
        agent.write_config({**agent.sections, "nonsense": {"key": "value"}})
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: "the old one stays" in agent.read_log(), "it says that it stays")
        self.assertIn("nonsense", agent.read_log())
        self.assertEqual(self.version(), before)
        self.assertEqual(agent.get("/live").status, 200)

    # ---- what happens between two programs

    def between_programs(self, agent):
        """Sends USR2 and returns when the old program is no more; the new one begins when the gate
        is there."""
        gate = self.folder / "gate"
        agent.program.rename(self.folder / "bin/real")
        script = self.folder / "bin/script"
        script.write_text(
            f"#!/bin/sh\ncase $1 in -t) ;; *) until test -e {gate}; do sleep 0.01; done ;; esac\n"
            f"exec {self.folder}/bin/real \"$@\"\n"
        )
        script.chmod(0o755)
        script.rename(agent.program)
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: "executing " in agent.read_log(), "the old program is no more")
        return gate

    def test_a_drain_whose_time_ends_meanwhile_leaves_no_file(self):
        agent = self.web_agent()
        self.own_program(agent)
        agent.start()
        agent.wait_state("registered")
        self.assertEqual(agent.request("POST", "/v1/agent/drain",
            {"reason": "short", "for": "3s"}).status, 204)
        end = time.time() + 3
        gate = self.between_programs(agent)
        wait_until(lambda: time.time() > end, "its time is over")
        gate.touch()
        wait_until(lambda: agent.starts() == 2, "the new program runs")
        agent.wait_state("registered")
        self.assertFalse(agent.status()["drain"]["active"])
        wait_until(lambda: not (agent.folder / "state/drain").exists(), "nothing is left of it")

    def spoil_between_programs(self):
        agent = self.web_agent()
        self.own_program(agent)
        agent.start()
        agent.wait_state("registered")
        gate = self.between_programs(agent)
        agent.write_config({**agent.sections, "nonsense": {"key": "value"}})
        gate.touch()
        wait_until(lambda: "nonsense" in agent.read_log(), "the new program complains")
        return agent

    def test_a_configuration_that_is_spoilt_meanwhile_may_become_good_again(self):
        agent = self.spoil_between_programs()
        agent.write_config(agent.sections)
        wait_until(lambda: agent.starts() == 2, "the new program runs")
        agent.wait_state("registered")
        self.assertEqual(agent.stop(), 0)

    def test_an_agent_that_waits_for_a_good_configuration_can_be_ended(self):
        agent = self.spoil_between_programs()
        self.assertEqual(agent.stop(), 1)

    # ---- a configuration that changes with the program

    def test_it_comes_into_force(self):
        agent = self.agent()
        sections = {**agent.component("true", name="one"), **agent.component("true", name="two")}
        agent.write_config(sections)
        agent.start()
        agent.wait_state("registered", "two")
        two, three = (Agent.PATH.replace("web-1", name) for name in ("two", "three"))
        for section in ("component two", "endpoint resttwo", "check alivetwo"):
            del sections[section]
        sections.update(agent.component("true", name="three"))
        old = agent.socket
        agent.socket = self.folder / "agent/other.sock"
        agent.write_config(sections)
        agent.upgrade()
        wait_until(agent.answers, "it answers on the new socket")
        agent.wait_state("registered", "three")
        wait_until(lambda: not self.record(two) and self.record(three),
            "the registry is as configured")
        self.assertFalse(old.exists())

    def test_another_registry_leaves_nothing_in_the_first(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        for _ in range(3):
            first = agent.registry
            agent.registry += "-other"
            agent.write_config(agent.sections)
            begin = time.monotonic()
            agent.upgrade()
            agent.wait_state("registered")
            self.assertTrue(self.record(registry=agent.registry))
            wait_until(lambda: not self.record(registry=first), "the first is empty")
            if time.monotonic() - begin < 15:
                return
            # An agent waits for a second until its session is closed; who stood still for that long
            # lets it run out.
        self.fail("the first is empty only when the session has run out")

    def test_a_damaged_document_of_the_predecessor_is_a_fresh_start(self):
        agent = self.web_agent()
        read, write = os.pipe()
        os.set_inheritable(read, True)
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD), "BERTH_UPGRADE": str(read)},
            pass_fds=[read])
        os.close(read)
        os.close(write)
        agent.wait_state("registered")
        self.assertIn("starting afresh", agent.read_log())


on_both(globals(), Upgrade)


class WhileTheRegistryIsAway(LifeTest):
    registry_kind = Server

    def test_lookups_are_answered_stale_and_the_record_stays(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        self.assertEqual(agent.get(f"/v1/resolve{Agent.PATH}").status, 200)
        before = self.identity()
        self.server.pause()
        self.addCleanup(self.server.resume)
        agent.upgrade()
        answer = agent.get(f"/v1/resolve{Agent.PATH}")
        self.assertEqual((answer.status, answer.headers["X-Cache"]), (200, "STALE"))
        self.server.resume()
        agent.wait_state("registered")
        self.assertEqual(self.identity(), before)


del LifeTest

if __name__ == "__main__":
    unittest.main()
