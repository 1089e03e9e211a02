"""deploy/: compose and Kubernetes files are well-formed, and what they ask of the agent works as
they ask it."""

import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import textwrap
import unittest
import urllib.request
import uuid

import manifests
import yaml
from berth import BUILD, PATIENCE, AgentTest, wait_until
from hosting import WEB, BridgeTest
from kubectl import customized, needs_kubectl, strange_fields
from lifecycle import Directory
from ports import reserve_port
from rights import needs

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
        self.assertEqual(services["server"]["environment"]["BERTH_REGISTRY"], registry)
        self.assertEqual(services["server"]["environment"]["BERTH_USER"], "devteam")
        # It would have found a mistake.
        broken = subprocess.run(["docker-compose", "--file", "-", "config"],
            input="services: {berth: {image: berth, read-only: true}}", capture_output=True,
                                text=True, timeout=PATIENCE, check=False)
        self.assertIn("read-only", broken.stderr)

    def test_every_variable_is_one_of_the_sample_configuration(self):
        sample = set(re.findall(r"\$\{([A-Z_]+)",
            (DEPLOY.parent / "conf" / "berth.ini").read_text()))
        self.assertLessEqual(set(self.file["services"]["server"]["environment"]), sample)


class Host(BridgeTest):
    """deploy/host: a host's agent and its containers."""

    registry_kind = Directory

    def test_the_agent_knows_every_word_of_the_configurations(self):
        data = manifests.load((HOST / "kubernetes/configmap.yaml").read_text())[0]["data"]
        for name, text in (*((name, (HOST / name).read_text())
                for name in ("berth.ini", "container.ini", "runtime/berth.ini")), *data.items()):
            with self.subTest(file=name):
                self.check_configuration(text)
        for file in sorted((HOST / "nomad").glob("*.hcl")):
            with self.subTest(file=file.name):
                text = re.search(r"data *= <<-EOT\n(.*?)\n *EOT\n", file.read_text(), re.S)[1]
                self.assertEqual(re.findall(r"(?<!\$)\$\{.*?\}", text), [],
                    "HCL would replace these")
                self.check_configuration(re.sub(r'\{\{ env "NOMAD_ADDR_\w+" \}\}',
                    "192.0.2.7:8080", re.sub(r'\{\{ env "NOMAD_ALLOC_INDEX" \}\}', "3",
                        re.sub(r'\{\{ env "\w+(NAME|ID)" \}\}', "web", text))))

    def check_configuration(self, text):
        file = self.folder / "trial.ini"
        file.write_text(textwrap.dedent(text))
        registry = "zookeeper://10.0.0.1:2181/registry"
        result = subprocess.run([BUILD / "berthd", "-t", "--strict", "-c", file],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
            env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD), "BERTH_REGISTRY": registry,
                "POD_IP": "192.0.2.7"})
        self.assertEqual(result.returncode, 0, result.stderr)

    def mounts(self):
        """By deployment, (the host's folder, where it is in the container, whether it is read
        only) of what a container has of its subdirectory."""
        services = yaml.safe_load((HOST / "compose.yaml").read_text())["services"]
        yield "compose", "web-1", [volume.split(":") for volume in services["server"]["volumes"]]
        nomad = re.findall(r'"(/run/berth/.*?:.*?)"', (HOST / "nomad/web.nomad.hcl").read_text())
        yield "nomad", "web-${NOMAD_ALLOC_ID}", [volume.split(":") for volume in nomad]
        pod = manifests.load((HOST / "kubernetes/deployment.yaml").read_text())[0]
        volumes = {volume["name"]: volume.get("hostPath", {}).get("path")
            for volume in pod["spec"]["template"]["spec"]["volumes"]}
        yield "kubernetes", "$(POD_NAME)", [[f"{volumes[mount['name']]}/{mount['subPathExpr']}",
            mount["mountPath"], *(["ro"] if mount.get("readOnly") else [])]
            for mount in manifests.containers_of(pod)["berth"]["volumeMounts"]
            if "subPathExpr" in mount]

    def test_only_the_registry_of_the_container_is_writable(self):
        containers = re.search("^containers = (.*)$", (HOST / "berth.ini").read_text(), re.M)[1]
        inside = re.search("^url = host:(.*)$", (HOST / "container.ini").read_text(), re.M)[1]
        for name, subdirectory, mounts in self.mounts():
            with self.subTest(deployment=name):
                own = [mount for mount in mounts if mount[0].startswith("/run/berth")]
                self.assertEqual(own, [[f"{containers}/{subdirectory}", inside, "ro"],
                    [f"{containers}/{subdirectory}/registry", f"{inside}/registry"]])

    def test_every_manifest_is_well_formed(self):
        for file in sorted((HOST / "kubernetes").glob("*.yaml")):
            with self.subTest(file=file.name):
                manifests.load(file.read_text())
        text = (HOST / "kubernetes/daemonset.yaml").read_text()
        for good, bad in (("HostToContainer", "HostToPod"), ("DirectoryOrCreate", "Folder"),
                ("maxUnavailable: 1", "maxUnavailable: one"), ("Exists", "Anything")):
            with self.subTest(bad=bad), self.assertRaises(AssertionError):
                self.assertIn(good, text)
                manifests.load(text.replace(good, bad))
        text = (HOST / "kubernetes/deployment.yaml").read_text()
        with self.assertRaisesRegex(AssertionError, "nobody sets POD_NAME"):
            manifests.load(text.replace("name: POD_NAME", "name: NAME"))

    @needs_kubectl
    def test_kubectl_knows_every_field_and_builds_the_base(self):
        found = customized(HOST / "kubernetes")
        self.assertEqual(set(found), {"ConfigMap", "DaemonSet", "Deployment"})
        for name in "daemonset.yaml", "deployment.yaml":
            with self.subTest(file=name):
                ours = manifests.load((HOST / "kubernetes" / name).read_text())[0]
                self.assertEqual(strange_fields(ours), set())
        wrong = manifests.load((HOST / "kubernetes/daemonset.yaml").read_text())[0]
        wrong["spec"]["updateStrategie"] = wrong["spec"].pop("updateStrategy")
        self.assertIn("updateStrategie of spec", strange_fields(wrong))

    @needs("mounts")
    def test_the_units_directories_are_what_the_agent_takes(self):
        """What the template unit runs makes a container with a file system of its own, and takes
        it away."""
        unit = (HOST / "berth-container@.service").read_text().replace("%i", "web-1").replace(
            "/run/berth/containers", str(self.containers))

        def run_all(key):
            for line in re.findall(f"^{key}=(.*)$", unit, re.M):
                subprocess.run(shlex.split(line), check=True, umask=0o022)

        host = self.host()
        run_all("ExecStart")
        registry = self.containers / "web-1/registry"
        self.addCleanup(subprocess.run, ["umount", "-lq", registry], check=False)
        wait_until(lambda: (self.part(host, "web-1") or {}).get("unbounded") is False,
            "the agent has seen its file system")
        self.assertEqual(self.part(host, "web-1")["state"], "empty")
        owner = self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        owner.kill()
        owner.wait()
        self.await_gone(f"{WEB}/c1")
        run_all("ExecStop")
        wait_until(lambda: self.part(host, "web-1") is None, "the container has gone")
        self.assertEqual(os.listdir(self.containers), [])

    @needs("mount namespace")
    def test_subdirectories_that_ended_containers_leave_are_removed(self):
        host = self.host()
        # Names that no other container of this machine has.
        own = f"web-{uuid.uuid4().hex}"
        lives, longer, other = f"{own}-1", f"{own}-10", f"{own}-2"
        for name in lives, longer, other:
            self.container(name)
        owner = self.register(self.containers / lives / "registry", f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        inside = self.folder / "inside"
        inside.mkdir()
        ready = self.folder / "ready"
        pod = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c",
            'mount --bind "$1" "$2" && touch "$3" && exec sleep 1000000', "sh",
            self.containers / lives, inside, ready])
        self.addCleanup(pod.wait)
        self.addCleanup(pod.kill)
        wait_until(ready.exists, "it runs")

        def remove(minutes):
            result = subprocess.run([HOST / "remove-unused", self.containers, minutes],
                capture_output=True, text=True, check=False, timeout=PATIENCE)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            return result.stdout

        self.assertEqual(remove("10"), "")  # they are new
        self.assertEqual(sorted(remove("0").splitlines()),
            [f"removed {self.containers}/{longer}", f"removed {self.containers}/{other}"])
        wait_until(lambda: self.part(host, other) is None, "the agent has let go of it")
        self.assertEqual(os.listdir(self.containers), [lives])
        self.assertIsNotNone(self.record(f"{WEB}/c1"))
        owner.kill()
        owner.wait()
        pod.kill()
        pod.wait()
        self.assertEqual(remove("0"), f"removed {self.containers}/{lives}\n")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
    def test_systemd_knows_every_word_of_the_units(self):
        drop_ins = self.folder / "berthd.service.d"
        drop_ins.mkdir()
        shutil.copy(HOST / "bridge.conf", drop_ins)
        shutil.copy(HOST / "runtime/runtime.conf", drop_ins)
        container = self.folder / "berth-container@web-1.service"
        shutil.copy(HOST / "berth-container@.service", container)
        mount = pathlib.Path(shutil.copy(HOST / "run-berth-containers.mount", self.folder))
        for name in "berthd.service", "berthd.socket":
            text = (BUILD / "init/systemd" / name).read_text()
            (self.folder / name).write_text(
                re.sub(r"[^\s=]*/sbin/berthd\b", f"{BUILD}/berthd", text))

        def verify():
            result = subprocess.run(["systemd-analyze", "verify", "--man=no",
                "--recursive-errors=no", self.folder / "berthd.service", container, mount],
                capture_output=True, text=True, check=False, timeout=PATIENCE)
            return result.stdout + result.stderr

        self.assertEqual(verify(), "")
        with open(drop_ins / "bridge.conf", "a", encoding="utf-8") as file:
            file.write("WatchdogSecs=1s\n")
        self.assertIn("WatchdogSecs", verify())

    @needs("users")
    @unittest.skipUnless(shutil.which("systemd-tmpfiles"), "systemd is not installed")
    def test_tmpfiles_makes_the_directory(self):
        root = self.folder / "root"
        root.mkdir()
        result = subprocess.run(["systemd-tmpfiles", f"--root={root}", "--create",
            HOST / "tmpfiles.conf"], capture_output=True, text=True, check=False, timeout=PATIENCE)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name, mode in (("run/berth", 0o755), ("run/berth/containers", 0o700)):
            stat = (root / name).stat()
            self.assertEqual((stat.st_mode & 0o7777, stat.st_uid), (mode, 0))

    def test_a_frozen_agent_is_replaced_before_its_session_is_over(self):
        """The default session_timeout is 30 s."""
        seconds = int(re.search(r"^WatchdogSec=(\d+)s$", (HOST / "bridge.conf").read_text(),
            re.M)[1])
        self.assertLessEqual(seconds, 15)
        probe = manifests.containers_of(manifests.load((HOST / "kubernetes/daemonset.yaml").
            read_text())[0])["berth"]["livenessProbe"]
        self.assertLessEqual(probe["periodSeconds"] * probe["failureThreshold"]
            + probe["timeoutSeconds"], 20)


del AgentTest, BridgeTest

if __name__ == "__main__":
    unittest.main()
