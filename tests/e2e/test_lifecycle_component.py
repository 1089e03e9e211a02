"""Orders for one component: drain and undrain, the end of flap damping, and readiness in an
outage."""

import unittest

from berth import Agent, berth, exists, wait_until
from lifecycle import LifeTest, Server, on_both


class Component(LifeTest):
    def pair(self):
        """An agent with the components a and b, registered."""
        agent = self.agent()
        agent.write_config({**agent.component(name="a", id="c_a"),
            **agent.component(name="b", id="c_b")})
        agent.start()
        agent.wait_state("registered", "a")
        agent.wait_state("registered", "b")
        return agent

    def order(self, agent, method, name, order, **body):
        answer = agent.request(method, f"/v1/agent/components/{name}/{order}", body or None)
        self.assertEqual(answer.status, 204, answer.body)

    def component(self, agent, name):
        return next(item for item in agent.status()["components"] if item["name"] == name)

    def test_drain_of_one_leaves_the_other(self):
        agent = self.pair()
        self.order(agent, "POST", "a", "drain", reason="new disk")
        agent.wait_state("withdrawn", "a")
        self.assertEqual(agent.component_state("b"), "registered")
        a = self.component(agent, "a")
        self.assertEqual((a["drain"]["active"], a["drain"]["reason"], a["drain"]["done"]),
            (True, "new disk", True))
        self.assertEqual(a["reason"], "draining: new disk")
        self.assertNotIn("drain", self.component(agent, "b"))
        self.assertFalse(agent.status()["drain"]["active"])
        self.order(agent, "DELETE", "a", "drain")
        self.assertNotIn("draining", self.component(agent, "a")["reason"])
        agent.wait_state("registered", "a")
        self.assertNotIn("drain", self.component(agent, "a"))

    def test_it_survives_upgrade_and_restart_and_ends_by_itself(self):
        agent = self.pair()
        self.order(agent, "POST", "a", "drain", reason="new disk")
        agent.wait_state("withdrawn", "a")
        agent.upgrade()
        agent.wait_state("registered", "b")
        self.assertEqual(self.component(agent, "a")["drain"]["reason"], "new disk")
        self.assertEqual(agent.stop(), 0)
        agent.start()
        agent.wait_state("registered", "b")
        self.assertEqual(self.component(agent, "a")["reason"], "draining: new disk")
        self.order(agent, "POST", "a", "drain", **{"for": "1s"})
        agent.wait_state("registered", "a")
        self.assertEqual(agent.stop(), 0)
        agent.start()
        agent.wait_state("registered", "a")

    def test_it_survives_a_reload(self):
        agent = self.pair()
        self.order(agent, "POST", "a", "drain")
        agent.wait_state("withdrawn", "a")
        agent.write_config(
            {**agent.component(name="a", id="c_a", path="/services/elsewhere"),
                **agent.component(name="b", id="c_b")}
        )
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.assertEqual(self.component(agent, "a")["path"], "/services/elsewhere")
        agent.wait_state("withdrawn", "a")
        self.assertIsNone(self.record("/services/elsewhere"))

    def test_an_unknown_component_is_not_found(self):
        agent = self.pair()
        for method, order in ("POST", "drain"), ("DELETE", "drain"), ("POST", "undamp"):
            self.assertEqual(agent.request(method, f"/v1/agent/components/nobody/{order}").status,
                404)

    def test_undamp_lets_it_come_back_at_once(self):
        flag = self.folder / "flag"
        flag.touch()
        agent = self.web_agent(
            check=exists(flag), extra={"check alive": {"fall": "1"}}, damping_suppress="0.5",
            damping_reuse="0.1",
            damping_half_life="1h",
        ).start()
        agent.wait_state("registered")
        flag.unlink()
        agent.wait_state("withdrawn")
        flag.touch()
        wait_until(lambda: agent.check_named("alive")["state"] == "up", "the check is up")
        self.assertTrue(self.component(agent, "web-1")["damped"])
        self.order(agent, "POST", "web-1", "undamp")
        agent.wait_state("registered")
        self.assertEqual(self.component(agent, "web-1")["penalty"], 0)

    def metrics(self, agent):
        lines = agent.get("/metrics").body.decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    def test_metrics_exist_at_zero_and_follow(self):
        agent = self.pair()
        metrics = self.metrics(agent)
        for series in (
            'berth_transitions_total{component="a",to="conflict"}',
            'berth_check_runs_total{check="alivea",result="timed-out"}',
            'berth_draining{component="a"}',
            "berth_registry_session_expirations_total",
        ):
            self.assertEqual(metrics[series], "0", series)
        self.assertEqual(metrics["berth_config_last_reload_successful"], "1")
        read_at = float(metrics["berth_config_last_reload_success_timestamp_seconds"])
        self.order(agent, "POST", "a", "drain")
        agent.wait_state("withdrawn", "a")
        agent.config.write_text("[nonsense]")
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 422)
        metrics = self.metrics(agent)
        self.assertEqual((metrics['berth_draining{component="a"}'],
            metrics['berth_draining{component="b"}']), ("1", "0"))
        self.assertEqual(metrics["berth_config_last_reload_successful"], "0")
        self.assertEqual(float(metrics["berth_config_last_reload_success_timestamp_seconds"]),
            read_at)

    def test_restarts_of_the_main_process_are_counted(self):
        command = ["/bin/sh", "-c",
            f"[ -e {self.folder}/twice ] && exec sleep 3600; touch {self.folder}/twice; exit 1"]
        agent = self.web_agent(command=command, extra={"agent": {"restart": "on-failure"}}).start()
        agent.wait_state("registered")
        wait_until(lambda: self.metrics(agent)["berth_main_process_restarts_total"] == "1",
            "the restart is counted")

    def test_since_outlives_an_upgrade(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        before = self.component(agent, "web-1")["since"]
        agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(self.component(agent, "web-1")["since"], before)

    def test_one_change_of_ours_is_called_ours(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        agent.write_config(agent.component(description="another"))
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        wait_until(lambda: '"another"' in (self.record() or ""), "the record has changed")
        agent.wait_state("registered")
        log = agent.read_log()
        self.assertIn("registered -> outdated: our record is to change", log)
        self.assertNotIn("writing: our record", log)  # it is registered all the time


on_both(globals(), Component)


class Outage(LifeTest):
    registry_kind = Server

    def test_ready_may_outlast_an_outage_of_the_registry(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        self.server.kill()
        agent.wait_state("waiting")
        self.assertRegex(agent.read_log(), " warn +registry: connected -> away")
        self.assertEqual(agent.get("/ready").status, 503)
        self.assertEqual(agent.get("/ready?away=ok").status, 200)
        agent.request("POST", f"/v1/agent/components/{Agent.PATH.rpartition('/')[2]}/drain")
        self.assertEqual(agent.get("/ready?away=ok").status, 503)

    def test_an_agent_that_was_never_registered_is_not_ready(self):
        self.server.kill()
        agent = self.web_agent().start()
        self.assertEqual(agent.get("/ready?away=ok").status, 503)
        self.assertNotEqual(berth("--socket", agent.socket, "ready").returncode, 0)

    def tearDown(self):
        self.server.restart()
        super().tearDown()


del LifeTest

if __name__ == "__main__":
    unittest.main()
