"""A node with many pods has used up its user's inotify instances (fs.inotify.max_user_instances is
128): an agent on a directory ended with status 1, and an upgrade ended a running one.

Source: tracker #39, item 5; Kubernetes nodes with many kubelets, log tailers and file watchers.
"""

import pathlib
import shlex
import unittest

from berth import PROGRAMS, Agent, AgentTest, berth, service_record, wait_until
from hosting import WEB, BridgeTest
from rights import needs

# The limit is that of a user namespace of the agent's own.
WRAPPER = """#!/bin/sh
exec unshare --user --map-root-user sh -c '
	knob=/proc/sys/user/max_inotify_instances
	echo 0 >$knob || exit 1
	(until test -e {more}; do sleep 0.05; done; echo 128 >$knob) </dev/null >/dev/null 2>&1 &
	exec {program} "$@"' agent "$@"
"""
SAYS = "looking once a second instead"


def watches(pid):
    """Whether the agent, or a process of its own, has an inotify instance."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for process in [pid, *children]:
        for descriptor in pathlib.Path(f"/proc/{process}/fd").glob("*"):
            try:
                if "inotify" in str(descriptor.readlink()):
                    return True
            except OSError:
                continue
    return False


class Limited:
    def limited(self, agent):
        self.more = self.folder / "more"
        self.addCleanup(self.more.touch)
        wrapper = self.folder / "limited"
        wrapper.write_text(WRAPPER.format(more=shlex.quote(str(self.more)),
            program=shlex.quote(str(PROGRAMS / "berthd"))))
        wrapper.chmod(0o755)
        agent.program = wrapper
        self.addCleanup(agent.end)
        return agent.start()


class NoInstanceLeft(Limited, AgentTest):
    @needs("limits", "processes")
    def test_it_looks_once_a_second_and_watches_when_it_can_again(self):
        agent = self.limited(Agent(self.folder / "agent", f"dir:{self.folder}/registry"))
        self.assertFalse(watches(agent.process.pid))
        self.follow(agent, "/services/first")
        agent.upgrade()
        wait_until(agent.answers, "the new program answers")
        self.follow(agent, "/services/second")
        self.assertEqual(agent.read_log().count(SAYS), agent.starts(), "said once by each")
        self.more.touch()
        wait_until(lambda: watches(agent.process.pid), "the agent watches")
        self.follow(agent, "/services/third")

    def follow(self, agent, path):
        """A record that comes and goes, as a look-up on the agent sees it."""
        wait_until(lambda: agent.get(f"/v1/resolve{path}").status == 404, f"no {path}")
        file = self.folder / "record.json"
        file.write_text(str(service_record("10.0.0.1", 80)).replace("'", '"'))
        registry = f"dir:{self.folder}/registry"
        bound = berth("--registry", registry, "bind", "-p", path, "--file", file)
        self.assertEqual(bound.returncode, 0, bound.stderr)
        wait_until(lambda: agent.get(f"/v1/resolve{path}").status == 200, f"{path} is seen")
        self.assertEqual(berth("--registry", registry, "rm", path).returncode, 0)
        wait_until(lambda: agent.get(f"/v1/resolve{path}").status == 404, f"{path} has gone")


class NoInstanceLeftForTheBridge(Limited, BridgeTest):
    @needs("limits", "processes")
    def test_containers_are_looked_at_once_a_second_and_watched_when_they_can_be_again(self):
        host = self.limited(self.agent("host", **{"bridge": {"containers": self.containers},
            "container *": {"allow": "/users/joe/web/**"}}))
        wait_until(lambda: "bridge: cannot use inotify" in host.read_log(), "it says so")
        self.assertFalse(watches(host.process.pid))
        registry = self.container("web-1")
        self.come_and_go(registry)
        host.upgrade()
        wait_until(host.answers, "the new program answers")
        self.come_and_go(registry)
        self.more.touch()
        wait_until(lambda: watches(host.process.pid), "the containers are watched")
        self.come_and_go(registry)

    def come_and_go(self, registry):
        owner = self.register(registry, f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        owner.kill()
        self.await_gone(f"{WEB}/c1")


if __name__ == "__main__":
    unittest.main()
