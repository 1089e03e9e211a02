"""deploy/'s templates for deployment tools, rendered by the tools themselves with plain, awkward
and hostile values: berthd finds the result good, it says what the values say and nothing else, and
an agent that runs with it announces the record that was meant.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import manifests
import yaml
from berth import BUILD, pack_ini, wait_until
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


ADDRESS = "http://${berth.hostname}:8080/"  # berthd fills it in
ANNOUNCED = f"http://{socket.gethostname()}:8080/"
SERVED_AT = "http://127.0.0.1:8080/"  # the place of the server's port in the values


def values(description, attribute, command):
    return {
        "registry_url": "dir:/registry", "user": "devteam", "service_class": "web",
        "instance": "test1",
        "description": description, "attributes": {"rack": attribute, "zone": "b"},
        "endpoints": [
            {"name": "http", "api": "http://example.org/api/v1", "protocol": "http",
                "address_type": "uri", "address": ADDRESS},
            {"name": "admin", "api": "urn:admin", "protocol": "tcp", "address_type": "host/port",
                "address": "h:9000"},
        ],
        "checks": [
            {"name": "alive", "type": "command", "run": command, "interval": "10s"},
            {"name": "http", "type": "http", "run": SERVED_AT + "health",
                "interval": "5s"},
        ],
    }


SETS = {
    "plain": values("a web server", "r1", "/bin/true"),
    "quotes and blanks": values(AWKWARD, "a 'b' \"c\"", COMMAND),
    "hostile": values(HOSTILE, "}}\n[agent]\nsocket = /etc/passwd",
        "/bin/echo '${HOME}' '$(id)' 'a;b|c'"),
}


def run(*command, stdin="", folder=None, statuses=(0,), **environment):
    result = subprocess.run(
        list(map(str, command)), input=stdin, cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )
    if result.returncode not in statuses:
        raise AssertionError(
            f"{command} exited with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def on_one_line(text):
    """Without what a template may choose: how many blanks are in the place of an end of line."""
    return re.sub(r"[ \r\n]+", " ", text).strip()


class TemplateTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="more-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.folder / "berth.ini"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Health)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.registry = f"dir:{self.folder}/registry"

    @property
    def port(self):
        return self.server.server_address[1]

    def here(self, text):
        """With the registry and the server of this test in the place of those of the examples."""
        return text.replace("dir:/registry", self.registry).replace(SERVED_AT,
            f"http://127.0.0.1:{self.port}/")

    def sets(self):
        return {name: json.loads(self.here(json.dumps(given))) for name, given in SETS.items()}

    def each(self, render):
        """render(values) gives the text of the configuration."""
        for name, given in self.sets().items():
            with self.subTest(values=name):
                self.config.write_text(render(given))
                self.verify(given)
                self.verify_record(given, given["endpoints"])

    def announced(self, **environment):
        """The record that an agent with this configuration announces, as the registry holds it."""
        places = self.folder / "conf.d" / "places.ini"
        places.parent.mkdir(exist_ok=True)
        places.write_text(pack_ini({"agent": {"socket": self.folder / "berth.sock",
            "state_dir": self.folder / "state"}}))
        self.addCleanup(places.unlink, missing_ok=True)
        with (self.folder / "log").open("w+") as log:
            agent = subprocess.Popen([BUILD / "berthd", "-c", self.config], stderr=log,
                env={**os.environ, **environment})
            try:
                wait_until(lambda: self.served(agent, log), "the agent serves")
                ask = [BUILD / "berth", "--socket", self.folder / "berth.sock"]
                run(*ask, "wait", "--registered", "--timeout", f"{PATIENCE}s")
                (component,) = json.loads(run(*ask, "--json", "status"))["components"]
                self.path = component["path"]
                return json.loads(run(BUILD / "berth", "--registry", self.registry, "--json",
                    "resolve", self.path))
            finally:
                agent.terminate()
                agent.wait(PATIENCE)
                places.unlink()

    def served(self, agent, log):
        self.assertIsNone(agent.poll(), pathlib.Path(log.name).read_text())
        return (self.folder / "berth.sock").exists()

    def verify_record(self, given, endpoints, **environment):
        record = self.announced(**environment)
        self.assertEqual(on_one_line(record["description"]), on_one_line(given["description"]))
        for name, value in given["attributes"].items():
            self.assertEqual(on_one_line(record[name]), on_one_line(value))
        self.verify_endpoints(record, endpoints)

    def verify_endpoints(self, record, endpoints):
        self.assertEqual(record["internal"], [])
        self.assertEqual(
            [(one["api"], one["protocol"], one["addressType"], one["addresses"])
                for one in record["external"]],
            [(one["api"], one["protocol"], one["address_type"], [self.address_of(one)])
                for one in endpoints])

    def address_of(self, endpoint):
        address = ANNOUNCED if endpoint["address"] == ADDRESS else endpoint["address"]
        if endpoint["address_type"] == "uri":
            return {"uri": address}
        host, _, port = address.rpartition(":")
        return {"host": host, "port": port}

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
            self.assertIn(said[f"endpoint {endpoint['name']}"]["address"],
                (ANNOUNCED, endpoint["address"]))
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

    def test_ansible_without_values_announces_the_address_of_the_machine(self):
        defaults = yaml.safe_load((DEPLOY / "ansible/berth/defaults/main.yml").read_text())
        (address,) = (one["address"] for one in defaults["berth"]["endpoints"])
        self.assertEqual(address, "http://${berth.ip}:8080/")

    def test_puppet_applies_a_class(self):
        """The catalogue is compiled from Hiera's data and applied: the class writes the file."""
        module = self.folder / "modules" / "berth"
        for name, source in ("manifests/init.pp", "init.pp"), ("templates/berth.ini.epp",
                "berth.ini.epp"):
            (module / name).parent.mkdir(parents=True)
            (module / name).symlink_to(TEMPLATES / "puppet" / source)
        (self.folder / "hiera.yaml").write_text(json.dumps({"version": 5, "hierarchy": [
            {"name": "values", "data_hash": "yaml_data", "path": "values.yaml"}],
            "defaults": {"datadir": str(self.folder)}}))

        def render(given):
            # Hiera interpolates %{…}; this is how its values hold these letters.
            literal = json.dumps(given).replace("%{", "%{literal('%')}{")
            (self.folder / "values.yaml").write_text(json.dumps({
                "berth::config": str(self.config), "berth::program": str(BUILD / "berthd"),
                "berth::values": json.loads(literal)}))
            self.config.unlink(missing_ok=True)
            run("puppet", "apply", "--modulepath", module.parent, "--hiera_config",
                self.folder / "hiera.yaml", "--detailed-exitcodes", "-e", "include berth",
                statuses=(2,), HOME=str(self.folder), LC_ALL="C.UTF-8")
            return self.config.read_text()

        self.each(render)

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
                return {name: member if name == "address" else prepare(member)
                    for name, member in value.items()}
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
        for name, given in self.sets().items():
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
                self.verify_record({**given, "attributes": {}}, given["endpoints"][:1])

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
        text = data["write_files"][0]["content"]
        self.config.write_text(self.here(re.sub(r"url = .*", "url = dir:/registry", text)))
        self.assertIn("good", run(BUILD / "berthd", "-t", "-c", self.config))
        (endpoint,) = self.announced()["external"]
        self.assertRegex(endpoint["addresses"][0]["uri"], r"^http://(?!127\.)[0-9.]+:8080/$")

    def test_nomad(self):
        """There is no Nomad here: its template's text, as HCL and its functions would leave it."""
        job = (DEPLOY / "nomad" / "berth.nomad.hcl").read_text()
        text = re.search(r"data *= <<-EOT\n(.*?)\n *EOT\n", job, re.DOTALL).group(1)
        outside = re.findall(r"(?<!\$)\$\{.*?\}", text)
        self.assertEqual(outside, [], "HCL would replace these")
        text = re.sub(r"url = .*", "url = dir:/registry", text.replace("$${", "${"))
        go("build", "-o", str(self.folder / "render"), "render_template.go", folder=PROGRAMS)
        (self.folder / "data.tmpl").write_text(self.here(text))
        self.config.write_text(run(self.folder / "render", self.folder / "data.tmpl", stdin="{}",
            NOMAD_JOB_NAME="shop", NOMAD_GROUP_NAME="web", NOMAD_ALLOC_INDEX="3",
            NOMAD_ALLOC_ID="3c6b1f0e-0000-4000-8000-00000000000a",
            NOMAD_ADDR_http=f"127.0.0.1:{self.port}"))
        self.assertIn("good", run(BUILD / "berthd", "-t", "-c", self.config))
        record = self.announced()
        self.assertEqual(record["yarn:id"], "3c6b1f0e-0000-4000-8000-00000000000a")
        self.assertEqual(record["yarn:component"], "web-3")
        self.assertEqual(record["host"], socket.gethostname())
        (endpoint,) = record["external"]
        self.assertEqual(endpoint["addresses"], [{"uri": f"http://127.0.0.1:{self.port}/"}])

    def test_compose_gives_the_sample_configuration_its_values(self):
        environment = {"BERTH_REGISTRY": self.registry, "BERTH_USER": "joe",
            "BERTH_INSTANCE": "blue"}
        services = yaml.safe_load(run("docker-compose", "--file", DEPLOY / "compose.yaml", "config",
            **environment))["services"]
        self.config.write_text(self.here((SOURCE / "conf" / "berth.ini").read_text().replace(
            "http://127.0.0.1:${PORT:-8080}/", SERVED_AT)))
        record = self.announced(**services["server"]["environment"])
        (endpoint,) = record["external"]
        self.assertEqual(endpoint["addresses"], [{"uri": f"http://{record['yarn:ip']}:8080/"}])
        self.assertEqual(record["yarn:component"], pathlib.Path(self.path).name)
        self.assertEqual(str(pathlib.Path(self.path).parent), "/users/joe/web/blue/components")

    def test_kustomize_gives_the_configuration_of_the_pod(self):
        text = run("kubectl", "kustomize", DEPLOY / "kubernetes")
        found = {one["kind"]: one for one in manifests.load(text)}
        self.config.write_text(self.here(found["ConfigMap"]["data"]["berth.ini"]).replace(
            "listen = 0.0.0.0:8079", "listen = 127.0.0.1:0"))
        record = self.announced(BERTH_REGISTRY=self.registry, POD_IP="192.0.2.7")
        self.assertEqual(record["external"][0]["addresses"], [{"uri": "http://192.0.2.7:8080/"}])


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
                    component__attributes=given["attributes"], registry__url=self.registry,
                    server__port=self.port)
                self.config.write_text(found["ConfigMap"]["data"]["berth.ini"].replace(
                    "listen = 0.0.0.0:8079", "listen = 127.0.0.1:0"))
                self.assertIn("good", run(BUILD / "berthd", "-t", "-c", self.config,
                    POD_IP="192.0.2.1"))
                said = self.effective(run(BUILD / "berthd", "-T", "-c", self.config,
                    POD_IP="192.0.2.1"))
                self.assertEqual(said["component"]["description"], self.line(given["description"]))
                self.assertEqual(said["component"]["attribute.rack"],
                    self.line(given["attributes"]["rack"]))
                self.assertEqual([section for section in said if section.startswith("check")],
                    ["check http"])
                self.verify_record(given, [{"api": "http://example.org/api/v1", "protocol": "http",
                    "address_type": "uri", "address": f"http://192.0.2.1:{self.port}/"}],
                    POD_IP="192.0.2.1")

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
