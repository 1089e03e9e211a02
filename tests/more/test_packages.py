"""A release: packages for Debian, Fedora and Alpine, built by the distributions' tools from the
tarball of this tree, with sums and signatures."""

import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from berth import BUILD
from rights import needs

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()
VERSION = (SOURCE / "VERSION").read_text().strip()
COMPILING = 600  # seconds
NAMES = ["berth", "berth-probe", "berth-static", "berth-xds", "libberth-dev",
    "libberth0", "libnss-berth"]
HOME = tempfile.TemporaryDirectory(prefix="packages-home-")


def run(*command, folder=BUILD, **environment):
    """Runs a command that must succeed, with a home of its own; returns all that it says."""
    kept = {name: value for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "BERTH_", "ASAN", "UBSAN"))}
    result = subprocess.run(
        list(map(str, command)), cwd=folder, env={**kept, "HOME": HOME.name, **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=COMPILING, check=False,
    )
    if result.returncode != 0:
        raise AssertionError(f"{command} exited with {result.returncode}:\n{result.stdout[-5000:]}")
    return result.stdout


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build_debian():
    """`make deb`, once for all tests of the run; returns {package: file}."""
    folder = BUILD / "packages" / "deb"
    found = {name: folder / f"{name}_{VERSION}_{architecture()}.deb" for name in NAMES}
    if not all(file.exists() for file in found.values()):
        run("make", "-s", "deb")
    return found


@functools.cache
def gnupg():
    """The environment of gpg with a key that nobody else has; (environment, fingerprint)."""
    # The path of gpg's socket has to be a short one.
    home = tempfile.mkdtemp(prefix="gpg-", dir="/tmp")
    environment = {"GNUPGHOME": home}
    unittest.addModuleCleanup(shutil.rmtree, home, ignore_errors=True)
    unittest.addModuleCleanup(run, "gpgconf", "--kill", "all", **environment)
    run("gpg", "--batch", "--passphrase", "", "--quick-generate-key",
        "A Release <release@example.org>", "ed25519", "sign", "never", **environment)
    listed = run("gpg", "--with-colons", "--list-keys", **environment)
    return environment, re.search(r"(?m)^fpr:+(\w+):", listed)[1]


@functools.cache
def build_release():
    """`make release`, once for all tests of the run; returns its folder."""
    environment, key = gnupg()
    # The libraries are there, but rpm's own database does not know them. How well that package is
    # compiled does not matter here.
    run("make", "-s", "release", f"RELEASE_KEY={key}", 'RPM_FLAGS=--nodeps '
        '--define "optflags -O0 -g0" --define "debug_package %{nil}"', **environment)
    return BUILD / "release"


def architecture():
    return run("dpkg", "--print-architecture").strip()


# A build in a year's time, on another host with another kernel, by a user with other habits.
ELSEWHERE = ["unshare", "--user", "--map-root-user", "--uts", "faketime", "+380days", "setarch",
    "--uname-2.6", "--addr-no-randomize", "sh", "-ec", """
hostname elsewhere.example
umask 077
exec dpkg-buildpackage --build=binary --unsigned-source --unsigned-changes -j3
"""]


class Temporary(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="more-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)


class Debian(Temporary):
    @classmethod
    def setUpClass(cls):
        build_release()
        cls.packages = build_debian()

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.packages[package], name).strip()

    def files(self, package):
        return {line.split(maxsplit=5)[5].removeprefix(".").partition(" -> ")[0]
                for line in run("dpkg-deb", "--contents", self.packages[package]).splitlines()}

    def test_the_version_is_that_of_the_tree(self):
        changelog = (SOURCE / "packaging" / "debian" / "changelog").read_text()
        self.assertEqual(re.match(r"berth \((\S+)\)", changelog).group(1), VERSION)

    def test_lintian_finds_nothing(self):
        changes = BUILD / "packages" / "deb" / f"berth_{VERSION}_{architecture()}.changes"
        self.assertEqual(run("lintian", "--allow-root", "--fail-on=error,warning", changes,
            HOME=str(self.folder)), "")

    @needs("user namespace")
    def test_two_builds_in_two_places_are_the_same_to_the_byte(self):
        place = self.folder / "some" / "other-place"
        place.mkdir(parents=True)
        run("make", "-s", "dist")
        run("tar", "-xzf", BUILD / f"berth-{VERSION}.tar.gz", folder=place)
        tree = place / f"berth-{VERSION}"
        shutil.copytree(tree / "packaging" / "debian", tree / "debian")
        run(*ELSEWHERE, folder=tree, NO_FAKE_STAT="1", TZ="Pacific/Kiritimati", LC_ALL="C",
            LANG="de_DE.UTF-8", HOME=str(place / "home"),
            USER="nobody", DEB_BUILD_OPTIONS="parallel=3", PATH=os.environ["PATH"] + ":/elsewhere")
        for name, file in self.packages.items():
            self.assertEqual(digest(file), digest(place / file.name), name)

    def test_each_package_holds_its_part(self):
        parts = {
            "berth": {"/usr/bin/berth", "/usr/sbin/berthd", "/usr/libexec/berth/berth-looker",
                "/usr/libexec/berth/berth-runtime",
                "/usr/libexec/berth/berth-zookeeper",
                "/etc/berth/berth.ini",
                      "/etc/berth/conf.d/", "/lib/systemd/system/berthd.service",
                      "/lib/systemd/system/berthd.socket",
                      "/usr/lib/sysusers.d/berth.conf", "/usr/lib/tmpfiles.d/berth.conf",
                      "/etc/init.d/berthd",
                      "/usr/share/doc/berth/berth.spdx.json.gz", "/usr/share/man/man8/berthd.8.gz",
                      "/usr/share/doc/berth/SECURITY.md.gz", "/usr/share/doc/berth/DIALECTS.md.gz",
                      "/usr/share/doc/berth/BACKUP.md", "/usr/share/berth/grafana/berth.json",
                      "/usr/share/doc/berth/BRIDGE.md.gz", "/etc/logrotate.d/berth",
                      "/usr/share/doc/berth/ARCHITECTURE.md.gz",
                      "/usr/share/berth/host/remove-unused",
                      "/usr/share/berth/prometheus/berth.rules.yml"},
            "berth-static": {"/usr/bin/berth-static"},
            "libberth0": {f"/usr/lib/{self.triplet()}/libberth.so.0"},
            "libberth-dev": {"/usr/include/berth.h", f"/usr/lib/{self.triplet()}/libberth.so",
                             f"/usr/lib/{self.triplet()}/libberth.a",
                             "/usr/share/man/man3/libberth.3.gz"},
            "berth-xds": {"/usr/sbin/berth-xds", "/usr/share/man/man8/berth-xds.8.gz"},
            "berth-probe": {"/usr/libexec/berth/berth-probe",
                "/usr/share/man/man8/berth-probe.8.gz"},
            "libnss-berth": {f"/usr/lib/{self.triplet()}/libnss_berth.so.2"},
        }
        seen = set()
        for name, wanted in parts.items():
            files = self.files(name)
            self.assertLessEqual(wanted, files, name)
            own = {file for file in files if not file.endswith("/")}
            self.assertFalse(own & seen, "two packages hold the same file")
            seen |= own

    def triplet(self):
        return run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()

    def test_nothing_is_needed_at_run_time_that_is_not_used(self):
        needed = {one.split()[0] for one in self.field("berth", "Depends").split(",")}
        self.assertEqual(needed, {"init-system-helpers", "libc6", "libev4", "libidn2-0", "libinih1",
            "libjansson4", "libseccomp2",
                                  "libzookeeper-mt2"})
        self.assertEqual({one.split()[0] for one in self.field("libberth0", "Depends").split(",")},
            {"libc6", "libjansson4"})
        self.assertEqual({one.split()[0] for one in self.field("berth-xds", "Depends").split(",")},
            {"libc6", "libev4", "libjansson4", "libnghttp2-14", "libseccomp2"})
        needed = {one.split()[0] for one in self.field("berth-probe", "Depends").split(",")}
        self.assertEqual(needed, {"berth", "libc6", "libcurl4", "libjansson4", "libseccomp2"})
        self.assertEqual(self.field("libnss-berth", "Depends").split()[0], "libc6")
        self.assertLess(int(self.field("berth", "Installed-Size")), 2560)  # KiB

    def test_the_configuration_is_a_conffile(self):
        control = self.folder / "control"
        run("dpkg-deb", "--control", self.packages["berth"], control)
        self.assertIn("/etc/berth/berth.ini", (control / "conffiles").read_text().splitlines())

    def test_the_bill_of_materials_names_every_library(self):
        run("dpkg-deb", "--extract", self.packages["berth"], self.folder)
        bill = json.loads(run("gzip", "-dc",
            self.folder / "usr/share/doc/berth/berth.spdx.json.gz"))
        check_spdx(self, bill)
        listed = {one["sourceInfo"].removeprefix("package ") for one in bill["packages"]
            if "sourceInfo" in one}
        needed = {one.split()[0] for one in self.field("berth",
            "Depends").split(",")} - {"init-system-helpers"}
        self.assertLessEqual(needed, listed)


# A machine of its own above the files of this one: all that changes is in upper/.
MACHINE = r"""
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" none "$1/root"
mount -t tmpfs none "$1/root/tmp"
mount -t tmpfs none "$1/root/run"
mount -t proc none "$1/root/proc"
mount --bind /dev "$1/root/dev"
cp "$2"/*.deb "$1/root/tmp"
chroot "$1/root" sh -ec "$3"
cd "$1/upper"
find . -depth -print0 | tar --null --no-recursion --create --file="$2/changed.tar" --files-from=-
"""
# All packages, an agent that registers, and then neither of them.
LIFE = r"""
cd /tmp
export DEBIAN_FRONTEND=noninteractive TMPDIR=/tmp
dpkg --install ./*.deb >installed 2>&1 || { cat installed >&2; exit 1; }
cat >/etc/berth/conf.d/local.ini <<END
[component]
user = joe
service_class = web
instance = test
name = n1
[endpoint http]
api = http://example.org/
protocol = http
address_type = uri
address = http://192.0.2.7/
END
printf '[registry]\nurl = dir:/tmp/registry\n' >/etc/berth/berth.ini
berthd -c /etc/berth/berth.ini >log 2>&1 &
agent=$!
berth wait --registered --timeout 60s || { cat log >&2; exit 1; }
ls -A /var/lib/berth /run/berth >&2
echo "the agent is $agent"
chroot_of_nothing=$(mktemp -d)
cp /usr/bin/berth-static "$chroot_of_nothing/berth"
chroot "$chroot_of_nothing" /berth --version
rm -r "$chroot_of_nothing"
dpkg --remove berth berth-probe berth-static berth-xds libnss-berth libberth-dev libberth0 2>&1
echo purging
dpkg --purge berth 2>&1
! kill -0 $agent 2>/dev/null || echo "the agent runs on"
wait $agent || :
echo purged
dpkg-query --show berth berth-probe berth-static berth-xds \
    libnss-berth libberth-dev libberth0 2>/dev/null || :
"""
# Files of dpkg itself, and of the programs that it tells of new files: insserv numbers the scripts
# of other packages anew, too.
OF_DPKG = re.compile(r"(var/lib/dpkg|var/cache|var/log|etc/ld\.so\.cache$|etc/[a-z]+-$|"
    r"var/lib/systemd/deb-systemd|etc/\.pwd\.lock$|etc/init\.d/\.depend\.[a-z]+$|"
    r"etc/rc[0-6S]\.d/[KS][0-9]{2}(?!berth))")


@needs("mount namespace", "process namespace")
class Purge(Temporary):
    """The packages on a machine with dpkg, with an agent that has written its files."""

    @classmethod
    def setUpClass(cls):
        cls.packages = build_debian()

    def test_purging_leaves_nothing_and_removing_names_the_agent(self):
        place = self.folder / "place"
        place.mkdir()
        for file in self.packages.values():
            shutil.copy2(file, self.folder)
        said = run("unshare", "--mount", "--propagation", "private", "--pid", "--fork",
            "--kill-child", "sh", "-c", MACHINE, "sh", place, self.folder, LIFE)
        agent = re.search(r"(?m)^the agent is (\d+)$", said)[1]
        removing, _, purging = said.partition("\npurging\n")
        self.assertIn("Purging configuration files for berth", purging)
        self.assertIn(f"berth: an agent still runs, process {agent}, and keeps its records",
            removing)
        self.assertIn("kill -TERM", removing)
        self.assertEqual(purging.partition("\npurged\n")[2].strip(), "")
        with tarfile.open(self.folder / "changed.tar") as changed:
            left = [name for name in map(self.left, changed) if name]
        self.assertEqual(left, [])

    def left(self, member):
        """The name of what is not as it was before; "" for all else."""
        name = member.name.removeprefix("./")
        before = pathlib.Path("/", name)
        if OF_DPKG.match(name):
            return ""
        if member.isdir():
            return "" if before.is_dir() else name
        if member.ischr():  # an overlay's mark of what was there and has gone
            return f"no {name}" if os.path.lexists(before) else ""
        same = member.isreg() and before.is_file() and before.stat().st_size == member.size
        return "" if same else name


# Settings with which apt reads nothing of this machine, and writes nothing to it.
APT = """
Dir "{folder}/";
Dir::State::status "{folder}/status";
APT::Architecture "{architecture}";
APT::Architectures "{architecture}";
APT::Sandbox::User "";
Acquire::Languages "none";
"""


class Release(Temporary):
    def setUp(self):
        super().setUp()
        self.release = self.folder / "release"
        shutil.copytree(build_release(), self.release)

    def verify(self, file, *signature):
        """As a user does who has the key from elsewhere."""
        keyring = self.folder / "keyring"
        keyring.unlink(missing_ok=True)
        run("gpg", "--dearmor", "--output", keyring, self.release / "KEY.asc", **gnupg()[0])
        return run("gpgv", "--keyring", keyring, *signature, file)

    def test_every_file_has_its_sum(self):
        run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", folder=self.release)
        listed = {line.split("  ")[1] for line in
            (self.release / "SHA256SUMS").read_text().splitlines()}
        files = {str(file.relative_to(self.release)) for file in self.release.rglob("*")
            if file.is_file()}
        self.assertEqual(files - listed, {"SHA256SUMS", "SHA256SUMS.asc"})
        debs = [f"apt/pool/main/b/berth/{name}_{VERSION}_{architecture()}.deb" for name in NAMES]
        self.assertLessEqual({f"berth-{VERSION}.tar.gz", f"berth-{VERSION}.spdx.json", "KEY.asc",
            "alpine/APKBUILD", f"alpine/berth-{VERSION}.tar.gz", *debs}, listed)
        for kind in "x86_64", "src":
            self.assertTrue([one for one in listed if re.match(rf"rpm/berth-.*\.{kind}\.rpm", one)]
                or os.uname().machine != "x86_64", kind)

    def test_the_sums_are_signed_by_the_key_that_was_named(self):
        sums = self.release / "SHA256SUMS"
        said = self.verify(sums, f"{sums}.asc")
        self.assertIn(gnupg()[1], said.replace(" ", ""))
        sums.write_text(sums.read_text() + "0" * 64 + "  more\n")
        with self.assertRaisesRegex(AssertionError, "BAD signature"):
            self.verify(sums, f"{sums}.asc")

    def test_the_bill_of_materials_is_one(self):
        check_spdx(self, json.loads((self.release / f"berth-{VERSION}.spdx.json").read_text()))

    def apt(self, *words):
        """apt of a machine that knows this repository alone."""
        folder = self.folder / "apt"
        for name in "etc/apt/sources.list.d", "var/lib/apt/lists/partial", \
                "var/cache/apt/archives/partial":
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "conf").write_text(APT.format(folder=folder, architecture=architecture()))
        keyring = self.release / "apt" / "berth-archive-keyring.pgp"
        (folder / "etc/apt/sources.list").write_text(
            f"deb [signed-by={keyring}] file:{self.release}/apt stable main\n")
        return run("apt-get", *words, folder=folder, APT_CONFIG=str(folder / "conf"))

    def test_apt_takes_the_packages(self):
        self.apt("update", "-qq")
        for name, file in build_debian().items():
            self.apt("download", "-qq", name)
            self.assertEqual(digest(self.folder / "apt" / file.name), digest(file))

    def test_apt_refuses_what_was_changed(self):
        index = self.release / f"apt/dists/stable/main/binary-{architecture()}/Packages"
        index.write_text(index.read_text().replace("Section: net", "Section: new"))
        index.with_name("Packages.gz").unlink()
        with self.assertRaisesRegex(AssertionError, "Hash Sum mismatch|unexpected size"):
            self.apt("update", "-qq")
        signed = self.release / "apt/dists/stable/InRelease"
        signed.write_text(signed.read_text().replace("Origin: Berth", "Origin: Death"))
        with self.assertRaisesRegex(AssertionError, "invalid|not signed|BADSIG"):
            self.apt("update", "-qq")


