"""A place as a container without privileges gives it: no namespaces, no mounts, the capabilities of
`docker run`, a /proc/sys for reading only.

Run as: python3 plain_container.py COMMAND… , as a process that may make mount namespaces.
"""

import ctypes
import errno
import os
import subprocess
import sys

C = ctypes.CDLL(None, use_errno=True)
PR_CAPBSET_DROP = 24
LAST_CAPABILITY = 63
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw,
# sys_chroot, mknod, audit_write, setfcap
KEPT = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
SCMP_ACT_ALLOW, SCMP_ACT_ERRNO = 0x7FFF0000, 0x00050000
SCMP_CMP_MASKED_EQ = 7
SCMP_FLTATR_CTL_NNP = 3
REFUSED = ("unshare", "setns", "mount", "umount2", "pivot_root", "fsopen", "open_tree",
    "move_mount")
NEW_NAMESPACES = 0x7E020000  # of clone()'s flags


class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64)]


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno() or -result, what)


def refuse_calls():
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(SCMP_ACT_ALLOW))

    def refuse(name, error, *comparisons):
        number = library.seccomp_syscall_resolve_name(name.encode())
        array = (Comparison * max(1, len(comparisons)))(*comparisons)
        must(library.seccomp_rule_add_array(rules, SCMP_ACT_ERRNO | error, number,
            len(comparisons), array), name)

    for name in REFUSED:
        refuse(name, errno.EPERM)
    # The C library goes on with clone(), whose flags a filter can see.
    refuse("clone3", errno.ENOSYS)
    for bit in range(64):
        if NEW_NAMESPACES >> bit & 1:
            refuse("clone", errno.EPERM, Comparison(0, SCMP_CMP_MASKED_EQ, 1 << bit, 1 << bit))
    # Containers leave no_new_privs as it is.
    must(library.seccomp_attr_set(rules, SCMP_FLTATR_CTL_NNP, 0), "seccomp")
    must(library.seccomp_load(rules), "seccomp")


def main():
    must(C.unshare(0x20000), "unshare")  # CLONE_NEWNS
    for words in (["--make-rprivate", "/"], ["--bind", "/proc/sys", "/proc/sys"],
            ["-o", "remount,bind,ro", "/proc/sys"]):
        subprocess.run(["mount", *words], check=True)
    refuse_calls()
    for capability in set(range(LAST_CAPABILITY + 1)) - KEPT:
        C.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those the kernel does not have
    # exec() gives root what is in the bounding set.
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
