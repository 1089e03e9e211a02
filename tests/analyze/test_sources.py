"""gcc -fanalyzer and clang-tidy find nothing in the sources, and they find what is planted.

.clang-tidy says which of its checks are off, and why. A result is remembered in BUILD/analyze until
the file, a header or the analyzer changes. BERTH_ANALYZE=all, as `make lint` sets it, adds clang's
own analyzer, which takes ten times as long as the others.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from berth import BUILD

SOURCE = pathlib.Path(__file__).resolve().parents[2]

FOLDERS = ("lib", "agent", "cli", "looker", "nss", "probe", "runtime", "xds")

# -Wanalyzer-malloc-leak: gcc 12 loses a pointer that is put into an array at an index that it does
# not know, so it takes every array of texts that grows for a leak. clang's analyzer looks for the
# same defect and follows such pointers, and
# AddressSanitizer's leak detector watches every test.
GCC = ["gcc", "-fanalyzer", "-Wno-analyzer-malloc-leak", "-fdiagnostics-plain-output", "-O2"]

# The groups of checks of .clang-tidy that a run leaves out.
NOT_CLANG_ANALYZER = "-clang-analyzer-*"
CLANG_ANALYZER_ALONE = "-bugprone-*,-cert-*,-concurrency-*"

FLAGS = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-DBERTH_SANDBOX",
    *(f'-DBERTH_{name}="/nowhere"' for name in ("VERSION", "SYSCONFDIR", "BINDIR", "LIBEXECDIR",
        "RUNSTATEDIR", "STATEDIR")),
    "-iquote",
    str(SOURCE),
    "-iquote",
    str(BUILD),
]


def sources():
    return sorted(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.c"))


def output_of(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace")


def clang_tidy():
    """The newest one that is installed."""
    names = ["clang-tidy", *(f"clang-tidy-{number}" for number in range(20, 13, -1))]
    return next(filter(None, map(shutil.which, names)), None)


def gcc(path):
    return [*GCC, *FLAGS, "-c", "-o", "/dev/null", path]


def tidy(path, checks):
    return [clang_tidy(), "--quiet", f"--config-file={SOURCE / '.clang-tidy'}",
        f"--checks={checks}", path, "--", *FLAGS]


def findings(output):
    return "".join(f"{line}\n" for line in output.splitlines() if re.search(r"\b(warning|error):",
        line))


needs_gcc = unittest.skipUnless(shutil.which("gcc"), "gcc is not installed")
needs_clang_tidy = unittest.skipUnless(clang_tidy(), "clang-tidy is not installed")


class Sources(unittest.TestCase):
    def key(self, path, analyzer):
        preprocessed = subprocess.run(["gcc", "-E", *FLAGS, str(path)], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, check=True)
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
        found = findings(done.stdout)
        if done.returncode and not found:
            return done.stdout
        if not found:
            good.touch()
        return found

    def analyze(self, command):
        (BUILD / "analyze").mkdir(exist_ok=True)
        paths = sources()
        self.assertTrue(paths)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = "".join(pool.map(lambda path: self.findings_in(path, command), paths))
        self.assertEqual(found, "", f"{found.count(chr(10))} findings:\n{found}")

    @needs_gcc
    def test_gcc(self):
        self.analyze(gcc)

    @needs_clang_tidy
    def test_clang_tidy(self):
        self.analyze(lambda path: tidy(path, NOT_CLANG_ANALYZER))

    if os.environ.get("BERTH_ANALYZE") == "all":

        @needs_clang_tidy
        def test_clang_analyzer(self):
            self.analyze(lambda path: tidy(path, CLANG_ANALYZER_ALONE))


class Planted(unittest.TestCase):
    """A run without findings says something only as long as a defect would be one."""

    def finds(self, command, finding, source):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "planted.c")
            path.write_text(source)
            found = findings(output_of(command(str(path))).stdout)
        self.assertIn(finding, found)

    @needs_gcc
    def test_a_null_pointer_that_is_followed(self):
        self.finds(gcc, "-Wanalyzer-null-dereference",
            "int of(int known) { int *at = known ? &known : 0; return *at; }\n")

    @needs_clang_tidy
    def test_a_comparison_that_reads_padding(self):
        self.finds(
            lambda path: tidy(path, NOT_CLANG_ANALYZER),
            "bugprone-suspicious-memory-comparison",
            """
#include <string.h>
struct padded { char kind; long value; };
int same(const struct padded *a, const struct padded *b) { return memcmp(a, b, sizeof(*a)) == 0; }
""",
        )

    @needs_clang_tidy
    def test_memory_that_is_never_freed(self):
        self.finds(
            lambda path: tidy(path, CLANG_ANALYZER_ALONE),
            "clang-analyzer-unix.Malloc",
            """
#include <stdlib.h>
int lost(void) { char *text = malloc(3); return text != NULL; }
""",
        )


if __name__ == "__main__":
    unittest.main()
