"""deploy/'s templates for deployment tools, rendered by the tools themselves with plain, awkward
and hostile values: what comes out is a configuration that berthd finds good, and it says what the
values say, and nothing else.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import manifests
import yaml
from berth import BUILD
from golang import go
from kubectl import strange_fields

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()
DEPLOY = SOURCE / "deploy"
TEMPLATES = DEPLOY / "templates"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
PATIENCE = 300  # seconds: some of these tools are slow to start

AWKWARD = "it's a \"test\"  of\ttabs, 50 % & <b>, {braces}, back\\slash \\n, a ; and a # too, é €"
HOSTILE = ("x\n[check evil]\ncommand = rm -rf /\r\n${HOME} $(id) `id` $$ $1 ${berth.ip} %{::fact} "
           "<%= 1 + 1 %> {{ 1 + 1 }} {% raw %} "
           "#{1 + 1} {{{y}}} \\$ \\${HOME} '\"")
COMMAND = "/bin/sh -c 'echo \"a  b\"; exit 0'"


def values(description, attribute, command):
    return {
        "registry_url": "dir:/var/lib/berth/registry", "user": "devteam", "service_class": "web",
        "instance": "test1",
        "description": description, "attributes": {"rack": attribute, "zone": "b"},
        "endpoints": [
            {"name": "http", "api": "http://example.org/api/v1", "protocol": "http",
                "address_type": "uri", "address": "http://h:8080/"},
            {"name": "admin", "api": "urn:admin", "protocol": "tcp", "address_type": "host/port",
                "address": "h:9000"},
        ],
        "checks": [
            {"name": "alive", "type": "command", "run": command, "interval": "10s"},
            {"name": "http", "type": "http", "run": "http://127.0.0.1:8080/health",
                "interval": "5s"},
        ],
    }


SETS = {
    "plain": values("a web server", "r1", "/bin/true"),
    "quotes and blanks": values(AWKWARD, "a 'b' \"c\"", COMMAND),
    "hostile": values(HOSTILE, "}}\n[agent]\nsocket = /etc/passwd",
        "/bin/echo '${HOME}' '$(id)' 'a;b|c'"),
}


def run(*command, stdin="", folder=None, **environment):
    result = subprocess.run(
        list(map(str, command)), input=stdin, cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )
    if result.returncode != 0:
        raise AssertionError(
            f"{command} exited with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


class TemplateTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="more-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.folder / "berth.ini"

    def each(self, render):
        """render(values) gives the text of the configuration."""
        for name, given in SETS.items():
            with self.subTest(values=name):
                self.config.write_text(render(given))
                self.verify(given)

    def verify(self, given):
        self.assertIn("good", run(BUILD / "berthd", "-t", "-c", self.config))
        said = self.effective(run(BUILD / "berthd", "-T", "-c", self.config))
        self.assertEqual(said["component"]["description"], self.line(given["description"]))
        self.assertEqual(said["component"]["attribute.rack"],
            self.line(given["attributes"]["rack"]))
        wanted = {f"endpoint {one['name']}" for one in given["endpoints"]} | {f"check {one['name']}"
            for one in given["checks"]}
        self.assertEqual({section for section in said if section.startswith(("endpoint", "check"))},
            wanted)
        for endpoint in given["endpoints"]:
            self.assertEqual(said[f"endpoint {endpoint['name']}"]["address"], endpoint["address"])
        for check in given["checks"]:
            option = "command" if check["type"] == "command" else "target"
            self.assertEqual(shlex.split(said[f"check {check['name']}"][option]),
                shlex.split(self.line(check["run"])))
        self.assertEqual(said["agent"]["socket"], "/run/berth/berth.sock")

    def line(self, value):
        """As -T shows a value that must not expand and must not end its line."""
        return re.sub(r"\r?\n|\r", " ", value).replace("$", "$$").strip()

    def effective(self, text):
        sections, options = {}, {}
        for line in text.splitlines():
            if re.match(r"^\[.*\]$", line):
                options = sections.setdefault(line[1:-1], {})
            elif " =" in line and not line.startswith((";", "#")):
                name, _, value = line.partition(" =")
                # The template chooses how many blanks replace an end of line.
                options[name] = re.sub(r"  +(?=\$\$\{HOME)", " ", value.strip())
        return sections


class Templates(TemplateTest):
    def test_jinja2(self):
        program = (
            "import jinja2, json, sys; e = jinja2.Environment(trim_blocks=True, "
            "undefined=jinja2.StrictUndefined); "
            "print(e.from_string(open(sys.argv[1]).read()).render(berth=json.load(sys.stdin)))"
        )
        self.each(lambda given: run("/usr/bin/python3", "-c", program,
            DEPLOY / "ansible/berth/templates/berth.ini.j2",
                                    stdin=json.dumps(given)))

    def test_ansible_runs_the_role(self):
        (self.folder / "roles").mkdir()
        (self.folder / "roles" / "berth").symlink_to(DEPLOY / "ansible" / "berth")
        (self.folder / "play.yml").write_text(
            "- hosts: localhost\n  connection: local\n  gather_facts: false\n  roles: [berth]\n")
        (self.folder / "values.json").write_text("")

        def render(given):
            # An operator hands over literal text: !unsafe tells Ansible so.
            extra = {"berth_config": str(self.config), "berth_package": "", "berth_service": "",
                "berth_group": "",
                     "berth_program": str(BUILD / "berthd"), "berth": unsafe(given)}
            (self.folder / "values.json").write_text(json.dumps(extra))
            run("ansible-playbook", "-i", "localhost,", "-e", "@values.json", "play.yml",
                folder=self.folder,
                HOME=str(self.folder), ANSIBLE_LOCALHOST_WARNING="false",
                ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3")
            return self.config.read_text()

        self.each(render)

    def test_ansible_leaves_the_old_file_when_berthd_refuses_the_new_one(self):
        (self.folder / "roles").mkdir()
        (self.folder / "roles" / "berth").symlink_to(DEPLOY / "ansible" / "berth")
        (self.folder / "play.yml").write_text(
            "- hosts: localhost\n  connection: local\n  gather_facts: false\n  roles: [berth]\n")
        self.config.write_text("; the old one\n")
        extra = {"berth_config": str(self.config), "berth_package": "", "berth_service": "",
            "berth_group": "",
                 "berth_program": str(BUILD / "berthd"),
                 "berth": {**SETS["plain"], "registry_url": "nonsense:/x"}}
        with self.assertRaisesRegex(AssertionError, "nonsense"):
            run("ansible-playbook", "-i", "localhost,", "-e", json.dumps(extra), "play.yml",
                folder=self.folder, HOME=str(self.folder),
                ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3")
        self.assertEqual(self.config.read_text(), "; the old one\n")

    def test_erb_of_ruby_as_chef_and_puppet_use_it(self):
        program = (
            'require "erb"; require "json"; @berth = JSON.parse(STDIN.read); puts '
            'ERB.new(File.read(ARGV[0]), trim_mode: "-").result(binding)')
        self.each(lambda given: run("ruby", "-e", program, TEMPLATES / "erb" / "berth.ini.erb",
            stdin=json.dumps(given)))

    def test_epp_of_puppet(self):
        def render(given):
            return run("puppet", "epp", "render", "--values_file", self.values_yaml(given),
                TEMPLATES / "puppet" / "berth.ini.epp",
                       HOME=str(self.folder), LC_ALL="C.UTF-8")

        self.each(render)

    def values_yaml(self, given):
        file = self.folder / "values.yaml"
        file.write_text(json.dumps({"berth": given}))
        return file

    def test_go_text_template(self):
        go("build", "-o", str(self.folder / "render"), "render_template.go", folder=PROGRAMS)
        self.each(lambda given: run(self.folder / "render", TEMPLATES / "go" / "berth.ini.tmpl",
            stdin=json.dumps(given)))

    def test_mustache(self):
        def prepare(value):
            if isinstance(value, dict):
                return {name: prepare(member) for name, member in value.items()}
            if isinstance(value, list):
                return [prepare(member) for member in value]
            return self.line(value)

        def render(given):
            ready = prepare(given)
            ready["attributes"] = [{"name": name, "value": value}
                for name, value in ready["attributes"].items()]
            for check in ready["checks"]:
                check["command" if check["type"] == "command" else "target"] = check.pop("run")
            # Debian's module belongs to Debian's Python.
            program = (
                "import json, pystache, sys; print(pystache.render(open(sys.argv[1]).read(), "
                "json.load(sys.stdin)))")
            return run("/usr/bin/python3", "-c", program,
                TEMPLATES / "mustache" / "berth.ini.mustache", stdin=json.dumps(ready))

        self.each(render)

    def test_envsubst(self):
        for name, given in SETS.items():
            with self.subTest(values=name):
                self.config.write_text(run(
                    TEMPLATES / "envsubst" / "render", TEMPLATES / "envsubst" / "berth.ini.in",
                    REGISTRY_URL=given["registry_url"],
                    COMPONENT_USER=given["user"], SERVICE_CLASS=given["service_class"],
                    INSTANCE=given["instance"],
                    DESCRIPTION=given["description"], API=given["endpoints"][0]["api"],
                    ADDRESS=given["endpoints"][0]["address"],
                    CHECK_COMMAND=given["checks"][0]["run"]))
                self.verify_one(given)

    def verify_one(self, given):
        self.assertIn("good", run(BUILD / "berthd", "-t", "-c", self.config))
        said = self.effective(run(BUILD / "berthd", "-T", "-c", self.config))
        self.assertEqual(said["component"]["description"], self.line(given["description"]))
        self.assertEqual(shlex.split(said["check alive"]["command"]),
            shlex.split(self.line(given["checks"][0]["run"])))
        self.assertEqual({section for section in said if section.startswith(("endpoint", "check"))},
            {"endpoint http", "check alive"})

    def test_envsubst_names_a_variable_that_is_missing(self):
        with self.assertRaisesRegex(AssertionError, "REGISTRY_URL.*is not set"):
            run(TEMPLATES / "envsubst" / "render", TEMPLATES / "envsubst" / "berth.ini.in",
                COMPONENT_USER="x", SERVICE_CLASS="x",
                INSTANCE="x", DESCRIPTION="x", API="x", ADDRESS="x", CHECK_COMMAND="x")

    def test_cloud_init(self):
        file = TEMPLATES / "cloud-init" / "user-data.yaml"
        run("cloud-init", "schema", "--config-file", file)
        data = yaml.safe_load(file.read_text())
        self.config.write_text(data["write_files"][0]["content"])
        self.assertIn("good", run(BUILD / "berthd", "-t", "-c", self.config))


def unsafe(value):
    if isinstance(value, dict):
        return {name: unsafe(member) for name, member in value.items()}
    if isinstance(value, list):
        return [unsafe(member) for member in value]
    return {"__ansible_unsafe": value}


class Helm(TemplateTest):
    def setUp(self):
        super().setUp()
        go("build", "-o", str(self.folder / "render"), "render_chart.go", folder=PROGRAMS)
        self.chart = DEPLOY / "helm" / "berth"
        self.defaults = yaml.safe_load((self.chart / "values.yaml").read_text())

    def render(self, **changed):
        given = json.loads(json.dumps(self.defaults))
        for path, value in changed.items():
            member = given
            *way, last = path.split("__")
            for name in way:
                member = member[name]
            member[last] = value
        context = {"Values": given, "Release": {"Name": "shop"},
            "Chart": yaml.safe_load((self.chart / "Chart.yaml").read_text())}
        context["Chart"] = {name[0].upper() + name[1:]: value
            for name, value in context["Chart"].items()}
        found = {one["kind"]: one for one in manifests.load(run(self.folder / "render", self.chart,
            stdin=json.dumps(context)))}
        self.assertEqual(strange_fields(found["Deployment"]), set())
        return found

    def test_the_configuration_says_what_the_values_say(self):
        for name, given in SETS.items():
            with self.subTest(values=name):
                found = self.render(component__description=given["description"],
                    component__attributes=given["attributes"])
                self.config.write_text(found["ConfigMap"]["data"]["berth.ini"])
                self.assertIn("good", run(BUILD / "berthd", "-t", "-c", self.config,
                    POD_IP="192.0.2.1"))
                said = self.effective(run(BUILD / "berthd", "-T", "-c", self.config,
                    POD_IP="192.0.2.1"))
                self.assertEqual(said["component"]["description"], self.line(given["description"]))
                self.assertEqual(said["component"]["attribute.rack"],
                    self.line(given["attributes"]["rack"]))
                self.assertEqual([section for section in said if section.startswith("check")],
                    ["check http"])

    def test_the_grace_period_follows_the_values(self):
        pod = self.render(server__preStopSeconds=20,
            server__stopSeconds=40)["Deployment"]["spec"]["template"]["spec"]
        self.assertEqual(pod["terminationGracePeriodSeconds"], 65)
        self.assertEqual(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"],
            ["sleep", "20"])

    def test_a_secret_is_mounted_and_named_when_there_is_one(self):
        without = self.render()
        self.assertNotIn("auth_file", without["ConfigMap"]["data"]["berth.ini"])
        found = self.render(berth__existingSecret="registry")
        volumes = {one["name"]: one
            for one in found["Deployment"]["spec"]["template"]["spec"]["volumes"]}
        self.assertEqual(volumes["berth-secret"]["secret"]["secretName"], "registry")
        mounts = {one["name"]: one["mountPath"]
            for one in manifests.containers_of(found["Deployment"])["berth"]["volumeMounts"]}
        self.assertIn(f"auth_file = {mounts['berth-secret']}/registry-auth",
            found["ConfigMap"]["data"]["berth.ini"])

    def test_every_value_is_used(self):
        text = "".join(file.read_text() for file in (self.chart / "templates").iterdir())
        for section, members in self.defaults.items():
            for name in members if isinstance(members, dict) else [None]:
                self.assertIn(f".Values.{section}" + (f".{name}" if name else ""), text)

    def test_the_versions_are_those_of_the_tree(self):
        version = (SOURCE / "VERSION").read_text().strip()
        chart = yaml.safe_load((self.chart / "Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))


del TemplateTest

if __name__ == "__main__":
    unittest.main()
