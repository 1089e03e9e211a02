"""Checks over the socket: ttl reports and who may make them, runs on demand, the order of runs,
what a reload forgets."""

import json
import os
import re
import threading
import time
import unittest

from berth import UnixConnection, berth, wait_until
from checks import FOR_EVER, CheckTest, as_somebody_else
from rights import needs

def passing_ttl(interval=FOR_EVER, **options):
    return {"check beat": {"type": "ttl", "interval": interval, **options}}


class Ttl(CheckTest):
    def report(self, agent, status, output=""):
        return agent.request("PUT", "/v1/agent/checks/beat", {"status": status, "output": output})

    def test_the_report_of_the_application_decides(self):
        agent = self.web_agent(check=None, extra=passing_ttl(fall="1")).start()
        self.assertEqual(agent.check_named("beat")["state"], "pending")
        self.assertIsNone(self.in_registry())
        self.assertEqual(self.report(agent, "passing", "ready\nto serve").status, 204)
        self.registered(agent)
        self.assertEqual(agent.check_named("beat")["last"]["output"], "ready\nto serve")
        self.assertEqual(self.report(agent, "warning").status, 204)
        self.assertTrue(agent.check_named("beat")["warning"])
        self.assertEqual(agent.component_state(), "registered")
        self.assertEqual(self.report(agent, "failing", "out of disk").status, 204)
        agent.wait_state("withdrawn")
        self.assertIsNone(self.in_registry())

    def test_silence_is_failing(self):
        # Each time that we are too slow in beating takes it down: that it flaps is not what this is
        # about.
        agent = self.web_agent(check=None, extra=passing_ttl("300ms", fall="2"),
            damping="no").start()

        def beats_until_registered():
            self.report(agent, "passing")
            return agent.component_state() == "registered"

        wait_until(beats_until_registered, "the heartbeat registers it")
        agent.wait_state("withdrawn")
        check = agent.check_named("beat")
        self.assertEqual((check["state"], check["last"]["verdict"]), ("down", "failing"))
        self.assertIn("no report within", check["last"]["detail"])
        wait_until(beats_until_registered, "the heartbeat brings it back")

    def test_a_report_of_the_wrong_shape_changes_nothing(self):
        agent = self.web_agent(check=None, extra=passing_ttl()).start()
        for body in ({"status": "timed-out"}, {"status": "superb"}, {}, {"status": 1},
                {"status": "passing", "output": 1}):
            answer = agent.request("PUT", "/v1/agent/checks/beat", body)
            self.assertEqual(answer.status, 400, body)
        self.assertIsNone(agent.check_named("beat")["last"])
        self.assertEqual(agent.request("PUT", "/v1/agent/checks/other",
            {"status": "passing"}).status, 404)

    def test_only_ttl_checks_are_reported_and_only_others_are_run(self):
        agent = self.web_agent(extra=passing_ttl()).start()
        answer = agent.request("PUT", "/v1/agent/checks/alive", {"status": "failing"})
        self.assertEqual(answer.status, 400)
        self.assertIn("only a ttl check", answer.json["detail"])
        answer = agent.request("POST", "/v1/agent/checks/beat/run")
        self.assertEqual(answer.status, 400)
        self.assertIn("ttl", answer.json["detail"])

    @needs("users")
    def test_the_writer_may_report_and_nobody_else(self):
        os.chmod(self.folder, 0o755)
        for writer, as_writer in (
            ("user:daemon", ("daemon", "nogroup", [])),
            ("group:daemon", ("nobody", "nogroup", ["daemon"])),
            ("group:daemon", ("nobody", "daemon", [])),
        ):
            with self.subTest(writer=writer):
                agent = self.web_agent(
                    check=None, extra={**passing_ttl(writer=writer),
                        "agent": {"socket_mode": "0666"}}
                ).start()

                def report():
                    return self.report(agent, "passing", f"from {os.geteuid()}").status

                self.assertEqual(as_somebody_else("nobody", "nogroup", [], report), "403")
                self.assertIsNone(agent.check_named("beat")["last"])
                self.assertEqual(as_somebody_else(*as_writer, report), "204")
                self.assertIn("from", agent.check_named("beat")["last"]["output"])
                for path in ("/v1/agent/drain", "/v1/agent/reload"):
                    said = as_somebody_else(*as_writer, lambda path=path: agent.request("POST",
                        path).status)
                    self.assertEqual(said, "403", path)
                agent.stop()

    @needs("users")
    def test_nobody_else_may_run_a_check(self):
        os.chmod(self.folder, 0o755)
        agent = self.scripted_agent(self.scripted(),
            extra={"agent": {"socket_mode": "0666"}}).start()
        said = as_somebody_else(
            "nobody", "nogroup", [], lambda: agent.request("POST",
                "/v1/agent/checks/alive/run").status
        )
        self.assertEqual(said, "403")

    @needs("users")
    def test_a_command_runs_as_its_user(self):
        agent = self.web_agent(
            check=None,
            extra={"check alive": {"command": "/usr/bin/id", "user": "daemon", "interval": FOR_EVER,
                "timeout": "50s"}},
        ).start()
        output = self.run_check(agent)["last"]["output"]
        self.assertRegex(output, r"^uid=\d+\(daemon\) gid=\d+\(daemon\) groups=\d+\(daemon\)")


