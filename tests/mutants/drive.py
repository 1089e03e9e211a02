"""Judges mutants by the tests that drive the real programs: of those that `tests/run --of` names
for a source, the scripts. Each mutant has a build directory of its own, in which its programs and
libraries stand beside links to all else."""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import resource
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from runner.concerns import around
from runner.execute import Runner
from runner.builds import pool_of
from runner.processes import Processes
from runner.programs import sanitizer_of
from runner.times import expect_times
from runner.zookeeper_server import shared_server

SLOWER, LEAST_SECONDS = 4, 60  # times what the tests take without a mutant is too long
UNCHANGED_SECONDS = 600
MOST_BYTES = 4 << 30  # of a file, and of a process's memory
LEFT_OUT = {"mutants", "sanitizer"}  # of the build


@contextlib.contextmanager
def bounded(build):
    """What starts meanwhile cannot fill the machine; AddressSanitizer takes more than there is."""
    kinds = [resource.RLIMIT_FSIZE, *([] if sanitizer_of(build) else [resource.RLIMIT_DATA])]
    before = {kind: resource.getrlimit(kind) for kind in kinds}
    for kind, (_, most) in before.items():
        resource.setrlimit(kind, (MOST_BYTES, most))
    try:
        yield
    finally:
        for kind, limits in before.items():
            resource.setrlimit(kind, limits)


class Driver:
    def __init__(self, build, jobs):
        self.build = build  # a Build of tests/mutants/run
        self.jobs = jobs
        self.processes = Processes()
        self.shared = {}
        self.seconds = {}  # {label: what its tests take without a mutant}

    def labels_for(self, name):
        """Scripts, the shortest first."""
        labels = set(around(name))
        programs = [program for program in pool_of(self.build.path)
            if program.label in labels and program.source.suffix == ".py"]
        expect_times(self.build.path, programs)
        return [program.label for program in sorted(programs, key=lambda one: one.expected)]

    def killers(self, mutants):
        """For each (name of a source, its text with the mutant) the label that fails, or ""."""
        if not mutants:
            return []
        with (bounded(self.build.path),
                shared_server(self.runner_of(self.build.path),
                    self.programs(mutants)) as self.shared):
            for name, _ in mutants:
                for label in self.labels_for(name):
                    if label not in self.seconds:
                        self.run_unchanged(label, name)
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                return list(pool.map(self.killer, *zip(*mutants)))

    def programs(self, mutants):
        labels = {label for name, _ in mutants for label in self.labels_for(name)}
        return [program for program in pool_of(self.build.path) if program.label in labels]

    def runner_of(self, folder, seconds=UNCHANGED_SECONDS):
        runner = Runner(folder, argparse.Namespace(timeout=seconds, stop=True), self.processes)
        runner.shared = self.shared
        return runner

    def run_unchanged(self, label, name):
        folder = self.make_folder(name, None)
        program = self.run_program(folder, label, UNCHANGED_SECONDS)
        shutil.rmtree(folder)
        self.seconds[label] = None if program.failures else program.seconds
        if program.failures:
            print(f"{label} fails without a mutant, and is left out: {program.failures[0]}",
                file=sys.stderr)

    def killer(self, name, text):
        folder = self.make_folder(name, text)
        fails = lambda label: bool(self.run_program(folder, label,
            LEAST_SECONDS + SLOWER * self.seconds[label]).failures)
        # Once more: a busy machine has made a test fail now and then.
        killer = next((label for label in self.labels_for(name)
            if self.seconds[label] is not None and fails(label) and fails(label)), "")
        shutil.rmtree(folder)
        return killer

    def run_program(self, folder, label, seconds):
        runner = self.runner_of(folder, seconds)
        [program] = [program for program in pool_of(folder) if program.label == label]
        runner.adopt([program])
        runner.run(program)
        shutil.rmtree(runner.scratch, ignore_errors=True)
        return program

    def make_folder(self, name, text):
        """A build directory with this text of a source in its programs; None: the source's own."""
        place = self.build.path / "mutants"
        place.mkdir(exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="w", dir=place))
        folder.chmod(0o755)
        own = name.removesuffix(".c") + ".o"
        unit = self.build.path / own
        if text is not None:
            unit = folder / "mutant" / os.path.basename(own)
            complaints = self.build.compile(name, text, unit)
            if complaints:
                sys.exit(f"{name} cannot be compiled with a mutant:\n{complaints}")
        made = self.build.link_programs(own, unit, folder)
        for path in self.build.path.iterdir():
            if path.name not in LEFT_OUT | made:
                target = path.readlink() if path.is_symlink() else path
                (folder / path.name).symlink_to(target)
        return folder
