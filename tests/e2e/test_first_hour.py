"""The first hour with Berth, in a fresh root where nothing overrides a path: the steps of the
shipped Dockerfile, and all that an operator does next. docs/FIRST-HOUR.md keeps the transcript;
BERTH_UPDATE_DOCUMENTS=1 writes it anew. With --show it prints that while it happens, as
./quickstart --first-hour does.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from berth import wait_until
from container import SOURCE, Container, dockerfile
from ports import claim_port
from rights import needs
from zookeeper import ZooKeeper

DOCUMENT = SOURCE / "docs" / "FIRST-HOUR.md"
CONTAINERS = "## 8. Containers that know nothing of Berth\n\n"
PARENT = "/users/devteam/web/test1/components"

HEAD = """\
# The first hour

The transcript of a test (`tests/e2e/test_first_hour.py`), which runs these commands in a fresh
root, with a real ZooKeeper server and the entry point that is installed. No path is overridden.
The last part is that of `tests/more/test_first_hour.py`, which starts a dockerd of its own.
Times, process numbers and the host's name differ from run to run. `./quickstart --first-hour` does
all of it before your eyes.

To do it by hand: the image is `init/container/Dockerfile` (in `/usr/share/berth` of a package).
`my-server` is any web server that listens at `$PORT`, answers `/health` and ends at `SIGTERM`; the
test's, whose `/health` fails while there is a file `/tmp/broken`, is `SERVER` in
`tests/support/container.py`. Lines with `#` are typed on the host, lines with `$` in the container
(`docker exec -it web sh`).

