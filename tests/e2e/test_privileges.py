"""[agent] user and group: what is left to an agent that root has started, to its worker and to its
commands."""

import grp
import os
import pwd
import shutil
import signal
import subprocess
import unittest
import urllib.request

from berth import BUILD, PROGRAMS, AgentTest, preloaded, wait_until
from fake_zookeeper import FakeZooKeeper
from ports import reserve_port
from rights import needs

NOBODY = pwd.getpwnam("nobody")
OTHER = pwd.getpwnam("daemon")
GROUP = grp.getgrnam("daemon")
FOR_USERS = 1 << 5 | 1 << 6 | 1 << 7  # kill, setgid, setuid
SHOW = "cat /proc/self/status"


def status(text):
    return {name: value.strip() for name, _, value in (line.partition(":")
        for line in text.splitlines())}


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return status(file.read())


def capabilities(of, *names):
    return [int(of[f"Cap{name}"], 16) for name in names]


@needs("users")
class Privileges(AgentTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o711)

    def start(self, agent_options, check=None, command=(), registry=None, name="agent",
            owner=NOBODY):
        agent = self.web_agent(name, check=SHOW, command=command, registry=registry,
            extra={"check alive": check or {}})
        agent.socket = agent.folder / "run" / "berth.sock"
        agent.sections["agent"] = {"socket": agent.socket, **agent_options}
        agent.write_config(agent.sections)
        agent.folder.chmod(0o711)
        state = agent.folder / "state"
        state.mkdir()
        os.chown(state, owner.pw_uid, owner.pw_gid)
        agent.start()
        agent.wait_state("registered")
        return agent

    def registry_of_nobody(self):
        """A directory that the agent's user may write."""
        root = self.folder / "shared"
        root.mkdir(exist_ok=True)
        root.chmod(0o755)
        os.chown(root, NOBODY.pw_uid, NOBODY.pw_gid)
        return f"dir:{root}"

    def output(self, agent):
        """The check's command about itself."""
        found = wait_until(lambda: (agent.get("/v1/agent/checks").json[0]["last"]
            or {}).get("output"), "the check has run")
        return status(found)

    def assert_nobody(self, of):
        self.assertEqual(of["Uid"].split(), [str(NOBODY.pw_uid)] * 4)
        self.assertEqual(of["Gid"].split(), [str(NOBODY.pw_gid)] * 4)
        self.assertNotIn("0", of["Groups"].split())

    def test_nothing_is_left_to_agent_and_check(self):
        agent = self.start({"user": "nobody"}, registry=self.registry_of_nobody())
        for of in status_of(agent.process.pid), self.output(agent):
            with self.subTest(process=of["Name"]):
                self.assert_nobody(of)
                self.assertEqual(capabilities(of, "Inh", "Prm", "Eff", "Bnd", "Amb"), [0] * 5)
                self.assertEqual(of["NoNewPrivs"], "1")
        self.assertEqual(agent.socket.parent.stat().st_uid, NOBODY.pw_uid)
        self.assertEqual(agent.stop(), 0)
        self.assertFalse(agent.socket.exists(), "it could not remove its socket")

    def test_a_group_of_its_own(self):
        agent = self.start({"user": "nobody", "group": GROUP.gr_name},
            registry=self.registry_of_nobody())
        self.assertEqual(status_of(agent.process.pid)["Gid"].split(), [str(GROUP.gr_gid)] * 4)

    def test_a_group_alone(self):
        """The agent stays root in name: without a capability it is an owner of files like
        another."""
        agent = self.start({"group": GROUP.gr_name}, owner=pwd.getpwuid(0))
        own = status_of(agent.process.pid)
        self.assertEqual(own["Uid"].split(), ["0"] * 4)
        self.assertEqual(own["Gid"].split(), [str(GROUP.gr_gid)] * 4)
        self.assertEqual(own["Groups"].split(), [str(GROUP.gr_gid)])
        self.assertEqual(capabilities(own, "Prm", "Eff", "Bnd"), [0] * 3)
        self.assertEqual(own["NoNewPrivs"], "1")

    def test_a_check_with_a_user_keeps_what_it_takes_also_after_an_upgrade(self):
        agent = self.start({"user": "nobody"}, check={"user": OTHER.pw_name},
            registry=self.registry_of_nobody())
        for round_number in (1, 2):
            with self.subTest(round=round_number):
                own = status_of(agent.process.pid)
                self.assert_nobody(own)
                self.assertEqual(capabilities(own, "Prm", "Eff", "Bnd"), [FOR_USERS] * 3)
                self.assertEqual(capabilities(own, "Amb"), [0])
                check = self.output(agent)
                self.assertEqual(check["Uid"].split(), [str(OTHER.pw_uid)] * 4)
                self.assertEqual(capabilities(check, "Prm", "Eff", "Amb"), [0] * 3)
            if round_number == 1:
                agent.signal(signal.SIGUSR2)
                wait_until(lambda: agent.read_log().count(" runs, pid ") == 2, "the successor runs")
                wait_until(agent.answers, "it answers")
                runs = agent.get("/v1/agent/checks").json[0]["counts"]
                wait_until(lambda: agent.get("/v1/agent/checks").json[0]["counts"] != runs,
                    "the check runs again")
                agent.wait_state("registered")

    def test_a_reload_cannot_add_the_first_check_with_a_user(self):
        agent = self.start({"user": "nobody"}, registry=self.registry_of_nobody())
        agent.sections["check alive"]["user"] = OTHER.pw_name
        agent.write_config(agent.sections)
        answer = agent.request("POST", "/v1/agent/reload")
        self.assertGreaterEqual(answer.status, 400)
        self.assertIn("[check alive] `user`", answer.body.decode())
        self.assertIn("restart it", answer.body.decode())
        self.assertEqual(agent.check_named("alive")["state"], "up", "the old configuration stays")
        agent.sections["check alive"]["user"] = "nobody"
        agent.write_config(agent.sections)
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200,
            "the agent's own user needs nothing")

    def test_an_upgrade_warns_of_the_first_check_with_a_user(self):
        agent = self.start({"user": "nobody"}, registry=self.registry_of_nobody())
        agent.sections["check alive"]["user"] = OTHER.pw_name
        agent.write_config(agent.sections)
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: "checks with a `user` of their own cannot run" in agent.read_log(),
            "the successor warns")
        wait_until(lambda: agent.read_log().count(" runs, pid ") == 2 and agent.answers(),
            "the successor runs")

    def test_a_reload_adds_a_second_check_with_a_user(self):
        agent = self.start({"user": "nobody"}, check={"user": OTHER.pw_name},
            registry=self.registry_of_nobody())
        agent.sections["check more"] = {**agent.sections["check alive"], "user": "bin"}
        agent.write_config(agent.sections)
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        wait_until(lambda: agent.check_named("more")["state"] == "up", "it runs")

    def test_a_main_process_keeps_the_bounding_set(self):
        agent = self.start({"user": "nobody"}, command=["sleep", "1000"],
            registry=self.registry_of_nobody())
        with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children",
                encoding="ascii") as file:
            children = [status_of(pid) for pid in file.read().split()]
        main = next(of for of in children if of["Name"] == "sleep")
        for of in main, status_of(agent.process.pid):
            self.assert_nobody(of)
            self.assertEqual(capabilities(of, "Prm", "Eff"), [0, 0])
            self.assertEqual(of["NoNewPrivs"], "0")
            self.assertEqual(of["CapBnd"], status_of("self")["CapBnd"])

    def test_without_a_user_nothing_changes(self):
        agent = self.start({}, registry=self.registry_of_nobody())
        own, mine = status_of(agent.process.pid), status_of("self")
        for name in ("Uid", "Gid", "Groups", "CapPrm", "CapBnd", "NoNewPrivs"):
            self.assertEqual(own[name], mine[name])

    def test_all_listeners_serve(self):
        port = reserve_port(self)
        agent = self.start({"user": "nobody", "listen": f"127.0.0.1:{port}"},
            registry=self.registry_of_nobody())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/live") as answer:
            self.assertEqual(answer.status, 200)
        self.assertIn("without capabilities, with no_new_privs", agent.read_log())

    def test_the_worker_is_in_its_cage(self):
        with FakeZooKeeper() as fake:
            agent = self.start({"user": "nobody"}, registry=fake.url)
            with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children",
                    encoding="ascii") as file:
                children = [status_of(pid) for pid in file.read().split()]
            worker = next(of for of in children if of["Name"].startswith("berth-zookeep"))
            self.assert_nobody(worker)
            self.assertEqual(capabilities(worker, "Inh", "Prm", "Eff", "Bnd", "Amb"), [0] * 5)
            self.assertEqual(worker["NoNewPrivs"], "1")
            if "cage: seccomp" in agent.read_log():
                self.assertEqual(worker["Seccomp"], "2")


