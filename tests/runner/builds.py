"""In which builds ./quickstart check runs a program: the list in tests/builds."""

import fnmatch

from .programs import GROUPS, SOURCE, programs_of

LIST = SOURCE / "tests/builds"
PLAIN, SANITIZED, BOTH = "plain", "sanitized", "both"


def read_list():
    """[(pattern of GROUP/NAME, build, reason)]"""
    lines = [line.partition("#")[0].split(None, 2) for line in LIST.read_text().splitlines()]
    return [(*line, "", "")[:3] for line in lines if line]


def pool_of(build):
    pool = [name for name, group in GROUPS.items() if not group.at_a_time]
    return [program for group in pool for program in programs_of(group, build)]


def build_of(program):
    """PLAIN, SANITIZED or BOTH."""
    return next((build for pattern, build, _ in reversed(read_list())
        if fnmatch.fnmatch(program.label, pattern)), PLAIN)
