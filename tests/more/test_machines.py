"""Berth for other machines: built with warnings as errors by Debian's cross compilers, against
Debian's libraries for them. Unit tests, and the life of an agent with its records, its upgrade and
its worker: i386 natively where the kernel runs it, otherwise in qemu, as arm64.

The programs are those of any build, except that they find their libraries where the tests have put
them: with qemu's own option for a folder of libraries a program would see that folder as "/". qemu
has no seccomp and no landlock, so a worker in it has only the rest of its cage.
"""

import gzip
import os
import pathlib
import shutil
import subprocess
import unittest

from berth import BUILD, PROGRAMS, AgentTest
from rights import missing
from zookeeper import share_zookeeper

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()
COMPILING = 1500  # seconds
TESTING = 300
# They read bytes, and count in sizes and times: there 32 bits or unsigned chars would show.
QUICK = ("lib/base", "lib/record", "lib/dialect", "lib/render")
# A million spoilt maps, and messages cut at each byte, take qemu minutes. Reader and writer of the
# map are in tests/more/test_shared_memory.py for arm64, too.
SLOW = ("lib/http", "lib/shared")

# The kernel runs the programs of one machine with qemu, in this user namespace alone: a folder,
# qemu, and of the programs the class (1 of 32 bits, 2 of 64) and the machine.
IN_QEMU = r"""
set -e
mount -t binfmt_misc none "$1"
printf '%s' ':other:M::\x7fELF\x'"$3"'\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00'\
'\x02\x00\x'"$4"'\x00:'\
'\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'\
"$2:PF" >"$1/register"
shift 4
exec "$@"
"""