"""

# Each step: what it shows, and its commands with what their output matches and their exit status
# (0, unless one is given).
# A command that begins with "#" is done by the test, outside of the container.
STEPS = [
    (
        "Install. The sample configuration is good as it is: one component with an http check of "
        "its "
        "web server.",
        [
            ("# make install", r"Berth \S+ is installed. Next:"),
            ("cat /etc/berth/berth.ini", r"(?s)type = http\ntarget = http://127.0.0.1:"),
            ("berthd -t",
                r"ini: good: 1 component, 1 endpoint, 1 check, registry [^;]+; at /users/\S+\n$"),
        ],
    ),
    (
        "Start the container. Its entry point runs the server as the agent's main process; the "
        "agent "
        "is process 1.",
        [
            ("# docker run --detach --name web --env BERTH_REGISTRY --env PORT image", r"^$"),
            ("berth wait --registered --timeout 50s", r"^$"),
            (
                "berth status",
                r"(?s)connected, since.*registered .*\n  /users/devteam/web/test1/components/\S+\n",
            ),
            (f"berth endpoints --plain {PARENT}", r"^http://\S+:\d+/\n$"),
            ("curl -s --unix-socket /run/berth/berth.sock http://localhost/ready", r"^ready\n$"),
            ("berth stat /none", r"PathNotFound", 3),
        ],
    ),
    (
        "Kill the registry. The agent says so, and goes on answering: what it knew last, with its "
        "age.",
        [
            ("# docker kill zookeeper", r"^$"),
            (
                "until berth endpoints --first %s 2>&1 >/dev/null | grep -q note; do sleep 0.2; "
                "done"
                % PARENT,
                r"^$",
            ),
            (
                f"berth endpoints --plain {PARENT}",
                r"(?s)^note: the registry is away; this answer is .* old\n.*http://\S+/\n",
            ),
            ("berth ready", r"^berth: Failed: .*the registry is away", 1),
            ("berth status", r"registry +zookeeper://\S+\n +(?!connected)\S"),
            ("# docker start zookeeper", r"^$"),
            ("berth wait --registered --timeout 50s && berth ready && echo ready", r"^ready\n$"),
        ],
    ),
    (
        "Why is it not registered. The server breaks: the check's failure is the reason, in every "
        "place.",
        [
            (
                "touch /tmp/broken; until berth status | grep -q withdrawn; do sleep 0.2; done",
                r"^$",
            ),
            ("berth ready", r"^berth: Failed: .*http", 1),
            ("berth status", r"withdrawn .*\n.*\n.*http"),
            ("berth checks", r"http +\S+ +down .*503"),
            ("berth history -n 3", r"withdrawn"),
            ("rm /tmp/broken; berth wait --registered --timeout 50s", r"^$"),
        ],
    ),
    (
        "Drain. For maintenance, and back.",
        [
            ("berth drain --reason 'new disk' --for 1h --wait", r"^$"),
            ("berth status", r"(?s)drain +begun .*: new disk; ends in .*withdrawn"),
            (f"berth endpoints {PARENT}", r"NoRecord", 3),
            ("berth undrain && berth wait --registered --timeout 50s", r"^$"),
        ],
    ),
    (
        "Upgrade. The agent replaces itself in place: the record, the session and the server stay.",
        [
            ("berth status --json | grep '\"session\"' | tee /tmp/before", r"0x[0-9a-f]+"),
            ("kill -USR2 1", r"^$"),
            ("# docker logs web | grep 'runs, pid'", r"(?s)runs, pid 1.*runs, pid 1,"),
            ("berth wait --registered --timeout 50s", r"^$"),
            (
                "berth status --json | grep '\"session\"' | cmp - /tmp/before && echo the same "
                "session",
                r"^the same session\n$",
            ),
            ("berth ready && echo ready", r"^ready\n$"),
        ],
    ),
    (
        "Stop. The record goes first, then the server; the exit status is the server's.",
        [
            ("# docker stop web", r"my-server: stopped"),
            (f"# berth --registry $BERTH_REGISTRY ls {PARENT}", r"^$"),
        ],
    ),
]


@needs("process namespace")
class FirstHour(unittest.TestCase):
    @staticmethod
    def show(text):
        """Gets the transcript piece by piece."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.log = self.folder / "log"
        claim = claim_port()
        self.port = claim.getsockname()[1]
        claim.close()

    def container(self, **environment):
        container = Container(self.folder, PORT=self.port, **environment)
        self.addCleanup(container.end)
        return container

    def outside(self, command):
        """What the test does: the engine's part, and the registry's."""
        if command == "make install":
            return 0, self.box.installed
        if command.startswith("docker run"):
            self.box.start(dockerfile("ENTRYPOINT") + dockerfile("CMD"), self.log)
            return 0, ""
        if command == "docker kill zookeeper":
            self.server.kill()
            return 0, ""
        if command == "docker start zookeeper":
            self.server.restart()
            return 0, ""
        if command.startswith("docker logs"):
            wait_until(lambda: self.log.read_text().count(" runs, pid ") == 2,
                "the new program runs", patience=20)
            return 0, "".join(re.findall(r".* runs, pid .*\n", self.log.read_text()))
        if command == "docker stop web":
            os.kill(int(self.box.pid), 15)
            self.assertEqual(self.box.wait(), 0, self.log.read_text())
            return 0, "".join(re.findall(r"(?m)^my-server: stopped\n", self.log.read_text()))
        return 0, "".join(f"{child}\n" for child in self.children())

    def children(self):
        stat = self.server.stat(f"/registry{PARENT}")
        return [] if not stat else range(int(stat["numChildren"]))

    def run_step(self, command, pattern, status=0):
        if command.startswith("# "):
            got, output = self.outside(command[2:])
        else:
            if self.box.pid is None:
                got, output = self.before_start(command)
            else:
                got, output = self.box.run(command)
        said = (
            f"{command}\n{output}\nthe agent's log:\n"
            f"{self.log.read_text() if self.log.exists() else ''}")
        self.assertEqual(got, status, said)
        self.assertRegex(output, pattern, said)
        return output

    def before_start(self, command):
        """In a container of its own, as before the first start."""
        out = self.folder / "out"
        out.unlink(missing_ok=True)
        with open(out, "wb"):
            pass
        self.box.start(["/bin/sh", "-c", command], out)
        status = self.box.wait()
        self.box.pid = None
        return status, out.read_text()

    def transcript(self):
        text = ""

        def say(more):
            nonlocal text
            more = more.replace(str(self.folder), "$DIR")
            self.show(more)
            text += more

        say(HEAD)
        for number, (title, commands) in enumerate(STEPS, 1):
            say(f"## {number}. {title.partition('.')[0]}\n\n{title.partition('. ')[2]}\n\n"
                "```console\n")
            for command, *expected in commands:
                sign = "#" if command.startswith("#") else "$"
                say(f"{sign} {command.removeprefix('# ')}\n")
                say(self.run_step(command, *expected))
            say("```\n\n")
        return text.rstrip() + "\n"

    def test_from_installation_to_stop(self):
        with ZooKeeper() as self.server:
            self.box = self.container(BERTH_REGISTRY=self.server.url)
            text = self.transcript()
        if "BERTH_UPDATE_DOCUMENTS" in os.environ:  # the last part is that of more/first_hour
            _, title, rest = DOCUMENT.read_text().partition(f"\n{CONTAINERS}")
            DOCUMENT.write_text(text + title + rest)
        kept = DOCUMENT.read_text()
        for title, commands in STEPS:
            self.assertIn(title.partition(".")[0], kept)
            for command, *_ in commands:
                self.assertIn(command.removeprefix("# "), kept,
                    "BERTH_UPDATE_DOCUMENTS=1 writes it anew")

    def test_without_a_runtime_it_says_so(self):
        said = subprocess.run([sys.executable, SOURCE / "tests/support/container_hour.py"],
            env={**os.environ, "PATH": str(self.folder)}, text=True, stdout=subprocess.PIPE,
            check=True).stdout
        self.assertEqual(said.strip(), f"{CONTAINERS}They are not shown here: dockerd and docker "
            "not installed. docs/BRIDGE.md has them.")

    def test_a_directory_as_registry_needs_no_setting_at_all(self):
        self.box = self.container()
        self.box.start(dockerfile("ENTRYPOINT") + dockerfile("CMD"), self.log)
        self.run_step("berth wait --registered --timeout 50s", "^$")
        self.run_step(f"berth endpoints --plain {PARENT}", r"^http://\S+/\n$")
        self.run_step("stat -c %a /run/berth /run/berth/berth.sock", "^755\n666\n$")
        self.run_step("ls /var/lib/berth", "registry")
        os.kill(int(self.box.pid), 15)
        self.assertEqual(self.box.wait(), 0, self.log.read_text())

    def test_the_example_of_the_readme_runs_outside_yarn(self):
        self.box = self.container()
        blocks = re.findall(r"(?ms)^```ini\n(.*?)^```", (SOURCE / "README.md").read_text())
        text = next(block for block in blocks if "[component]" in block)
        text = re.sub(r"(?m)^url = .*$", "url = dir:/var/lib/berth/registry", text)
        (self.box.stage / "etc" / "berth" / "berth.ini").write_text(text)
        self.box.start(dockerfile("ENTRYPOINT") + dockerfile("CMD"), self.log)
        self.run_step("berth wait --registered --timeout 50s", "^$")
        self.run_step("berth endpoints --plain /users/devteam/org-apache-tomcat/test1/components",
            r"^http://\S+/\n$")
        os.kill(int(self.box.pid), 15)
        self.assertEqual(self.box.wait(), 0, self.log.read_text())


def show():
    """Runs it for a person; returns the exit status."""
    FirstHour.show = staticmethod(lambda text: print(text, end="", flush=True))
    result = unittest.TextTestRunner(verbosity=0).run(
        FirstHour("test_from_installation_to_stop"))
    for _, reason in result.skipped:
        print(f"The first hour cannot be shown here: {reason}")
    return 1 if result.skipped or not result.wasSuccessful() else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--show"]:
        sys.exit(show())
    unittest.main()
