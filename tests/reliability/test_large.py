"""tests/e2e/test_large_directory.py with 100,000 children."""

import os
import pathlib
import sys
import unittest

os.environ.setdefault("BERTH_CHILDREN", "100000")
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]

# The number is read when this is imported.
import test_large_directory


def load_tests(loader, _, __):
    return unittest.TestSuite(loader.loadTestsFromName("test_is_refused_and_nobody_waits", case)
                              for case in vars(test_large_directory).values()
                              if isinstance(case, type) and hasattr(case,
                                  "test_is_refused_and_nobody_waits"))


if __name__ == "__main__":
    unittest.main()
