"""deploy/: compose and Kubernetes files are well-formed, and what they ask of the agent works as
they ask it."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest
import urllib.request

import manifests
import yaml
from berth import BUILD, PATIENCE, AgentTest, wait_until
from kubectl import customized, needs_kubectl, strange_fields
from ports import reserve_port

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
HOST = DEPLOY / "host"


def deployment(name):
    return manifests.load((KUBERNETES / name).read_text())[0]


class Kubernetes(AgentTest):
    def test_every_manifest_is_well_formed(self):
        for file in sorted(KUBERNETES.glob("*.yaml")):
            with self.subTest(file=file.name):
                self.assertEqual(len(manifests.load(file.read_text())), 1)

    def test_a_wrong_manifest_is_found(self):
        text = (KUBERNETES / "sidecar.yaml").read_text()
        for good, bad in (("readOnlyRootFilesystem: true", "readonlyRootFilesystem: true"),
                ("port: 8079", "port: 8078"),
                          ("containerPort: 8079", "containerPort: many"),
                          ("containerPort: 8079", "containerPort: 80790"),
                          ("containerPort: 8079", "containerPort: 8080"),
                          ("status.podIP", "status.podIp"), ("16Mi", "16MiB"),
                          ("medium: Memory", "medium: memory"),
                          ("defaultMode: 0440", "defaultMode: 4400"),
                ("name: berth-state\n              mount", "name: x\n              mount")):
            with self.subTest(bad=bad), self.assertRaises(AssertionError):
                self.assertIn(good, text)
                manifests.load(text.replace(good, bad))

    def test_the_base_names_what_is_there(self):
        base = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
        resources = [manifests.load((KUBERNETES / name).read_text())[0]
            for name in base["resources"]]
        images = {one["image"] for resource in resources if resource["kind"] == "Deployment"
                  for one in manifests.containers_of(resource).values()}
        self.assertLessEqual({image["name"] for image in base["images"]}, images)
        config = next(resource["metadata"]["name"] for resource in resources
            if resource["kind"] == "ConfigMap")
        volumes = deployment("native-sidecar.yaml")["spec"]["template"]["spec"]["volumes"]
        self.assertIn(config, [volume.get("configMap", {}).get("name") for volume in volumes])

    @needs_kubectl
    def test_kubectl_knows_every_field(self):
        for name in "native-sidecar.yaml", "sidecar.yaml":
            with self.subTest(file=name):
                self.assertEqual(strange_fields(deployment(name)), set())
        # It would have found a mistake.
        wrong = deployment("sidecar.yaml")
        wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
        self.assertEqual(strange_fields(wrong), {"livenesProbe of containers"})

    @needs_kubectl
    def test_kubectl_builds_the_base(self):
        found = customized(KUBERNETES)
        self.assertEqual(set(found), {"ConfigMap", "Deployment"})
        version = (DEPLOY.parent / "VERSION").read_text().strip()
        wanted = deployment("native-sidecar.yaml")
        manifests.containers_of(wanted)["berth"]["image"] = f"registry.example.org/berth:{version}"
        self.assertEqual(found["Deployment"], wanted)

    def test_both_kinds_of_sidecar_say_the_same(self):
        native = manifests.containers_of(deployment("native-sidecar.yaml"))
        plain = manifests.containers_of(deployment("sidecar.yaml"))
        self.assertEqual(native["server"], plain["server"])
        self.assertEqual(native["berth"].pop("restartPolicy"), "Always")
        native["berth"].pop("startupProbe")
        self.assertEqual(native["berth"], plain["berth"])

    def test_the_grace_period_is_its_formula(self):
        for name in "native-sidecar.yaml", "sidecar.yaml":
            text = (KUBERNETES / name).read_text()
            pod = deployment(name)["spec"]["template"]["spec"]
            comment = text[:text.index("terminationGracePeriodSeconds")].rpartition(
                "securityContext")[2]
            parts = [int(number) for number in re.findall(r"\((\d+) s", comment)]
            self.assertEqual(sum(parts), pod["terminationGracePeriodSeconds"])
            sleep = manifests.containers_of(deployment(name))["server"]["lifecycle"]["preStop"][
                "exec"]["command"]
            self.assertEqual(sleep, ["sleep", str(parts[0])])

    def test_the_agent_has_no_rights_that_it_does_not_need(self):
        for name in "native-sidecar.yaml", "sidecar.yaml":
            context = manifests.containers_of(deployment(name))["berth"]["securityContext"]
            self.assertEqual((context["runAsNonRoot"], context["allowPrivilegeEscalation"],
                context["readOnlyRootFilesystem"],
                              context["capabilities"]), (True, False, True, {"drop": ["ALL"]}))

    def test_probes_and_pre_stop_work_on_an_agent_with_this_configuration(self):
        text = manifests.load((KUBERNETES / "configmap.yaml").read_text())[0]["data"]["berth.ini"]
        berth = manifests.containers_of(deployment("sidecar.yaml"))["berth"]
        server = manifests.containers_of(deployment("sidecar.yaml"))["server"]
        port = reserve_port(self)
        health = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(health.close)
        agent = self.agent()
        text = text.replace("0.0.0.0:8079", f"127.0.0.1:{port}").replace(
            "[agent]\n", f"[agent]\nsocket = {agent.socket}\nstate_dir = {agent.folder}/state\n")
        text = re.sub(r"type = http\n.*\n",
            f"type = tcp\ntarget = 127.0.0.1:{health.getsockname()[1]}\n", text)
        agent.config.write_text(text)
        environment = {**os.environ, "BERTH_LIBEXECDIR": str(BUILD),
            "BERTH_REGISTRY": self.registry, "POD_IP": "192.0.2.7"}
        agent.start(env=environment)
        wait_until(lambda: self.status(port, server["readinessProbe"]) == 200,
            "the readiness probe passes")
        self.assertEqual(self.status(port, berth["livenessProbe"]), 200)
        record = agent.status()["components"][0]["path"]
        self.assertEqual(self.in_registry(record)["external"][0]["addresses"],
            [{"uri": "http://192.0.2.7:8080/"}])
        self.assertEqual(berth["lifecycle"]["preStop"]["exec"]["command"][0], "berth")
        subprocess.run([BUILD / "berth", *berth["lifecycle"]["preStop"]["exec"]["command"][1:]],
            check=True, timeout=PATIENCE,
                       env={**environment, "BERTH_SOCKET": str(agent.socket)})
        self.assertIsNone(self.in_registry(record))
        self.assertEqual(self.status(port, berth["livenessProbe"]), 200)
        self.assertEqual(self.status(port, server["readinessProbe"]), 503)

    def status(self, port, probe):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{probe['httpGet']['path']}",
                    timeout=PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code


class Compose(unittest.TestCase):
    def setUp(self):
        self.file = yaml.safe_load((DEPLOY / "compose.yaml").read_text())

    def test_the_sidecar_shares_socket_and_network_with_its_server(self):
        services = self.file["services"]
        self.assertEqual(services["berth"]["network_mode"], "service:server")
        mounts = {name: dict(volume.split(":")[:2] for volume in service["volumes"])
            for name, service in services.items()}
        self.assertEqual(mounts["berth"]["run"], mounts["server"]["run"])
        self.assertEqual(pathlib.Path(services["server"]["environment"]["BERTH_SOCKET"]).parent,
            pathlib.Path(mounts["server"]["run"]))
        self.assertLessEqual({volume for service in mounts.values() for volume in service},
            set(self.file["volumes"]))

    @unittest.skipUnless(shutil.which("docker-compose"), "docker-compose is not installed")
    def test_compose_reads_it_as_it_is_meant(self):
        """compose checks the file by its schema, without an engine."""
        registry = "zookeeper://10.0.0.1:2181/registry"
        result = subprocess.run(["docker-compose", "--file", DEPLOY / "compose.yaml", "config"],
            capture_output=True, text=True, timeout=PATIENCE,
                                env={**os.environ, "BERTH_REGISTRY": registry}, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("WARNING", result.stderr)
        services = yaml.safe_load(result.stdout)["services"]
        self.assertEqual(services["berth"]["environment"]["BERTH_REGISTRY"], registry)
        self.assertEqual(services["berth"]["environment"]["BERTH_USER"], "devteam")
        self.assertEqual((services["berth"]["network_mode"], services["berth"]["pid"]),
            ("service:server", "service:server"))
        # It would have found a mistake.
        broken = subprocess.run(["docker-compose", "--file", "-", "config"],
            input="services: {berth: {image: berth, read-only: true}}", capture_output=True,
                                text=True, timeout=PATIENCE, check=False)
        self.assertIn("read-only", broken.stderr)

    def test_every_variable_is_one_of_the_sample_configuration(self):
        sample = set(re.findall(r"\$\{([A-Z_]+)",
            (DEPLOY.parent / "conf" / "berth.ini").read_text()))
        self.assertLessEqual(set(self.file["services"]["berth"]["environment"]), sample)


class Host(unittest.TestCase):
    def test_the_agent_knows_every_word_of_the_configurations(self):
        for name in "berth.ini", "container.ini":
            with self.subTest(file=name):
                result = subprocess.run([BUILD / "berthd", "-t", "--strict", "-c", HOST / name],
                    capture_output=True, text=True, timeout=PATIENCE, check=False,
                                        env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)})
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_only_the_registry_of_the_container_is_writable(self):
        services = yaml.safe_load((HOST / "compose.yaml").read_text())["services"]
        mounts = [volume.split(":") for volume in services["berth"]["volumes"]
            if volume.startswith("/run/berth")]
        containers = re.search("^containers = (.*)$", (HOST / "berth.ini").read_text(), re.M)[1]
        inside = re.search("^url = host:(.*)$", (HOST / "container.ini").read_text(), re.M)[1]
        self.assertEqual(mounts, [[f"{containers}/web-1", inside, "ro"],
            [f"{containers}/web-1/registry", f"{inside}/registry"]])


del AgentTest

if __name__ == "__main__":
    unittest.main()
