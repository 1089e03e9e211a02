"""A hundred thousand watched paths survive a restart of their server; the registry tests do it with
fewer."""

import os
import subprocess
import unittest

from berth import BUILD


class Watches(unittest.TestCase):
    def test_a_hundred_thousand_watched_paths_survive_a_restart_of_the_server(self):
        program = BUILD / "tests/registry/test_zookeeper"
        run = subprocess.run(
            [program, "--filter", "*/tens_of_thousands*"],
            env={**os.environ, "BERTH_WATCHED_PATHS": "100000"}, capture_output=True, text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Passing: 1", run.stderr)
