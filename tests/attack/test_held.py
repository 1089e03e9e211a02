"""A user of the host, or a container, who holds its directory in the kernel, makes one file stand
in many nodes, or takes every inotify instance: cases of tests/world, next to the other attacks."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "world"))

from test_held_directory import *
from test_held_registry import *
from test_inotify_used_up import *
from test_one_file_in_many_nodes import *

if __name__ == "__main__":
    unittest.main()