class Key(unittest.TestCase):
    def test_a_key_that_is_not_there_is_refused_before_anything_is_built(self):
        for key, words in ("", "RELEASE_KEY=FINGERPRINT"), ("nobody@example.org", "No secret key"):
            result = subprocess.run(["make", "-s", "release", f"RELEASE_KEY={key}"], cwd=BUILD,
                env={**os.environ, **gnupg()[0]}, capture_output=True, text=True, timeout=COMPILING,
                check=False)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)


def check_spdx(test, bill):
    """What SPDX 2.3 wants of every document."""
    test.assertLessEqual({"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace",
        "creationInfo"}, set(bill))
    test.assertEqual((bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]),
        ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
    test.assertRegex(bill["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
    for creator in bill["creationInfo"]["creators"]:
        test.assertRegex(creator, r"^(Person|Organization|Tool): \S")
    names = {"SPDXRef-DOCUMENT"}
    for package in bill["packages"]:
        test.assertLessEqual({"SPDXID", "name", "downloadLocation"}, set(package))
        test.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
        test.assertNotIn(package["SPDXID"], names)
        names.add(package["SPDXID"])
        for reference in package.get("externalRefs", ()):
            test.assertRegex(reference["referenceLocator"], r"^pkg:deb/\w+/[a-z0-9.+-]+@\S+$")
    for relationship in bill["relationships"]:
        test.assertLessEqual({relationship["spdxElementId"], relationship["relatedSpdxElement"]},
            names)
    test.assertTrue(any(one["relationshipType"] == "DESCRIBES" for one in bill["relationships"]))


class Fedora(unittest.TestCase):
    def test_rpmbuild_makes_the_packages(self):
        build_release()
        packages = {re.sub(r"-[\d.]+-\d+.*", "", file.name): file
            for file in (BUILD / "packages/rpm/RPMS").rglob("*.rpm")}
        self.assertEqual(set(packages),
            {"berth", "berth-probe", "berth-xds", "libberth", "libberth-devel", "nss-berth"})
        files = run("rpm", "--query", "--list", "--package", packages["berth"])
        for file in ("/usr/sbin/berthd", "/usr/bin/berth", "/etc/berth/berth.ini",
                "/usr/lib/sysusers.d/berth.conf"):
            self.assertRegex(files, rf"(?m)^{file}$")
        self.assertEqual(run("rpm", "--query", "--configfiles", "--package", packages["berth"]),
            "/etc/berth/berth.ini\n")
        self.assertIn("upgrade-agents", run("rpm", "--query", "--scripts", "--package",
            packages["berth"]))


ABUILD = """
set -e
. ./APKBUILD
cd berth-$pkgver
build
check
package
"""


class Alpine(Temporary):
    """Debian has no abuild, so the functions run as abuild would call them; with musl, and with
    Debian's archives of the libraries."""

    def test_the_steps_of_the_apkbuild(self):
        build_release()
        folder = self.folder / "apk"
        shutil.copytree(BUILD / "packages" / "apk", folder)
        run("tar", "-xzf", f"berth-{VERSION}.tar.gz", folder=folder)
        target = self.folder / "root"
        host = run("cc", "-dumpmachine").strip()
        toolchain = self.folder / "musl"
        run(SOURCE / "tests/support/musl-toolchain", toolchain)
        run("sh", "-c", ABUILD, folder=folder, pkgdir=str(target), CBUILD=host, CHOST=host,
            CFLAGS="-O0", CC=str(toolchain / "cc"),
            PKG_CONFIG="false", LIBS="-lunistring -lfortified")
        self.assertIn("ld-musl", run("readelf", "--program-headers", target / "usr/sbin/berthd"))
        for file in ("usr/sbin/berthd", "usr/bin/berth", "etc/init.d/berthd",
                "usr/lib/libberth.so.0"):
            self.assertTrue((target / file).exists(), file)
        self.assertFalse((target / "usr/libexec/berth/berth-zookeeper").exists())
        # It says so, instead of failing later.
        (target / "zookeeper.ini").write_text("[registry]\nurl = zookeeper://127.0.0.1:2181/\n")
        result = subprocess.run([target / "usr/sbin/berthd", "-t", "-c", target / "zookeeper.ini"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("this build has no ZooKeeper client", result.stdout + result.stderr)
        # Agents and the tool at work, on a directory.
        run("python3", "-m", "unittest", "discover", "-s", SOURCE / "tests/e2e", "-p",
            "test_cli.py",
            BERTH_BUILD_DIR=str(folder / f"berth-{VERSION}"), BERTH_SRC_DIR=str(SOURCE),
            PYTHONPATH=str(SOURCE / "tests/support"))

    def test_the_named_files_exist(self):
        text = (SOURCE / "packaging" / "alpine" / "APKBUILD").read_text()
        values = dict(re.findall(r'(?m)^(\w+)="?(.*?)"?$', text))
        self.assertEqual(values["install"].replace("$pkgname", "berth"), "berth.post-upgrade")
        self.assertTrue((SOURCE / "packaging" / "alpine" / "berth.post-upgrade").exists())
        self.assertEqual(values["pkgver"], "@VERSION@")
        for field in ("pkgname", "pkgrel", "pkgdesc", "url", "arch", "license", "makedepends",
                "source", "maintainer"):
            self.assertTrue(values.get(field), field)


if __name__ == "__main__":
    unittest.main()
