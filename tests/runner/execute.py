"""Runs one program and judges it."""

import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import time

from . import scratch, symbols
from .programs import GROUPS, SOURCE, sanitizer_of
from .tap import read_tap
from .times import expect_times

PROCESSORS = len(os.sched_getaffinity(0))
LOOK_AT_LOAD_S = 10

# The words of a report when a test kills the process that is being looked into, or about to write:
# no finding.
KILLED_WHILE_CHECKED = re.compile(r"(==\d+==Unable to get registers from thread \d+\.\s*)*")


def share_of_a_processor():
    """That each process gets which wants one, as the last minute was."""
    return min(1.0, PROCESSORS / max(os.getloadavg()[0], 0.01))


def wait_for_end(process, seconds):
    """Whether the process ends in time; it stays a zombie, whose figures can be read. On a machine
    that is busy with other things, too, a second counts for as much as a program gets of it."""
    end = os.pidfd_open(process.pid)
    try:
        while seconds > 0:
            began = time.monotonic()
            if select.select([end], [], [], min(seconds, LOOK_AT_LOAD_S))[0]:
                return True
            seconds -= (time.monotonic() - began) * share_of_a_processor()
        return False
    finally:
        os.close(end)


def cpu_seconds(zombie):
    """Of the process, and of those below it that were waited for."""
    fields = pathlib.Path("/proc", str(zombie), "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def need_symbols(build, sanitizer):
    """Ends the run with what is missing, where each test would fail for that."""
    program = build / "berthd"
    if "address" in sanitizer and program.exists() and symbols.missing_for(program):
        raise SystemExit(symbols.missing_for(program))


class Runner:
    """Runs programs of one build."""

    def __init__(self, build, options, processes, title=""):
        self.build = build
        self.options = options
        self.processes = processes
        self.title = title
        self.sanitizer = sanitizer_of(build)
        need_symbols(build, self.sanitizer)
        self.slowness = 4 if self.sanitizer else 1
        self.count = 0
        self.shared = {}  # variables of what the run has for all its programs
        self.reports = build / "sanitizer"
        shutil.rmtree(self.reports, ignore_errors=True)
        self.reports.mkdir()
        self.scratch = scratch.make(build)
        self.programs = self.scratch / "programs"

    def adopt(self, programs):
        """Makes the programs its own; returns them."""
        for program in programs:
            program.runner = self
            program.number = self.count
            self.count += 1
        scratch.copy_programs(self.build, self.programs)
        expect_times(self.build, programs)
        return programs

    def mark(self, program):
        """What the processes of a program have in their environment, and no others."""
        return f"{self.build.name}:{program.label}"

    def environment(self, program, folder):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BERTH_", "MAKE", "MFLAGS", "NOTIFY_SOCKET", "LISTEN_"))
            and name.lower() not in ("http_proxy", "https_proxy", "all_proxy")
        }
        report = self.reports / program.label.replace("/", "-")
        suppressions = SOURCE / "tests" / "support" / "lsan.supp"
        environment.update(
            BERTH_BUILD_DIR=str(self.build),
            BERTH_SRC_DIR=str(SOURCE),
            BERTH_PROGRAMS_DIR=str(self.programs),
            BERTH_LIBEXECDIR=str(self.programs),
            BERTH_SANITIZER=self.sanitizer,
            BERTH_TEST=self.mark(program),
            TMPDIR=str(folder),
            HOME=str(folder),
            PYTHONDONTWRITEBYTECODE="1",
            ASAN_OPTIONS=f"log_path={report}:detect_leaks=1:detect_stack_use_after_return=1",
            UBSAN_OPTIONS=f"print_stacktrace=1:log_path={report}",
            TSAN_OPTIONS=f"log_path={report}",
        )
        environment.update(self.shared)
        if suppressions.exists():
            environment["LSAN_OPTIONS"] = f"suppressions={suppressions}:print_suppressions=0"
        return environment

    def run(self, program):
        started = time.monotonic()
        folder = self.scratch / str(program.number)
        folder.mkdir(mode=0o755)
        report = self.scratch / f"{program.number}.tap"
        output = self.scratch / f"{program.number}.out"
        command = list(program.command)
        if "--unittest" in command:
            command += [str(report), *(["--stop"] if self.options.stop else [])]
        elif program.group not in ("lint", "fuzz"):
            command.append(f"--tap={report}")
        if os.access(command[0], os.X_OK):
            self.execute(program, command, folder, output)
            program.output = output.read_text(errors="replace")
            # Only Criterion's tests and unittest know the report; others speak on their output.
            tap = report.read_text(errors="replace") if report.exists() else program.output
            seen = read_tap(program, tap)
            self.judge_exit(program)
            if not seen and not program.failures:
                program.fail("it ran no test")
            self.judge_sanitizer(program)
            self.judge_processes(program)
        else:
            program.fail(f"{command[0]} is not there: was it made?")
        shutil.rmtree(folder, ignore_errors=True)
        program.seconds = time.monotonic() - started
        return program

    def execute(self, program, command, folder, output):
        seconds = self.options.timeout or GROUPS[program.group].seconds * self.slowness
        program.status = None
        with output.open("wb") as sink:
            process = self.processes.start(
                command,
                cwd=folder,
                env=self.environment(program, folder),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if wait_for_end(process, seconds):
                program.cpu = cpu_seconds(process.pid)
                program.status = process.wait()
            else:
                program.fail(f"not done after {seconds:g} s")
                # Python answers to this one with a traceback of where it hung.
                process.send_signal(signal.SIGABRT)
                if not wait_for_end(process, 3):
                    process.kill()
                process.wait()
            self.processes.ended(process)

    def judge_exit(self, program):
        status = program.status
        if status is not None and status < 0:
            program.fail(f"it was killed by {signal.Signals(-status).name}")
        elif status and not program.failures:
            program.fail(f"exit status {status}, but no test failed")

    def judge_sanitizer(self, program):
        for path in sorted(self.reports.glob(program.label.replace("/", "-") + ".*")):
            if KILLED_WHILE_CHECKED.fullmatch(path.read_text(errors="replace")):
                path.unlink()
                continue
            program.fail(f"a sanitizer reported, in {path}")
            program.output += "\n" + path.read_text(errors="replace")

    def judge_processes(self, program):
        left = self.processes.settle(self.mark(program), seconds=5.0 if self.sanitizer else 2.0)
        for pid, command in sorted(left.items()):
            program.fail(f"it left process {pid} behind: {command}")
