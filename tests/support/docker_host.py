"""A host with a network, a /run and a dockerd of its own, so that no port and no path is another
one than documents say. Needs "mounts", "freezer" and "network namespace".
"""

import os
import subprocess

from berth import BUILD, PATIENCE, Agent
from own_network import OwnNetwork
from runtimes import Docker


class DockerHost:
    ADDRESS = "192.0.2.7"

    def __init__(self, test, folder):
        self.folder = folder
        self.network = OwnNetwork(test, folder, own_run=True)
        self.network.interface("eth0", f"{self.ADDRESS}/24", default="192.0.2.1")
        self.docker = Docker(folder / "docker", inside=self.network.inside)
        self.docker.socket = self.network.root / "run/docker.sock"
        test.addCleanup(self.docker.end)
        self.docker.start()

    def sh(self, command):
        """Types a command there; its exit status and all that it prints."""
        result = subprocess.run([*self.network.inside, "sh", "-c", command], text=True,
            env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}, timeout=PATIENCE,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return result.returncode, result.stdout

    def start_agent(self, test, folder, text):
        """The host's agent, with its socket where it is by default."""
        agent = self.network.enter(Agent(folder, "dir:/nowhere", {}))
        test.addCleanup(agent.end)
        agent.socket = self.network.root / "run/berth/berth.sock"
        agent.config.write_text(f"[agent]\nstate_dir = {folder}/state\n{text}")
        return agent.start()