@needs("users")
class Swapped(AgentTest):
    """The agent's user owns a directory in which root, who starts the agent, makes something. At
    once the user puts something else into its place, to have root change that."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o711)
        self.owned = self.folder / "owned"
        self.owned.mkdir()
        self.secret = self.folder / "secret"
        self.secret.write_text("root's")
        self.secret.chmod(0o600)
        (self.owned / "other").symlink_to(self.secret)
        os.chown(self.owned, NOBODY.pw_uid, NOBODY.pw_gid)
        registry = self.folder / "registry"
        registry.mkdir()
        os.chown(registry, NOBODY.pw_uid, NOBODY.pw_gid)
        self.agent = self.web_agent(registry=f"dir:{registry}")
        self.options = {"user": "nobody", "socket": self.owned / "berth.sock",
            "state_dir": self.folder / "state"}

    def start_swapped(self, path, **options):
        self.agent.sections["agent"] = {**self.options, **options}
        self.agent.socket = self.agent.sections["agent"]["socket"]
        self.agent.write_config(self.agent.sections)
        self.agent.start(wait=False,
            env=preloaded(BERTH_SWAP=f"{path}={self.owned / 'other'}"))
        wait_until(
            lambda: " runs, pid " in self.agent.read_log()
            or self.agent.process.poll() is not None,
            "it runs, or has given up")
        self.assertTrue(os.path.lexists(f"{path}.away"), "nothing was swapped")

    def assert_secret(self):
        status = self.secret.stat()
        self.assertEqual((status.st_mode & 0o7777, status.st_uid, status.st_gid), (0o600, 0, 0))

    def test_a_link_in_the_place_of_the_socket(self):
        self.start_swapped(self.options["socket"], socket_mode="0666")
        self.assert_secret()

    def test_a_link_in_the_place_of_a_socket_for_a_group(self):
        self.start_swapped(self.options["socket"], socket_mode="0660", socket_group=GROUP.gr_name)
        self.assert_secret()
        self.assertIn("another process has replaced the socket", self.agent.read_log())

    def test_a_link_in_the_place_of_the_sockets_directory(self):
        self.start_swapped(self.owned / "run", socket=self.owned / "run" / "berth.sock")
        self.assert_secret()

    def test_a_link_in_the_place_of_the_state_directory(self):
        self.start_swapped(self.owned / "state", state_dir=self.owned / "state")
        self.assert_secret()

    def test_a_directory_of_roots_in_the_place_of_the_state_directory(self):
        (self.owned / "other").unlink()
        (self.owned / "other").mkdir()
        self.start_swapped(self.owned / "state", state_dir=self.owned / "state")
        self.assertEqual((self.owned / "state").stat().st_uid, 0)

    def test_the_user_gets_the_group_of_the_socket_though_it_is_no_member(self):
        self.agent.sections["agent"] = {**self.options, "socket_mode": "0660",
            "socket_group": GROUP.gr_name}
        self.agent.socket = self.options["socket"]
        self.agent.write_config(self.agent.sections)
        self.agent.start()
        status = self.agent.socket.stat()
        self.assertEqual((status.st_mode & 0o7777, status.st_uid, status.st_gid),
            (0o660, NOBODY.pw_uid, GROUP.gr_gid))
        self.assertEqual(self.agent.stop(), 0)
        self.assertFalse(self.agent.socket.exists())

    def test_where_the_user_cannot_write_the_agent_says_why(self):
        """Root could bind a socket in anybody's directory, and does not."""
        os.chown(self.owned, OTHER.pw_uid, OTHER.pw_gid)
        self.agent.sections["agent"] = self.options
        self.agent.write_config(self.agent.sections)
        self.agent.start(wait=False)
        self.assertEqual(self.agent.wait(), 1)
        self.assertIn("root makes no socket where others can write", self.agent.read_log())


