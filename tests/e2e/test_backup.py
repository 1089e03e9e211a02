"""docs/BACKUP.md: its commands, on a registry with records that stay and one that ends with its
agent."""

import json
import pathlib
import re
import subprocess
import unittest

from berth import AgentTest, berth, service_record

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "BACKUP.md"
STAYS = "/services/db"


class Backup(AgentTest):
    def run_block(self, name):
        block = re.search(rf"^```sh\n# {name}\n(.*?)^```$", DOCUMENT.read_text(), re.S | re.M)[1]
        commands = block.replace("/var/lib/berth", str(self.folder))
        result = subprocess.run(["/bin/sh", "-ec", commands],
            cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def found(self):
        return sorted(json.loads(berth("--registry", self.registry, "--json", "find").stdout))

    def test_permanent_records_come_back_and_ephemeral_ones_do_not(self):
        record = service_record("h", 5432)
        record["yarn:persistence"] = "permanent"
        self.put(STAYS, record)
        agent = self.web_agent().start()
        agent.wait_state("registered")
        self.assertEqual(self.found(), [STAYS, agent.PATH])
        self.run_block("backup")
        self.assertEqual(agent.stop(), 0)
        self.remove(STAYS)
        self.run_block("restore")
        self.assertEqual(self.found(), [STAYS])
        agent.start().wait_state("registered")
        self.assertEqual(self.found(), [STAYS, agent.PATH])
        self.assertEqual(self.in_registry(STAYS)["yarn:persistence"], "permanent")


del AgentTest

if __name__ == "__main__":
    unittest.main()
