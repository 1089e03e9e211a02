"""0.1.0, built from its commit, and this tree: upgraded in place and back, and by restarts, with
the tool, the library and the ZooKeeper worker of each at the agent of the other."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from berth import BUILD, AgentTest, wait_until
from zookeeper import ZooKeeper

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()
COMMIT = "4f7cf45"  # 0.1.0
OLD = BUILD / "previous" / "build"
COMPILING = 1500  # seconds
ASK = r"""
#include <berth.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	struct berth *berth;
	struct berth_failure failure;
	struct berth_endpoints found;
	struct berth_answer answer;
	int gone = BERTH_OK;
	if (argc != 3 || berth_open(&berth, argv[1], NULL, &failure) ||
		berth_endpoints(berth, argv[2], NULL, &found, &failure) ||
		!(gone = berth_resolve(berth, "/users/nobody/x", &answer, &failure))) {
		return fprintf(stderr, "%s\n", failure.message), 1;
	}
	printf("%s %d\n", found.items[0].address, gone == BERTH_PATH_NOT_FOUND);
	berth_endpoints_finish(&found);
	berth_close(berth);
	return 0;
}
"""
ANSWERS = "http://127.0.0.1:8080/ 1\n"
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

    def test_the_worker_of_the_other_version(self):
        """An upgrade replaces berthd and its worker one after the other; whoever dies in between
        is started anew from the other version."""
        with ZooKeeper() as server:
            for agent_of, worker_of in (OLD, BUILD), (BUILD, OLD):
                with self.subTest(agent=agent_of, worker=worker_of):
                    self.live_with_the_worker(server, agent_of, worker_of)

    def live_with_the_worker(self, server, agent_of, worker_of):
        self.place = self.folder / f"programs-{agent_of.parent.name}"
        self.place.mkdir()
        shutil.copy2(agent_of / "berthd", self.place)
        shutil.copy2(worker_of / "berth-zookeeper", self.place)
        agent = self.web_agent(agent_of.parent.name, registry=server.url)
        agent.program = self.place / "berthd"
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(self.place)})
        agent.wait_state("registered")
        self.assertEqual(os.readlink(f"/proc/{agent.worker()}/exe"),
            str(self.place / "berth-zookeeper"))
        session = agent.status()["registry"]["session"]
        for build in (OLD, BUILD):
            subprocess.run([build / "berth", "--socket", agent.socket, "resolve", agent.PATH],
                stdout=subprocess.DEVNULL, check=True)
        # Another client's change reaches the agent, and its record comes back.
        node = f"/registry{agent.PATH}"
        first = server.stat(node)["czxid"]
        self.assertEqual(server.probe("delete", node).returncode, 0)
        wait_until(lambda: (server.stat(node) or {}).get("czxid", first) != first,
            "the record is there again")
        # A worker that is killed has a successor in the same session.
        before = agent.worker()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: agent.worker() not in (None, before), "there is another worker")
        wait_until(lambda: agent.status()["registry"]["state"] == "connected", "it is connected")
        agent.wait_state("registered")
        self.assertEqual(agent.status()["registry"]["session"], session)
        self.assertEqual(agent.stop(), 0)
        wait_until(lambda: server.stat(node) is None, "the record is gone")

    def test_libberth_of_the_other_version(self):
        """A program that was compiled for 0.1.0, with its library and with ours, asks the agent
        and the registry of each."""
        program = self.folder / "ask"
        subprocess.run(["cc", "-x", "c", "-", "-o", program, "-I", OLD.parent / "lib", "-L", OLD,
            "-lberth"], input=ASK, text=True, check=True)
        for agent_of in (OLD, BUILD):
            agent = self.web_agent(agent_of.parent.name)
            agent.program = agent_of / "berthd"
            agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(agent_of)})
            agent.wait_state("registered")
            for library_of in (OLD, BUILD):
                for where in (agent.socket, self.registry):
                    with self.subTest(agent=agent_of, library=library_of, where=where):
                        result = subprocess.run([program, where, agent.PATH], text=True,
                            env={**os.environ, "LD_LIBRARY_PATH": str(library_of)},
                            capture_output=True, check=False)
                        self.assertEqual((result.returncode, result.stdout), (0, ANSWERS),
                            result.stderr)
            self.assertEqual(agent.stop(), 0)

    def test_a_directory_as_registry(self):
        self.live_through_both(self.registry)

    def test_zookeeper_as_registry(self):
        with ZooKeeper() as server:
            self.live_through_both(server.url)


del AgentTest

if __name__ == "__main__":
    unittest.main()