def run(*command, folder, **environment):
    """Runs a command that must succeed; returns all that it says."""
    kept = {name: value for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "BERTH_"))}
    result = subprocess.run(list(map(str, command)), cwd=folder, env={**kept, **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=COMPILING, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{command} exited with {result.returncode}:\n{result.stdout[-5000:]}")
    return result.stdout


class Machine:
    """A build for another machine; `runs` where the kernel needs no help to run its programs."""

    def __init__(self, name, prefix, triplet, loader):
        self.prefix = prefix
        self.place = BUILD / "machines" / name
        self.root = self.place / "root"
        self.build = self.place / "build"
        run(SOURCE / "packaging/sysroot", name, self.root, folder=SOURCE)
        self.make(f"-Wl,--dynamic-linker={self.root}/lib/{loader},--disable-new-dtags,-rpath,"
            f"{self.root}/lib/{triplet}:{self.root}/usr/lib/{triplet}")

    def make(self, links):
        self.build.mkdir(exist_ok=True)
        run(SOURCE / "configure", f"--host={self.prefix}", "--enable-werror", "PKG_CONFIG=false",
            f"CC={self.prefix}-gcc --sysroot={self.root}", f"LDFLAGS={links}", folder=self.build)
        run("make", "-s", f"-j{os.cpu_count()}", "all", folder=self.build)
        try:
            subprocess.run([self.build / "berth", "--version"], capture_output=True, check=True)
            self.runs = True
        except OSError:
            self.runs = False

    def unit_tests(self, folders):
        return [str(file.relative_to(SOURCE).with_suffix("")) for folder in folders
            for file in sorted((SOURCE / "tests/unit" / folder).glob("test_*.c"))]


class Machines(AgentTest):
    """The tests of one machine, whose programs qemu runs with these two bytes of ELF; `before` is
    in front of each command."""

    session_timeout = "60s"  # a session outlives an upgrade, however slow qemu is
    cage = "cage: no seccomp, no landlock, .*no capabilities, memory bounded"

    def setUp(self):
        super().setUp()
        self.before = []
        if self.machine.runs:
            return
        if reason := missing("programs of other machines"):
            self.skipTest(reason)
        script, place = self.folder / "in-qemu", self.folder / "binfmt"
        script.write_text(IN_QEMU)
        place.mkdir()
        self.before = ["unshare", "--user", "--map-root-user", "--mount", "sh", script, place,
            self.qemu, *self.elf]

    def shown_as(self):
        return self.qemu

    def test_unit_tests(self):
        environment = {**os.environ, "BERTH_BUILD_DIR": str(self.machine.build)}
        names = self.machine.unit_tests(QUICK if self.before else (*QUICK, *SLOW))
        run("make", "-s", f"-j{os.cpu_count()}", *names, folder=self.machine.build)
        for name in names:
            with self.subTest(program=name):
                result = subprocess.run([*self.before, self.machine.build / name],
                    env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=TESTING, check=False)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertRegex(result.stdout, r"(?m)^ok ")

    def test_a_life_with_a_directory(self):
        self.live(self.registry)

    def test_a_life_with_zookeeper(self):
        with share_zookeeper() as server:
            self.live(server.url)

    def live(self, registry):
        """Start, look-up by the tools of both machines, upgrade, stop."""
        tools = ([PROGRAMS / "berth"], [*self.before, self.machine.build / "berth"])
        agent = self.begin(registry, [*self.before, self.machine.build / "berthd"])
        self.assertEqual(os.readlink(f"/proc/{agent.process.pid}/exe"), self.shown_as())
        session = agent.status()["registry"]["session"]
        self.look_up(agent, tools)
        agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(agent.status()["registry"]["session"], session)
        self.look_up(agent, tools)
        if registry.startswith("zookeeper:"):
            self.assertRegex(agent.read_log(), self.cage)
        self.end(agent, registry)

    def begin(self, registry, words):
        """An agent that has registered its component; its program is run by these words."""
        agent = self.web_agent(registry=registry)
        agent.program = self.folder / "run-berthd"
        agent.program.write_text("#!/bin/sh\nexec " + " ".join(map(str, words)) + ' "$@"\n')
        agent.program.chmod(0o755)
        environment = {**os.environ, "BERTH_LIBEXECDIR": str(self.machine.build)}
        agent.start(env=environment).wait_state("registered")
        return agent

    def end(self, agent, registry):
        self.assertEqual(agent.stop(), 0)
        here = subprocess.run([PROGRAMS / "berth", "--registry", registry, "resolve", agent.PATH],
            env={**os.environ, "BERTH_LIBEXECDIR": str(PROGRAMS)}, capture_output=True, text=True,
            check=False)
        self.assertIn("PathNotFound", here.stderr)

    def look_up(self, agent, tools):
        for tool in tools:
            found = subprocess.run([*tool, "--socket", agent.socket, "resolve", agent.PATH],
                capture_output=True, text=True, check=False, timeout=TESTING)
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertIn("http://127.0.0.1:8080/", found.stdout)


class I386(Machines):
    qemu, elf = shutil.which("qemu-i386-static"), ("01", "03")

    @classmethod
    def setUpClass(cls):
        cls.machine = Machine("i386", "i686-linux-gnu", "i386-linux-gnu", "ld-linux.so.2")
        if cls.machine.runs:
            cls.cage = ("cage: seccomp, landlock, ports of the servers, no signals, "
                "no capabilities")

    def shown_as(self):
        return str(self.machine.build / "berthd") if self.machine.runs else self.qemu


class Arm64(Machines):
    qemu, elf = shutil.which("qemu-aarch64-static"), ("02", "b7")

    @classmethod
    def setUpClass(cls):
        cls.machine = Machine("arm64", "aarch64-linux-gnu", "aarch64-linux-gnu",
            "ld-linux-aarch64.so.1")

    def test_packages(self):
        """Debian's, by `make deb-arm64`: for that machine, with its libraries, and they run."""
        run("make", "-s", "deb-arm64", folder=BUILD)
        version = (SOURCE / "VERSION").read_text().strip()
        libraries = {"berth": "libev4 libidn2-0 libinih1 libjansson4 libseccomp2 libzookeeper-mt2",
            "berth-probe": "libcurl4 libjansson4 libseccomp2",
            "berth-xds": "libev4 libjansson4 libnghttp2-14 libseccomp2",
            "libberth0": "libjansson4", "libnss-berth": ""}
        for name, needed in libraries.items():
            file = BUILD / f"packages/deb-arm64/{name}_{version}_arm64.deb"
            fields = run("dpkg-deb", "--field", file, "Architecture", "Depends", folder=SOURCE)
            self.assertIn("Architecture: arm64\n", fields)
            for library in ["libc6", *needed.split()]:
                self.assertRegex(fields, rf"\b{library}\b")
            run("dpkg-deb", "--extract", file, self.folder / "place", folder=SOURCE)
        place = self.folder / "place"
        heads = [file.read_bytes()[:19] for file in place.rglob("*") if file.is_file()]
        machines = [head[18] for head in heads if head.startswith(b"\x7fELF")]
        self.assertEqual(set(machines), {0xb7}, "EM_AARCH64")
        self.assertGreaterEqual(len(machines), 6)
        with gzip.open(place / "usr/share/doc/berth/berth.spdx.json.gz", "rt") as file:
            materials = file.read()
        self.assertNotIn('"versionInfo": "NOASSERTION"', materials)
        self.assertNotIn("-cross", materials)
        self.assertEqual(run("lintian", "--allow-root", "--fail-on=error,warning",
            BUILD / f"packages/deb-arm64/berth_{version}_arm64.changes", folder=SOURCE,
            HOME=str(self.folder)), "")
        # By that machine's loader, with its libraries.
        parts = [self.machine.root / part / "aarch64-linux-gnu" for part in ("lib", "usr/lib")]
        loader = [*self.before, self.machine.root / "lib/ld-linux-aarch64.so.1", "--library-path",
            ":".join(map(str, parts))]
        agent = self.begin(self.registry, [*loader, place / "usr/sbin/berthd"])
        self.look_up(agent, ([PROGRAMS / "berth"], [*loader, place / "usr/bin/berth"]))
        self.end(agent, self.registry)


del AgentTest, Machines

if __name__ == "__main__":
    unittest.main()
