"""One ZooKeeper server for all programs of a run, and the classes that all servers start from.

A test takes a root of its own there; a test that pauses or kills it starts another. The first
server of a build ends when it has served, so that its virtual machine writes an archive of its
classes: the others begin in half the time.
"""

import contextlib
import os
import sys

from .programs import SOURCE

sys.path.append(str(SOURCE / "tests/support"))
from zookeeper import ZooKeeper

CONFIG = "maxSessionTimeout=3600000\n"
CLASSES = "zookeeper-classes.jsa"
HOSTS_VARIABLE, CLASSES_VARIABLE = "BERTH_ZOOKEEPER", "BERTH_ZOOKEEPER_CLASSES"
GROUPS = {"registry", "e2e", "faults"}  # whose programs use it


def write_classes(archive, folder):
    new = archive.with_suffix(".new")
    with ZooKeeper(java_options=[f"-XX:ArchiveClassesAtExit={new}"], folder=folder) as server:
        server.process.terminate()
        server.process.wait()
    if new.exists():
        new.replace(archive)


@contextlib.contextmanager
def shared_server(runner, groups):
    """What programs of the groups have in their environment meanwhile: {} where no server starts,
    which is for the tests to report."""
    if not GROUPS & set(groups):
        yield {}
        return
    archive = runner.build / CLASSES
    try:
        if not archive.exists():
            write_classes(archive, runner.scratch)
        if archive.exists():
            os.environ[CLASSES_VARIABLE] = str(archive)
        server = ZooKeeper(CONFIG, folder=runner.scratch)
    except (OSError, RuntimeError) as problem:
        print(f"no ZooKeeper server for the run: {problem}", flush=True)
        yield {}
        return
    with server, runner.processes.knows(server.process):
        yield {HOSTS_VARIABLE: server.hosts, CLASSES_VARIABLE: str(archive)}
