"""The programs that a file concerns: those of `tests/run --of FILE`.

Of a source these are the test programs by which tests/mutants/run judges its mutants, the fuzz
target of which it is the parser, and what AROUND names: the short tests that drive it in the real
programs. Of a test, or of a part of tests/support, those that are made of it.
"""

import fnmatch
import functools
import importlib.machinery
import importlib.util
import os
import re
import sys

from .programs import SOURCE

# (files, programs): the first that fits. All below lib/ and agent/ have tests of their folder too.
AROUND = [
    ("agent/api/lookup.c agent/api/poll.c", "e2e/lookups"),
    ("agent/api/names.c", "e2e/names"),
    ("agent/api/order.c", "e2e/checks_api"),
    ("agent/serving/api.c agent/core/event.c agent/life/hooks.c agent/api/*",
        "e2e/socket e2e/agent_views"),
    ("agent/serving/cache.c agent/cache/*", "e2e/lookups"),
    ("agent/registration/checks.c agent/check/*", "e2e/checks_api"),
    ("agent/command/*", "e2e/checks_processes"),
    ("agent/registration/components.c agent/registration/persistent.c agent/component/*",
        "e2e/lifecycle_component"),
    ("agent/registration/drain*.c agent/base/drain*.c", "e2e/lifecycle_drain"),
    ("agent/life/main_process.c agent/supervise/*", "e2e/lifecycle_supervisor"),
    ("agent/serving/metrics.c agent/base/metrics*", "e2e/lookups_metrics"),
    ("agent/serving/names.c agent/names/* agent/dns/*", "e2e/names"),
    ("agent/set/* agent/api/sets.c lib/names/*", "e2e/sets e2e/one_answer"),
    ("agent/serving/outputs.c agent/output/*", "e2e/output e2e/output_targets"),
    ("agent/life/privileges.c", "e2e/privileges"),
    ("agent/life/reload.c", "e2e/lifecycle_reload"),
    ("agent/life/upgrade.c agent/core/upgrade.c", "e2e/lifecycle_upgrade"),
    ("agent/registration/bridge.c agent/bridge/*", "e2e/bridge"),
    ("agent/serving/xds.c agent/xds/* xds/*", "e2e/xds"),
    ("agent/shared/* lib/shared/*", "e2e/shared e2e/shared_libberth"),
    ("agent/zone/*", "e2e/zone"),
    ("agent/http/*", "e2e/http_conformance"),
    ("agent/life/stop.c agent/life/signals.c agent/life/standby.c",
        "e2e/lifecycle_manager e2e/lifecycle_supervisor"),
    ("agent/*.c agent/config/*", "e2e/foundation"),
    ("cli/convert*", "e2e/dialects_convert"),
    ("cli/top.c cli/table.c", "e2e/top e2e/cli"),
    ("cli/web*", "e2e/web"),
    ("cli/*", "e2e/cli e2e/cli_operating"),
    ("lib/client/* lib/berth*", "e2e/libberth"),
    ("lib/dialect/*", "e2e/dialects"),
    ("lib/registry/zookeeper/worker/*", "unit/lib/registry/zookeeper/cage "
        "unit/lib/registry/zookeeper/request e2e/zookeeper e2e/registry_options"),
    ("lib/registry/zookeeper/*", "e2e/zookeeper"),
    ("lib/program/*", "e2e/cli e2e/xds"),
    ("runtime/* lib/runtime/*", "world/runtime"),
    ("looker/* lib/looker/*", "e2e/bridge world/held_directory world/one_file_in_many_nodes"),
    ("probe/* lib/probe/*", "world/check_over_tls world/check_by_grpc"),
    ("lib/render/*", "e2e/output_render"),
    ("lib/sandbox/*", "unit/lib/registry/zookeeper/cage unit/xds/cage e2e/zookeeper e2e/xds "
        "world/check_over_tls"),
    ("nss/*", "e2e/shared_nss e2e/names_clients"),
    ("tests/bench/bench_fleet.py", "unit/fleet_window e2e/registry_requests"),
    ("tests/scenarios/cache/*", "unit/agent/cache/scenarios"),
    ("tests/scenarios/component/*", "unit/agent/component/scenarios"),
    ("tests/scenarios/registry/*", "unit/lib/registry/scenarios"),
    ("tests/sim/*", "faults/simulation"),
    ("tests/failures/*", "faults/failures"),
    ("tests/histories/*", "unit/histories faults/histories"),
    ("tests/builds tests/runner/* quickstart", "lint/builds unit/runner"),
    ("init/*", "e2e/init"),
    ("deploy/*", "e2e/deploy"),
    ("conf/* docs/* README.md CONTRIBUTING.md CHANGELOG.md",
        "lint/documents lint/manuals e2e/documents unit/agent/config/documents"),
    ("Makefile.in *.mk configure .ci/*", "e2e/install lint/shell"),
]

