"""The short main job of an agent, for whatever environment it has to run in."""

import json
import shlex
import signal

from berth import PROGRAMS, Agent, AgentTest, berth, exists, log_writers, wait_until

# $1…: the program and its arguments.
WRAPPER = """#!/bin/sh
folder={folder}
{setup}
exec "$@"
"""


class MainJob(AgentTest):
    """run_job() registers a component, looks it up, lets its check fail and recover, upgrades the
    agent and stops it. `setup` is a shell script that makes the environment, in which "$@" is the
    program."""

    def surround(self, setup, name="around"):
        """The program that runs another one in the environment."""
        wrapper = self.folder / name
        wrapper.write_text(WRAPPER.format(folder=shlex.quote(str(self.folder)), setup=setup))
        wrapper.chmod(0o755)
        return wrapper

    def agent_in(self, setup, registry=None, attributes=None):
        good = self.folder / "good"
        good.touch()
        agent = Agent(self.folder / "agent", registry or self.registry)
        component = agent.component()
        component["component"].update(attributes or {})
        agent.write_config({
            **component,
            "check alive": {"type": "command", "command": exists(good), "interval": "100ms",
                "fall": "1", "timeout": "60s"},
            "output list": {"from": Agent.PATH, "path": self.folder / "list", "render": "/bin/cat",
                "quiet": "1ms"},
        })
        self.around = self.surround(f"cd {shlex.quote(str(self.folder))}\n{setup}")
        agent.program = self.surround(f"exec {self.around} {PROGRAMS / 'berthd'} \"$@\"", "berthd")
        self.addCleanup(agent.end)
        return agent

    def run_job(self, setup="", registry=None, attributes=None, upgrades=True):
        """Returns the record that it had."""
        agent = self.agent_in(setup, registry, attributes)
        good, output = self.folder / "good", self.folder / "list"
        agent.start()
        agent.wait_state("registered")
        wait_until(lambda: output.exists() and "127.0.0.1" in output.read_text(),
            "the output has been rendered")
        found = self.look_up(agent)
        self.assertEqual(found.returncode, 0, found.stderr)
        good.unlink()
        agent.wait_state("withdrawn")
        wait_until(lambda: self.look_up(agent).returncode == 3, "it is gone")
        good.touch()
        agent.wait_state("registered")
        if upgrades:
            self.upgrade(agent)
            agent.wait_state("registered")
        self.assertEqual(agent.stop(), 0, agent.read_log())
        there = berth("--registry", registry or self.registry, "exists", Agent.PATH)
        self.assertEqual(there.returncode, 3, there.stderr)
        return json.loads(found.stdout)

    def upgrade(self, agent):
        """By what writes the log, which may be lost itself."""
        before = set(log_writers(agent.process.pid))
        agent.signal(signal.SIGUSR2)
        wait_until(lambda: set(log_writers(agent.process.pid)) - before, "the new program runs")
        wait_until(agent.answers, "it answers")

    def look_up(self, agent):
        return berth("--socket", agent.socket, "--format", "json", "resolve", Agent.PATH)
