"""Control groups of the kernel for tests: processes that are frozen, or have little memory. Both
layouts, below the group in which the test itself runs.
"""

import errno
import os
import pathlib
import re
import time

PATIENCE_S = 20


def _own_groups():
    """(layout, controllers, folder of the group in which this process is): of version 1 with the
    controllers of a hierarchy, of version 2 with those that a new group would have."""
    own = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            own[name] = path
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        root, place = mount.split(" ")[3:5]
        kind, _, options = source.split(" ")
        if kind == "cgroup":
            for name in set(options.split(",")) & own.keys():
                yield 1, {name}, _below(place, root, own[name])
        elif kind == "cgroup2" and "" in own:
            folder = _below(place, root, own[""])
            given = folder / "cgroup.subtree_control"
            yield 2, {"freezer", *(given.read_text().split() if given.exists() else [])}, folder


def _below(place, root, path):
    """The folder of a group, where the mount shows it."""
    return pathlib.Path(place) / os.path.relpath(path, root) if path.startswith(
        root) else pathlib.Path(place)


class ControlGroup:
    """With "freezer" or "memory". OSError: there is none to be had. end() once its processes have
    ended."""

    def __init__(self, controller, layouts=(1, 2)):
        problem = OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        for self.layout, controllers, folder in _own_groups():
            self.folder = folder / f"test-{os.getpid()}-{time.monotonic_ns()}"
            if controller in controllers and self.layout in layouts:
                try:
                    self.folder.mkdir()
                    return
                except OSError as error:
                    problem = error
        raise problem

    def take(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def _wait(self, file, pattern):
        until = time.monotonic() + PATIENCE_S
        while not re.search(pattern, (self.folder / file).read_text()):
            if time.monotonic() > until:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            time.sleep(0.01)

    def freeze(self):
        if self.layout == 1:
            (self.folder / "freezer.state").write_text("FROZEN")
            self._wait("freezer.state", "FROZEN")
        else:
            (self.folder / "cgroup.freeze").write_text("1")
            self._wait("cgroup.events", "frozen 1")

    def thaw(self):
        if self.layout == 1:
            (self.folder / "freezer.state").write_text("THAWED")
        else:
            (self.folder / "cgroup.freeze").write_text("0")

    def limit_memory(self, size):
        """Who needs more, past what can be written out, meets the kernel's OOM killer."""
        name = "memory.limit_in_bytes" if self.layout == 1 else "memory.max"
        (self.folder / name).write_text(str(size))

    def oom_kills(self):
        """How many processes of it the kernel has killed."""
        name = "memory.oom_control" if self.layout == 1 else "memory.events"
        text = (self.folder / name).read_text()
        return int(re.search(r"(?m)^oom_kill (\d+)", text)[1])

    def end(self):
        """Processes leave a group a moment after they have been waited for."""
        until = time.monotonic() + PATIENCE_S
        while self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
