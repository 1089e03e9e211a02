"""deploy/Dockerfile and the compose files of deploy/ in a container engine.

Podman builds the image from a release in the two stages of the Dockerfile. The image runs a server
under its entry point, alone and by docker-compose. No registry of images is asked: the base of
each stage is made of this machine's files, of the packages that the stage names, so apt-get finds
these installed. A package that the stage does not name is not there.
"""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from berth import BUILD, wait_until
from container import SERVER
from engine import COMPILING, Engine
from minimal_root import NGINX_COMMAND, MinimalRoot, nginx_root
from quadlet import podman_run, read_container
from rights import needs
from test_packages import SOURCE, VERSION, run

BASE = "docker.io/library/debian:12-slim"
RUNTIME = SOURCE / "deploy/host/runtime"
RECORD = "users/devteam/web/test1/components"

# As the head of deploy/Dockerfile has it, without the configuration: the sample's fits.
OWN = """\
FROM berth
COPY my-server /usr/local/bin/my-server
CMD ["/usr/local/bin/my-server"]
"""


# A container's directory, as the head of deploy/host/compose.yaml has it.
PREPARE = """
mkdir -p /run/registry /var/lib/berth
install -d -m 0700 /run/berth /run/berth/containers
mkdir -p /run/berth/containers/web-1/registry
mount -t tmpfs -o size=4M,nr_inodes=4096,mode=0755,nosuid,nodev,noexec berth \\
    /run/berth/containers/web-1/registry
"""

# $1: the agent of a container.
KILL_SERVER = """
for child in $(cat /proc/$1/task/$1/children); do
    ! grep -qx my-server /proc/$child/comm || exec kill -9 $child
done
exit 1
"""

WAYS = ["the server is killed", "the agent is killed", "restart", "re-creation", "restart"]


