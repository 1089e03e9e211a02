"""deploy/'s alerts, tried by Prometheus' own tool, and its log parsers on lines that an agent
writes."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

from berth import PATIENCE, AgentTest

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


class Rules(unittest.TestCase):
    def promtool(self, *arguments):
        self.assertTrue(shutil.which("promtool"),
            "promtool is not installed: ./quickstart check-more installs it")
        result = subprocess.run(["promtool", *arguments], cwd=DEPLOY / "prometheus",
            capture_output=True, text=True, timeout=PATIENCE,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_prometheus_takes_the_rules(self):
        self.promtool("check", "rules", "berth.rules.yml")

    def test_every_alert_comes_and_goes_as_it_should(self):
        self.promtool("test", "rules", "berth.rules.test.yml")
        alerts = set(re.findall(r"alert: (\w+)",
            (DEPLOY / "prometheus/berth.rules.yml").read_text()))
        self.assertEqual(set(re.findall(r"alertname: (\w+)",
            (DEPLOY / "prometheus/berth.rules.test.yml").read_text())), alerts)


class Logs(AgentTest):
    def lines(self, log_format):
        agent = self.web_agent(log_format, extra={"agent": {"log_format": log_format}}).start()
        agent.wait_state("registered")
        self.assertEqual(agent.stop(), 0)
        return agent.read_log().splitlines()

    def parser(self, name):
        text = (DEPLOY / "logs" / "parsers.conf").read_text()
        section = next(part for part in text.split("[PARSER]") if re.search(rf"Name +{name}$", part,
            re.M))
        return dict(re.findall(r"(?m)^ +(\w+) +(\S.*)$", section))

    def test_the_regular_expression_takes_every_line(self):
        # Ruby's way to write a named group, in Python's.
        expression = re.compile(self.parser("berth-text")["Regex"].replace("(?<", "(?P<"))
        for line in self.lines("text"):
            found = expression.match(line)
            self.assertTrue(found, line)
            self.assertEqual(set(found.groupdict()), {"time", "level", "subject", "message"})

    def test_json_lines_have_the_fields_that_the_examples_use(self):
        lines = [json.loads(line) for line in self.lines("json")]
        example = (DEPLOY / "logs" / "journald.md").read_text()
        for name in set(re.findall(r"(?<![\w-])\.(\w+)", re.sub(r"`[^`]*`", "", example))):
            self.assertTrue(all(name in line for line in lines), name)
        self.assertIn(self.parser("berth-json")["Time_Key"], lines[0])


del AgentTest

if __name__ == "__main__":
    unittest.main()
