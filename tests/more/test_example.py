"""From the package to the end: two minimal roots with nothing in them but the packages and what
these depend on. In one the agent is the entry point of nginx; the other finds it, through a real
ZooKeeper. The README keeps the transcript; BERTH_UPDATE_DOCUMENTS=1 writes it anew.
"""

import functools
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from berth import BUILD, wait_until
from minimal_root import MinimalRoot
from ports import reserve_port
from rights import needs
from test_packages import SOURCE, VERSION, build_debian, run
from zookeeper import ZooKeeper

README = SOURCE / "README.md"
PARENT = "/users/devteam/web/test1/components"
BLOCK = re.compile(r"(?ms)(^## A longer example\n.*?^```console\n)(.*?)(^```$)")

ABSENT = 3  # the exit status of a look-up that finds nothing

NGINX = """\
pid /run/nginx.pid;
error_log stderr warn;
events {}
http {
	access_log off;
	server {
		listen 127.0.0.1:%s;
		location = /health { return 200 "fine\\n"; }
		location / { return 200 "hello\\n"; }
	}
}
"""

# "web" and "client" are the two containers; "#" is done outside of both. Each with what its output
# matches, and its exit status.
STEPS = [
    ("web", f"dpkg --install berth_{VERSION}_ARCH.deb", r"(?s)Setting up berth.*"),
    ("web", "berthd -t",
        r"ini: good: 1 component, 1 endpoint, 1 check, registry [^;]+; at /users/\S+\n$"),
    ("#", "start web: /usr/share/berth/init/container/entrypoint nginx -g 'daemon off;'", r"^$"),
    ("#", "start client: /usr/share/berth/init/container/entrypoint", r"^$"),
    ("web", "berth wait --registered --timeout 50s && berth ready && echo ready", r"^ready\n$"),
    ("client", f"berth wait {PARENT} --endpoints 1 --timeout 50s", r"^$"),
    ("client", f"berth endpoints --plain {PARENT}", r"^http://\S+:\d+/\n$"),
    ("client", "berth host test1.web.devteam.berth", r"(?s)."),
    ("web", "berth drain --reason 'new kernel' --wait", r"^$"),
    ("client", f"berth endpoints {PARENT}", r"NoRecord", ABSENT),
    ("web", "berth undrain && berth wait --registered --timeout 50s", r"^$"),
    ("web", "berth status --json | grep '\"session\"' >/tmp/before", r"^$"),
    ("web", f"dpkg --install berth_{VERSION}+1_ARCH.deb",
        r"(?s)Unpacking berth \(.*\) over \(.*\).*Setting up berth"),
    ("#", "docker logs web | grep -c 'runs, pid 1,'", r"^2\n$"),
    ("web", "berth ready && berth status --json | grep '\"session\"' | cmp - /tmp/before && "
            "echo same", r"^same\n$"),
    ("#", "docker stop web", r"^$"),
    ("client", f"berth endpoints {PARENT}", r"NoRecord|PathNotFound", ABSENT),
    ("#", "docker stop client", r"^$"),
]


def next_version(package, folder):
    """The same package with a later version, as far as dpkg can see."""
    tree = folder / "next"
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN" / "control"
    control.write_text(control.read_text().replace(f"Version: {VERSION}\n",
        f"Version: {VERSION}+1\n"))
    file = folder / package.name.replace(VERSION, f"{VERSION}+1")
    run("dpkg-deb", "--root-owner-group", "--build", tree, file)
    return file


@needs("process namespace")
class Example(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="more-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def root(self, name, packages, **environment):
        root = MinimalRoot(self.folder / name, packages, **environment)
        self.addCleanup(root.end)
        return root

    def test_installed_registered_found_drained_upgraded_and_stopped(self):
        package = build_debian()["berth"]
        needed = [one.split()[0] for one in run("dpkg-deb", "--field", package,
            "Depends").split(", ")]
        port = reserve_port(self)
        with ZooKeeper() as self.server:
            environment = {"BERTH_REGISTRY": self.server.url, "PORT": port}
            self.roots = {"web": self.root("web", [*needed, "nginx"], **environment),
                "client": self.root("client", needed, **environment)}
            for root in self.roots.values():
                root.take(package, next_version(package, root.folder))
            (self.roots["web"].root / "etc/nginx/nginx.conf").write_text(NGINX % port)
            self.roots["client"].enter(f"dpkg --install /tmp/{package.name}")
            (self.roots["client"].root / "etc/berth/berth.ini").write_text(
                f"[registry]\nurl = {self.server.url}\n")
            text = "".join(self.step(*step) for step in STEPS)
            self.assertIsNone(self.server.stat(f"/registry{PARENT}/{os.uname().nodename}"))
        self.keep(text.replace(str(self.folder), "$DIR"))

    def step(self, where, command, pattern, status=0):
        real = command.replace("ARCH", run("dpkg", "--print-architecture").strip())
        act = functools.partial(self.outside, real) if where == "#" else functools.partial(
            self.inside, self.roots[where], real)
        got, output = act()
        if status == ABSENT and got == 0:
            # The client's agent hears of the deletion some milliseconds after the container did.
            got, output = wait_until(lambda: (result := act())[0] and result, real)
        logs = "".join(self.log(name).read_text() for name in self.roots if self.log(name).exists())
        self.assertEqual(got, status, f"{real}\n{output}\n{logs}")
        self.assertRegex(output, pattern, f"{real}\n{logs}")
        prompt = "# " if where == "#" else f"{where}$ "
        return f"{prompt}{command.replace('ARCH', 'amd64')}\n{output}"

    def log(self, name):
        return self.folder / f"{name}.log"

    def inside(self, root, command):
        if root.pid:
            return root.run(f"cd /tmp && {command}")
        return 0, root.enter(f"cd /tmp && {command}")

    def outside(self, command):
        verb, name = re.match(r"(start|docker logs|docker stop) (\w+)", command).groups()
        root = self.roots[name]
        if verb == "start":
            root.start(["/bin/sh", "-c", f"exec {command.partition(': ')[2]}"], self.log(name))
        elif verb == "docker logs":
            wait_until(lambda: self.log(name).read_text().count("runs, pid 1,") == 2,
                "the new program runs")
            return 0, "2\n"
        else:
            os.kill(int(root.pid), 15)
            self.assertEqual(root.wait(), 0, self.log(name).read_text())
            root.pid = None
        return 0, ""

    def keep(self, text):
        readme = README.read_text()
        kept = BLOCK.search(readme)
        self.assertTrue(kept, "the README has a longer example")
        if "BERTH_UPDATE_DOCUMENTS" in os.environ:
            README.write_text(readme[: kept.start(2)] + text + readme[kept.end(2):])
        commands = [line for line in kept.group(2).splitlines() if re.match(r"(web\$|client\$|#) ",
            line)]
        self.assertEqual(commands,
            [line for line in text.splitlines() if re.match(r"(web\$|client\$|#) ", line)],
                         "BERTH_UPDATE_DOCUMENTS=1 writes it anew")


if __name__ == "__main__":
    unittest.main()
