"""Quickstart and the tests in places as many machines give them: a container without privileges,
the home of an ordinary user that nobody else may enter, the root directory; with one processor,
without a terminal, in the language of another country, by any umask."""

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
SHORT = ["e2e/foundation", "e2e/cli_operating", "e2e/privileges", "e2e/first_hour",
    "faults/hostile_records"]
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


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


def copy_checkout(target):
    """The sources, and of the build what `make all` and the tests of Python use."""
    def left_out(folder, names):
        folder = pathlib.Path(folder)
        if folder == SOURCE:
            return [name for name in names if name == ".git" or name.startswith("build")]
        if folder == BUILD:  # whose other folders are of the run that this test is part of
            return [name for name in names if (folder / name).is_socket() or
                ((folder / name).is_dir() and not (SOURCE / name).is_dir())]
        return [name for name in names if folder == BUILD / "tests" and name != "support"]

    shutil.copytree(SOURCE, target, symlinks=True, ignore=left_out)
    shutil.copytree(BUILD, target / "build", symlinks=True, ignore=left_out)


@needs("users")
class Checkouts(unittest.TestCase):
    def run_there(self, checkout, umask, command, **environment):
        """On one processor, without a terminal."""
        short = [word for program in SHORT for word in ("-k", program)]
        script = (f"umask {umask:03o} && cd '{checkout}' && ./quickstart && "
            f"exec python3 tests/run build e2e faults {' '.join(short)}")
        processor = str(min(os.sched_getaffinity(0)))
        result = subprocess.run(
            ["setsid", "-w", "taskset", "-c", processor, *command, "sh", "-c", script],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                **{name: str(value) for name, value in environment.items()}},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=DURATION, check=False)
        said = result.stdout
        self.assertRegex(said.splitlines()[-1], r"^[1-9]\d+ passed, 0 failed, \d+ skipped$", said)
        self.assertEqual(result.returncode, 0, said)

    def test_the_home_of_an_ordinary_user(self):
        """With an umlaut in its name, a folder of its own for temporary files, and Turkish, whose
        small I is not that of English."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="users-"))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        home, elsewhere, locales = folder / "jörg", folder / "elsewhere", folder / "locales"
        for one in (home, elsewhere, locales):
            one.mkdir()
        subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8", locales / "tr_TR.UTF-8"],
            check=True)
        copy_checkout(home / "berth")
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", home, elsewhere], check=True)
        home.chmod(0o700)
        self.run_there(home / "berth", 0o077, AS_NOBODY, HOME=home, TMPDIR=elsewhere,
            LOCPATH=locales, LC_ALL="tr_TR.UTF-8", LANG="tr_TR.UTF-8")
        self.assertEqual(list(elsewhere.iterdir()), [], "temporary files were left behind")

    def test_the_root_directory(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-test-", dir="/"))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        copy_checkout(folder / "berth")
        self.run_there(folder / "berth", 0o000, [], HOME="/root", LANG="C")


if __name__ == "__main__":
    unittest.main()