class Arguments(CheckTest):
    """A value from the environment is data, for a program and for a shell."""

    EVIL = 'a" --evil "b; touch EVIL'

    def output_of(self, **check):
        # The agent inherits it; nobody else reads it.
        os.environ["EVIL"] = self.EVIL
        self.addCleanup(os.environ.pop, "EVIL")
        agent = self.web_agent(
            check=None, extra={"check alive": {"interval": FOR_EVER, "timeout": "50s",
                "cwd": self.folder, **check}}
        ).start()
        output = self.run_check(agent)["last"]["output"]
        self.assertFalse((self.folder / "EVIL").exists())
        return output

    def test_one_value_is_one_argument(self):
        self.assertEqual(
            self.output_of(command='printf "<%s>" "${EVIL}" ${EVIL} x'),
            f"<{self.EVIL}><{self.EVIL}><x>"
        )

    def test_a_shell_finds_values_in_its_environment(self):
        self.assertEqual(
            self.output_of(command='printf "<%s>" "$EVIL" "${EVIL}" "$BERTH_IP_lo"', shell="yes"),
            f"<{self.EVIL}><{self.EVIL}><127.0.0.1>",
        )


class RunNow(CheckTest):
    def gated(self, name="alive", **options):
        """A check that runs until its gate is there, and says in `begun` that it has begun."""
        gate = self.folder / f"gate-{name}"
        begun = self.folder / f"begun-{name}"
        command = f"echo x >> {begun}; while ! test -e {gate}; do sleep 0.01; done"
        return gate, begun, {f"check {name}": {
            "type": "command", "shell": "yes", "command": command, "interval": FOR_EVER,
            "timeout": "50s", **options,
        }}

    def post_run(self, agent, name="alive"):
        """Sends the request and does not wait for the answer."""
        connection = UnixConnection(agent.socket)
        self.addCleanup(connection.close)
        connection.request("POST", f"/v1/agent/checks/{name}/run")
        return connection

    def test_it_answers_with_everything(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted).start())
        scripted.says(3, "the disk is full")
        result = self.run_check(agent)
        self.assertEqual(result["last"]["verdict"], "failing")
        self.assertEqual(result["last"]["detail"], "exit status 3")
        self.assertEqual(result["last"]["output"], "the disk is full\n")
        self.assertGreaterEqual(result["last"]["duration"], 0)
        self.assertGreater(result["next_run"], time.time())
        self.assertEqual(result["consecutive"]["bad"], 1)

    def test_the_command_line_shows_it(self):
        scripted = self.scripted()
        agent = self.scripted_agent(scripted).start()
        scripted.says(3, "the disk is full")
        result = berth("--socket", agent.socket, "run-check", "alive")
        self.assertIn("failing", result.stdout)
        self.assertIn("the disk is full", result.stdout)
        table = berth("--socket", agent.socket, "checks").stdout
        self.assertIn("the disk is full", table)
        self.assertRegex(table, r"(?m)^alive\s")
        shown = json.loads(berth("--socket", agent.socket, "--format", "json", "checks").stdout)
        self.assertEqual([check["name"] for check in shown], ["alive"])

    def test_an_unknown_check(self):
        agent = self.agent().start()
        self.assertEqual(agent.request("POST", "/v1/agent/checks/none/run").status, 404)

    def test_a_client_that_goes_away_is_forgotten(self):
        gate, begun, check = self.gated()
        agent = self.web_agent(check=None, extra=check).start()
        wait_until(begun.exists, "the check runs")
        for _ in range(20):
            self.post_run(agent).close()
        wait_until(lambda: self.metrics(agent)["berth_clients"] == 1, "nobody else is connected")
        gate.touch()
        self.registered(agent)
        self.assertEqual(self.run_check(agent)["state"], "up")

    def test_several_wait_for_one_run(self):
        gate, begun, check = self.gated()
        agent = self.web_agent(check=None, extra=check).start()
        wait_until(begun.exists, "the first run is under way")
        waiting = [self.post_run(agent) for _ in range(5)]
        wait_until(lambda: self.metrics(agent)["berth_clients"] == 6, "all have asked")
        gate.touch()
        for connection in waiting:
            self.assertEqual(connection.getresponse().status, 200)
        # The run under way when they asked, and one for all of them.
        self.assertEqual(len(begun.read_text().split()), 2)

    def test_a_reload_that_removes_the_check_answers_who_waits(self):
        _, begun, check = self.gated()
        agent = self.web_agent(check=None, extra=check).start()
        wait_until(begun.exists, "the check runs")
        waiting = [self.post_run(agent) for _ in range(3)]
        wait_until(lambda: self.metrics(agent)["berth_clients"] == 4, "all have asked")
        sections = agent.component("true")
        sections["check alive"]["timeout"] = "50s"
        agent.write_config(sections)
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        for connection in waiting:
            response = connection.getresponse()
            self.assertEqual(response.status, 404)
            self.assertIn("removed", json.loads(response.read())["detail"])
        self.assertEqual(self.run_check(agent)["state"], "up")

    def test_the_end_of_the_agent_lets_nobody_wait(self):
        _, begun, check = self.gated()
        agent = self.web_agent(check=None, extra=check).start()
        wait_until(begun.exists, "the check runs")
        waiting = self.post_run(agent)
        wait_until(lambda: self.metrics(agent)["berth_clients"] == 2, "it has been asked")
        self.assertEqual(agent.stop(), 0)
        try:
            self.assertGreaterEqual(waiting.getresponse().status, 400)
        except (ConnectionError, OSError):
            pass
        except Exception as error:  # an answer that ends before it began
            self.assertIn("Remote", type(error).__name__)