@functools.cache
def load(path):
    """A script without the ending of a module."""
    name = path.replace("/", "_")
    loader = importlib.machinery.SourceFileLoader(name, str(SOURCE / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    sys.path.insert(0, str(SOURCE / os.path.dirname(path)))
    loader.exec_module(module)
    return module

def label_of(program):
    """tests/unit/lib/base/test_path -> unit/lib/base/path"""
    return program.removeprefix("tests/").replace("/test_", "/")

def around(name):
    for files, programs in AROUND:
        if any(fnmatch.fnmatch(name, file) for file in files.split()):
            return programs.split()
    return []

def near(name):
    """Labels of programs that may hold the code of a source. judged_by() wants them made."""
    if not name.startswith(("lib/", "agent/")):
        return []
    return [label_of(program) for program in load("tests/mutants/run").programs_beside(name)]

def judged_by(name, build):
    """What the mutants of a source meet."""
    unit = name.removesuffix(".h").removesuffix(".c")
    if not name.startswith(("lib/", "agent/")) or not (build / f"{unit}.o").exists():
        return []
    return [label_of(program)
        for program in load("tests/mutants/run").Build(build).programs_near(f"{unit}.c")]

def fuzzed_by(name):
    return [f"fuzz/{target}" for target, parser in load("tests/fuzz/run").PARSERS.items()
        if name in parser]

@functools.cache
def included(source):
    """Our headers that a source has, itself or by another header."""
    found, waiting = set(), [source]
    while waiting:
        text = (SOURCE / waiting.pop()).read_text()
        for header in re.findall(r'^#include "(.+)"', text, re.M):
            if header not in found and (SOURCE / header).exists():
                found.add(header)
                waiting.append(header)
    return found

def made_of(name):
    """The test itself, or the tests that include or import the file."""
    found = re.fullmatch(r"tests/(\w+)/(?:(.*)/)?(test|fuzz)_(\w+)\.(c|py)", name)
    if found:
        group, folder, _, stem, _ = found.groups()
        return [f"{group}/{folder}/{stem}" if folder else f"{group}/{stem}"]
    if name.startswith("tests/unit/") and name.endswith(".c"):
        return [f"{os.path.dirname(name).removeprefix('tests/')}/parts"]
    tests = [str(path.relative_to(SOURCE)) for path in (SOURCE / "tests").rglob("test_*")]
    if name.endswith(".py"):
        word = re.compile(rf"^(from|import) {os.path.basename(name)[:-3]}\b", re.M)
        made = [test for test in tests if test.endswith(".py")
            and word.search((SOURCE / test).read_text())]
    else:
        header = re.sub(r"\.c$", ".h", name)
        made = [test for test in tests if test.endswith(".c") and header in included(test)]
    return [label_of(os.path.splitext(test)[0]) for test in made]

def concerned(name, build):
    """Labels of programs."""
    if name.startswith("tests/lint/"):
        return {label_of(name)}
    found = {*around(name), *judged_by(name, build), *fuzzed_by(name)}
    if name.startswith("tests/"):
        found |= set(made_of(name))
    return found
