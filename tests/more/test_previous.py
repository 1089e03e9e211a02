"""0.1.0, built from its commit, and this tree: upgraded in place and back, and by restarts, with
the tool of each against the agent of the other."""

import os
import pathlib
import shutil
import subprocess
import unittest

from berth import BUILD, AgentTest
from zookeeper import ZooKeeper

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()
COMMIT = "4f7cf45"  # 0.1.0
OLD = BUILD / "previous" / "build"
COMPILING = 1500  # seconds
HAS_COMMIT = subprocess.run(["git", "-c", "safe.directory=*", "-C", SOURCE, "cat-file", "-e",
    f"{COMMIT}^{{commit}}"], capture_output=True, check=False).returncode == 0


def build_old():
    if (OLD / "berthd").exists():
        return
    shutil.rmtree(OLD.parent, ignore_errors=True)
    OLD.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS"))}
    command = (f"git -c safe.directory='*' -C {SOURCE} archive {COMMIT} | tar -x -C {OLD.parent} "
               f"&& cd {OLD} && ../configure && make -s -j{os.cpu_count()} all")
    subprocess.run(["/bin/sh", "-ec", command], env=environment, stdout=subprocess.DEVNULL,
        timeout=COMPILING, check=True)


@unittest.skipUnless(HAS_COMMIT,
    f"0.1.0 is not here: commit {COMMIT} is not in this tree's history (git fetch --unshallow)")
class Previous(AgentTest):
    @classmethod
    def setUpClass(cls):
        build_old()

    def install(self, build):
        for name in ("berthd", "berth-zookeeper"):
            shutil.copy2(build / name, self.place / f"{name}.new")
            (self.place / f"{name}.new").replace(self.place / name)

    def check(self, agent, version):
        agent.wait_state("registered")
        self.assertEqual(agent.status()["version"], version)
        self.assertEqual(agent.check_named("alive")["state"], "up")
        for build in (OLD, BUILD):
            subprocess.run([build / "berth", "--socket", agent.socket, "resolve", agent.PATH],
                stdout=subprocess.DEVNULL, check=True)

    def live_through_both(self, registry):
        versions = {OLD: "0.1.0", BUILD: (SOURCE / "VERSION").read_text().strip()}
        self.place = self.folder / "programs"
        self.place.mkdir()
        environment = {**os.environ, "BERTH_LIBEXECDIR": str(self.place)}
        self.install(OLD)
        agent = self.web_agent(registry=registry)
        agent.program = self.place / "berthd"
        agent.start(env=environment)
        self.check(agent, "0.1.0")
        session = agent.status()["registry"]["session"]
        for build in (BUILD, OLD, BUILD):
            self.install(build)
            agent.upgrade()
            self.check(agent, versions[build])
            self.assertEqual(agent.status()["registry"]["session"], session)
        for build in (OLD, BUILD):
            self.assertEqual(agent.stop(), 0)
            self.install(build)
            agent.start(env=environment)
            self.check(agent, versions[build])

    def test_a_directory_as_registry(self):
        self.live_through_both(self.registry)

    def test_zookeeper_as_registry(self):
        with ZooKeeper() as server:
            self.live_through_both(server.url)


del AgentTest

if __name__ == "__main__":
    unittest.main()
