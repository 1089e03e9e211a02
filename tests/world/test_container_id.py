"""A container's record said that it was another container: the outer one of a container in a
container (as each pod of kind is), the sandbox of its pod, or one whose directory was mounted.

Source: tracker #45, B.8; moby's nested cgroups, kind, Kubernetes with cgroup v2, log collectors
that mount /var/lib/docker/containers.
"""

import re
import subprocess
import unittest

from berth import PROGRAMS, AgentTest
from rights import missing, require

OWN = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4
FILES = "/var/lib/docker/containers"
PODMAN = "/containers/storage/overlay-containers"
KUBELET = "/var/lib/kubelet/pods/5ca1ab1e/etc-hosts"
SANDBOX = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
NONE = "none"

# Name: (/proc/self/cgroup, {mount point: source of the mount}, the id).
CASES = {
    "docker": (f"12:pids:/docker/{OWN}\n11:cpu:/docker/{OWN}\n", {}, OWN),
    "docker by systemd": (f"0::/system.slice/docker-{OWN}.scope\n", {}, OWN),
    "docker in docker": (f"3:cpu:/docker/{OTHER}/docker/{OWN}\n", {}, OWN),
    "systemd in docker": (f"1:name=systemd:/docker/{OWN}/init.scope\n", {}, OWN),
    "podman": (f"0::/machine.slice/libpod-{OWN}.scope/container\n", {}, OWN),
    "a pod": (f"4:cpu:/kubepods/burstable/pod3c4d/{OWN}\n", {}, OWN),
    "a pod of kind": (f"4:cpu:/docker/{OTHER}/kubelet/kubepods/besteffort/pod1/{OWN}\n", {}, OWN),
    "a pod of kind by systemd": (f"0::/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-pod1.slice/cri-containerd-{OWN}.scope\n", {}, OWN),
    "CRI-O": (f"0::/kubepods.slice/kubepods-pod1.slice/crio-{OWN}.scope\n", {}, OWN),
    "ECS": (f"9:memory:/ecs/cluster/4e1d/{OWN}\n", {}, OWN),
    "docker, cgroup v2": ("0::/\n", {"/etc/resolv.conf": f"{FILES}/{OWN}/resolv.conf",
        "/etc/hostname": f"{FILES}/{OWN}/hostname", "/etc/hosts": f"{FILES}/{OWN}/hosts"}, OWN),
    "docker in docker, cgroup v2": ("0::/\n", {"/etc/hostname":
        f"/var/lib/docker/volumes/{OTHER}/_data/containers/{OWN}/hostname"}, OWN),
    "podman, cgroup v2": ("0::/\n", {"/etc/hostname": f"{PODMAN}/{OWN}/userdata/hostname",
        "/run/.containerenv": f"{PODMAN}/{OWN}/userdata/.containerenv"}, OWN),
    "a pod of podman": ("0::/\n", {"/etc/hostname": f"{PODMAN}/{OTHER}/userdata/hostname",
        "/run/.containerenv": f"{PODMAN}/{OWN}/userdata/.containerenv"}, OWN),
    "a pod of containerd, cgroup v2": ("0::/\n", {"/etc/hosts": KUBELET,
        "/etc/hostname": f"{SANDBOX}/{OTHER}/hostname",
        "/etc/resolv.conf": f"{SANDBOX}/{OTHER}/resolv.conf"}, NONE),
    "a pod of docker, cgroup v2": ("0::/\n", {"/etc/hosts": KUBELET,
        "/etc/hostname": f"{FILES}/{OTHER}/hostname"}, NONE),
    "a pod of CRI-O, cgroup v2": ("0::/\n", {"/etc/hosts": KUBELET,
        "/etc/hostname": f"{PODMAN}/{OTHER}/userdata/hostname",
        "/run/.containerenv": f"{PODMAN}/{OWN}/userdata/.containerenv"}, OWN),
    "a log collector": ("0::/\n", {"/logs": f"{FILES}/{OTHER}",
        f"{FILES}/{OTHER}/mounts/shm": f"{FILES}/{OTHER}/mounts/shm"}, NONE),
    "no container": ("0::/user.slice/user-0.slice/session-1.scope\n",
        {"/": f"/var/lib/docker/overlay2/{OTHER}/merged"}, NONE),
    "too long or short": (f"0::/docker/{OWN}0\n1:cpu:/docker/{OWN[1:]}\n", {}, NONE),
}

SHOWN = """
mount --bind "$1/cgroup" /proc/$$/cgroup
mount --bind "$1/mountinfo" /proc/$$/mountinfo
shift
exec env --unset=CONTAINER_ID "$@"
"""


class ContainerId(AgentTest):
    def test_it_is_the_container_s_own_or_none(self):
        self.alone = ["unshare", "--mount", "--propagation", "private"]
        if missing("mount namespace"):
            require(self, "user namespace")
            self.alone = ["unshare", "--user", "--map-root-user", "--mount"]
        self.written = self.web_agent(check=None,
            **{"attribute.found": "${berth.container_id:-none}"})
        for name, (groups, mounts, expected) in CASES.items():
            with self.subTest(name):
                self.assertEqual(self.found(groups, mounts), expected)

    def found(self, groups, mounts):
        (self.folder / "cgroup").write_text(groups)
        (self.folder / "mountinfo").write_text("".join(
            f"{number} 1 254:1 {source} {place} rw,relatime - ext4 /dev/vda1 rw\n"
            for number, (place, source) in enumerate(mounts.items(), 100)))
        said = subprocess.run([*self.alone, "sh", "-ec", SHOWN, "sh", self.folder,
            PROGRAMS / "berthd", "-T", "-c", self.written.config],
            capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 0, said.stderr)
        return re.search(r"^attribute\.found = (.*)$", said.stdout, re.M)[1]


if __name__ == "__main__":
    unittest.main()
