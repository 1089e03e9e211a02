"""The directory below which the tests keep their files, sockets and the programs that they start.

Tests become other users, who must be able to pass through it: a checkout is often in a home that
its owner alone may enter. Where others may not enter, a directory of all
users, such as /tmp, takes its place.
"""

import os
import pathlib
import shutil
import stat
import tempfile

SOCKET_PATH_ROOM = 60  # of the 108 bytes of a Unix socket's path, left to the tests' own names
PROGRAMS = ("berthd", "berth", "berth-looker", "berth-probe", "berth-runtime",
    "berth-xds", "berth-zookeeper")


def unfit(folder):
    """Why no scratch directory can be below `folder`; "" when one can."""
    if len(os.fsencode(folder)) + len("/berth-XXXXXXXX") > SOCKET_PATH_ROOM:
        return "its name is too long for the path of a socket"
    for place in (folder, *folder.parents):
        mode = place.stat().st_mode
        if not mode & stat.S_IXOTH:
            return f"other users may not enter {place}"
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"other users may replace what is in {place}"
    if not os.access(folder, os.W_OK):
        return "it cannot be written"
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return "no program can run there"
    return ""


def places(build):
    """Where it may be, the best first."""
    return [build, *map(pathlib.Path, (tempfile.gettempdir(), "/tmp", "/var/tmp"))]


def make(build):
    """Makes the directory, in the build where that will do."""
    refused = []
    for folder in map(pathlib.Path.resolve, places(build)):
        why = unfit(folder) if folder.is_dir() else "it is not a directory"
        if not why:
            break
        refused.append(f"{folder}: {why}")
    else:
        raise SystemExit("\n".join(["no place for the files of the tests:", *refused]))
    made = pathlib.Path(tempfile.mkdtemp(prefix="t" if folder == build else "berth-", dir=folder))
    made.chmod(0o711)
    return made


def copy_programs(build, folder):
    """Makes the folder, with those programs that the build has. The umask has to let others pass,
    and keep them from writing."""
    folder.mkdir(exist_ok=True)
    for name in PROGRAMS:
        if (build / name).exists() and not (folder / name).exists():
            shutil.copy(build / name, folder)
            (folder / name).chmod(0o755)
