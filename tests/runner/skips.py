"""Finds the programs with tests that a sanitized build skips: the plain build has to run them."""

import re

from .programs import SOURCE

# A sanitized build has no cage for the worker.
SKIPS = re.compile(
    r"""skipIf\([^)]*BERTH_SANITIZER|BERTH_SANITIZER"\):\s+self\.skipTest|@loads_the_module"""
    r"|#ifndef __SANITIZE_ADDRESS__|#ifdef BERTH_SANDBOX")

def skips_in_sanitized_build(source):
    text = source.read_text(errors="replace")
    if source.name == "test_parts.c":
        text += "".join(path.read_text() for path in source.parent.glob("*.c"))
    included = re.findall(r'^#include "(tests/unit/.*)"', text, re.M)
    return any(SKIPS.search(one) for one in
        (text, *((SOURCE / header).read_text() for header in included)))