class Order(CheckTest):
    CHECKS = 8

    def start(self, most):
        """Many checks of the same length; each writes when it begins and ends."""
        trace = self.folder / "trace"
        trace.touch()
        command = f"echo + >> {trace}; sleep 0.05; echo - >> {trace}"
        sections = {"agent": {"max_parallel_checks": most}}
        for number in range(self.CHECKS):
            sections[f"check c{number}"] = {
                "type": "command", "shell": "yes", "command": command, "interval": "100ms",
                "timeout": "50s",
            }
        return self.web_agent(check=None, extra=sections).start(), trace

    def test_no_more_run_at_once_than_may(self):
        agent, trace = self.start(2)
        wait_until(lambda: trace.read_text().count("-") >= 10 * self.CHECKS, "there were many runs")
        agent.stop()
        running = most = 0
        for sign in trace.read_text().split():
            running += 1 if sign == "+" else -1
            most = max(most, running)
        self.assertEqual(most, 2)

    def test_all_get_their_turn(self):
        # Eight checks that could fill one place for ever: without a queue the first would starve
        # the last.
        agent, trace = self.start(1)
        wait_until(lambda: trace.read_text().count("-") >= 10 * self.CHECKS, "there were many runs")
        counts = [check["counts"]["passing"] for check in agent.get("/v1/agent/checks").json]
        self.assertEqual(len(counts), self.CHECKS)
        self.assertLessEqual(max(counts) - min(counts), 2, counts)

    def test_at_most_one_run_of_a_check_at_a_time(self):
        trace = self.folder / "trace"
        trace.touch()
        command = f"echo + >> {trace}; sleep 0.1; echo - >> {trace}"
        agent = self.web_agent(check=None, extra={"check alive": {
            "type": "command", "shell": "yes", "command": command, "interval": "10ms",
            "timeout": "50s",
        }}).start()
        threads = [threading.Thread(target=self.run_check, args=(agent,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: trace.read_text().count("-") >= 5, "there were several runs")
        agent.stop()
        signs = "".join(trace.read_text().split())
        self.assertRegex(signs, r"^(\+-)*\+?$")


class Reload(CheckTest):
    def test_an_unchanged_check_keeps_its_state(self):
        scripted = self.scripted()
        agent = self.registered(self.scripted_agent(scripted, {"fall": "3"}).start())
        self.runs(agent, scripted, 2, 2)
        before = agent.check_named("alive")
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        after = agent.check_named("alive")
        # A check that began anew would run within a second, not in an hour. Two clocks are read for
        # each of them.
        self.assertAlmostEqual(after.pop("next_run"), before.pop("next_run"), delta=60)
        self.assertEqual(after, before)
        self.assertEqual(self.runs(agent, scripted, 2), "down")

    def test_a_removed_check_is_not_counted_any_more(self):
        agent = self.agent()
        first = {**agent.component("true", name="one"), **agent.component("true", name="two")}
        agent.write_config(first)
        agent.start()
        self.registered(agent, "one")
        self.registered(agent, "two")

        def labels():
            return set(re.findall(r'(?:check|component)="(\w+)"',
                agent.get("/metrics").body.decode()))

        self.assertEqual(labels(), {"one", "two", "aliveone", "alivetwo"})
        agent.write_config(agent.component("true", name="one"))
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        wait_until(lambda: labels() == {"one", "aliveone"}, "the others are forgotten")
        # Nor does its check run any more.
        runs = 'berth_check_runs_total{check="aliveone",result="passing"}'
        now = self.metrics(agent)[runs]
        wait_until(lambda: self.metrics(agent)[runs] > now + 3, "the remaining check runs")
        self.assertEqual(labels(), {"one", "aliveone"})
        agent.write_config(first)
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        self.registered(agent, "two")


if __name__ == "__main__":
    unittest.main()
