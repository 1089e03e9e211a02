"""What checks do to the record: warnings, published health, endpoints, the last instance, flap
damping."""

import json
import threading
import time
import unittest

from berth import Agent, berth, wait_until
from checks import CheckTest, OnZooKeeper

HEALTH = "berth:health"
PARENT = Agent.PATH.rsplit("/", 1)[0]


class Warnings(CheckTest):
    def test_a_warning_stays_registered(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted, {"fall": "1"}).start())
        self.assertEqual(self.runs(agent, scripted, 1, 1, 1, 1), "up")
        check = agent.check_named("alive")
        self.assertTrue(check["warning"])
        self.assertEqual(check["last"]["verdict"], "warning")
        self.assertEqual(agent.component_state(), "registered")
        self.assertNotIn(HEALTH, self.in_registry())
        self.assertEqual(agent.status()["components"][0]["reason"],
            "check alive warns: exit status 1")
        self.assertEqual(self.metrics(agent)['berth_check_warning{check="alive"}'], 1)
        logged = [line for line in agent.read_log().splitlines()
            if "check alive: up -> warning" in line]
        self.assertEqual(len(logged), 1, "the warning is logged once")
        self.assertIn(" warn ", logged[0])
        self.assertEqual(self.history(agent, "check alive")[-1]["to"], "warning")
        self.assertEqual(self.runs(agent, scripted, 0), "up")
        self.assertEqual(agent.status()["components"][0]["reason"], "its check is up")
        self.assertEqual(self.metrics(agent)['berth_check_warning{check="alive"}'], 0)
        self.assertEqual(self.history(agent, "check alive")[-1]["to"], "up")

    def test_a_status_of_1_fails_unless_it_is_named(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted,
            {"fall": "1", "warning_status": "3, 5-7"}).start())
        for status, state in ((3, "up"), (6, "up"), (1, "down"), (0, "up"), (4, "down")):
            self.assertEqual(self.runs(agent, scripted, status), state, status)

    def test_the_first_failure_of_a_pending_check_shows_everywhere(self):
        scripted = self.scripted()
        scripted.says(7, "connection refused")
        agent = self.scripted_agent(scripted, {"fall": "1000"},
            {"agent": {"log_format": "json"}}).start()
        wait_until(lambda: agent.check_named("alive")["last"], "the first run is done")
        for _ in range(3):
            self.run_check(agent)
        lines = [json.loads(line) for line in agent.read_log().splitlines() if line.startswith("{")]
        told_of = [line for line in lines if line["subject"] == "check alive" and line["level"]
            == "warn"]
        self.assertEqual(len(told_of), 1, told_of)
        fields = {name: told_of[0][name] for name in ("component", "from", "to", "why", "output")}
        label = agent.status()["components"][0]["name"]
        expected = {
            "component": label, "from": "pending", "to": "failing", "why": "exit status 7",
            "output": "connection refused",
        }
        self.assertEqual(fields, expected)
        entry = self.history(agent, "check alive")[-1]
        self.assertEqual({name: entry[name] for name in expected}, expected)
        scripted.says(0)
        self.run_check(agent)
        self.registered(agent)
        self.assertEqual(self.history(agent, "check alive")[-1]["from"], "failing")

    def test_history_survives_a_restart(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted, {"fall": "1"}).start())
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        before = agent.get("/v1/agent/history").json
        self.assertEqual(agent.stop(), 0)
        agent.start()
        after = agent.get("/v1/agent/history").json
        self.assertEqual(after[:len(before)], before)

    def test_a_first_warning_registers(self):
        scripted = self.scripted()
        scripted.says(1)
        self.registered(self.scripted_agent(scripted).start())

    def test_kinds_of_results_are_kept_apart(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted).start())
        self.runs(agent, scripted, 0, 1, 2)
        agent.write_config({
            **agent.sections,
            "check slow": {"type": "command", "command": "sleep 100", "timeout": "100ms",
                "interval": "1h"},
            "check none": {"type": "command", "command": "/no/such/command", "interval": "1h"},
        })
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.run_check(agent, "slow")["last"]["verdict"], "timed-out")
        result = self.run_check(agent, "none")["last"]
        self.assertEqual(result["verdict"], "could-not-run")
        self.assertIn("No such file", result["detail"])
        counts = agent.check_named("alive")["counts"]
        metrics = self.metrics(agent)
        for kind, count in counts.items():
            if count:
                self.assertEqual(
                    metrics[f'berth_check_runs_total{{check="alive",result="{kind}"}}'], count)
        self.assertGreaterEqual(metrics['berth_check_runs_total{check="slow",result="timed-out"}'],
            1)
        self.assertGreaterEqual(
            metrics['berth_check_runs_total{check="none",result="could-not-run"}'], 1)
        self.assertEqual(agent.check_named("none")["counts"]["failing"], 0)


