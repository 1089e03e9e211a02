"""What a container of runc does to the agent of its host, with nothing but its registry/, the
capabilities that runc gives and a limit of what it may read: the agent's other containers are
served meanwhile. The control is a process of the host that does what an agent without a looker
did: it waits in the kernel, and no signal ends it."""

import json
import os
import signal
import subprocess
import unittest

from berth import berth, wait_until
from holding import state
from hosting import WEB, BridgeTest
from rights import needs

RATE = 256  # bytes a second: a page takes 16 s
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]

# getdents64() into a page of a file that comes from the disk at that rate, and a writer that waits
# behind it: whoever looks a name up there or lists it waits for both.
HOLD = """
import ctypes, mmap, os, sys, time
calls = {"x86_64": 217, "aarch64": 61}
file = os.open("/work/page", os.O_RDWR)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
page = mmap.mmap(file, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
memory = (ctypes.c_char * 4096).from_buffer(page)
libc = ctypes.CDLL(None)
os.makedirs("/registry/users/HELD", exist_ok=True)
place = os.open("/registry/users/HELD", os.O_RDONLY | os.O_DIRECTORY)
os.rename("/registry/users/HELD", "/registry/users/held")
if sys.argv[1:] == ["rehearse"]:
    sys.exit()
if os.fork() == 0:
    time.sleep(0.5)
    os.mkdir("/registry/users/held/waits")
    os._exit(0)
libc.syscall(calls[os.uname().machine], place, memory, 4096)
time.sleep(1000)
"""

# One file with thousands of locks, linked into hundreds of nodes, and one record likewise.
LINK = """
import fcntl, os, struct, time
def lock(file, kind, start, length):
    fcntl.fcntl(file, 37, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))
with open("/registry/record", "w") as record:
    record.write(os.environ["RECORD"] + " " * 100000)
owner = open("/registry/owner", "w+")
for i in range(3000):
    lock(owner, fcntl.F_RDLCK, 2 * i, 1)
lock(owner, fcntl.F_WRLCK, 6000, 1)
for i in range(256):
    folder = f"/registry/users/joe/web/c{i}"
    os.makedirs(folder)
    os.link("/registry/owner", folder + "/_owner")
    os.link("/registry/record", folder + "/_record")
open("/work/done", "w").close()
while True:
    os.utime("/registry/record")
    os.utime("/registry/users/joe/web")
    time.sleep(0.01)
"""


@needs("freezer", "mounts")
class FromAContainer(BridgeTest):
    def setUp(self):
        super().setUp()
        self.host_agent = self.host()
        self.bad, self.good = self.container("bad"), self.container("good")
        self.work = self.folder / "work"
        self.work.mkdir()

    def bundle(self, script, limited, *words):
        """A container of the machine's own programs, with registry/ as the recipes mount it."""
        bundle = self.folder / "bundle"
        for name in ("usr", "lib", "lib64", "bin", "proc", "dev", "sys", "registry", "work"):
            (bundle / "rootfs" / name).mkdir(parents=True)
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        spec = json.loads((bundle / "config.json").read_text())
        spec["process"].update(terminal=False, args=[*PYTHON, script, *words],
            env=["PATH=/usr/bin", f"RECORD={self.record_file().read_text()}"])
        spec["mounts"] += [
            {"destination": place, "source": str(source), "type": "bind",
                "options": ["bind", *options]}
            for place, source, options in [
                *((f"/{name}", f"/{name}", ["ro"]) for name in ("usr", "lib", "lib64", "bin")),
                ("/registry", self.bad, ["nosuid", "nodev", "noexec"]), ("/work", self.work, [])]]
        spec["linux"]["cgroupsPath"] = f"/berth-test-{os.getpid()}"
        if limited:
            device = os.stat(self.work).st_dev
            spec["linux"]["resources"]["blockIO"] = {"throttleReadBpsDevice": [
                {"major": os.major(device), "minor": os.minor(device), "rate": RATE}]}
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle

    def run_inside(self, script, limited=False):
        runc = ["runc", "--root", self.folder / "runc"]
        name = f"berth-{os.getpid()}"
        process = subprocess.Popen([*runc, "run", "--bundle", self.bundle(script, limited), name],
            stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(subprocess.run, [*runc, "delete", "--force", name], check=False)
        return process

    def others_live(self):
        owner = self.register(self.good, f"{WEB}/good")
        self.await_record(f"{WEB}/good")
        self.assertEqual(self.host_agent.get("/live").status, 200)
        owner.kill()
        self.await_gone(f"{WEB}/good")

    def test_a_read_limit_alone_holds_its_directory(self):
        if os.major(os.stat(self.work).st_dev) == 0:
            self.skipTest("the temporary directory is on no block device of its own")
        owner = self.register(self.bad, f"{WEB}/mine")
        self.await_record(f"{WEB}/mine")
        page = self.work / "page"
        page.write_bytes(bytes(4096))
        with open(page, "rb") as file:
            os.fsync(file.fileno())
        # It reads the machine's programs from the disk here, and not at the rate below.
        (self.bad / "users").mkdir(exist_ok=True)
        subprocess.run([*PYTHON, HOLD.replace("/registry", str(self.folder / "rehearsal"))
            .replace("/work", str(self.work)), "rehearse"], check=True)
        self.run_inside(HOLD, limited=True)
        wait_until(lambda: self.part(self.host_agent, "bad")["state"] == "stalled", "it is stalled")
        control = subprocess.Popen(["ls", self.bad / "users/held"], stdout=subprocess.DEVNULL)
        self.addCleanup(control.wait)
        wait_until(lambda: state(control.pid) == "D" or control.poll() is not None, "it waits")
        self.assertIsNone(control.poll(), "whoever lists the directory waits for the container")
        self.others_live()
        self.assertEqual(self.state(self.host_agent, "bad", f"{WEB}/mine"), "registered")
        owner.send_signal(signal.SIGKILL)
        self.await_gone(f"{WEB}/mine")
        self.assertIsNone(control.poll(), "it was held all the time")
        self.assertRegex(berth("--socket", self.host_agent.socket, "bridge").stdout, "bad +stalled")

    def test_one_file_in_many_nodes(self):
        self.run_inside(LINK)
        wait_until((self.work / "done").exists, "it has linked all")
        for _ in range(5):
            self.others_live()
        self.assertFalse([item for item in self.part(self.host_agent, "bad")["records"]
            if item["state"] == "registered"])


if __name__ == "__main__":
    unittest.main()
