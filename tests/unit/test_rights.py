"""What tests say when a place does not let them run (tests/support/rights.py)."""

import os
import pathlib
import re
import subprocess
import sys
import unittest
from unittest import mock

import rights

SOURCE = pathlib.Path(__file__).resolve().parents[2]
REFUSED = {
    "granted": ("to sit down", ["true"], "a chair"),
    "refused": ("to fly", ["sh", "-c", "echo 'no wings' >&2; exit 1", "sh"], "wings"),
    "absent": ("to swim", ["/no/such/program"], "a sea"),
    "called": ("to sing", lambda _: os.stat("/no/voice"), "a voice"),
}


class Rights(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch.dict(rights.RIGHTS, REFUSED))
        rights.refusal.cache_clear()
        self.addCleanup(rights.refusal.cache_clear)

    def test_a_granted_right_has_no_reason(self):
        self.assertEqual(rights.missing("granted"), "")

    def test_the_reason_names_what_is_missing_and_the_system_s_words(self):
        self.assertEqual(rights.missing("granted", "refused"), "needs to fly (no wings)")
        self.assertEqual(rights.missing("absent"),
            "needs to swim (/no/such/program is not installed)")
        self.assertEqual(rights.missing("called"), "needs to sing (No such file or directory)")

    def test_a_test_is_skipped_with_the_reason(self):
        @rights.needs("refused")
        class Flight(unittest.TestCase):
            def test(self):
                self.fail("it ran")

        result = unittest.TestResult()
        Flight("test").run(result)
        self.assertEqual([reason for _, reason in result.skipped], ["needs to fly (no wings)"])

    def test_the_summary_counts_by_reason_and_says_what_would_help(self):
        self.assertEqual(
            rights.summary(["A.a: needs to fly (no wings)", "B.b: nginx is not installed",
                "C.c: needs to fly (no wings)", "D.d"]),
            ["not run: 2 tests: needs to fly (no wings)",
             "         what would let them: wings",
             "not run: 1 test: nginx is not installed",
             "not run: 1 test: no reason"])
        self.assertEqual(rights.summary([]), [])

    def test_a_script_gets_the_reason_and_a_status(self):
        def ask(*words):
            return subprocess.run([sys.executable, rights.__file__, *words], check=False, text=True,
                capture_output=True)

        self.assertEqual((ask().returncode, ask().stdout), (0, ""))
        # A folder that its probe cannot make: no right is there.
        without = subprocess.run([sys.executable, rights.__file__, "mounts"], check=False,
            env={**os.environ, "PATH": "/nonexistent"}, text=True, capture_output=True)
        self.assertEqual(without.returncode, 1)
        self.assertEqual(without.stdout, "needs to mount file systems (sh is not installed)\n")

    def test_every_right_says_what_would_give_it(self):
        for word, (need, _, gives) in rights.RIGHTS.items():
            with self.subTest(word):
                self.assertEqual(rights.remedy(f"needs {need} (some reason)"), gives)

    def test_no_test_has_a_probe_of_its_own(self):
        own = re.compile(r"skip\w*\([^)]*(geteuid|getuid|namespace|unshare|root)")
        found = [f"{path.relative_to(SOURCE)}: {match[0]}"
            for path in sorted((SOURCE / "tests").rglob("*"))
            if path.suffix in (".py", ".c") and path.name != "test_rights.py"
            for match in own.finditer(path.read_text("utf-8"))]
        self.assertEqual(found, [])

    def test_probes_leave_nothing_behind(self):
        before = pathlib.Path("/proc/self/mountinfo").read_text("utf-8")
        for word in rights.RIGHTS:
            rights.missing(word)
        self.assertEqual(pathlib.Path("/proc/self/mountinfo").read_text("utf-8"), before)


if __name__ == "__main__":
    unittest.main()
