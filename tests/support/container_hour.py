"""The last part of the first hour: a container that knows nothing of Berth, registered by its
labels, where there is a Docker to run it. tests/more/test_first_hour.py does it, and writes it into
docs/FIRST-HOUR.md; ./quickstart --first-hour shows it.
"""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from berth import wait_until
from docker_host import DockerHost
from rights import missing as refused

TITLE = "## 8. Containers that know nothing of Berth\n\n"
TEXT = """\
One agent on the host registers the containers of Docker or podman by their labels. `my-server`
is any image with a server at port 80. A runtime of your own is not touched: this is a dockerd that
is started for it, in a network and with a `/run` of its own.

"""
CONFIG = """\
[registry]
url = dir:/run/registry

[runtime docker]
socket = /run/docker.sock

[container *]
allow = /services/**
"""
PLACE = "/services/web/components"
ABSENT = 3  # the exit status of a look-up that finds nothing
# Each command with what its output matches, soon if not at once, and its exit status.
STEPS = [
    ("cat berth.ini", r"(?s)\[runtime docker\]"),
    ("docker run -d --name web-1 -p 8080:80 -l berth.name=web -l berth.endpoint.http.port=80 "
        "my-server", r"^[0-9a-f]{64}\n$"),
    (f"berth ls {PLACE}", rf"^{PLACE}/[0-9a-f]{{12}}\n$"),
    ("berth host web.services.berth", r"192\.0\.2\.7"),
    ("curl -s http://192.0.2.7:8080/", r"^ok\n$"),
    ("docker run -d --name plain my-server", r"^[0-9a-f]{64}\n$"),
    ("berth bridge", r"(?s) registered .*\ndocker/plain +empty .*\n  it has no label"),
    ("docker kill web-1", r"^web-1\n$"),
    (f"berth ls {PLACE}", r"no such path", ABSENT),
]


def why_not():
    """"": it can be shown here."""
    absent = [name for name in ("dockerd", "docker") if not shutil.which(name)]
    return f"{' and '.join(absent)} not installed" if absent else refused("mounts", "freezer",
        "network namespace")


class ContainerHour(unittest.TestCase):
    def follow(self, say):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="hour-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        host = DockerHost(self, folder)
        host.docker.take_image("my-server", 'CMD ["/bin/server","80"]')
        host.start_agent(self, folder / "host", CONFIG)
        say(f"{TEXT}```console\n")
        for command, pattern, *status in STEPS:
            say(f"# {command}\n")
            say(self.run_step(host, command, pattern, *status))
        say("```\n")

    def run_step(self, host, command, pattern, status=0):
        if command == "cat berth.ini":
            return CONFIG
        if command.startswith("docker"):
            got, output = host.sh(command)
            self.assertEqual((got, bool(re.search(pattern, output))), (status, True), output)
            return output
        last = []

        def done():
            last[:] = host.sh(command)
            return last[0] == status and re.search(pattern, last[1])
        try:
            wait_until(done, command)
        except AssertionError as error:
            raise AssertionError(f"{error}; {last}") from None
        return last[1]

    def runTest(self):
        self.follow(lambda text: print(text, end="", flush=True))


def main():
    """For a person; the exit status."""
    print(f"\n{TITLE}", end="")
    if reason := why_not():
        print(f"They are not shown here: {reason}. docs/BRIDGE.md has them.")
        return 0
    return 0 if unittest.TextTestRunner(verbosity=0).run(ContainerHour()).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
