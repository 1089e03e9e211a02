"""Where the tests keep their files and programs (tests/runner/scratch.py)."""

import os
import pathlib
import shutil
import tempfile
import unittest
from unittest import mock

from runner import scratch


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        # Where this test's own scratch is, others may pass; the folder itself is for its owner.
        self.build = self.folder / "home" / "build"
        self.build.mkdir(parents=True)
        self.folder.chmod(0o711)

    def make(self, *places):
        """With these places for a machine's directories of all users."""
        with mock.patch("runner.scratch.places", lambda build: [build, *places]), \
                mock.patch("runner.scratch.SOCKET_PATH_ROOM", len(str(self.build)) + 20):
            made = scratch.make(self.build)
        self.addCleanup(shutil.rmtree, made)
        return made

    def common(self, mode=0o1777):
        place = self.folder / "tmp"
        place.mkdir()
        place.chmod(mode)
        return place

    def test_it_is_in_the_build_where_others_may_pass(self):
        self.assertEqual(self.make().parent, self.build)

    def test_a_home_that_others_may_not_enter_is_left_alone(self):
        self.build.parent.chmod(0o700)
        made = self.make(self.common())
        self.assertEqual(made.parent, self.folder / "tmp")
        self.assertEqual(made.stat().st_mode & 0o7777, 0o711)
        self.assertEqual(self.build.parent.stat().st_mode & 0o7777, 0o700)

    def test_a_directory_in_which_others_may_replace_it_is_not_taken(self):
        self.build.parent.chmod(0o700)
        common = self.common(0o777)
        with self.assertRaisesRegex(SystemExit, f"(?s)may not enter {self.build.parent}\n"
                f".*may replace what is in {common}"):
            self.make(common)

    def test_a_long_path_leaves_no_room_for_sockets(self):
        self.build = self.build / ("long" * 20)
        self.build.mkdir()
        with mock.patch("runner.scratch.places", lambda build: [build, self.common()]):
            self.assertIn("too long", scratch.unfit(self.build))

    def test_the_programs_are_for_all_to_run_and_for_the_owner_to_change(self):
        (self.build / "berthd").write_text("x")
        (self.build / "berthd").chmod(0o700)
        previous = os.umask(0o022)
        self.addCleanup(os.umask, previous)
        programs = self.folder / "programs"
        scratch.copy_programs(self.build, programs)
        program = programs / "berthd"
        self.assertEqual(program.stat().st_mode & 0o7777, 0o755)
        self.assertEqual(program.parent.stat().st_mode & 0o7777, 0o755)
        self.assertEqual((self.build / "berthd").stat().st_mode & 0o7777, 0o700)
        self.assertEqual([one.name for one in program.parent.iterdir()], ["berthd"])


if __name__ == "__main__":
    unittest.main()
