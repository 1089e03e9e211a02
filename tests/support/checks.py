"""Checks that do what a test says, when it says so: no interval is waited for, every run is ordered
over the socket."""

import grp
import json
import os
import pwd
import re

from berth import Agent, AgentTest, wait_until
from rights import text_of_child
from zookeeper import ZooKeeper

NODE = f"/registry{Agent.PATH}"
FOR_EVER = "1h"


def as_somebody_else(user, group, groups, do):
    """What do() returns in a process of this identity, as text. Forked, for not everybody can read
    our Python."""
    def do_as_somebody_else():
        os.setgroups([grp.getgrnam(name).gr_gid for name in groups])
        os.setgid(grp.getgrnam(group).gr_gid)
        os.setuid(pwd.getpwnam(user).pw_uid)
        return do()

    return text_of_child(do_as_somebody_else)


class ScriptedCheck:
    """A health command whose exit status and output the test sets."""

    def __init__(self, folder, name="alive"):
        self.name = name
        self.file = folder / f"scripted-{name}"
        self.says(0)

    def says(self, status, output=""):
        replacement = self.file.with_suffix(".new")
        replacement.write_text(f"{status} {output}\n")
        replacement.rename(self.file)

    @property
    def options(self):
        return {
            "type": "command",
            "shell": "yes",
            "warning_status": "1",
            "command": f"read status text < {self.file}; echo \"$text\"; exit $status",
            "interval": FOR_EVER,
            "timeout": "50s",
        }


class CheckTest(AgentTest):
    """On the dir: backend."""

    def scripted(self, name="alive"):
        return ScriptedCheck(self.folder, name)

    def scripted_agent(self, scripted, check=None, extra=None, **options):
        """An agent with one component, guarded by that command; not started. `check`: further keys
        of its [check]."""
        sections = {f"check {scripted.name}": {**scripted.options, **(check or {})},
            **(extra or {})}
        return self.web_agent(check=None, extra=sections, **options)

    def run_check(self, agent, name="alive"):
        answer = agent.request("POST", f"/v1/agent/checks/{name}/run")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def runs(self, agent, scripted, *statuses):
        """One run for each exit status; the state that follows the last one."""
        state = None
        for status in statuses:
            scripted.says(status)
            state = self.run_check(agent, scripted.name)["state"]
        return state

    def registered(self, agent, name=None):
        agent.wait_state("registered", name)
        return agent

    def history(self, agent, subject):
        return [entry for entry in agent.get("/v1/agent/history").json
            if entry["subject"] == subject]

    def metrics(self, agent):
        """{'name{labels}': value}"""
        text = agent.get("/metrics").body.decode()
        return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$",
            text, re.MULTILINE)}


class OnZooKeeper(CheckTest):
    """On a real ZooKeeper, with a witness that shares no code with us."""

    SESSION_TIMEOUT_S = 30  # a session ends when a test ends it, not when the machine is busy

    @classmethod
    def setUpClass(cls):
        cls.server = ZooKeeper(config=f"maxSessionTimeout={cls.SESSION_TIMEOUT_S * 1000}\n")
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.registry = self.server.url
        # One server for the tests of a class: what one of them left must not meet the next.
        wait_until(lambda: self.node() is None, "the node of the test before is gone")

    def scripted_agent(self, scripted, check=None, extra=None, **options):
        extra = extra or {}
        registry = {"session_timeout": f"{self.SESSION_TIMEOUT_S}s", **extra.get("registry", {})}
        return super().scripted_agent(scripted, check, {**extra, "registry": registry}, **options)

    def node(self):
        return self.server.stat(NODE)

    def record(self):
        return json.loads(self.server.probe("get", NODE).stdout)
