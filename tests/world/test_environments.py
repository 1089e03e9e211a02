"""Containers, init systems and people start programs in odd places: no stderr, no /proc, a user
that no file names, a full disk. Where one of these stops an agent, its service is not registered.

Source: tracker #40, item 1: the environment matrix; podman #10130, OpenShift's arbitrary user ids.
"""

import os
import unittest

from main_job import MainJob
from rights import require

NOBODYS = 1234567
ID = "0123456789abcdef" * 4
NETWORK = """exec unshare --net sh -ec '
        ip link add web0 type veth peer name web1
        ip link set web0 up
        ip link set web1 up{}
        exec "$@"' sh "$@" """
# As the kernel describes a process in a container.
CGROUP = """exec unshare --mount --propagation private sh -ec '
        printf "%b" "$1" >cgroup
        printf "%b" "$2" >mountinfo
        shift 2
        mount --bind cgroup /proc/$$/cgroup
        mount --bind mountinfo /proc/$$/mountinfo
        exec "$@"' sh "{}" "{}" "$@" """
MOUNTS = "exec unshare --mount --propagation private sh -ec '"

# name: (what makes the place, the rights that this needs). "$@" is the agent.
PLACES = {
    "stderr is full": ("mkfifo pipe; exec 2<>pipe; timeout 2 head -c 65536 /dev/zero >&2", []),
    "nobody reads stderr": ("mkfifo pipe; (: <pipe) & exec 2>pipe; wait $!", []),
    "stderr is a device without room": ("exec 2>/dev/full", []),
    "stderr is on a full disk": (MOUNTS + """mkdir -p small
        mount -t tmpfs -o size=4k none small
        exec 2>small/log
        head -c 4096 /dev/zero >&2
        exec "$@"' sh "$@" """, ["mount namespace"]),
    "stderr reaches the limit of a file's size": (
        "exec 2>small; ulimit -f 16; head -c 8192 /dev/zero >&2", []),
    "stderr is closed": ("exec 2>&-", []),
    "all three are closed": ("exec 0<&- 1>&- 2>&-", []),
    "no /proc": (MOUNTS + """mount -t tmpfs none /proc; exec "$@"' sh "$@" """,
        ["mount namespace"]),
    "a read-only root": (MOUNTS + """mount --bind . .
        mount -o remount,bind,ro /
        exec "$@"' sh "$@" """, ["mount namespace"]),
    "a user without an entry": (f"""chown -R {NOBODYS} .
        exec setpriv --reuid={NOBODYS} --regid={NOBODYS} --clear-groups "$@" """, ["users"]),
    "64 descriptors": ("ulimit -n 64", []),
    "another language": ("export LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8", []),
    "a language that is none": ("export LANG=% LC_ALL=%", []),
    "another zone": ("export TZ=Asia/Kathmandu", []),
    "a zone that is none": ("export TZ=:/nowhere/%", []),
    "no environment": ('exec env -i BERTH_LIBEXECDIR="$BERTH_LIBEXECDIR" "$@"', []),
    "files for nobody else": ("umask 077", []),
    "files for everybody": ("umask 000", []),
    "no interface that is up": ('exec unshare --net "$@"', ["network namespace"]),
    "an interface without an address": (NETWORK.format(""), ["network namespace"]),
    "an interface with two addresses": (NETWORK.format("""
        ip address add 192.0.2.7/24 dev web0
        ip address add 192.0.2.9/24 dev web0"""), ["network namespace"],
        "${berth.ip}", "192.0.2.7"),
    "cgroup v1": (CGROUP.format(f"9:memory:/docker/{ID}\\n1:name=systemd:/docker/{ID}\\n", ""),
        ["mount namespace"], "${berth.container_id}", ID),
    "cgroup v1 nested": (CGROUP.format(f"9:memory:/docker/{'f' * 64}/docker/{ID}\\n", ""),
        ["mount namespace"], "${berth.container_id}", ID),
    "cgroup v2": (CGROUP.format("0::/\\n", f"36 35 8:1 /var/lib/docker/containers/{ID}/hostname "
        "/etc/hostname rw - ext4 /dev/sda1 rw\\n"),
        ["mount namespace"], "${berth.container_id}", ID),
}


class Environments(MainJob):
    pass


def of(setup, rights, value="", expected=""):
    def test(self):
        require(self, *rights)
        if "none /proc" in setup and os.environ.get("BERTH_SANITIZER"):
            self.skipTest("a sanitizer reads /proc/self/maps; the plain build runs this")
        # The process that tries the new program has a cgroup of its own.
        record = self.run_job(setup, attributes={"attribute.place": value} if value else {},
            upgrades="/proc/$$" not in setup)
        self.assertEqual(record.get("place", ""), expected)
    return test


for name, place in PLACES.items():
    setattr(Environments, "test_" + name.replace(" ", "_").replace("/", ""), of(*place))


if __name__ == "__main__":
    unittest.main()
