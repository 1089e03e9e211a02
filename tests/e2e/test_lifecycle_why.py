"""Why is my component not registered? The answer in status, /ready, history and the log."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import threading
import unittest

from berth import BUILD, AgentTest, berth, exists, wait_until
from ports import reserve_port


class Why(AgentTest):
    def reason(self, agent):
        return agent.status()["components"][0]["reason"]

    def history(self, agent, subject):
        return [item for item in agent.get("/v1/agent/history").json if item["subject"] == subject]

    def log_of(self, agent):
        """The lines of a JSON log."""
        return [json.loads(line) for line in agent.read_log().splitlines()]

    def assert_blames_the_registry(self, url, text):
        agent = self.web_agent(registry=url).start()
        wait_until(lambda: text in self.reason(agent), "the reason names the error")
        self.assertIn(text, agent.status()["registry"]["error"])
        self.assertIn(text, agent.get("/ready").json["detail"])
        return agent

    def test_the_registrys_name_does_not_resolve(self):
        self.assert_blames_the_registry("zookeeper://nosuchhost.invalid:2181/registry",
            "cannot resolve 'nosuchhost.invalid'")

    def test_attempts_to_reach_the_registry_are_counted_everywhere(self):
        """The name server answers nothing: attempts 1 and 2 are enough to see them counted."""
        agent = self.web_agent(registry="zookeeper://nosuchhost.invalid:2181/registry").start()
        text = re.compile(r"cannot resolve 'nosuchhost.invalid': .*, attempt ([2-9]|\d\d+)$")
        wait_until(lambda: text.search(self.reason(agent)), "the reason counts")
        self.assertRegex(agent.status()["registry"]["error"], text)
        self.assertRegex(agent.get("/ready").json["detail"], text)
        entry = self.history(agent, "registry")[-1]
        self.assertRegex(entry["why"], text)
        self.assertGreaterEqual(entry["count"], 2)
        self.assertEqual(len(self.history(agent, "registry")), 1)
        lines = [line for line in agent.read_log().splitlines() if " warn " in line
            and "cannot resolve" in line]
        self.assertRegex(lines[0], "attempt 1$")
        self.assertRegex(lines[1], "attempt 2$")
        self.assertRegex(berth("--socket", agent.socket, "status").stdout, "attempt \\d+")

    def test_the_registry_refuses_connections(self):
        url = f"zookeeper://127.0.0.1:{reserve_port(self)}/registry"
        log = self.assert_blames_the_registry(url, "Connection refused").read_log()
        self.assertNotRegex(log, "errno=|retcode=", "the library's numbers do not count as words")

    def test_the_registry_closes_connections(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def close_each():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.recv(4096)  # with unread bytes the close would be a reset
                    connection.close()

        threading.Thread(target=close_each, daemon=True).start()
        url = f"zookeeper://127.0.0.1:{listener.getsockname()[1]}/registry"
        log = self.assert_blames_the_registry(url,
            "failed while receiving a server response").read_log()
        self.assertNotRegex(log, "errno=|retcode=|Host is down",
            "the library's numbers, and the error that it makes up, do not count as words")

    def test_an_agent_that_has_registered_nothing_stops_without_a_warning(self):
        agent = self.assert_blames_the_registry(
            f"zookeeper://127.0.0.1:{reserve_port(self)}/registry", "Connection refused")
        self.assertEqual(agent.stop(), 0)
        self.assertNotIn("could be deregistered", agent.read_log())

    def test_beside_the_registry_a_failing_check_is_named(self):
        agent = self.web_agent(check="false",
            registry=f"zookeeper://127.0.0.1:{reserve_port(self)}/registry").start()
        wait_until(lambda: "Connection refused" in self.reason(agent), "the registry is named")
        wait_until(lambda: "check alive: exit status 1" in self.reason(agent), "the check is named")

    def test_a_check_that_cannot_run_is_named_before_it_counts_as_down(self):
        agent = self.web_agent(check="/no/such/curl",
            extra={"check alive": {"fall": "1000"}}).start()
        expected = (
            "check alive has not passed yet: cannot run /no/such/curl: No such file or directory")
        wait_until(lambda: self.reason(agent) == expected, "the reason names the program")
        self.assertIn(expected, agent.get("/ready").json["detail"])
        wait_until(lambda: agent.check_named("alive")["counts"]["could-not-run"] >= 4,
            "it has tried 4 times")
        self.assertEqual([item["to"] for item in self.history(agent, "check alive")], ["failing"])
        lines = [line for line in agent.read_log().splitlines() if " warn " in line
            and "check alive" in line]
        self.assertEqual(len(lines), 1, "repeats are one line")
        self.assertIn("cannot run /no/such/curl", lines[0])

    def test_all_failing_checks_are_named(self):
        agent = self.web_agent(
            extra={
                "check one": {"type": "command", "command": "sh -c 'exit 7'", "interval": "100ms",
                    "fall": "1"},
                "check two": {"type": "command", "command": "false", "interval": "100ms",
                    "fall": "1"},
            }
        ).start()
        wait_until(lambda: "check one: exit status 7" in self.reason(agent), "the first is named")
        wait_until(lambda: "check two: exit status 1" in self.reason(agent), "the second is named")

    def test_the_last_line_of_the_output_is_in_log_and_history(self):
        script = self.folder / "script"
        script.write_text("echo first; echo 'connection to db lost'; echo; exit 2\n")
        agent = self.web_agent(check=f"sh {script}", extra={"check alive": {"fall": "1"}}).start()
        wait_until(lambda: self.history(agent, "check alive"), "it is down")
        self.assertEqual(self.history(agent, "check alive")[0]["output"], "connection to db lost")
        self.assertEqual(self.history(agent, "check alive")[0]["component"], "web-1")
        self.assertIn("exit status 2 (1 failure): connection to db lost", agent.read_log())

    def test_going_down_is_a_warning_with_fields_in_json(self):
        flag = self.folder / "flag"
        flag.touch()
        agent = self.web_agent(check=exists(flag), extra={"agent": {"log_format": "json"},
            "check alive": {"fall": "1"}}).start()
        agent.wait_state("registered")
        flag.unlink()
        agent.wait_state("withdrawn")
        lines = {(line["subject"], line.get("to")): line for line in self.log_of(agent)}
        down = lines["check alive", "down"]
        self.assertEqual((down["level"], down["component"], down["from"]), ("warn", "web-1", "up"))
        gone = lines["component web-1", "withdrawn"]
        self.assertEqual((gone["level"], gone["component"]), ("warn", "web-1"))
        self.assertIn("check alive", gone["why"])

    def test_a_drain_is_no_warning(self):
        agent = self.web_agent(extra={"agent": {"log_format": "json"}}).start()
        agent.wait_state("registered")
        agent.request("POST", "/v1/agent/drain", {})
        agent.wait_state("withdrawn")
        gone = [line for line in self.log_of(agent) if line["subject"] == "component web-1"
            and line.get("to") == "withdrawn"]
        self.assertEqual({line["level"] for line in gone}, {"info"})

    def test_a_crash_of_the_main_process_is_a_warning_that_names_the_signal(self):
        agent = self.web_agent(command=["/bin/sh", "-c", "kill -SEGV $$"])
        agent.start(wait=False)
        self.assertEqual(agent.wait(), 128 + signal.SIGSEGV)
        line = next(line for line in agent.read_log().splitlines()
            if "main process: running -> stopped" in line)
        self.assertIn("SIGSEGV", line)
        self.assertIn(" warn ", line)

    def test_kill_after_stop_timeout_is_a_warning(self):
        agent = self.web_agent(
            command=["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"],
            extra={"agent": {"stop_timeout": "200ms"}}
        ).start()
        agent.wait_state("registered")
        agent.stop()
        self.assertRegex(agent.read_log(), "warn  main process: .*sending KILL")

    def test_a_refused_upgrade_is_a_warning(self):
        agent = self.web_agent()
        agent.program = self.folder / "berthd"
        shutil.copy(BUILD / "berthd", agent.program)
        agent.start()
        agent.wait_state("registered")
        os.replace(shutil.copy("/bin/false", self.folder / "new"), agent.program)
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: self.history(agent, "agent"), "the upgrade is refused")
        self.assertRegex(agent.read_log(), "warn  agent: upgrading -> running")


if __name__ == "__main__":
    unittest.main()
