"""What the runner tells: a line for each program, the sums at the end, and figures."""

import re
import sys

LONGEST_SHOWN = 10


def show(program):
    counts = [f"{program.passed} passed"]
    if program.failures:
        counts.append(f"{len(program.failures)} failed")
    if program.skipped:
        counts.append(f"{len(program.skipped)} skipped")
    verdict = "FAIL" if program.failures else "ok"
    print(f"{verdict:4}  {program.title:40} {', '.join(counts):32} {program.seconds:8.2f} s")
    for skipped in program.skipped:
        print(f"        skipped: {skipped}")
    if program.failures:
        for failure in program.failures:
            print(f"        failed: {failure}")
        print("      ,---- output, without the tests that passed")
        for line in program.output.rstrip().splitlines():
            if not line.startswith("ok "):
                print(f"      | {line}")
        print("      `----")
    sys.stdout.flush()


def show_times(programs, seconds):
    """The sums by group, and the programs that took longest."""
    sums = {}
    for program in programs:
        name = f"{program.runner.title}{program.group}"
        count, took, cpu = sums.get(name, (0, 0, 0))
        sums[name] = count + 1, took + program.seconds, cpu + program.cpu
    print("\nseconds by group: of its programs one after the other; of the processors")
    for name, (count, took, cpu) in sums.items():
        print(f"      {name:22} {count:4} programs {took:8.0f} {cpu:8.0f}")
    took = sum(program.seconds for program in programs)
    cpu = sum(program.cpu for program in programs)
    print(f"      {'all of them':22} {len(programs):4} programs {took:8.0f} {cpu:8.0f}, "
        f"in {seconds:.0f} s")
    print("those that took longest:")
    for program in sorted(programs, key=lambda program: -program.seconds)[:LONGEST_SHOWN]:
        print(f"      {program.title:40} {program.seconds:8.1f} {program.cpu:8.1f}")


def figures_of(program):
    """A line for each figure of a test that passed: program, test, text; and for that of the
    program, whose test is "", if all did."""
    failed = {failure.split(" ")[0].rpartition(".")[2] for failure in program.failures}
    told = [found for found in re.findall(r"^\.?figure (\w+): (.*)$", program.output, re.M)
        if found[0] not in failed]
    if not program.failures and not program.skipped:
        told += [("", text) for text in re.findall(r"^figure: (.*)$", program.output, re.M)]
    return "".join(f"{program.label}\t{test}\t{text}\n" for test, text in told)
