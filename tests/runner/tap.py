"""TAP: read from a program's report, and written for Python's unittest."""

import faulthandler
import pathlib
import re
import sys
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]

CRASHED = " unexpected signal "  # what Criterion adds to the name of a test

TAP_LINE = re.compile(
    r"^(not )?ok\b(?:\s+\d+)?\s*-?\s*(.*?)\s*(?:#\s*(skip\S*|todo)\b\s*(.*))?$", re.I
)


def read_tap(program, text):
    """Counts the results in `text`; returns how many it held, or was to hold."""
    planned = None
    seen = 0
    for line in text.splitlines():
        plan = re.match(r"^1\.\.(\d+)", line)
        if plan:
            planned = int(plan.group(1))
        if line.startswith("Bail out!"):
            program.fail(line)
        result = TAP_LINE.match(line)
        if not result:
            continue
        seen += 1
        bad, name, directive, reason = result.groups()
        if directive:
            program.skipped.append(f"{name}: {reason}" if reason else name)
        elif bad:
            program.failures.append(re.sub(r"\s*\([\d.]+s\)$", "", name) or f"test {seen}")
            program.sure = program.sure or CRASHED in name
        else:
            program.passed += 1
    if planned is not None and planned != seen:
        program.fail(f"{planned} tests were planned, {seen} reported")
    return seen


class TapResult(unittest.TestResult):
    def __init__(self, module, report, stops):
        super().__init__()
        self.stops = stops
        self.module = module
        self.report = report
        self.count = 0
        self.started = 0.0
        self.broken_subtests = False

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()
        self.broken_subtests = False

    def write(self, good, test, note="", detail=""):
        self.count += 1
        name = test.id().removeprefix(self.module + ".")
        line = f"{'ok' if good else 'not ok'} {self.count} - {name.replace('#', '')}{note}"
        print(line, file=self.report, flush=True)
        print(f"{line} ({time.monotonic() - self.started:.2f} s)\n{detail}", end="", flush=True)

    def addSuccess(self, test):
        if not self.broken_subtests:
            self.write(True, test)

    def addFailure(self, test, err):
        self.write(False, test, detail=self._exc_info_to_string(err, test))
        self.shouldStop = self.stops

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.broken_subtests = True
            self.addFailure(subtest, err)

    def addSkip(self, test, reason):
        self.write(True, test, note=f" # SKIP {reason}")

    def addExpectedFailure(self, test, err):
        self.write(True, test)

    def addUnexpectedSuccess(self, test):
        self.write(False, test, detail="it was expected to fail\n")


def run_unittest(path, report_path, stop=""):
    """`stop`: "--stop" when the first failure is the end."""
    faulthandler.enable()
    path = pathlib.Path(path)
    sys.path[0:0] = [str(path.parent), str(SOURCE / "tests" / "support"), str(SOURCE / "tests")]
    with open(report_path, "w") as report:
        result = TapResult(path.stem, report, stop == "--stop")
        result.started = time.monotonic()
        try:
            module = __import__(path.stem)
        except unittest.SkipTest as skip:
            print(f"ok 1 - {path.stem} # SKIP {skip}", file=report)
            return
        unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
        print(f"1..{result.count}", file=report)
