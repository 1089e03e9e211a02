"""The page that tests/failures/points.c shares with a test, and the errors that its calls may fail with."""

import errno
import mmap
import os
import re
import struct
import subprocess

KINDS_MAX = 64
NAME_BYTES = 16
FRAMES_MAX = 16
PLACE_BYTES = 96
NONE = 0xFFFF
SHORT = 0  # a transfer of less than what was asked for

PROGRAM, KIND, ERROR, NUMBER, FIRED, FRAME_COUNT = 0, 32, 36, 40, 48, 52
COUNTS = 64
NAMES = COUNTS + 8 * KINDS_MAX
FRAMES = NAMES + NAME_BYTES * KINDS_MAX
PAGE_BYTES = FRAMES + FRAMES_MAX * PLACE_BYTES

# The error of the kernel in such a case.
ERRORS = {
    "alloc": [errno.ENOMEM],
    "open": [errno.EMFILE, errno.EIO, errno.ENOMEM],
    "read": [errno.EIO, errno.EINTR],
    "write": [errno.ENOSPC, errno.EIO, errno.EINTR, SHORT],
    "close": [errno.EIO],
    "fsync": [errno.EIO, errno.ENOSPC],
    "rename": [errno.ENOSPC, errno.EIO],
    "mkdir": [errno.ENOSPC, errno.EACCES],
    "unlink": [errno.EIO, errno.EACCES],
    "stat": [errno.EIO, errno.ENOMEM],
    "readdir": [errno.EIO],
    "lock": [errno.ENOLCK, errno.EINTR],
    "chmod": [errno.EPERM, errno.EIO],
    "socket": [errno.EMFILE, errno.ENOBUFS],
    "bind": [errno.EADDRINUSE, errno.EACCES],
    "listen": [errno.EADDRINUSE],
    "connect": [errno.ECONNREFUSED, errno.EAGAIN],
    "accept": [errno.EMFILE, errno.ECONNABORTED, errno.EINTR],
    "send": [errno.EAGAIN, errno.EINTR, errno.ECONNRESET, errno.ENOBUFS, SHORT],
    "receive": [errno.EAGAIN, errno.EINTR, errno.ECONNRESET],
    "sockopt": [errno.ENOPROTOOPT],
    "pipe": [errno.EMFILE, errno.ENFILE],
    "spawn": [errno.EAGAIN, errno.ENOMEM],
    "fork": [errno.EAGAIN, errno.ENOMEM],
    "exec": [errno.ENOMEM, errno.ETXTBSY],
    "wait": [errno.EINTR],
    "epoll": [errno.ENOMEM, errno.ENOSPC],
    "epoll_wait": [errno.EINTR],
    "poll": [errno.EINTR, errno.ENOMEM],
    "inotify": [errno.ENOSPC, errno.EMFILE, errno.ENOMEM],
    "eventfd": [errno.EMFILE, errno.ENOMEM],
    "mmap": [errno.ENOMEM],
    "random": [errno.EINTR],
    "lookup": [errno.EMFILE],
    "limit": [errno.EPERM],
}


def error_name(error):
    return errno.errorcode.get(error, "short")


class Page:
    """A file below `folder`; the variable `environment` names it for the program that is to count."""

    def __init__(self, folder, program):
        self.path = folder / "points"
        self.program = program
        self.path.write_bytes(bytes(PAGE_BYTES))
        with open(self.path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), PAGE_BYTES)
        self.reset()

    def _put(self, form, at, value):
        struct.pack_into(form, self.bytes, at, value)

    def _get(self, form, at):
        return struct.unpack_from(form, self.bytes, at)[0]

    def reset(self):
        self.bytes[:] = bytes(PAGE_BYTES)
        self._put("32s", PROGRAM, self.program.encode())
        self.disarm()

    def disarm(self):
        self._put("I", KIND, NONE)

    def arm(self, kind, number, error):
        """The `number`-th call of this kind from now on fails."""
        index = KINDS.index(kind)
        self._put("I", FIRED, 0)
        self._put("i", ERROR, error)
        self._put("Q", NUMBER, self._get("Q", COUNTS + 8 * index) + number)
        self._put("I", KIND, index)

    @property
    def fired(self):
        return bool(self._get("I", FIRED))

    def counts(self):
        return {kind: self._get("Q", COUNTS + 8 * index) for index, kind in enumerate(KINDS)}

    def names(self):
        """The kinds as points.c calls them."""
        texts = (self._get(f"{NAME_BYTES}s", NAMES + NAME_BYTES * index) for index in range(KINDS_MAX))
        return [text.rstrip(b"\0").decode() for text in texts if text.strip(b"\0")]

    def frames(self):
        places = (self._get(f"{PLACE_BYTES}s", FRAMES + PLACE_BYTES * index) for index in range(self._get("I", FRAME_COUNT)))
        return [place.partition(b"\0")[0].decode() for place in places]


KINDS = list(ERRORS)  # in the order of points.c


def describe(frames, build):
    """The stack of a failed call: functions of our programs by file and line."""
    lines = []
    for frame in frames:
        module, _, offset = frame.partition("+")
        program = build / module
        if not program.exists():
            continue
        found = subprocess.run(["addr2line", "-sfe", program, offset], capture_output=True, text=True, check=False)
        lines.append(" ".join(found.stdout.split()))
    return "\n".join(f"    {line}" for line in lines)


def environment(page, library):
    """For a program that points.so is loaded into; with a sanitizer, which has to tolerate another one before it."""
    options = os.environ.get("ASAN_OPTIONS", "")
    return {
        **os.environ,
        "LD_PRELOAD": str(library),
        "BERTH_POINTS": str(page.path),
        "ASAN_OPTIONS": re.sub("^:", "", f"{options}:verify_asan_link_order=0"),
    }