@needs("users")
class NotRoot(AgentTest):
    def test_only_root_becomes_another_user(self):
        agent = self.web_agent(extra={"agent": {"user": "daemon"}})
        self.folder.chmod(0o711)
        agent.folder.chmod(0o711)
        agent.start(wait=False, user="nobody", extra_groups=[])
        self.assertEqual(agent.wait(), 1)
        self.assertIn("only root can become another user", agent.read_log())


@needs("users")
class StrangersConfiguration(AgentTest):
    """Commands come from the configuration: root does not take it from just anybody."""

    # $1: a folder to become the volume, $2: what fills it, $3: ro or rw; then the command.
    ON_VOLUME = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
        'mount -t tmpfs -o mode=1777 none "$1" && cp -a "$2/." "$1/" && '
        'mount -o "remount,$3" "$1" && shift 3 && exec "$@"', "sh"]

    def setUp(self):
        super().setUp()
        self.agent = self.web_agent()
        self.config = self.agent.config

    def test_root_does_not_start_with_it(self):
        os.chown(self.config, OTHER.pw_uid, -1)
        self.agent.start(wait=False)
        self.assertEqual(self.agent.wait(), 1)
        self.assertIn("others could have written the commands in it: it belongs to user "
            f"{OTHER.pw_uid}, and not to root", self.agent.read_log())
        self.assertIn("mount it read-only", self.agent.read_log())

    def test_a_running_agent_keeps_the_old_one(self):
        self.agent.start()
        self.config.chmod(0o666)
        answer = self.agent.request("POST", "/v1/agent/reload")
        self.assertGreaterEqual(answer.status, 400)
        self.assertIn("others can write to it", answer.body.decode())
        self.config.chmod(0o644)
        self.assertEqual(self.agent.request("POST", "/v1/agent/reload").status, 200)

    def test_an_upgrade_does_not_begin_with_it(self):
        self.agent.start()
        self.config.chmod(0o666)
        self.agent.signal(signal.SIGUSR2)
        wait_until(lambda: "others can write to it" in self.agent.read_log(), "it is refused")
        self.assertTrue(self.agent.answers())

    def test_an_unprivileged_test_only_warns(self):
        self.folder.chmod(0o711)
        self.agent.folder.chmod(0o711)
        os.chown(self.config, OTHER.pw_uid, -1)
        result = subprocess.run([PROGRAMS / "berthd", "-t", "-c", self.config], user="nobody",
            group=NOBODY.pw_gid, extra_groups=[], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("an agent that root starts refuses it", result.stderr)

    @needs("mount namespace")
    def test_a_read_only_volume_is_good_whoever_owns_it(self):
        """As Kubernetes mounts a ConfigMap: links through a directory that everybody may write."""
        content = self.folder / "content"
        data = content / "..2026_01_01"
        data.mkdir(parents=True)
        (data / "berth.ini").write_text(self.config.read_text())
        (content / "..data").symlink_to(data.name)
        (content / "berth.ini").symlink_to("..data/berth.ini")
        for path in data, data / "berth.ini":
            os.chown(path, OTHER.pw_uid, -1)
            path.chmod(0o777)
        volume = self.folder / "volume"
        volume.mkdir()

        def run(access, *command):
            return subprocess.run([*self.ON_VOLUME, volume, content, access, *command],
                capture_output=True, text=True, check=False)

        command = [BUILD / "berthd", "-t", "-c", volume / "berth.ini"]
        result = run("ro", *command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(run("rw", *command).returncode, 1, "a mount that can be written is not")


class PlantedWorker(AgentTest):
    """A program that links libberth looks for its worker in its own directory, which may be one
    that strangers can write."""

    def runs(self, mode, owner=None):
        folder = self.folder / f"beside-{mode:o}-{owner}"
        folder.mkdir()
        program = shutil.copy(BUILD / "berth", folder)
        marker = folder / "ran"
        planted = folder / "berth-zookeeper"
        planted.write_text(f"#!/bin/sh\n: >'{marker}'\n")
        planted.chmod(mode)
        if owner is not None:
            os.chown(planted, owner, -1)
        environment = {name: value for name, value in os.environ.items()
            if name != "BERTH_LIBEXECDIR"}
        subprocess.run(
            [program, "--registry", "zookeeper://127.0.0.1:1/", "--timeout", "2s", "ls", "/"],
            env=environment, capture_output=True, check=False,
        )
        return marker.exists()

    def test_only_a_file_that_nobody_else_can_write_is_started(self):
        self.assertTrue(self.runs(0o755), "the own one")
        self.assertFalse(self.runs(0o757), "others may write it")
        self.assertFalse(self.runs(0o775), "its group may write it")

    @needs("users")
    def test_a_file_of_another_user_is_not_started(self):
        self.assertFalse(self.runs(0o755, OTHER.pw_uid))


if __name__ == "__main__":
    unittest.main()
