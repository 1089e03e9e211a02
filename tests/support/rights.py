#!/usr/bin/env python3
"""What this place lets a test do: a container, a chroot or an ordinary user may make no namespaces,
no mounts and no other users.

A Python test says @needs("mounts"), a C test rights_needed("mounts") of rights.h, a shell script
runs this file with the words as arguments: exit status 1, and the reason on stdout, when one of
these rights is missing. Each probe does what the tests do, in a process of its own. The runner of
the tests prints summary() at its end.
"""

import collections
import ctypes
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from control_groups import ControlGroup

NOBODY = 65534
CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4
ROOM = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/a" "$1/b"
mount --bind "$1/a" "$1/b"
mount -o remount,bind,ro "$1/b"
"""
UNSHARE = ["unshare", "--mount", "--propagation", "private"]
BY_ROOT = "root, outside of a container and of a chroot, or docker run --privileged"


def become_other_users(folder):
    """As a server that is asked by several users, and as an agent that changes its own."""
    file = os.path.join(folder, "given away")
    with open(file, "wb"):
        os.chown(file, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    os.seteuid(0)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def forbid_watches(_folder):
    """A limit of a user namespace of one's own."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with open("/proc/sys/user/max_inotify_watches", "wb", buffering=0) as limit:
        limit.write(b"0\n")


def open_terminal(_folder):
    for end in os.openpty():
        os.close(end)


def look_into_a_process(_folder):
    """A process that is not dumpable, as agents and workers are: it belongs to root."""
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        os.write(ready[1], b".")
        os.close(done[1])
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        with open(f"/proc/{child}/environ", "rb"):
            pass
    finally:
        os.close(done[1])
        os.waitpid(child, 0)


def in_group(controller, use):
    """A process of ours in a control group of its own."""
    group = ControlGroup(controller)
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        group.take(child)
        use(group)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        group.end()


def freeze_a_process(_folder):
    def use(group):
        group.freeze()
        group.thaw()
    in_group("freezer", use)


def limit_memory(_folder):
    in_group("memory", lambda group: group.limit_memory(64 << 20))


def hold_a_directory(_folder):
    """userfaultfd for faults of the kernel, which root alone has by default."""
    fd = ctypes.CDLL(None, use_errno=True).syscall(
        {"x86_64": 323, "aarch64": 282}[os.uname().machine], 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(fd)


def choose_a_number(_folder):
    with open("/proc/sys/kernel/ns_last_pid", "r+", encoding="ascii") as last:
        last.write(last.read())


# word: (what a test needs, the probe, what would give it). A probe is a function that a child of
# ours calls with a folder, or a command that gets the folder as its last word.
RIGHTS = {
    "users": ("to become other users", become_other_users,
        "root, in a container with the capabilities CHOWN, SETUID and SETGID"),
    "reading": ("to read what others hide, by a capability alone",
        ["setpriv", "--bounding-set=-all,+dac_read_search", "sh", "-c",
            "grep -q '^CapEff:.*4$' /proc/self/status", "sh"],
        "root, in a container with the capabilities DAC_READ_SEARCH and SETPCAP"),
    "mounts": ("to mount file systems",
        ["sh", "-c", 'mount -t tmpfs none "$1" && umount "$1"', "sh"],
        "root, outside of a container, or docker run --privileged"),
    "mount namespace": ("a mount namespace", [*UNSHARE, "sh", "-c", ROOM, "sh"], BY_ROOT),
    "network namespace": ("a network namespace",
        [*UNSHARE, "--net", "sh", "-c", ROOM, "sh"], BY_ROOT),
    "process namespace": ("a process namespace",
        [*UNSHARE, "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
            f"{ROOM}exec chroot / true", "sh"], BY_ROOT),
    "user namespace": ("a user namespace",
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ROOM, "sh"],
        "user.max_user_namespaces above 0, outside of a chroot, or docker run with "
        "--security-opt seccomp=unconfined"),
    "programs of other machines": ("to say what runs them",
        ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "binfmt_misc", "none"],
        "Linux 6.7 with binfmt_misc and user namespaces, or binfmt-support with its lists of qemu"),
    "processes": ("to look into processes that are not dumpable", look_into_a_process,
        "root, in a container with the capability SYS_PTRACE"),
    "process numbers": ("to choose the number of a process", choose_a_number,
        "root, outside of a container, or docker run --privileged"),
    "holding": ("to stop the kernel at a page of its own (userfaultfd)", hold_a_directory,
        "root, outside of a container, or vm.unprivileged_userfaultfd = 1"),
    "freezer": ("to freeze processes by a control group", freeze_a_process,
        "root, outside of a container, or docker run --privileged"),
    "memory limits": ("a control group with little memory", limit_memory,
        "root, outside of a container; with cgroup v2 a group whose cgroup.subtree_control has "
        "memory"),
    "terminals": ("a terminal of its own", open_terminal, "a /dev/pts"),
    "limits": ("a user namespace with limits of its own", forbid_watches,
        "user.max_user_namespaces above 0 and a /proc/sys that can be written, outside of a "
        "chroot, or docker run --privileged"),
}


def text_of_child(do):
    """What do() returns in a forked process, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(do()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def call_in_child(function, folder):
    """The error of function(folder), as text; "" when it has none."""
    def call():
        try:
            function(folder)
        except OSError as error:
            return os.strerror(error.errno)
        return ""

    return text_of_child(call)


def run_in_child(command, folder):
    try:
        result = subprocess.run([*command, folder], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"
    if result.returncode == 0:
        return ""
    lines = result.stderr.strip().splitlines()
    return lines[0].replace(folder, "a folder") if lines else f"exit status {result.returncode}"


@functools.cache
def refusal(right):
    """Why this place does not give the right; "" when it does."""
    need, probe, _ = RIGHTS[right]
    with tempfile.TemporaryDirectory(prefix="rights-") as folder:
        error = (call_in_child if callable(probe) else run_in_child)(probe, folder)
    return f"needs {need} ({error})" if error else ""


def missing(*rights):
    """The reason why a test that needs these rights cannot run here; "" when it can."""
    return next(filter(None, map(refusal, rights)), "")


def needs(*rights):
    """For a test or a class of tests."""
    reason = missing(*rights)
    return unittest.skipIf(reason, reason)


def require(test, *rights):
    """Skips the test that runs, when a right is missing."""
    if reason := missing(*rights):
        test.skipTest(reason)


def remedy(reason):
    need = re.match(r"needs (.*) \(", reason)
    return next((gives for what, _, gives in RIGHTS.values() if need and need[1] == what), "")


def summary(skipped):
    """The lines that say how many tests could not run, why, and what would let them. `skipped`
    holds a text for each of them, "name: reason"."""
    reasons = collections.Counter(text.partition(": ")[2] or "no reason" for text in skipped)
    lines = []
    for reason, count in reasons.most_common():
        lines.append(f"not run: {count} test{'s' * (count > 1)}: {reason}")
        if remedy(reason):
            who = "them" if count > 1 else "it"
            lines.append(f"         what would let {who}: {remedy(reason)}")
    return lines


if __name__ == "__main__":
    said = missing(*sys.argv[1:])
    print(said, end="\n" if said else "")
    sys.exit(1 if said else 0)
