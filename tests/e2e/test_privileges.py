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

from berth import BUILD, AgentTest, wait_until
from fake_zookeeper import FakeZooKeeper
from ports import reserve_port

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


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class Privileges(AgentTest):
    def setUp(self):
        super().setUp()
        for folder in self.folder, *self.folder.parents:
            if not folder.stat().st_mode & 1:
                folder.chmod(0o711)

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
        """What the check's command said of itself."""
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


@unittest.skipUnless(os.geteuid() == 0, "only root can give up being root")
class NotRoot(AgentTest):
    def test_only_root_becomes_another_user(self):
        agent = self.web_agent(extra={"agent": {"user": "daemon"}})
        for folder in agent.folder, *agent.folder.parents:
            if not folder.stat().st_mode & 1:
                folder.chmod(0o711)
        agent.start(wait=False, user="nobody", extra_groups=[])
        self.assertEqual(agent.wait(), 1)
        self.assertIn("only root can become another user", agent.read_log())


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

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_a_file_of_another_user_is_not_started(self):
        self.assertFalse(self.runs(0o755, OTHER.pw_uid))


if __name__ == "__main__":
    unittest.main()
