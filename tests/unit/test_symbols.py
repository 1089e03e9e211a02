"""Whether the loader's symbols are installed (tests/runner/symbols.py)."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

from runner import execute, symbols

BUILD = pathlib.Path(os.environ.get("BERTH_BUILD_DIR", "build")).resolve()
PROGRAM = BUILD / "berthd"


class Symbols(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def stripped(self):
        """A copy of the loader, as distributions ship it."""
        loader = self.folder / "loader"
        subprocess.run(["strip", "--strip-all", "-o", loader, symbols.loader_of(PROGRAM)],
            check=True)
        return loader

    def test_a_file_has_them_itself(self):
        self.assertTrue(symbols.has_symbols(PROGRAM, self.folder))

    def test_they_are_missing_and_then_installed(self):
        loader = self.stripped()
        with mock.patch("runner.symbols.loader_of", return_value=str(loader)):
            self.assertRegex(symbols.missing_for(PROGRAM, self.folder),
                f"the symbols of {loader} are not installed.*package libc6-dbg")
            notes = symbols.readelf("--notes", loader)
            identity = notes.partition("Build ID: ")[2].split()[0]
            (self.folder / identity[:2]).mkdir()
            (self.folder / identity[:2] / f"{identity[2:]}.debug").touch()
            self.assertEqual(symbols.missing_for(PROGRAM, self.folder), "")

    def test_the_tests_of_a_sanitized_build_do_not_begin_without_them(self):
        for sanitizer, ends in ("address,undefined", True), ("", False), ("thread", False):
            with self.subTest(sanitizer), \
                    mock.patch("runner.symbols.missing_for", return_value="no symbols"):
                if ends:
                    with self.assertRaisesRegex(SystemExit, "no symbols"):
                        execute.need_symbols(PROGRAM.parent, sanitizer)
                else:
                    execute.need_symbols(PROGRAM.parent, sanitizer)


if __name__ == "__main__":
    unittest.main()
