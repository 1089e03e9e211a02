"""The last part of docs/FIRST-HOUR.md, with a real dockerd. BERTH_UPDATE_DOCUMENTS=1 writes it
anew; tests/e2e/test_first_hour.py has the other parts."""

import os
import unittest

from container import SOURCE
from container_hour import STEPS, TITLE, ContainerHour
from rights import needs

DOCUMENT = SOURCE / "docs" / "FIRST-HOUR.md"


@needs("mounts", "freezer", "network namespace")
class Containers(ContainerHour):
    def runTest(self):
        said = [TITLE]
        self.follow(said.append)
        kept = DOCUMENT.read_text()
        if "BERTH_UPDATE_DOCUMENTS" in os.environ:
            kept = f"{kept.partition(TITLE)[0].rstrip()}\n\n{''.join(said)}"
            DOCUMENT.write_text(kept)
        for command, *_ in STEPS:
            self.assertIn(f"# {command}\n", kept, "BERTH_UPDATE_DOCUMENTS=1 writes it anew")


del ContainerHour

if __name__ == "__main__":
    unittest.main()
