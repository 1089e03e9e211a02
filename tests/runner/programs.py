"""The programs of each group, and what became of a program."""

import dataclasses
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]



@dataclasses.dataclass
class Group:
    seconds: int  # for one program
    # Programs; 0: those of the pool, mixed with those of other groups.
    at_a_time: int = 0


GROUPS = {
    "lint": Group(300),
    "unit": Group(120),
    "fuzz": Group(300),
    "registry": Group(600),
    "e2e": Group(600),
    "faults": Group(900),
    "world": Group(300),  # what happened to users, by the trackers of this and other programs
    "analyze": Group(3600, 1),
    "more": Group(1800, 1),  # needs tools of more than 100 MB: ./quickstart check-more
    "attack": Group(900, 2),
    "reliability": Group(1800, 1),  # with tests/reliability/table; faults that take a minute
    "soak": Group(6 * 3600, 1),
}


@dataclasses.dataclass
class Program:
    """One file of tests, and afterwards its result."""

    group: str
    name: str
    command: list
    source: pathlib.Path = None
    runner: object = None
    number: int = 0
    expected: float = 0.0  # seconds
    load: float = 0.0  # processors, on the average
    passed: int = 0
    skipped: list = dataclasses.field(default_factory=list)
    failures: list = dataclasses.field(default_factory=list)
    sure: bool = False  # among the failures is one which no busy machine brings about
    seconds: float = 0.0
    cpu: float = 0.0  # seconds
    output: str = ""

    @property
    def label(self):
        return f"{self.group}/{self.name}"

    @property
    def title(self):
        """The label, with its build if there are two."""
        return f"{self.runner.title}{self.label}"

    @property
    def is_compiled(self):
        return self.source is not None and self.source.suffix == ".c"

    def fail(self, finding):
        """Beside what its tests say of themselves."""
        self.failures.append(finding)
        self.sure = True


def programs_of(group, build):
    """The programs of a group, found by their sources: it is a failure if one was not built."""
    folder = SOURCE / "tests" / group
    if group == "lint":
        return [
            Program(group, path.name, [str(path)], path)
            for path in sorted(folder.iterdir())
            if path.is_file() and os.access(path, os.X_OK)
        ]
    if group == "fuzz":
        return [
            Program(
                group,
                path.stem[len("fuzz_") :],
                [
                    str(build / "tests" / "fuzz" / path.stem.replace("fuzz_", "replay_", 1)),
                    str(folder / "corpus" / path.stem[len("fuzz_") :]),
                ],
                path,
            )
            for path in sorted(folder.glob("fuzz_*.c"))
        ]
    compiled = [
        Program(
            group,
            str(path.relative_to(folder).with_name(path.stem[len("test_") :])),
            [str(build / "tests" / group / path.relative_to(folder).with_suffix(""))],
            path,
        )
        for path in sorted(folder.rglob("test_*.c"))
    ]
    scripts = [
        Program(
            group,
            path.stem[len("test_") :],
            [sys.executable, str(SOURCE / "tests/run"), "--unittest", str(path)],
            path,
        )
        for path in sorted(folder.glob("test_*.py"))
    ]
    return compiled + scripts


def sanitizer_of(build):
    try:
        for line in (build / "config.mk").read_text().splitlines():
            if line.startswith("SANITIZER ="):
                return line.partition("=")[2].strip()
    except FileNotFoundError:
        sys.exit(f"{build}: not a configured build directory (no config.mk)")
    return ""
