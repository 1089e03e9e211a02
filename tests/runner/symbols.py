"""The symbols of the dynamic loader, which LeakSanitizer needs to know the loader's own memory:
without them, what the loader has allocated is a leak of every program."""

import pathlib
import re
import subprocess

DEBUG = pathlib.Path("/usr/lib/debug/.build-id")


def readelf(option, file):
    return subprocess.run(["readelf", "--wide", option, file], capture_output=True, text=True,
        check=True).stdout


def loader_of(program):
    return re.search(r"program interpreter: (.*)\]", readelf("--program-headers", program))[1]


def has_symbols(file, debug=DEBUG):
    """The file was not stripped, or what was stripped from it is installed."""
    if " .symtab " in readelf("--sections", file):
        return True
    identity = re.search(r"Build ID: ([0-9a-f]+)", readelf("--notes", file))
    return bool(identity) and (debug / identity[1][:2] / f"{identity[1][2:]}.debug").exists()


def missing_for(program, debug=DEBUG):
    """What has to be installed before leaks of the program can be looked for; "" when all is."""
    loader = loader_of(program)
    if has_symbols(loader, debug):
        return ""
    return (f"the symbols of {loader} are not installed, without which its memory is taken for "
        "leaks of each program; Debian has them in the package libc6-dbg")
