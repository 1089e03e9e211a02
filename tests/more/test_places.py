"""The tests themselves in a place as many machines give it: a container without privileges, and a
checkout below a directory that its owner alone may enter."""

import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import plain_container
from berth import BUILD
from rights import RIGHTS, needs

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()
ASKS = re.compile(r"needs\(\"|rights_needed\(|require\(self")
# Besides the programs that ask for rights; the first one does so through its support.
WITHOUT = ["e2e/names_clients", "e2e/foundation", "e2e/cli", "unit/lib/registry/*",
    "registry/conformance"]
DURATION = 1500  # seconds


def programs_that_ask():
    for path in sorted((SOURCE / "tests").rglob("test_*")):
        group = path.relative_to(SOURCE / "tests").parts[0]
        if group in ("unit", "registry", "e2e", "faults") and ASKS.search(path.read_text("utf-8")):
            inner = path.relative_to(SOURCE / "tests" / group).with_suffix("")
            yield f"{group}/{inner.with_name(inner.name.removeprefix('test_'))}"


def targets_of(programs):
    """What make calls those that are compiled: a plain build makes few of them for itself.
    tests/run takes a word of --only wherever it stands in a label."""
    for group in ("unit", "registry"):
        for path in sorted((SOURCE / "tests" / group).rglob("test_*.c")):
            inner = path.relative_to(SOURCE / "tests" / group).with_suffix("")
            label = f"{group}/{inner.with_name(inner.name.removeprefix('test_'))}"
            if any(fnmatch.fnmatch(label, f"*{program}*") for program in programs):
                yield f"tests/{group}/{inner}"


def make(targets):
    environment = {name: value for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS"))}
    subprocess.run(["make", "-C", BUILD, "--no-print-directory", "-s", f"-j{os.cpu_count()}",
        *targets], env=environment, check=True)


@needs("mount namespace", "users")
class Plain(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="home-"))
        self.addCleanup(shutil.rmtree, self.home)

    def build(self):
        """This build, below the home: what a run of the tests writes there is its own."""
        build = self.home / "build"
        build.mkdir()
        for one in BUILD.iterdir():
            if one.name not in ("sanitizer", "times") and not one.is_socket():
                (build / one.name).symlink_to(one)
        return build

    def test_nothing_fails_there_and_the_end_says_what_could_not_run(self):
        programs = [*programs_that_ask(), *WITHOUT]
        self.assertGreater(len(programs), 15)
        make(targets_of(programs))
        result = subprocess.run(
            [sys.executable, plain_container.__file__, sys.executable, SOURCE / "tests/run",
                self.build(), "unit", "registry", "e2e", "faults",
                *(word for one in programs for word in ("--only", one))],
            text=True, capture_output=True, timeout=DURATION, check=False, umask=0o077)
        said = result.stdout + result.stderr
        self.assertRegex(said.splitlines()[-1], r"^[1-9]\d{2,} passed, 0 failed, [1-9]\d+ skipped$",
            said)
        self.assertEqual(result.returncode, 0, said)
        self.assertEqual(self.home.stat().st_mode & 0o7777, 0o700)
        for word in ("mounts", "mount namespace", "process namespace", "network namespace",
                "user namespace", "limits"):
            need, _, remedy = RIGHTS[word]
            self.assertRegex(said, rf"(?m)^not run: \d+ tests?: needs {need} \(.*\)\n"
                rf" +what would let \w+: {re.escape(remedy)}$")


if __name__ == "__main__":
    unittest.main()
