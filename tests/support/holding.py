"""Holds the kernel's lock of a directory, as whoever may read it can: getdents64() into memory
whose page nobody provides. Who writes there then waits in state D, whatever signal comes, and after
that who looks up or reads there, too.

Run as: python3 holding.py DIRECTORY ; it holds, as the user "nobody" if root runs it, until it is
killed.
"""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import platform
import struct
import subprocess
import sys

from berth import wait_until

NOBODY = 65534
BYTES = 65536
UFFDIO_API, UFFDIO_REGISTER = 0xC018AA3F, 0xC020AA00
UFFD_API, MODE_MISSING = 0xAA, 1
PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS = 3, 0x22
CALLS = {"x86_64": (323, 217), "aarch64": (282, 61)}  # userfaultfd, getdents64


def state(pid):
    """The letter of the process's state; None when it has gone."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return None


def lookers(pid, name="berth-looker"):
    """The agent's lookers, those that it has given up too."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = []
    for child in children:
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name:
                found.append(int(child))
    return found


class Held:
    """A directory that is held until end(), with a writer that waits, so that readers do too. What
    waits for a list of its names can be killed, what looks up a new name there cannot."""

    def __init__(self, directory):
        self.holder = subprocess.Popen([sys.executable, __file__, str(directory)],
            stdin=subprocess.DEVNULL)
        self.writer = None
        try:
            wait_until(lambda: self.waits(self.holder, "userfault"), "the directory is held")
            self.writer = subprocess.Popen(["mkdir", pathlib.Path(directory) / "waits"])
            wait_until(lambda: state(self.writer.pid) == "D" and self.makes(self.writer.pid),
                "a writer waits in the kernel")
        except BaseException:
            self.end()
            raise

    @staticmethod
    def waits(process, where):
        if process.poll() is not None:
            raise AssertionError("the directory cannot be held")
        return where in pathlib.Path(f"/proc/{process.pid}/wchan").read_text()

    @staticmethod
    def makes(pid):
        """Whether it is in mkdir(2) or mkdirat(2), and does not wait for a page of its program."""
        return pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("83", "258", "34")

    def end(self):
        self.holder.kill()
        self.holder.wait()
        if self.writer:
            self.writer.wait()


def hold(directory):
    userfaultfd, getdents64 = CALLS[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    fd = libc.syscall(userfaultfd, 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    fcntl.ioctl(fd, UFFDIO_API, bytearray(struct.pack("QQQ", UFFD_API, 0, 0)))
    memory = libc.mmap(None, ctypes.c_size_t(BYTES), PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0)
    fcntl.ioctl(fd, UFFDIO_REGISTER,
        bytearray(struct.pack("QQQQ", memory, BYTES, MODE_MISSING, 0)))
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    libc.syscall(getdents64, place, ctypes.c_void_p(memory), ctypes.c_size_t(BYTES))


if __name__ == "__main__":
    hold(sys.argv[1])
