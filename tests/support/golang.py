"""The go tool, for tests that need it."""

import os
import shutil
import subprocess

from berth import BUILD

COMPILING = 600  # seconds: the first build compiles Go's own library, too


def go(*arguments, folder, environment=None):
    """Runs the go tool, which needs no network; returns its output."""
    if not shutil.which("go"):
        raise AssertionError("go is not installed: ./quickstart check-more installs it")
    result = subprocess.run(
        ["go", *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True, timeout=COMPILING, check=False,
        env={**os.environ, "GOCACHE": str(BUILD / "go-cache"), "GOPROXY": "off",
            "GO111MODULE": "off", "GOFLAGS": "",
             **(environment or {})},
    )
    if result.returncode != 0:
        raise AssertionError(f"go {arguments[0]} exited with {result.returncode}:\n{result.stdout}")
    return result.stdout
