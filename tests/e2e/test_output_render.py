"""berth render: what an output writes, printed once."""

import subprocess
import unittest

from berth import BUILD, berth
from outputs import FROM, OutputTest, record


class Render(OutputTest):
    def setUp(self):
        super().setUp()
        self.put_member("c1", 8001)
        self.put_member("c2", 8002)
        self.put(f"{FROM}/c2/deeper", record(8003))
        self.server = self.agent().start()

    def render(self, *arguments, at=None):
        return berth(*(at or ("--socket", self.server.socket)), "render", *arguments)

    def test_from_the_agent_and_from_the_registry_alike(self):
        for at in (("--socket", self.server.socket), ("--registry", self.registry)):
            result = self.render("--format", "haproxy", FROM, at=at)
            self.assertEqual((result.returncode, result.stdout),
                (0, "    server berth:c1 127.0.0.1:8001\n    server berth:c2 127.0.0.1:8002\n"))
            result = self.render("-f", "lines", "-r", FROM, at=at)
            self.assertEqual(result.stdout, "127.0.0.1:8001\n127.0.0.1:8002\n127.0.0.1:8003\n")
            result = self.render("--format=lines", f"{FROM}/c1", at=at)
            self.assertEqual(result.stdout, "127.0.0.1:8001\n")

    def test_the_same_bytes_as_an_output(self):
        for name in ("lines", "json", "prometheus", "haproxy", "nginx", "hosts", "env", "envoy"):
            file = self.directory / name
            # The command calls the set like its path.
            agent = self.agent(f"of-{name}",
                **{"output prod": self.output_options(format=name, path=file)}).start()
            self.wait_state(agent, "current", "prod")
            printed = self.render("--format", name, FROM).stdout
            if name == "hosts":  # a block of a file of others: marks take the place of the head
                head, _, printed = printed.partition("\n")
                self.assertEqual(head, f"# components of {FROM}")
                printed = f"# BEGIN berth prod\n{printed}# END berth prod\n"
            self.assertEqual(printed, file.read_text(), name)
            agent.stop()

    def test_filters_and_absent_paths(self):
        self.assertEqual(self.render("--format", "lines", "--scope", "internal", FROM).stdout, "")
        self.assertEqual(self.render("--format", "lines", "/users/nobody").returncode, 3)

    def test_it_waits_for_the_first_instances(self):
        path = "/users/joe/new/prod/components"
        process = subprocess.Popen(
            [BUILD / "berth", "--socket", self.server.socket, "render", "--format", "env", path,
                "--wait", "2", "--timeout", "60s"],
            stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(process.kill)
        self.put(f"{path}/a", record(1))
        self.assertIsNone(process.poll())
        self.put(f"{path}/b", record(2))
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertIn("PROD_COUNT=2\n", output)
        result = self.render("--format", "env", "--wait", "3", "--timeout", "50ms", path)
        self.assertEqual((result.returncode, result.stdout), (4, ""))
        self.assertIn("2 of 3 instances", result.stderr)

    def test_its_options_leave_those_of_others_alone(self):
        result = self.render("--format", "text", FROM)
        self.assertEqual(result.returncode, 2)
        self.assertIn("lines, json, prometheus", result.stderr)
        self.assertEqual(self.render(FROM).returncode, 2)
        self.assertEqual(self.render("--format", "env", "--wait", "0", FROM).returncode, 2)
        self.assertEqual(berth("--socket", self.server.socket, "--format", "json",
            "status").returncode, 0)
        self.assertEqual(berth("--socket", self.server.socket, "status", "--format",
            "env").returncode, 2)
        self.assertEqual(berth("--socket", self.server.socket, "drain", "--wait", "--reason",
            "render").returncode, 0)


if __name__ == "__main__":
    unittest.main()
