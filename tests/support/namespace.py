"""
A host of one's own for a test: a network namespace with a loopback interface, and files below /etc
that are the test's.

Run as: unshare --net --mount -- python3 namespace.py FOLDER COMMAND… ; every file FOLDER/etc/X
stands in for /etc/X. The files may be changed in place while the command runs.
"""

import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def command(folder, *words):
    """The words by which a command runs in a namespace of its own."""
    return ["unshare", "--net", "--mount", "--propagation", "private", "--", sys.executable,
        __file__, str(folder), *map(str, words)]


def main():
    folder, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    for file in sorted((folder / "etc").iterdir()):
        target = pathlib.Path("/etc") / file.name
        if target.is_symlink() or not target.exists():
            sys.exit(f"{target} is not a file here")
        subprocess.run(["mount", "--bind", file, target], check=True)
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
