"""The programs of docs/PROTOCOL.md, run as they are written there."""

import json
import os
import pathlib
import queue
import re
import subprocess
import threading

from berth import PATIENCE, AgentTest

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "PROTOCOL.md"
SERVICE = "/services/db"


def example(language):
    """The only program in that language."""
    programs = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.S | re.M)
    assert len(programs) == 1, language
    return programs[0]


class DocumentedTest(AgentTest):
    """A service /services/db with one address, and an agent that knows it."""

    def setUp(self):
        super().setUp()
        self.put("a", 1)
        self.server = self.agent(agent={"heartbeat_interval": "1s"}).start()

    def put(self, name, port, host=None):
        folder = self.folder / f"registry{SERVICE}/{name}"
        folder.mkdir(parents=True, exist_ok=True)
        endpoint = {"api": "urn:db", "addressType": "host/port", "protocol": "tcp",
            "protocolType": "tcp",
                    "addresses": [{"host": host or f"{name}.example.org", "port": str(port)}]}
        scratch = self.folder / "scratch"
        scratch.write_text(json.dumps({"type": "JSONServiceRecord", "external": [endpoint],
            "internal": []}))
        scratch.rename(folder / "_record")

    def run_example(self, command):
        environment = {**os.environ, "BERTH_SOCKET": str(self.server.socket)}
        process = subprocess.Popen(
            [*command, SERVICE], env=environment, stdout=subprocess.PIPE, text=True,
            start_new_session=True
        )
        lines = queue.Queue()
        reader = threading.Thread(target=lambda: [lines.put(line.split())
            for line in process.stdout])
        reader.start()

        def end():
            # curl is a child of the shell.
            os.killpg(process.pid, 15)
            process.wait()
            reader.join()
            process.stdout.close()

        self.addCleanup(end)
        return lines

    def expect(self, lines, wanted):
        """States in between are not mistakes."""
        last = None
        while last != wanted:
            try:
                last = lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"{last} was the last word, not {wanted}") from None

    def follows(self, command):
        """The program prints the addresses, and again after each change, also after a restart of
        the agent."""
        lines = self.run_example(command)
        self.expect(lines, ["a.example.org:1"])
        self.put("b", 2)
        self.expect(lines, ["a.example.org:1", "b.example.org:2"])
        self.put("a", 3)
        self.expect(lines, ["a.example.org:3", "b.example.org:2"])
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.put("a", 4, "::1")
        self.expect(lines, ["[::1]:4", "b.example.org:2"])
