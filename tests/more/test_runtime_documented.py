"""Containers by their labels as the documents have them, under a real dockerd with a real nginx:
the lines of README.md and docs/BRIDGE.md, and the compose files of docs/MIGRATING.md and
deploy/host/runtime, whose agents are containers, too.

Only the registry's address is another one than they say. No registry of images is asked: these are
made of this machine's files.
"""

import pathlib
import re
import shutil
import tempfile
import time
import types
import unittest

from berth import BUILD, wait_until
from docker_host import DockerHost
from figures import figure, seconds
from lifecycle import LifeTest, Shared
from minimal_root import NGINX_COMMAND, MinimalRoot, nginx_root
from rights import needs
from test_image import packages_of_stages
from test_packages import SOURCE, run

RUNTIME = SOURCE / "deploy/host/runtime"
HOST = DockerHost.ADDRESS
PLACE = "/services/web/components"
NGINX = "nginx"
ABSENT = 3  # the exit status of a look-up that finds nothing


def block(name, language, part):
    """The block of a document that has this in it."""
    return next(text for text in re.findall(rf"^```{language}\n(.*?)^```$",
        (SOURCE / name).read_text(), re.M | re.S) if part in text)


def line(name, begin):
    """The command of a document that begins so, without what is said behind it."""
    return re.search(rf"^    ({re.escape(begin)}.*?)(?: +#.*)?$", (SOURCE / name).read_text(),
        re.M)[1]


