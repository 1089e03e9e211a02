"""Programs that resolve names, in a network namespace whose port 53 an agent serves."""

import os
import shutil
import subprocess
import unittest

import namespace
from berth import BUILD, PATIENCE, AgentTest
from names import NamesTest
from rights import needs

PROD = "prod.web.joe.berth"


def sanitizer_of_build():
    """What the build was made with: "address,undefined", or nothing."""
    return os.environ.get("BERTH_SANITIZER", "")


# Into a program that lacks the sanitizer's run time, a sanitized module cannot be loaded.
loads_the_module = unittest.skipIf(sanitizer_of_build(),
    "the module of a sanitized build loads into sanitized programs only")


def need(*tools):
    """A test that needs tools that are not installed says so."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    return unittest.skipIf(missing, f"not installed: {' '.join(missing)}")


@needs("network namespace")
class ClientsTest(NamesTest):
    """An agent that serves port 53 in a network namespace, next to clients that have it in
    resolv.conf."""

    def setUp(self):
        AgentTest.setUp(self)
        self.put(f"{self.WEB}/components/c1", self.record("10.0.0.1", 8080))
        self.put(f"{self.WEB}/components/c2", self.record("2001:db8::2", 8081))
        self.put("/services/four", self.record("10.0.0.4", 80))
        self.put("/services/alias", self.record(f"c1.{PROD}", 80))
        etc = self.folder / "etc"
        etc.mkdir()
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:20\n")
        (etc / "nsswitch.conf").write_text("hosts: files dns\n")
        self.server = self.agent("agent", dns={"listen": "127.0.0.1:53"})
        self.shell = None

    def inside(self, script, arguments="", **environment):
        """Runs a shell script in the namespace, with the agent there; returns what it printed."""
        program = f"""
            {BUILD}/berthd -c {self.server.config} {arguments} &
            agent=$!
            trap 'kill $agent; wait $agent' EXIT
            until {BUILD}/berth --socket {self.server.socket} live >{self.folder}/live 2>&1; do
                kill -0 $agent || exit 1
                sleep 0.02
            done
            {script}
        """
        result = subprocess.run(
            namespace.command(self.folder, "sh", "-c", program),
            env={
                **os.environ, "BERTH_LIBEXECDIR": str(BUILD),
                "BERTH_SOCKET": str(self.server.socket),
                "LD_LIBRARY_PATH": str(BUILD), **environment,
            },
            capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def check_resolved(self, output, program=""):
        lines = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "")
            for line in output.splitlines())
        self.assertEqual(lines[PROD], "10.0.0.1 2001:db8::2", program)
        self.assertEqual(lines["four.services.berth"], "10.0.0.4", program)
        self.assertNotRegex(lines["nowhere.services.berth"], r"\d\.\d", program)

    NAMES = f"{PROD} four.services.berth nowhere.services.berth"
