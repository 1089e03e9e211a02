"""One host name by glibc's gethostbyname_r(), in turns: by libnss_berth, by nscd, by
systemd-resolved, and from a hosts file without a daemon.

Root; a peer that is not installed is named and left out. PEERS is a folder into which packages were
unpacked, for a machine whose names they shall not answer: apt-get download nscd systemd-resolved
libnss-resolve libsystemd-shared, and dpkg-deb -x PACKAGE PEERS. sssd is no peer: its maps hold
users and groups, and no hosts.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from berth import Agent

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "5"))
COUNT = 20000
SOURCE = pathlib.Path(os.environ["BERTH_SRC_DIR"])
BUILD = pathlib.Path(os.environ["BERTH_BUILD_DIR"]).resolve()
PEERS = pathlib.Path(os.environ.get("PEERS", "/"))
NAME, ADDRESS = "prod.web.joe.berth", "10.0.0.1"
NSCD_CONF = """server-user root
paranoia no
enable-cache hosts yes
positive-time-to-live hosts 3600
check-files hosts no
persistent hosts no
shared hosts {shared}
"""
# $1: the folder with what stands in for /etc; $2: a file that is there when the daemon serves; the
# daemon's words follow.
RUN = """
folder=$1 ready=$2
shift 2
mount -t tmpfs none /run
mkdir -p /run/nscd /run/systemd
for file in nsswitch.conf hosts passwd group resolv.conf; do
    mount --bind "$folder/$file" "$(readlink -m /etc/$file)"
done
if test "$1"; then
    "$@" >"$folder/daemon.log" 2>&1 &
    for try in $(seq 500); do test -S "$ready" && break; sleep 0.02; done
fi
"$folder/host_name" NAME COUNT
if test "$1"; then kill $!; fi
""".replace("NAME", NAME).replace("COUNT", str(COUNT))


def program(name, *places):
    """Where it is installed, or None."""
    if PEERS == pathlib.Path("/"):
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/lib/systemd:/lib/systemd")
        return pathlib.Path(found) if found else None
    return next((PEERS / place for place in places if (PEERS / place).exists()), None)


class Names:
    def __init__(self, folder):
        self.folder = folder
        node = folder / "registry/users/joe/web/prod/components/c1"
        node.mkdir(parents=True)
        (node / "_record").write_text(json.dumps({"type": "JSONServiceRecord", "external": [{
            "api": "http", "addressType": "host/port", "protocol": "tcp",
            "addresses": [{"host": ADDRESS, "port": "80"}]}]}))
        self.agent = Agent(folder / "agent", f"dir:{folder}/registry")
        self.agent.start()
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} {NAME}\n")
        (folder / "resolv.conf").write_text("")
        user = f"systemd-resolve:x:{os.geteuid()}:{os.getegid()}::/:/bin/false\n"
        for file, line in (("passwd", user), ("group", f"systemd-resolve:x:{os.getegid()}:\n")):
            (folder / file).write_text(pathlib.Path("/etc", file).read_text() + line)
        for shared in ("yes", "no"):
            (folder / f"nscd-{shared}").write_text(NSCD_CONF.format(shared=shared))
        subprocess.run(["cc", "-O2", SOURCE / "tests/bench/host_name.c", "-o",
            folder / "host_name"], check=True)

    def contenders(self):
        """(title, service of nsswitch.conf, file that is there, daemon, variables)"""
        yield "libnss_berth, memory", "berth", "", (), {"BERTH_SHARED": "on"}
        yield "libnss_berth, socket", "berth", "", (), {"BERTH_SHARED": "off"}
        yield "a hosts file of two lines", "files", "", (), {}
        nscd = program("nscd", "usr/sbin/nscd")
        if nscd:
            for title, shared in (("nscd, its map", "yes"), ("nscd, its socket", "no")):
                yield (title, "files", "/run/nscd/socket",
                    (nscd, "-F", "-f", self.folder / f"nscd-{shared}"), {})
        else:
            print("nscd is not installed: left out")
        resolved = program("systemd-resolved", "lib/systemd/systemd-resolved")
        if resolved:
            yield ("systemd-resolved, its socket", "resolve",
                "/run/systemd/resolve/io.systemd.Resolve", (resolved,), {})
        else:
            print("systemd-resolved is not installed: left out")

    def measure(self, service, ready, daemon, variables):
        """p50 and p99 in nanoseconds."""
        (self.folder / "nsswitch.conf").write_text(
            f"passwd: files\ngroup: files\nhosts: {service}\n")
        libraries = [BUILD] if PEERS == pathlib.Path("/") else [BUILD,
            PEERS / "usr/lib/x86_64-linux-gnu", PEERS / "usr/lib/x86_64-linux-gnu/systemd"]
        environment = {**os.environ, "BERTH_SOCKET": str(self.agent.socket),
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)), **variables}
        run = subprocess.run(["unshare", "--mount", "sh", "-e", "-c", RUN, "sh", self.folder,
            ready, *daemon], env=environment, capture_output=True, text=True, check=False)
        if run.returncode:
            log = self.folder / "daemon.log"
            raise SystemExit(f"{service}: {run.stderr}{log.read_text() if daemon else ''}")
        return [float(word) for word in run.stdout.split()]


def main():
    if os.geteuid() != 0:
        raise SystemExit("the daemons run as root, who starts this")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        names = Names(pathlib.Path(folder))
        try:
            contenders = list(names.contenders())
            rounds = [[names.measure(*how) for _, *how in contenders] for _ in range(ROUNDS)]
        finally:
            names.agent.end()
    print(f"gethostbyname_r() of glibc, {COUNT} calls (medians of {ROUNDS} rounds)")
    for number, (title, *_) in enumerate(contenders):
        p50, p99 = (statistics.median(column)
            for column in zip(*(figures[number] for figures in rounds)))
        print(f"  {title:<32} p50 {p50:>8,.0f} ns   p99 {p99:>8,.0f} ns")


if __name__ == "__main__":
    main()
