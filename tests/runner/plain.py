"""What a plain build runs when a sanitized one runs all: the list in tests/plain."""

import fnmatch

from .programs import GROUPS, SOURCE, programs_of

LIST = SOURCE / "tests/plain"


def read_list():
    """[(pattern of GROUP/NAME, reason)]"""
    lines = [line.partition("#")[0].split(None, 1) for line in LIST.read_text().splitlines()]
    return [(line[0], line[1].strip() if line[1:] else "") for line in lines if line]


def pool_of(build):
    pool = [name for name, group in GROUPS.items() if not group.at_a_time]
    return [program for group in pool for program in programs_of(group, build)]


def plain_programs(build):
    patterns = [pattern for pattern, _ in read_list()]
    return [program for program in pool_of(build)
        if any(fnmatch.fnmatch(program.label, pattern) for pattern in patterns)]
