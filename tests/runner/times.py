"""How long each program took, so that the next run begins with the longest.

A build keeps its own times in test-times; the tree has those of a whole run in tests/times, for a
build that has none yet, and `tests/run --times` writes them. The lines are the same:
"SECONDS CPU GROUP/NAME".
"""

from .programs import SOURCE

KEPT = "test-times"
TREE = SOURCE / "tests/times"
UNKNOWN_LOAD = 0.5


def read_times(path):
    """{label: (seconds, seconds of CPU)}"""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
        return {label: (float(seconds), float(cpu)) for seconds, cpu, label in lines}
    except (FileNotFoundError, ValueError):  # a file that is cut off is worth no more than none
        return {}


def expect_times(build, programs):
    """Fills in what each program is expected to take."""
    times = read_times(TREE) | read_times(build / KEPT)
    for program in programs:
        # A large file takes long, as a rule.
        size = program.source.stat().st_size if program.source else 0
        seconds, cpu = times.get(program.label, (size / 4000, None))
        program.expected = seconds
        program.load = UNKNOWN_LOAD if cpu is None else cpu / max(seconds, 0.01)


def keep_times(build, programs):
    """Keeps the times of those that passed, in place of those before."""
    times = read_times(build / KEPT)
    times |= {program.label: (program.seconds, program.cpu)
        for program in programs if not program.failures}
    write_times(build / KEPT, times)


def write_times(path, times):
    new = path.with_name(path.name + ".new")
    new.write_text("".join(f"{seconds:.2f} {cpu:.2f} {label}\n"
        for label, (seconds, cpu) in sorted(times.items())))
    new.replace(path)


def write_tree(programs):
    """Those of this run, the longest of all builds, in place of the tree's."""
    times = {}
    for program in programs:
        mine = (program.seconds, program.cpu)
        times[program.label] = max(mine, times.get(program.label, mine))
    write_times(TREE, times)
