"""Finds the tests that do something else in a sanitized build: both builds have to run them."""

import ast
import functools
import re

from .programs import SOURCE

SUPPORT = SOURCE / "tests/support"
# A sanitized build has no cage for the worker.
WORDS = re.compile(
    r"BERTH_SANITIZER|__SANITIZE_ADDRESS__|__lsan_\w+|[Ww]ithout.sandbox|BERTH_SANDBOX")


@functools.cache
def c_headers():
    """Headers of tests/support that branch, or whose source does."""
    return {
        f"tests/support/{path.stem}.h"
        for path in [*SUPPORT.glob("*.c"), *SUPPORT.glob("*.h")]
        if WORDS.search(path.read_text()) and path.with_suffix(".h").exists()
    }


def definitions(text):
    """(name, its text) of what a module defines at its top."""
    for node in ast.parse(text).body:
        names = [node.name] if hasattr(node, "name") else [
            target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
        for name in names:
            yield name, ast.get_source_segment(text, node)


@functools.cache
def python_names():
    """What Python's tests take from tests/support and what branches, itself or by another name."""
    defined = [found for path in SUPPORT.glob("*.py") for found in definitions(path.read_text())]
    names = set()
    while True:
        pattern = mention(names)
        more = {name for name, text in defined if pattern.search(text)}
        if more <= names:
            return names
        names |= more


def mention(names):
    return re.compile("|".join([WORDS.pattern, *(rf"\b{name}\b" for name in sorted(names))]))


def branches_on_sanitizer(source):
    text = source.read_text(errors="replace")
    if source.suffix == ".py":
        return bool(mention(python_names()).search(text))
    included = set(re.findall(r'^#include "(.*)"', text, re.M))
    return bool(WORDS.search(text) or included & c_headers())
