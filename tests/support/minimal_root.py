"""A root that holds Debian packages and what they depend on, and nothing else: made of this
machine's installed files, without a network.

The packages' entries are in the root's dpkg database, so that `dpkg --install` checks dependencies
in it as on any machine. Manual pages, documents and translations are left out, as in container
images. Programs run in it with a mount and a process namespace of their own, and with the machine's
network.
"""

import os
import pathlib
import re
import shutil
import subprocess

from berth import PATIENCE
from container import PATH, Container

# Programs of every Debian image, which maintainer scripts may use.
ESSENTIAL = ["base-files", "base-passwd", "coreutils", "dash", "debconf", "diffutils", "dpkg",
    "findutils", "grep", "hostname",
             "init-system-helpers", "libc-bin", "login", "passwd", "perl-base", "procps", "sed",
             "tar", "util-linux"]
LEFT_OUT = re.compile(
    r"^/usr/share/(doc|man|info|locale|lintian|bug)/|^/usr/share/bash-completion/")
STATUS = pathlib.Path("/var/lib/dpkg/status")

# $1: the root; then the command.
ENTER = """
set -e
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" /usr/bin/env -i "$@"
"""


def installed_packages():
    """{package: its entry in dpkg's status}, and {virtual package: packages that provide it}."""
    entries, providers = {}, {}
    for entry in STATUS.read_text().split("\n\n"):
        fields = dict(re.findall(r"(?m)^([A-Za-z-]+): (.*)$", entry))
        if fields.get("Status", "").endswith(" installed") and fields.get("Architecture") in ("all",
                architecture()):
            entries[fields["Package"]] = entry + "\n\n"
            for name in dependencies(fields.get("Provides", "")):
                providers.setdefault(name[0], []).append(fields["Package"])
    return entries, providers


def architecture():
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True,
        check=True).stdout.strip()


def dependencies(text):
    """ "a (>= 1), b | c:any" as [[a], [b, c]]."""
    return [[re.match(r"\s*([^\s:(]+)", one).group(1) for one in group.split("|")]
        for group in text.split(",") if group.strip()]


def closure(packages):
    """The packages and all that they depend on, by the first alternative that is installed here."""
    entries, providers = installed_packages()
    found, waiting = [], list(packages)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if name not in entries:
            raise AssertionError(f"{name} is not installed on this machine")
        found.append(name)
        fields = dict(re.findall(r"(?m)^(Depends|Pre-Depends): (.*)$", entries[name]))
        for group in dependencies(",".join(fields.values())):
            candidates = [one for option in group for one in (option, *providers.get(option, ()))
                if one in entries]
            if not candidates:
                raise AssertionError(f"{name} depends on {group}, of which nothing is installed")
            if not set(candidates) & set(found):
                waiting.append(candidates[0])
    return sorted(found), entries


class MinimalRoot(Container):
    """`folder` is the caller's; `packages`: names of Debian packages that are installed on this
    machine."""

    def __init__(self, folder, packages, **environment):
        self.folder = pathlib.Path(folder)
        self.root = self.folder / "root"
        self.environment = [f"PATH={PATH}", "LC_ALL=C.UTF-8",
            *(f"{name}={value}" for name, value in environment.items())]
        self.process = self.pid = None
        for name in ("proc", "dev", "run", "var/lib/dpkg/info", "var/lib/dpkg/updates",
                "var/lib/dpkg/triggers", "var/log", "etc", "usr"):
            (self.root / name).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / "usr" / name).mkdir(exist_ok=True)
            (self.root / name).symlink_to(f"usr/{name}")
        (self.root / "tmp").mkdir(mode=0o1777)
        self.packages, entries = closure([*ESSENTIAL, *packages])
        self._copy_files()
        for name in self.packages:
            for file in pathlib.Path("/var/lib/dpkg/info").glob(f"{name}*.list"):
                if file.name.removesuffix(".list").partition(":")[0] == name:
                    shutil.copy(file, self.root / "var/lib/dpkg/info")
        (self.root / "var/lib/dpkg/status").write_text("".join(entries[name]
            for name in self.packages))
        for name in ("passwd", "group"):
            (self.root / "etc" / name).write_bytes(
                (pathlib.Path("/usr/share/base-passwd") / f"{name}.master").read_bytes())
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        self.enter("ldconfig")

    def _copy_files(self):
        listed = subprocess.run(["dpkg-query", "--listfiles", *self.packages], capture_output=True,
            text=True, check=True).stdout
        files = {os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            for path in listed.splitlines()
                 if path.startswith("/") and not LEFT_OUT.match(path)}
        files = sorted(path for path in files if os.path.lexists(path)
            and not (os.path.islink(path) and path.count("/") == 1))
        pack = subprocess.Popen(["tar", "-cf", "-", "--no-recursion", "--null", "-T", "-"], cwd="/",
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
        unpack = subprocess.Popen(["tar", "-xf", "-", "-C", self.root, "--keep-directory-symlink",
            "--same-permissions"], stdin=pack.stdout)
        pack.stdout.close()
        pack.stdin.write("\0".join(path.lstrip("/") for path in files).encode())
        pack.stdin.close()
        if unpack.wait() != 0 or pack.wait() != 0:
            raise AssertionError("the files of the packages cannot be copied")

        self._link_alternatives(files)

    def _link_alternatives(self, files):
        """As the packages' maintainer scripts do it: /usr/bin/cc -> /etc/alternatives/cc ->
        /usr/bin/gcc."""
        for file in pathlib.Path("/var/lib/dpkg/alternatives").iterdir():
            link = self.root / file.read_text().splitlines()[1].lstrip("/")
            chosen = pathlib.Path("/etc/alternatives") / file.name
            if chosen.is_symlink() and os.path.realpath(chosen) in files and not os.path.lexists(
                    link):
                (self.root / "etc/alternatives").mkdir(exist_ok=True)
                (self.root / "etc/alternatives" / file.name).symlink_to(os.readlink(chosen))
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(chosen)

    def command(self, *words):
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh",
            self.root, *self.environment, *words]

    def enter(self, script):
        """Runs a shell command in the root while no container runs there; returns its output."""
        result = subprocess.run(self.command("/bin/sh", "-ec", script), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
        if result.returncode != 0:
            raise AssertionError(f"{script}\nexited with {result.returncode}:\n{result.stdout}")
        return result.stdout

    def take(self, *files):
        """Puts files into the root's /tmp; returns their names there."""
        for file in files:
            (self.root / "tmp" / file.name).write_bytes(file.read_bytes())
        return [f"/tmp/{file.name}" for file in files]

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


NGINX_COMMAND = '["nginx","-g","daemon off;"]'


def nginx_root(folder):
    """With nginx as its package's own script leaves it: it serves a page at port 80."""
    nginx = MinimalRoot(folder, ["nginx"])
    (nginx.root / "etc/nginx/sites-enabled/default").symlink_to("../sites-available/default")
    (nginx.root / "var/www/html").mkdir(parents=True)
    (nginx.root / "var/www/html/index.html").write_text("Welcome to nginx!\n")
    return nginx
