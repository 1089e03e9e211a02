"""Runs the programs of all groups, of one build or of two.

The groups of the pool are mixed: programs start from the longest to the shortest, as many as the
processors can take by what each has used before, since most of them wait most of the time; fewer
on a machine on which those that have ended took more. The other groups follow one after the other.
"""

import concurrent.futures
import contextlib
import fnmatch
import os
import pathlib

from .builds import PLAIN, SANITIZED, build_of, pool_of
from .concerns import concerned, near
from .make import make_failure, make_programs
from .programs import GROUPS, SOURCE, Program, programs_of
from .report import show
from .zookeeper_server import shared_server

AGAIN_MAX = 3  # programs

PROCESSORS = len(os.sched_getaffinity(0))
AT_A_TIME = 12 * PROCESSORS  # few enough for the memory: the load is what bounds them
LOAD = 1.25 * PROCESSORS  # expected of the programs that run
# Of it, what they leave to the build that is made meanwhile, whose programs would else come last.
LEFT_TO_MAKE = 0.5


def choose(group, build, patterns):
    chosen = [
        program
        for program in programs_of(group, build)
        if not patterns or any(fnmatch.fnmatch(program.label, f"*{pattern}*")
            for pattern in patterns)
    ]
    if not chosen and not patterns:
        return [Program(group, "-", ["a test of this group"])]
    return chosen


def slowness_of(done):
    """How much more of the processors these programs took than was expected of them; 1 or more."""
    expected = sum(program.load * program.expected for program in done)
    return max(1.0, sum(program.cpu for program in done) / max(expected, 1.0))


def has_room(running, program, jobs, load):
    if not running:
        return True
    taken = sum(other.load for other in running)
    return len(running) < jobs and taken + min(program.load, load) <= load


@contextlib.contextmanager
def threads_for(processes, count):
    """Threads that leave nothing behind when the run is interrupted."""
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        try:
            yield threads
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            processes.kill_all()
            raise


def run_pool(processes, programs, jobs=None, load=None, later=()):
    """`later`: functions, one after the other, that return more programs when they are made."""
    jobs, load = jobs or AT_A_TIME, load or LOAD
    longest_first = lambda some: sorted(some, key=lambda program: -program.expected)
    done = []
    waiting = longest_first(programs)
    running = {}
    with threads_for(processes, jobs + 1) as threads:
        later = iter(later)
        begin_next = lambda: next((threads.submit(make) for make in later), None)
        coming = begin_next()
        while waiting or running or coming:
            room = (load * (1 - LEFT_TO_MAKE) if coming else load) / slowness_of(done)
            while waiting and has_room(running.values(), waiting[0], jobs, room):
                program = waiting.pop(0)
                running[threads.submit(program.runner.run, program)] = program
            futures = [*running, *([coming] if coming else [])]
            ended, _ = concurrent.futures.wait(
                futures, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                if future is coming:
                    waiting = longest_first(waiting + future.result())
                    coming = begin_next()
                else:
                    show(future.result())
                    done.append(running.pop(future))
    return done


def run_groups(runner, groups, patterns, sanitized=None):
    """`sanitized`: the runner of a build that is made meanwhile, and runs what tests/builds says.
    With it, the programs of the first one that are compiled are made meanwhile, too: scripts that
    drive the real programs, and wait most of the time, need not wait for them."""
    options = runner.options
    pool_in = lambda build: [program for group in groups if not GROUPS[group].at_a_time
        for program in choose(group, build, patterns)]
    pool = pool_in(runner.build)
    later = []
    if sanitized:
        theirs = [program for program in pool_in(sanitized.build) if build_of(program) != PLAIN]
        ours = [program for program in pool if build_of(program) != SANITIZED]
        compiled = [program for program in ours if program.is_compiled]
        pool = [program for program in ours if not program.is_compiled]
        later = [lambda: make_programs(sanitized, theirs),
            lambda: make_programs(runner, compiled)]
    runner.adopt(pool)
    with shared_server(runner, groups) as variables:
        for one in filter(None, (runner, sanitized)):
            one.shared = variables
        done = run_pool(runner.processes, pool, options.jobs, options.load, later)
        for one in filter(None, (runner, sanitized)):
            one.shared = {}
    for group in groups:
        if GROUPS[group].at_a_time:
            programs = runner.adopt(choose(group, runner.build, patterns))
            jobs = options.jobs or GROUPS[group].at_a_time
            done += run_pool(runner.processes, programs, jobs, float("inf"))
    return done


def run_concerned(runner, files):
    """What the files concern, as far as it belongs to the pool."""
    paths = [pathlib.Path(file).resolve() for file in files]
    for path in paths:
        if not (path.is_file() and path.is_relative_to(SOURCE)):
            raise SystemExit(f"{path}: not a file of {SOURCE}")
    names = [str(path.relative_to(SOURCE)) for path in paths]

    def labelled(labels):
        return [program for program in pool_of(runner.build) if program.label in labels]

    # The runner copies the real programs when it first adopts tests: after all of them are made.
    beside = labelled(set().union(*map(near, names)))
    failure = make_failure(runner, beside) if beside else None
    if failure:
        programs = runner.adopt([failure])
    else:
        chosen = labelled(set().union(*(concerned(name, runner.build) for name in names)))
        programs = make_programs(runner, chosen) if chosen else []
    options = runner.options
    with shared_server(runner, {program.group for program in programs}) as variables:
        runner.shared = variables
        return run_pool(runner.processes, programs, options.jobs, options.load)


def run_again(programs):
    """Runs alone, once more, what failed among others; puts what passes then in the place of its
    first run. A finding that no busy machine explains remains, and many failures are none of its
    doing. Returns the labels of what passed."""
    failed = [program for program in programs if program.failures]
    if len(failed) > AGAIN_MAX or any(program.sure for program in failed):
        return []
    excused = []
    for first in failed:
        print(f"again {first.title}, alone:")
        [second] = first.runner.adopt([Program(first.group, first.name, first.command,
            first.source)])
        first.runner.run(second)
        show(second)
        if second.failures:
            break
        programs[programs.index(first)] = second
        excused.append(first.title)
    return excused