class OnTheNode(OnZooKeeper):
    """The version of the znode counts the writes, its czxid says whether it is the same node."""

    def test_health_is_written_on_change_only(self):
        scripted = self.scripted()
        agent = self.registered(
            self.scripted_agent(scripted, publish_health="yes",
                extra={"registry": {"update_interval": "0s"}}).start()
        )
        before = self.node()
        self.assertEqual(self.record()[HEALTH], "passing")
        self.runs(agent, scripted, 0, 0, 0)
        self.assertEqual(self.node(), before)
        self.runs(agent, scripted, 1)
        wait_until(lambda: self.record()[HEALTH] == "warning", "the warning is published")
        self.runs(agent, scripted, 1, 1, 1)
        self.runs(agent, scripted, 0)
        wait_until(lambda: self.record()[HEALTH] == "passing", "it passes again")
        after = self.node()
        self.assertEqual(after["czxid"], before["czxid"])
        self.assertEqual(after["version"], before["version"] + 2)

    def test_changes_of_health_go_through_the_throttle(self):
        scripted = self.scripted()
        interval = 0.5
        agent = self.registered(
            self.scripted_agent(scripted, publish_health="yes",
                extra={"registry": {"update_interval": "500ms"}}).start()
        )
        before = self.node()
        begin = time.monotonic()
        self.runs(agent, scripted, *[1, 0] * 20, 1)
        wait_until(lambda: self.record()[HEALTH] == "warning", "the latest is written")
        writes = self.node()["version"] - before["version"]
        most = (time.monotonic() - begin) / interval + 1
        self.assertLessEqual(writes, most)

    def test_a_check_of_some_endpoints_takes_out_only_these_in_place(self):
        scripted = self.scripted("rest-only")
        agent = self.scripted_agent(
            scripted, {"fall": "1", "endpoints": "rest"},
            {
                "registry": {"update_interval": "0s"},
                "endpoint admin": {
                    "scope": "internal", "api": "http://example.org/admin", "protocol": "http",
                    "address_type": "host/port", "address": "127.0.0.1:9",
                },
            },
        ).start()
        self.registered(agent)
        wait_until(lambda: self.record()["external"], "the endpoint is in")
        before = self.node()
        whole = self.record()
        self.runs(agent, scripted, 2)
        wait_until(lambda: not self.record()["external"], "the endpoint is out")
        self.assertEqual(self.record()["internal"], whole["internal"])
        # The server has the record before the agent has its answer.
        self.registered(agent)
        self.assertEqual(agent.status()["components"][0]["endpoints"],
            {"rest": "out", "admin": "in"})
        self.assertEqual(self.history(agent, "endpoint rest")[-1]["to"], "out")
        self.runs(agent, scripted, 0)
        wait_until(lambda: self.record() == whole, "the record is whole again")
        after = self.node()
        self.assertEqual(after["czxid"], before["czxid"])
        self.assertEqual(after["ephemeralOwner"], before["ephemeralOwner"])
        self.assertEqual(after["version"], before["version"] + 2)

    def test_the_last_one_stays_though_the_server_was_away(self):
        scripted = self.scripted()
        agent = self.registered(
            self.scripted_agent(scripted, {"fall": "1"}, {"registry": {"update_interval": "0s"}},
                keep_last="yes").start()
        )
        before = self.node()
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected",
            "the agent misses the server")
        self.assertEqual(self.runs(agent, scripted, 2), "down")
        self.server.restart()
        wait_until(lambda: self.record().get(HEALTH) == "failing", "it says that it fails")
        self.assertEqual(self.node()["czxid"], before["czxid"])


