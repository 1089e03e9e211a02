"""Makes what programs need, in their build."""

import os
import pathlib
import subprocess

from .programs import Program

PROCESSORS = len(os.sched_getaffinity(0))


def make(runner, targets, output):
    """make's exit status."""
    command = ["make", "-C", str(runner.build), "--no-print-directory", f"-j{PROCESSORS}"]
    environment = {name: value for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS"))}
    with output.open("wb") as sink:
        process = runner.processes.start([*command, *targets], stdin=subprocess.DEVNULL,
            stdout=sink, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        status = process.wait()
        runner.processes.ended(process)
    return status


def make_failure(runner, programs):
    """Makes them. Returns None; or a single failed one in place of all, with make's output."""
    commands = [pathlib.Path(program.command[0]) for program in programs]
    targets = [str(command.relative_to(runner.build)) for command in commands
        if command.is_relative_to(runner.build)]
    # Programs that are compiled need nothing else; scripts drive the real programs.
    tools = [] if len(targets) == len(programs) else ["check-tools"]
    output = runner.build / "make.out"
    if make(runner, [*tools, *targets], output) == 0:
        return None
    failure = Program("make", runner.build.name, [])
    failure.output = output.read_text(errors="replace")
    failure.fail(f"make failed in {runner.build}")
    return failure


def make_programs(runner, programs):
    """Returns the programs, adopted by the runner; or a single failed one, with make's output."""
    failure = make_failure(runner, programs)
    return runner.adopt([failure] if failure else programs)
