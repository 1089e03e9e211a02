"""Containers by their labels, as the documents and deploy/host/runtime have them: the agent gets
the configuration that is there, and the containers are those of the lines that are there.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

import yaml
from berth import BUILD, PATIENCE, AgentTest, berth, wait_until
from fake_runtime import FakeRuntime, describe_run
from names import reserve_names_port
from quadlet import OPTIONS, read_container
from rights import needs

TREE = pathlib.Path(__file__).resolve().parents[2]
RUNTIME = TREE / "deploy/host/runtime"


def blocks(document, language):
    text = (TREE / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def options_of(service):
    """As `docker run` has what a compose file says."""
    words = []
    for option, key in (("-l", "labels"), ("-e", "environment")):
        for name, value in service.get(key, {}).items():
            words += [option, f"{name}={value}"]
    for port in service["ports"]:
        words += ["-p", port]
    return [*words, service["image"]]


@needs("freezer")
class Documented(AgentTest):
    def setUp(self):
        super().setUp()
        self.runtime = FakeRuntime(self.folder / "api.sock")
        self.addCleanup(self.runtime.end)

    def start(self, text):
        """An agent with this configuration, but for its places."""
        host = self.agent("host")
        text = re.sub(r"^url = .*$", f"url = {self.registry}", text, flags=re.M)
        text, count = re.subn(r"^socket = .*$",
            f"socket = {self.runtime.path}\naddress = 192.0.2.7", text, flags=re.M)
        self.assertEqual(count, 1)
        self.names_port = reserve_names_port(self)
        text = re.sub(r"^listen = .*$", f"listen = 127.0.0.1:{self.names_port}", text, flags=re.M)
        text = text.replace("[agent]\nstate_dir = /var/lib/berth\n", "")
        host.config.write_text(
            f"[agent]\nsocket = {host.socket}\nstate_dir = {host.folder}/state\n{text}")
        return host.start(env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)})

    def await_service(self, host, container):
        """The one service of the container, once the agent knows what becomes of it."""
        def part():
            return next((one for one in host.get("/v1/bridge").json["containers"]
                if one["id"] == container.id and one["records"]), None)
        wait_until(part, "its labels have been read")
        self.assertEqual(part()["problems"], [])
        (record,) = part()["records"]
        return part(), record

    @unittest.skipUnless(shutil.which("dig"), "dig is not installed")
    def test_the_readme(self):
        text = (TREE / "README.md").read_text()
        line, look, dig = (re.search(rf"^    {words} (.*?)(?: +#.*)?$", text, re.M)[1]
            for words in ("docker run", "berth(?= ls)", "dig"))
        host = self.start(next(block for block in blocks("README.md", "ini")
            if "[runtime docker]" in block))
        container = self.runtime.run("web-1", {}, describe_run(shlex.split(line)))

        def there():
            return berth("--socket", host.socket, *shlex.split(look)).stdout.split()

        def named():
            return subprocess.run(["dig", "-p", str(self.names_port), *shlex.split(dig)],
                capture_output=True, text=True, timeout=PATIENCE, check=False).stdout.split()
        path = f"/services/web/components/{container.id[:12]}"
        wait_until(lambda: there() == [path], "it is there")
        self.assertEqual(self.in_registry(path)["external"][0]["addresses"],
            [{"host": "192.0.2.7", "port": "8080"}])
        wait_until(lambda: named() == ["192.0.2.7"], "it has a name")
        container.kill()
        wait_until(lambda: there() == [], "it has gone")
        wait_until(lambda: named() == [], "so has its name")

    def test_the_way_from_registrator(self):
        before, after = (yaml.safe_load(block)
            for block in blocks("docs/MIGRATING.md", "yaml")[:2])
        self.assertEqual(before["services"]["web"], after["services"]["web"])
        host = self.start(next(block for block in blocks("docs/MIGRATING.md", "ini")
            if "labels = registrator" in block))
        container = self.runtime.run("web-1", {},
            describe_run(options_of(after["services"]["web"])))
        part, record = self.await_service(host, container)
        self.assertEqual(record["path"], f"/services/web/components/{container.id[:12]}-80")
        (check,) = part["checks"]
        self.assertEqual(check["type"], "http")

    def test_compose_and_quadlet_say_the_same(self):
        compose = yaml.safe_load((RUNTIME / "compose.yaml").read_text())["services"]
        web, berth = (read_container(RUNTIME / f"{name}.container") for name in ("web", "berth"))
        self.assertLessEqual({*web, *berth}, set(OPTIONS))
        self.assertEqual(dict(one.split("=", 1) for one in web["Label"]), compose["web"]["labels"])
        self.assertEqual(web["PublishPort"], compose["web"]["ports"])
        self.assertEqual([one.rpartition("/")[2] for one in web["Image"]],
            [compose["web"]["image"]])
        host = self.start((RUNTIME / "berth.ini").read_text())
        container = self.runtime.run("web-1", {}, describe_run(options_of(compose["web"])))
        part, record = self.await_service(host, container)
        self.assertEqual(record["path"], f"/services/web/components/{container.id[:12]}")
        self.assertEqual([one["type"] for one in part["checks"]], ["http"])

    @unittest.skipUnless(shutil.which("docker-compose"), "docker-compose is not installed")
    def test_compose_reads_the_files(self):
        """By its schema, without an engine."""
        files = {"runtime": (RUNTIME / "compose.yaml").read_text(),
            "migrating": blocks("docs/MIGRATING.md", "yaml")[1]}
        for name, text in files.items():
            with self.subTest(name):
                result = subprocess.run(["docker-compose", "--file", "-", "config"], input=text,
                    capture_output=True, text=True, timeout=PATIENCE, check=False,
                    cwd=self.folder)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotIn("WARNING", result.stderr)
                agent = yaml.safe_load(result.stdout)["services"]["berth"]
                self.assertEqual((agent["pid"], agent["network_mode"]), ("host", "host"))


if __name__ == "__main__":
    unittest.main()