def packages_of_stages():
    """For each stage of the Dockerfile, the packages that it installs."""
    text = (SOURCE / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(
        r"(?m)^RUN apt-get update && apt-get install -y --no-install-recommends ([^&\n]*)", text)
    return [one.split() for one in installs]


@needs("process namespace", "network namespace")
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="more-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.engine = Engine(cls.folder)
        cls.addClassCleanup(cls.engine.end)
        build, final = packages_of_stages()
        cls.take_base(BASE, final)
        # Before the long part: the reason why this machine runs no containers comes from the
        # simplest one.
        cls.engine.do("run", "--rm", "--network", "none", BASE, "true")
        # How well it is compiled does not matter here.
        cls.take_base("build", build, "--change", "ENV=CFLAGS=-O0")
        run("make", "-s", "dist")
        run("tar", "-xzf", BUILD / f"berth-{VERSION}.tar.gz", "-C", cls.folder)
        # Only the first stage takes another base.
        cls.build("berth", cls.folder / f"berth-{VERSION}", "--from", "localhost/build", "--file",
            "deploy/Dockerfile")
        server = cls.folder / "server"
        server.mkdir()
        (server / "my-server").write_text(SERVER)
        (server / "my-server").chmod(0o755)
        (server / "Dockerfile").write_text(OWN)
        cls.build("my-server", server)
        cls.docker = cls.engine.serve()

    @classmethod
    def take_base(cls, name, packages, *changes):
        folder = cls.folder / "base"
        folder.mkdir()
        cls.engine.take(MinimalRoot(folder, ["apt", *packages]).root, name, *changes)
        shutil.rmtree(folder)

    @classmethod
    def build(cls, name, context, *arguments):
        cls.engine.do("build", "--isolation", "chroot", "--network", "host", "--layers=false",
            "--tag", name, *arguments, context)

    def inside(self, container, *command):
        return self.engine.run("podman", "exec", container, *command)

    def state(self, container):
        return json.loads(self.engine.do("inspect", container))[0]["State"]

    def records(self, container, folder):
        """The components that are registered below a directory registry of the container."""
        status, output = self.inside(container, "find", folder, "-path", f"*/{RECORD}/*")
        return output.split() if status == 0 else []

    def test_a_server_under_the_entry_point_is_registered_drained_and_stopped(self):
        self.engine.do("volume", "create", "registry")
        self.engine.do("run", "--detach", "--name", "web", "--volume", "registry:/registry",
            "--env", "BERTH_REGISTRY=dir:/registry",
                       "--env", "PORT=8080", "my-server")
        wait_until(lambda: self.inside("web", "berth", "ready")[0] == 0, "the server is registered")
        self.assertTrue(self.records("web", "/registry"))
        status, output = self.inside("web", "berth", "status")
        self.assertEqual(status, 0, output)
        self.assertIn("pid 1,", output)
        self.assertEqual(self.inside("web", "berth", "drain", "--wait"), (0, ""))
        self.assertEqual(self.records("web", "/registry"), [])
        self.engine.do("stop", "web")
        logs = self.engine.do("logs", "web")
        self.assertEqual(self.state("web")["ExitCode"], 0, logs)
        self.assertIn("my-server: stopped", logs)

    def test_the_image_holds_what_its_programs_need(self):
        final = packages_of_stages()[1]
        self.assertEqual(final, sorted(final))
        for program in ("/usr/sbin/berthd", "/usr/bin/berth", "/usr/libexec/berth/berth-zookeeper"):
            # As ldd does it, which is a script for bash.
            output = self.once(program, "LD_TRACE_LOADED_OBJECTS=1")
            self.assertIn("libc.so.6 => /", output)
            self.assertNotIn("not found", output)
        self.assertIn("good", self.once("/usr/sbin/berthd", "BERTH_USER=joe", "-t"))
        self.assertIn("user = joe", self.once("/usr/sbin/berthd", "BERTH_USER=joe", "-T"))

    def once(self, program, variable, *arguments):
        """What a program of the image prints, as the only one of its container."""
        return self.engine.do("run", "--rm", "--env", variable, "--entrypoint", program, "berth",
            *arguments)

    def compose(self, file, *arguments):
        status, output = self.engine.run("docker-compose", "--project-name", "fleet", "--file",
            SOURCE / "deploy" / file, *arguments,
                                         patience=COMPILING,
                                         BERTH_REGISTRY="dir:/var/lib/berth/registry",
            **self.docker)
        self.assertEqual(status, 0, output)
        return output

    def container(self):
        names = self.engine.do("ps", "--format", "{{.Names}}").split()
        return next((name for name in names if name.startswith("fleet")), None)

    def is_ready(self):
        name = self.container()
        return name and self.inside(name, "berth", "ready")[0] == 0

    def wait_ready(self, what):
        try:
            wait_until(self.is_ready, what)
        except AssertionError as error:
            every = self.engine.do("ps", "--all", "--format", "{{.Names}}").split()
            logs = [self.engine.do("logs", name)[-2000:] for name in every]
            raise AssertionError(f"{error}\n" + "\n".join(logs)) from None

    def break_it(self, file, how):
        name = self.container()
        started = self.state(name)["StartedAt"]
        if how == "the server is killed":
            # From without: a command in the container would end with it.
            self.assertEqual(self.engine.run("sh", "-c", KILL_SERVER, "sh",
                self.state(name)["Pid"]), (0, ""))
        elif how == "the agent is killed":
            self.engine.run("kill", "-9", str(self.state(name)["Pid"]))
        elif how == "restart":
            self.compose(file, "restart", "server")
        else:
            self.compose(file, "up", "--detach", "--no-build", "--force-recreate", "--no-deps",
                "server")
        wait_until(lambda: self.is_ready() and self.state(self.container())["StartedAt"] != started,
            f"the container serves again ({how})")

    def test_compose_runs_a_server_that_comes_back_with_its_agent(self):
        file = "compose.yaml"
        self.compose(file, "up", "--detach", "--no-build")
        wait_until(self.is_ready, "the server is registered")
        name = self.container()
        self.assertTrue(self.records(name, "/var/lib/berth/registry"))
        # The container may not write to its own root.
        self.assertNotEqual(self.inside(name, "touch", "/etc/berth/berth.ini")[0], 0)
        self.assertEqual(self.inside(name, "sh", "-c", "grep CapEff /proc/self/status")[1].split(),
            ["CapEff:", "0" * 16])
        self.engine.do("healthcheck", "run", name)
        for how in WAYS:
            with self.subTest(how=how):
                self.break_it(file, how)
        self.compose(file, "stop")
        self.compose(file, "down", "--volumes")

    def host_s_agent(self):
        """Next to the engine, as deploy/host has it, on a directory registry."""
        self.engine.run("sh", "-ec", PREPARE)
        text = (SOURCE / "deploy/host/berth.ini").read_text()
        config = self.folder / "host.ini"
        config.write_text(re.sub("(?m)^url = .*", "url = dir:/run/registry", text))
        config.chmod(0o644)
        self.start_host()

    def start_host(self):
        log = open(self.folder / "host.log", "a", encoding="utf-8")
        self.addCleanup(log.close)
        # The shell's number is that of the agent, in the engine's namespace.
        host = subprocess.Popen([*self.engine.inside, "sh", "-c",
            'echo $$ >/run/host.pid && exec "$@"', "sh", BUILD / "berthd", "-c",
            self.folder / "host.ini"], env={**self.engine.environment,
            "BERTH_LIBEXECDIR": str(BUILD)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(host.wait)
        self.addCleanup(self.engine.run, "sh", "-c", "kill -9 $(cat /run/host.pid)")
        wait_until(lambda: self.engine.run(BUILD / "berth", "ready")[0] == 0,
            f"the host's agent serves: {(self.folder / 'host.log').read_text()}")

    def on_host(self, state):
        """Whether the host's agent says that of a record of the container, and of no other."""
        status, output = self.engine.run(BUILD / "berth", "--format", "json", "bridge")
        self.assertEqual(status, 0, output)
        return [record["state"] for container in json.loads(output)["containers"]
            for record in container["records"]] == [state]

    def test_compose_runs_a_container_of_a_host_with_a_bridge(self):
        file = "host/compose.yaml"
        self.host_s_agent()
        self.compose(file, "up", "--detach", "--no-build")
        self.wait_ready("the server is registered")
        self.assertTrue(self.on_host("registered"))
        for how in WAYS:
            with self.subTest(how=how):
                self.break_it(file, how)
                wait_until(lambda: self.on_host("registered"), "and so says the host's agent")
        with self.subTest(how="the host's agent is killed"):
            self.engine.run("sh", "-c", "kill -9 $(cat /run/host.pid)")
            self.start_host()
            wait_until(lambda: self.on_host("registered"), "its records are back")
            wait_until(self.is_ready, "the container knows it")
        with self.subTest(how="pause"):
            name = self.container()
            self.engine.do("pause", name)
            try:
                wait_until(lambda: self.on_host("frozen"), "a paused container is not announced")
            finally:
                self.engine.do("unpause", name)
            wait_until(lambda: self.on_host("registered"), "it is announced again")
        self.compose(file, "stop")
        wait_until(lambda: not self.on_host("registered"), "its record is gone")

    def test_quadlets_run_the_agent_of_a_host_and_a_server(self):
        """As the generator of a later podman has them run."""
        folder = self.folder / "nginx"
        folder.mkdir()
        self.engine.take(nginx_root(folder).root, "docker.io/library/nginx", "--change",
            f"CMD {NGINX_COMMAND}")
        for words in ("link add eth0 type veth peer name peer", "link set eth0 up",
                "link set peer up", "addr add 192.0.2.7/24 dev eth0"):
            self.engine.run("ip", *words.split())
        config = self.folder / "quadlet.ini"
        config.write_text(re.sub("(?m)^url = .*", "url = dir:/var/lib/berth/registry",
            (RUNTIME / "berth.ini").read_text()))
        config.chmod(0o644)
        for name in ("berth", "web"):
            self.engine.do(*(word.replace("/etc/containers/systemd/berth.ini", str(config))
                for word in podman_run(read_container(RUNTIME / f"{name}.container"))))
        path = f"/services/web/components/{json.loads(self.engine.do('inspect', 'web'))[0]['Id']}"

        def registered():
            return self.inside("berth", "berth", "ls", "/services/web/components")[1].split()
        try:
            wait_until(lambda: registered() == [path[:-52]], "the server is registered")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.engine.do('logs', 'berth')}\n"
                f"{self.inside('berth', 'berth', 'bridge')}") from None
        self.engine.do("kill", "web")
        wait_until(lambda: path[:-52] not in registered(), "it is gone")
        self.engine.do("stop", "berth")
        self.assertIn("QUIT", self.engine.do("logs", "berth"))


if __name__ == "__main__":
    unittest.main()
