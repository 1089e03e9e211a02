"""A container without a container engine: a fresh root in namespaces of its own, with Berth
installed as `make install` does.

The root shares the machine's /usr, read-only, and its network. /etc, /run, /var and /tmp are its
own, and empty but for what the installation and Dockerfile put there. Nothing in the environment
overrides a path.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

from berth import BUILD, PATIENCE, wait_until

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# $1: the root, $2: the installation; then the command.
SETUP = """
set -e
root=$1 stage=$2
shift 2
mount -t tmpfs -o mode=755 root "$root"
mkdir "$root/usr" "$root/proc" "$root/dev" "$root/etc" "$root/run" "$root/var" "$root/var/lib"
mkdir -m 1777 "$root/tmp"
mount --bind /usr "$root/usr"
mount -o remount,bind,ro "$root/usr"
mount --bind "$stage/usr/local" "$root/usr/local"
for name in bin sbin lib lib32 lib64 libx32; do
	if [ -L "/$name" ]; then
		cp -P "/$name" "$root/$name"
	elif [ -d "/$name" ]; then
		mkdir "$root/$name" && mount --bind "/$name" "$root/$name"
	fi
done
for name in passwd group nsswitch.conf hosts resolv.conf ld.so.cache; do
	[ ! -e "/etc/$name" ] || cp -L "/etc/$name" "$root/etc/$name"
done
cp -R "$stage/etc/." "$root/etc/"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot "$root" /usr/bin/env -i "$@"
"""

SERVER = r"""#!/usr/bin/perl
# A web server on $PORT: /health answers 503 while /tmp/broken exists.
use strict;
use IO::Socket::INET;
$| = 1;
$SIG{TERM} = sub { print "my-server: stopped\n"; exit 0 };
my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ENV{PORT},
	Listen => 64, ReuseAddr => 1) or die $@;
print "my-server: serving\n";
while (1) {
	my $client = $listener->accept or next;
	my $request = <$client>;
	while (my $line = <$client>) { last if $line =~ /^\r?$/ }
	my $bad = defined $request && $request =~ m{ /health } && -e "/tmp/broken";
	my $body = $bad ? "no disk left\n" : "fine\n";
	print $client ($bad ? "HTTP/1.1 503 Service Unavailable" : "HTTP/1.1 200 OK"),
		"\r\nContent-Length: ", length $body, "\r\nConnection: close\r\n\r\n$body";
	close $client;
}
"""


def dockerfile(instruction):
    """The list behind ENTRYPOINT or CMD of the shipped Dockerfile."""
    text = (SOURCE / "init" / "container" / "Dockerfile").read_text()
    return json.loads(re.search(rf"(?m)^{instruction} (\[.*\])$", text).group(1))


class Container:
    """`folder` is the caller's. `environment` is all that the container's programs have, besides
    PATH."""

    def __init__(self, folder, **environment):
        self.root = folder / "root"
        self.stage = folder / "stage"
        self.environment = [f"PATH={PATH}",
            *(f"{name}={value}" for name, value in environment.items())]
        self.process = self.pid = None
        self.root.mkdir()
        self.stage.mkdir()
        self.installed = subprocess.run(
            ["make", "-s", "install", f"DESTDIR={self.stage}"], cwd=BUILD,
            env={**os.environ, "MAKEFLAGS": ""},
            capture_output=True, text=True, timeout=PATIENCE, check=True,
        ).stdout
        server = self.stage / "usr" / "local" / "bin" / "my-server"
        server.write_text(SERVER)
        server.chmod(0o755)

    def command(self, *words):
        """What runs the words as process 1 of the container."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", SETUP, "sh",
            self.root, self.stage,
                *self.environment, *words]

    def start(self, command, log):
        """Runs the command as process 1 of the container; its output goes to the file `log`."""
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                self.command(*command), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.pid = wait_until(lambda: children.read_text().split(),
            "the container has a process")[0]
        wait_until(lambda: self.process.poll() is not None or self.is_set_up(),
            "the container's program runs")
        return self

    def is_set_up(self):
        """The shell that makes the root has become the command."""
        try:
            return pathlib.Path(f"/proc/{self.pid}/comm").read_text().strip() not in ("unshare",
                "sh", "chroot", "env")
        except OSError:
            return False

    def run(self, command):
        """Runs a shell command in the container; returns its exit status and all its output."""
        result = subprocess.run(
            ["nsenter", "--target", self.pid, "--mount", "--pid", "--root", "--wd", "/usr/bin/env",
                "-i", *self.environment,
             "/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=PATIENCE,
            check=False,
        )
        return result.returncode, result.stdout

    def wait(self):
        return self.process.wait(PATIENCE)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.stage, ignore_errors=True)