@needs("mounts", "freezer", "network namespace", "process namespace")
class Documented(LifeTest):
    registry_kind = Shared

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="more-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.host = DockerHost(types.SimpleNamespace(addCleanup=cls.addClassCleanup), cls.place)
        cls.docker = cls.host.docker
        cls.take_image(NGINX, nginx_root(cls.make("server")), f"CMD {NGINX_COMMAND}", "EXPOSE 80")
        berth = MinimalRoot(cls.make("agent"), packages_of_stages()[1])
        run("make", "-s", "-C", BUILD, "install", f"DESTDIR={berth.root}", MAKEFLAGS="")
        (entry,) = berth.root.glob("usr/**/init/container/entrypoint")
        cls.take_image("berth", berth, f'ENTRYPOINT ["/{entry.relative_to(berth.root)}"]')

    @classmethod
    def make(cls, name):
        (cls.place / name).mkdir()
        return cls.place / name

    @classmethod
    def take_image(cls, name, root, *changes):
        archive = cls.place / "image.tar"
        run("tar", "-C", root.root, "-cf", archive, ".")
        result = cls.host.network.run("docker", "import",
            *(word for one in changes for word in ("--change", one)), archive, name)
        assert result.returncode == 0, result.stdout
        archive.unlink()
        shutil.rmtree(root.folder)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove_all)
        server = self.registry.removeprefix("zookeeper://").partition("/")
        port = self.host.network.relay("127.0.0.1", server[0])
        self.url = f"zookeeper://127.0.0.1:{port}/{server[2]}"

    def remove_all(self):
        for one in self.docker.call("GET", "/containers/json?all=true"):
            self.docker.remove(one["Id"])

    def sh(self, command, statuses=(0,)):
        """What a command prints on the host, typed as it is here."""
        status, output = self.host.sh(command)
        self.assertIn(status, statuses, f"{command}\n{output}")
        return output

    def configuration(self, text):
        """But for the registry's address."""
        text, count = re.subn(r"(?m)^url = .*$", f"url = {self.url}", text)
        self.assertEqual(count, 1)
        return text

    def start_host(self, text):
        """The host's agent, on the host itself."""
        return self.host.start_agent(self, self.folder / "host", self.configuration(text))

    def path_of(self, name, suffix=""):
        return f"{PLACE}/{self.docker.inspect(name)['Id'][:12]}{suffix}"

    # ---- lines of the documents ----

    def test_the_readme(self):
        self.start_host(block("README.md", "ini", "[runtime docker]"))
        look, dig, bridge = (line("README.md", words)
            for words in ("berth ls", "dig", "berth bridge"))
        self.sh(line("README.md", "docker run"))
        path = self.path_of("web-1")
        wait_until(lambda: self.sh(look, (0, ABSENT)).split() == [path], "it is there")
        wait_until(lambda: self.sh(dig).split() == [HOST], "it has a name")
        (endpoint,) = self.in_registry(path)["external"]
        self.assertEqual(endpoint["addresses"], [{"host": HOST, "port": "8080"}])
        self.assertIn("Welcome to nginx!", self.sh(f"curl -s http://{HOST}:8080/"))
        self.assertRegex(self.sh(bridge), rf"(?m)^docker/web-1 +served ")
        self.sh(line("README.md", "docker kill"))
        began = time.monotonic()
        wait_until(lambda: not self.in_registry(path), "it is gone")
        figure(self, f"gone {seconds(time.monotonic() - began)} after `docker kill` had returned, "
            "as `berth` sees it")
        wait_until(lambda: "no such path" in self.sh(look, (0, ABSENT)), "so is its place")
        wait_until(lambda: self.sh(dig) == "", "so is its name")

    def test_the_manual(self):
        self.start_host(block("docs/BRIDGE.md", "ini", "[runtime docker]"))
        self.sh(line("docs/BRIDGE.md", "docker run -d --name web-1"))
        path = self.path_of("web-1")
        wait_until(lambda: self.in_registry(path), "it is there")
        self.sh("docker pause web-1")
        wait_until(lambda: not self.in_registry(path), "nobody answers there")
        self.sh("docker unpause web-1")
        wait_until(lambda: self.in_registry(path), "it is back")
        self.sh("berth drain --container docker/web-1 --wait")
        self.assertFalse(self.in_registry(path))
        self.sh("berth undrain --container docker/web-1")
        wait_until(lambda: self.in_registry(path), "it is back again")

    # ---- compose files ----

    def compose(self, order):
        return self.sh(f"cd {self.folder} && docker-compose {order}")

    def up(self, compose, ini, suffix=""):
        """The path of the one server, once it is registered."""
        (self.folder / "docker-compose.yaml").write_text(compose)
        (self.folder / "berth.ini").write_text(self.configuration(ini))
        (self.folder / "berth.ini").chmod(0o644)
        self.folder.chmod(0o755)
        self.addCleanup(self.compose, "down --volumes")
        self.compose("up --detach")
        names = {name.rstrip("0123456789_-")[-5:]: name
            for name in self.sh("docker ps --format '{{.Names}}'").split()}
        self.web = next(name for end, name in names.items() if end.endswith("web"))
        self.berth = next(name for end, name in names.items() if end.endswith("berth"))
        path = self.path_of(self.web, suffix)
        try:
            wait_until(lambda: self.in_registry(path), "the server is registered")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.sh(f'docker logs {self.berth} 2>&1')}\n"
                f"{self.sh(f'docker exec {self.berth} berth bridge')}") from None
        (endpoint,) = self.in_registry(path)["external"]
        self.assertEqual(endpoint["addresses"], [{"host": HOST, "port": "8080"}])
        return path

    def test_the_compose_file_of_a_host(self):
        path = self.up((RUNTIME / "compose.yaml").read_text(), (RUNTIME / "berth.ini").read_text())
        witness = self.witness(path)
        self.compose("restart berth")
        wait_until(lambda: " served " in self.sh(f"docker exec {self.berth} berth bridge"),
            "the agent's successor serves it")
        self.sh(f"docker kill --signal KILL {self.berth}")
        self.sh(f"docker start {self.berth}")
        wait_until(lambda: " served " in self.sh(f"docker exec {self.berth} berth bridge"),
            "and so does the next one")
        self.assertEqual(len(witness.end()), 1)
        before = self.docker.inspect(self.berth)["State"]["StartedAt"]
        self.docker.kill_process(self.web)
        wait_until(lambda: not self.in_registry(path), "it goes with its process")
        wait_until(lambda: self.in_registry(path), "its policy starts it again")
        self.assertEqual(self.docker.inspect(self.berth)["State"]["StartedAt"], before)
        self.sh(f"docker exec {self.berth} berth live")
        figure(self, "a restart and a kill of the agent: 0 events; a server that is killed goes, "
            "and comes back without its agent's help")

    def test_the_way_from_registrator(self):
        self.up(block("docs/MIGRATING.md", "yaml", "image: berth"),
            block("docs/MIGRATING.md", "ini", "labels = registrator"), "-80")


if __name__ == "__main__":
    unittest.main()
