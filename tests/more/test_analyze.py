"""gcc -fanalyzer and clang-tidy find nothing in the sources.

.clang-tidy says which checks are off, and why. A result is remembered in BUILD/analyze until the file, a header or the analyzer
changes. BERTH_ANALYZE=all, as `make analyze` sets it, adds clang's own analyzer, which takes ten times as long as the others.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from berth import BUILD

SOURCE = pathlib.Path(__file__).resolve().parents[2]

FOLDERS = ("lib", "agent", "cli", "nss")

# gcc 12 follows neither pointers that are put into an array nor two conditions that exclude each other; clang's analyzer does,
# and looks for these defects.
NOT_BY_GCC = ["-Wno-analyzer-malloc-leak", "-Wno-analyzer-null-argument", "-Wno-analyzer-null-dereference"]

FLAGS = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-DBERTH_SANDBOX",
    *(f'-DBERTH_{name}="/nowhere"' for name in ("VERSION", "SYSCONFDIR", "LIBEXECDIR", "RUNSTATEDIR", "STATEDIR")),
    "-iquote",
    str(SOURCE),
    "-iquote",
    str(BUILD),
]


def sources():
    return sorted(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.c"))


def output_of(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def clang_tidy():
    """The newest one that is installed."""
    names = ["clang-tidy", *(f"clang-tidy-{number}" for number in range(20, 13, -1))]
    return next(filter(None, map(shutil.which, names)), None)


class Analyze(unittest.TestCase):
    def key(self, path, analyzer):
        preprocessed = subprocess.run(["gcc", "-E", *FLAGS, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        digest = hashlib.sha256(preprocessed.stdout)
        # Comments are not in it, and NOLINT is one.
        for text in (path.read_bytes(), (SOURCE / ".clang-tidy").read_bytes(), analyzer.encode()):
            digest.update(text)
        return digest.hexdigest()

    def findings_in(self, path, command):
        good = BUILD / "analyze" / self.key(path, " ".join(command("")))
        if good.exists():
            return ""
        done = output_of(command(str(path)))
        found = [line for line in done.stdout.splitlines() if re.search(r"\b(warning|error):", line)]
        if done.returncode and not found:
            return done.stdout
        if not found:
            good.touch()
        return "".join(f"{line}\n" for line in found)

    def analyze(self, command):
        (BUILD / "analyze").mkdir(exist_ok=True)
        paths = sources()
        self.assertTrue(paths)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = "".join(pool.map(lambda path: self.findings_in(path, command), paths))
        self.assertEqual(found, "", f"{found.count(chr(10))} findings:\n{found}")

    def test_gcc(self):
        if not shutil.which("gcc"):
            self.skipTest("gcc is not installed")
        self.analyze(lambda path: ["gcc", "-fanalyzer", *NOT_BY_GCC, "-fdiagnostics-plain-output", "-O2", *FLAGS, "-c", "-o", "/dev/null", path])

    def tidy(self, checks):
        program = clang_tidy()
        if not program:
            self.skipTest("clang-tidy is not installed")
        self.analyze(lambda path: [program, "--quiet", f"--checks={checks}", path, "--", *FLAGS])

    def test_clang_tidy(self):
        self.tidy("-clang-analyzer-*")

    if os.environ.get("BERTH_ANALYZE") == "all":

        def test_clang_analyzer(self):
            self.tidy("-bugprone-*,-cert-*,-concurrency-*")


if __name__ == "__main__":
    unittest.main()
