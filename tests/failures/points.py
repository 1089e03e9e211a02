"""The page that tests/failures/points.c shares with a test, and the errors that its calls may fail
with."""

import dataclasses
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

PROGRAM, KIND, ERROR, NUMBER, SEEN, STACK, TRACING, PROBING, CALL_COUNT, FIRED, FRAME_COUNT = (
    0,
    32,
    36,
    40,
    48,
    56,
    60,
    64,
    68,
    72,
    76,
)
LIVE = 80
COUNTS = 88
NAMES = COUNTS + 8 * KINDS_MAX
FRAMES = NAMES + NAME_BYTES * KINDS_MAX
CALLS = FRAMES + FRAMES_MAX * PLACE_BYTES
CALL = struct.Struct("IHH")
CALLS_MAX = 1 << 17
PAGE_BYTES = CALLS + CALLS_MAX * CALL.size

UNTRIED, ENDS, GOES_ON = range(3)  # what a fork without memory did at an allocation

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


@dataclasses.dataclass(frozen=True)
class Call:
    """One of a trace."""

    kind: str
    stack: int
    outcome: int = UNTRIED


class Page:
    """A file below `folder`; the variable `environment` names it for the program that is to
    count."""

    def __init__(self, folder, program):
        self.path = folder / "points"
        self.program = program
        with open(self.path, "w+b") as file:
            file.truncate(PAGE_BYTES)
            self.bytes = mmap.mmap(file.fileno(), PAGE_BYTES)
        self._put("32s", PROGRAM, program.encode())
        self.disarm()

    def _put(self, form, at, value):
        struct.pack_into(form, self.bytes, at, value)

    def _get(self, form, at):
        return struct.unpack_from(form, self.bytes, at)[0]

    def trace(self, probing):
        """From now on the page lists the calls, and tries what happens without memory."""
        self._put("I", CALL_COUNT, 0)
        self._put("I", PROBING, int(probing))
        self._put("I", TRACING, 1)

    def calls(self):
        """Those since trace(), which end with this."""
        self._put("I", TRACING, 0)
        count = self._get("I", CALL_COUNT)
        if count > CALLS_MAX:
            raise ValueError(f"{count} calls are more than the page has room for")
        for stack, kind, outcome in CALL.iter_unpack(self.bytes[CALLS : CALLS + count * CALL.size]):
            yield Call(KINDS[kind], stack, outcome)

    def disarm(self):
        self._put("I", KIND, NONE)

    def arm(self, point):
        """The call of `point` fails, counted from now on."""
        self.disarm()
        for form, at, value in ("I", FIRED, 0), ("I", FRAME_COUNT, 0), ("i", ERROR,
                point.error), ("I", STACK, point.stack), ("Q", NUMBER, point.number), ("Q", SEEN,
                        0):
            self._put(form, at, value)
        self._put("I", KIND, KINDS.index(point.kind))

    @property
    def fired(self):
        return bool(self._get("I", FIRED))

    @property
    def seen(self):
        """The calls of the place of the point, up to the one that failed."""
        return self._get("Q", SEEN)

    @property
    def live(self):
        """Allocations of the program that were not freed."""
        return self._get("q", LIVE)

    def names(self):
        """The kinds as points.c calls them."""
        texts = (self._get(f"{NAME_BYTES}s", NAMES + NAME_BYTES * index)
            for index in range(KINDS_MAX))
        return [text.rstrip(b"\0").decode() for text in texts if text.strip(b"\0")]

    def frames(self):
        places = (self._get(f"{PLACE_BYTES}s", FRAMES + PLACE_BYTES * index)
            for index in range(self._get("I", FRAME_COUNT)))
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
        found = subprocess.run(["addr2line", "-sfe", program, offset], capture_output=True,
            text=True, check=False)
        lines.append(" ".join(found.stdout.split()))
    return "\n".join(f"    {line}" for line in lines)


def environment(page, library):
    """For a program that points.so is loaded into; with a sanitizer, which has to tolerate another
    one before it."""
    options = os.environ.get("ASAN_OPTIONS", "")
    return {
        **os.environ,
        "LD_PRELOAD": str(library),
        "LD_BERTH_POINTS": str(page.path),
        "ASAN_OPTIONS": re.sub("^:", "", f"{options}:verify_asan_link_order=0"),
    }