class LastInstance(CheckTest):
    """keep_last = yes; two agents of one instance, each with its own check."""

    def one(self, name):
        scripted = self.scripted(name)
        agent = self.agent(name)
        sections = agent.component(None, name=name, keep_last="yes", id=f"container_{name}",
            damping="no")
        sections[f"check {name}"] = {**scripted.options, "component": name, "fall": "1"}
        sections["registry"] = {"update_interval": "0s"}
        agent.sections = sections
        agent.write_config(sections)
        agent.start()
        self.registered(agent)
        return agent, scripted

    def standing(self, name):
        return self.in_registry(f"{PARENT}/{name}")

    def health(self, name):
        return (self.standing(name) or {}).get(HEALTH, "-")

    def test_alone_it_stays_and_says_so(self):
        agent, scripted = self.one("a")
        self.runs(agent, scripted, 2)
        wait_until(lambda: self.health("a") == "failing", "it says that it fails")
        self.registered(agent)
        self.assertIn("last one", agent.status()["components"][0]["reason"])
        self.runs(agent, scripted, 0)
        wait_until(lambda: self.health("a") == "-", "it is as before")
        self.assertNotIn("withdrawn",
            [step["to"] for step in self.history(agent, "component a")][1:])

    def test_beside_another_it_goes_and_the_other_stays(self):
        a, told_a = self.one("a")
        b, told_b = self.one("b")
        self.runs(a, told_a, 2)
        a.wait_state("withdrawn")
        self.runs(b, told_b, 2)
        wait_until(lambda: self.health("b") == "failing", "the last one stays, failing")
        self.assertIsNone(self.standing("a"))
        # A's return ends B's guard.
        self.runs(a, told_a, 0)
        self.registered(a)
        b.wait_state("withdrawn")
        self.assertIsNone(self.standing("b"))
        self.runs(b, told_b, 0)
        self.registered(b)

    def test_a_stopping_one_is_not_a_failing_one(self):
        agent, scripted = self.one("a")
        self.runs(agent, scripted, 2)
        wait_until(lambda: self.health("a") == "failing", "it is kept")
        self.assertEqual(agent.request("POST", "/v1/agent/drain", {"reason": "test"}).status, 204)
        agent.wait_state("withdrawn")
        self.assertIsNone(self.standing("a"))
        self.assertEqual(agent.stop(), 0)

    def test_one_that_never_passed_is_not_registered(self):
        scripted = self.scripted()
        scripted.says(2)
        agent = self.scripted_agent(scripted, {"fall": "1"}, keep_last="yes").start()
        wait_until(lambda: agent.check_named("alive")["state"] == "down", "the check is down")
        agent.wait_state("withdrawn")
        self.runs(agent, scripted, 2, 2)
        self.assertIsNone(self.in_registry())

    def test_when_all_fail_at_once_one_stays_and_peace_returns(self):
        agents = {name: self.one(name) for name in ("a", "b", "c")}
        for _, scripted in agents.values():
            scripted.says(2)
        threads = [
            threading.Thread(target=self.run_check, args=(agent, name))
            for name, (agent, _) in agents.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        def steps():
            return [len(self.history(agent, f"component {name}"))
                for name, (agent, _) in agents.items()]

        def peace():
            before = steps()
            for _ in range(5):
                for name, (agent, _) in agents.items():
                    self.run_check(agent, name)
            return steps() == before

        def one_stays():
            return sorted(self.health(name) for name in agents) == ["-", "-", "failing"]

        wait_until(lambda: one_stays() and peace() and one_stays(),
            "one stays, failing, and nothing moves any more")

    def test_it_survives_a_re_execution(self):
        agent, scripted = self.one("a")
        self.runs(agent, scripted, 2)
        wait_until(lambda: self.health("a") == "failing", "it is kept")
        agent.upgrade()
        self.registered(agent)
        self.runs(agent, scripted, 2)
        self.assertEqual(self.health("a"), "failing")
        self.assertNotIn("withdrawn",
            [step["to"] for step in self.history(agent, "component a")][1:])


class Damping(CheckTest):
    def flapping(self, half_life, **options):
        """Held out after its second time down."""
        scripted = self.scripted()
        agent = self.scripted_agent(
            scripted, {"fall": "1"}, {"registry": {"update_interval": "0s"}},
            damping_suppress="1.5",
            damping_reuse="0.5", damping_half_life=half_life, **options,
        ).start()
        self.registered(agent)
        self.runs(agent, scripted, 2, 0)
        self.registered(agent)
        self.assertFalse(agent.status()["components"][0]["damped"])
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        return agent, scripted

    def test_one_that_flaps_stays_out_and_says_why(self):
        agent, scripted = self.flapping("1h")
        self.assertEqual(self.runs(agent, scripted, 0, 0, 0), "up")
        component = agent.status()["components"][0]
        self.assertEqual(component["state"], "withdrawn")
        self.assertTrue(component["damped"])
        self.assertGreater(component["penalty"], 1.5)
        self.assertIn("flap damping", component["reason"])
        self.assertIsNone(self.in_registry())
        told_of = self.history(agent, "damping of web-1")
        self.assertEqual([entry["to"] for entry in told_of], ["held"])
        self.assertIn("too often", told_of[0]["why"])
        metrics = self.metrics(agent)
        self.assertEqual(metrics['berth_damped{component="web-1"}'], 1)
        self.assertGreater(metrics['berth_penalty{component="web-1"}'], 1.5)
        shown = berth("--socket", agent.socket, "status").stdout
        self.assertEqual(shown.count("flap"), 1, shown)

    def test_when_the_penalty_has_decayed_it_comes_back_by_itself(self):
        scripted = self.scripted()
        # Held after its first time down: after a second one only if that came soon enough after the
        # first.
        agent = self.scripted_agent(
            scripted, {"fall": "1"}, damping_suppress="0.9", damping_reuse="0.5",
            damping_half_life="1s"
        ).start()
        self.registered(agent)
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        self.runs(agent, scripted, 0)
        self.registered(agent)
        self.assertEqual([entry["to"] for entry in self.history(agent, "damping of web-1")],
            ["held", "free"])
        self.assertEqual(self.metrics(agent)['berth_damped{component="web-1"}'], 0)

    def test_it_survives_a_re_execution(self):
        agent, scripted = self.flapping("1h")
        self.assertEqual(self.runs(agent, scripted, 0), "up")
        penalty = agent.status()["components"][0]["penalty"]
        agent.upgrade()
        agent.wait_state("withdrawn")
        self.assertEqual(self.runs(agent, scripted, 0), "up")
        component = agent.status()["components"][0]
        self.assertTrue(component["damped"])
        self.assertAlmostEqual(component["penalty"], penalty, delta=0.2)
        self.assertIsNone(self.in_registry())

    def test_it_never_delays_taking_out(self):
        agent, scripted = self.flapping("50ms")
        self.runs(agent, scripted, 0)
        self.registered(agent)
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        self.assertIsNone(self.in_registry())

    def test_it_does_not_take_out_the_last_one_that_recovers(self):
        agent, scripted = self.flapping("50ms", keep_last="no")
        agent.stop()
        scripted.says(0)
        agent.sections["component"].update(keep_last="yes", damping_half_life="1h")
        agent.write_config(agent.sections)
        agent.start()
        self.registered(agent)
        before = len(self.history(agent, "component web-1"))
        self.runs(agent, scripted, 2, 0, 2, 0, 2, 0)
        wait_until(lambda: HEALTH not in self.in_registry(), "it is passing")
        self.registered(agent)
        self.assertNotIn("withdrawn",
            [step["to"] for step in self.history(agent, "component web-1")][before:])

    def test_a_drain_is_no_flapping(self):
        scripted = self.scripted()
        agent = self.scripted_agent(scripted, {"fall": "1"}).start()
        self.registered(agent)
        self.runs(agent, scripted, 2)
        agent.wait_state("withdrawn")
        before = agent.status()["components"][0]["penalty"]
        for _ in range(3):
            self.assertEqual(agent.request("POST", "/v1/agent/drain", {"reason": "test"}).status,
                204)
            self.assertEqual(agent.request("DELETE", "/v1/agent/drain").status, 204)
        self.assertLessEqual(agent.status()["components"][0]["penalty"], before)

    def test_switched_off_it_does_nothing(self):
        scripted = self.scripted()
        agent = self.scripted_agent(
            scripted, {"fall": "1"}, {"registry": {"update_interval": "0s"}}, damping="no"
        ).start()
        self.registered(agent)
        for _ in range(6):
            self.runs(agent, scripted, 2, 0)
        self.registered(agent)


if __name__ == "__main__":
    unittest.main()
