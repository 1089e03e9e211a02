"""0.1.0 and 0.2.0, built from their commits, and this tree: upgraded in place and back, and by
restarts, with the tool, the library and the ZooKeeper worker of each at the agent of the other; of
0.2.0 also a host's agent with an agent in a container, its book and berth-xds."""

import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from berth import BUILD, Agent, AgentTest, wait_until
from names import ask, reserve_names_port, texts
from zookeeper import ZooKeeper

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()
NOW = (SOURCE / "VERSION").read_text().strip()
COMPILING = 1500  # seconds
WEB = "/users/joe/web/prod/components"
ASK = r"""
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
/* ask WHERE PATH COUNT */
int main(int argc, char **argv)
{
	struct berth *berth;
	struct berth_failure failure;
	struct berth_endpoints found;
	struct berth_answer answer;
	int gone = BERTH_OK;
	if (argc != 4 || berth_open(&berth, argv[1], NULL, &failure) ||
		berth_endpoints(berth, argv[2], NULL, &found, &failure) ||
		!(gone = berth_resolve(berth, "/users/nobody/x", &answer, &failure))) {
		return fprintf(stderr, "%s\n", failure.message), 1;
	}
	for (int i = 0; i < atoi(argv[3]); i++) {
		if (berth_resolve(berth, argv[2], &answer, &failure)) {
			return fprintf(stderr, "%s\n", failure.message), 1;
		}
		berth_answer_finish(&answer);
	}
	printf("%s %d\n", found.items[0].address, gone == BERTH_PATH_NOT_FOUND);
	berth_endpoints_finish(&found);
	berth_close(berth);
	return 0;
}
"""
ANSWERS = "http://127.0.0.1:8080/ 1\n"
COUNT = 2000  # look-ups, nearly all of which the map can answer


def has_commit(commit):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", SOURCE, "cat-file", "-e",
        f"{commit}^{{commit}}"], capture_output=True, check=False).returncode == 0


def build_old(commit, build):
    """Once for a build directory."""
    if (build / "berthd").exists():
        return
    began = time.monotonic()
    shutil.rmtree(build.parent, ignore_errors=True)
    build.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS"))}
    command = (f"git -c safe.directory='*' -C {SOURCE} archive {commit} | tar -x -C {build.parent} "
               f"&& cd {build} && ../configure CFLAGS=-O1 && make -s -j{os.cpu_count()} all")
    subprocess.run(["/bin/sh", "-ec", command], env=environment, stdout=subprocess.DEVNULL,
        timeout=COMPILING, check=True)
    print(f"{commit} was built in {time.monotonic() - began:.0f} s", flush=True)


class Previous(AgentTest):
    """`VERSION`, built from `COMMIT`, is `self.old`; a class for each below."""

    @classmethod
    def setUpClass(cls):
        if not has_commit(cls.COMMIT):
            raise unittest.SkipTest(f"{cls.VERSION} is not here: commit {cls.COMMIT} is not in "
                "this tree's history (git fetch --unshallow)")
        cls.old = BUILD / "previous" / cls.VERSION / "build"
        build_old(cls.COMMIT, cls.old)
        cls.versions = {cls.old: cls.VERSION, BUILD: NOW}

    def both(self):
        """(agent's build, other part's build), each the other way round."""
        return (self.old, BUILD), (BUILD, self.old)

    def install(self, build):
        """All programs of a build, each at once, as a package does."""
        for program in sorted(build.glob("berth*")):
            if program.is_file() and os.access(program, os.X_OK):
                shutil.copy2(program, self.place / f"{program.name}.new")
                (self.place / f"{program.name}.new").replace(self.place / program.name)

    def use(self, agent, build):
        """The agent is one of this build."""
        agent.program = build / "berthd"
        return {**os.environ, "BERTH_LIBEXECDIR": str(build)}

    def check(self, agent, version):
        agent.wait_state("registered")
        self.assertEqual(agent.status()["version"], version)
        self.assertEqual(agent.check_named("alive")["state"], "up")
        for build in (self.old, BUILD):
            subprocess.run([build / "berth", "--socket", agent.socket, "resolve", agent.PATH],
                stdout=subprocess.DEVNULL, check=True)

    def live_through_both(self, registry):
        self.place = self.folder / "programs"
        self.place.mkdir()
        environment = {**os.environ, "BERTH_LIBEXECDIR": str(self.place)}
        self.install(self.old)
        agent = self.web_agent(registry=registry)
        agent.program = self.place / "berthd"
        agent.start(env=environment)
        self.check(agent, self.VERSION)
        session = agent.status()["registry"]["session"]
        for build in (BUILD, self.old, BUILD):
            self.install(build)
            agent.upgrade()
            self.check(agent, self.versions[build])
            self.assertEqual(agent.status()["registry"]["session"], session)
        for build in (self.old, BUILD):
            self.assertEqual(agent.stop(), 0)
            self.install(build)
            agent.start(env=environment)
            self.check(agent, self.versions[build])

    def test_the_worker_of_the_other_version(self):
        """An upgrade replaces berthd and its worker one after the other; whoever dies in between
        is started anew from the other version."""
        with ZooKeeper() as server:
            for agent_of, worker_of in self.both():
                with self.subTest(agent=agent_of, worker=worker_of):
                    self.live_with_the_worker(server, agent_of, worker_of)

    def live_with_the_worker(self, server, agent_of, worker_of):
        self.place = self.folder / f"programs-{self.versions[agent_of]}"
        self.place.mkdir()
        shutil.copy2(agent_of / "berthd", self.place)
        shutil.copy2(worker_of / "berth-zookeeper", self.place)
        agent = self.web_agent(self.versions[agent_of], registry=server.url)
        agent.program = self.place / "berthd"
        agent.start(env={**os.environ, "BERTH_LIBEXECDIR": str(self.place)})
        agent.wait_state("registered")
        self.assertEqual(os.readlink(f"/proc/{agent.worker()}/exe"),
            str(self.place / "berth-zookeeper"))
        session = agent.status()["registry"]["session"]
        for build in (self.old, BUILD):
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
        """A program that was compiled for the old version, with its library and with ours, asks the
        agent, its map and the registry of each."""
        program = self.folder / "ask"
        subprocess.run(["cc", "-x", "c", "-", "-o", program, "-I", self.old.parent / "lib", "-L",
            self.old, "-lberth"], input=ASK, text=True, check=True)
        for agent_of in (self.old, BUILD):
            agent = self.web_agent(self.versions[agent_of])
            agent.start(env=self.use(agent, agent_of))
            agent.wait_state("registered")
            for library_of in (self.old, BUILD):
                for where in (agent.socket, self.registry):
                    with self.subTest(agent=self.versions[agent_of], where=where,
                            library=self.versions[library_of]):
                        before = self.lookups(agent)
                        result = subprocess.run([program, where, agent.PATH, str(COUNT)], text=True,
                            env={**os.environ, "LD_LIBRARY_PATH": str(library_of)},
                            capture_output=True, check=False)
                        self.assertEqual((result.returncode, result.stdout), (0, ANSWERS),
                            result.stderr)
                        if self.HAS_MAP:
                            self.assertLess(self.lookups(agent) - before, COUNT / 2,
                                "the map answers")
            self.assertEqual(agent.stop(), 0)

    @staticmethod
    def lookups(agent):
        """Those that came over the socket."""
        return sum(float(line.split()[-1]) for line in
            agent.get("/metrics").body.decode().splitlines()
            if line.startswith("berth_lookups_total{"))

    def test_a_directory_as_registry(self):
        self.live_through_both(self.registry)

    def test_zookeeper_as_registry(self):
        with ZooKeeper() as server:
            self.live_through_both(server.url)


class From010(Previous):
    VERSION, COMMIT, HAS_MAP = "0.1.0", "4f7cf45", False


class From020(Previous):
    VERSION, COMMIT, HAS_MAP = "0.2.0", "608678a6", True

    def host(self, build, registry, name="host", **sections):
        containers = self.folder / f"{name}-containers"
        (containers / "box").mkdir(parents=True)
        agent = self.agent(name, registry=registry, **{"bridge": {"containers": containers},
            "container *": {"allow": "/users/joe/**"}, **sections})
        agent.start(env=self.use(agent, build))
        return agent, containers / "box"

    def in_box(self, box, build, name="inside"):
        """An agent in the container, with a component."""
        agent = self.web_agent(name, registry=f"host:{box}")
        wait_until((box / "berth.sock").exists, "the container has a socket")
        agent.start(env=self.use(agent, build))
        return agent

    def holds(self, box, build, path):
        """A process of this version in the container that holds a record."""
        file = self.folder / "record.json"
        file.write_text('{"type": "JSONServiceRecord", "yarn:persistence": "container"}')
        wait_until((box / "registry").is_dir, "the container is taken up")
        process = subprocess.Popen([build / "berth", "--registry", f"dir:{box}/registry", "bind",
            "-p", "--ephemeral", path, "--file", file], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_the_agent_in_a_container_is_of_the_other_version(self):
        """Each follows the registry by GET /v1/follow of the other."""
        with ZooKeeper() as server:
            for host_of, inside_of in self.both():
                name = f"host-{self.versions[host_of]}"
                host, box = self.host(host_of, server.url, name)
                inside = self.in_box(box, inside_of, f"inside-{self.versions[inside_of]}")
                self.check(inside, self.versions[inside_of])
                node = f"/registry{WEB}/other"
                self.put(f"{WEB}/other", {"type": "JSONServiceRecord"}, server.url)
                wait_until(lambda inside=inside: inside.get(f"/v1/resolve{WEB}/other").status
                    == 200, "it sees another one's record")
                self.assertEqual(server.probe("delete", node).returncode, 0)
                wait_until(lambda inside=inside: inside.get(f"/v1/resolve{WEB}/other").status
                    == 404, "and its end")
                self.assertIn(inside.get(f"/v1/resolve{inside.PATH}").headers["X-Cache"],
                    ("HIT", "MISS"))
                self.assertEqual(inside.stop(), 0)
                wait_until(lambda: server.stat(f"/registry{Agent.PATH}") is None, "it has gone")
                self.assertEqual(host.stop(), 0)

    def test_the_hosts_agent_is_upgraded(self):
        """Forward and back: records of containers stay as they are, by the hand-over and, after a
        kill, by the book; the end of a container is not missed."""
        with ZooKeeper() as server:
            self.place = self.folder / "programs"
            self.place.mkdir()
            self.install(self.old)
            host, box = self.host(self.place, server.url)
            inside = self.in_box(box, self.old)
            self.check(inside, self.VERSION)
            held = [self.holds(box, build, f"{WEB}/{number}")
                for number, build in enumerate((self.old, BUILD))]
            nodes = [f"/registry{path}" for path in (Agent.PATH, f"{WEB}/0", f"{WEB}/1")]
            wait_until(lambda: all(map(server.stat, nodes)), "all are registered")
            first = [server.stat(node)["czxid"] for node in nodes]
            for build in (BUILD, self.old, BUILD):
                self.install(build)
                host.upgrade()
                self.await_served(host, self.versions[build])
                self.assertEqual([server.stat(node)["czxid"] for node in nodes], first)
            for build in (self.old, BUILD):
                host.kill()
                self.install(build)
                host.start(env=self.use(host, self.place))
                self.await_served(host, self.versions[build])
                self.assertEqual([server.stat(node)["czxid"] for node in nodes], first)
                self.check(inside, self.VERSION)
            for process in held:
                process.kill()
            wait_until(lambda: not any(map(server.stat, nodes[1:])), "they have gone")
            for build in (BUILD, self.old):  # of the agent in the container
                inside.program = build / "berthd"
                self.assertEqual(inside.stop(), 0)
                inside.start(env=self.use(inside, build))
                self.check(inside, self.versions[build])

    def await_served(self, host, version):
        def served():
            (part,) = host.get("/v1/bridge").json["containers"]
            return len(part["records"]) == 3 and all(
                record["state"] == "registered" for record in part["records"])
        wait_until(served, f"the container is served: {host.get('/v1/bridge').body}")
        self.assertEqual(host.status()["version"], version)

    def test_a_drain_an_output_and_names_are_handed_over(self):
        self.place = self.folder / "programs"
        self.place.mkdir()
        self.install(self.old)
        port, file = reserve_names_port(self), self.folder / "lines"
        agent = self.web_agent(extra={"dns": {"listen": f"127.0.0.1:{port}"},
            "output lines": {"from": WEB, "format": "lines", "path": file, "quiet": "20ms"}})
        self.put(f"{WEB}/c1", {"type": "JSONServiceRecord", "external": [{"api": "http",
            "addressType": "host/port", "protocol": "tcp",
            "addresses": [{"host": "10.0.0.1", "port": "80"}]}]})
        agent.start(env=self.use(agent, self.place))
        agent.wait_state("registered")
        wait_until(file.exists, "the output is written")
        self.assertEqual(agent.request("POST", "/v1/agent/drain").status, 204)
        agent.wait_state("withdrawn")
        for build in (BUILD, self.old, BUILD):
            self.install(build)
            agent.upgrade()
            self.assertEqual(agent.status()["version"], self.versions[build])
            self.assertEqual(agent.component_state(), "withdrawn")
            self.assertEqual(file.read_text(), "10.0.0.1:80\n")
            self.assertEqual(texts(ask(port, "prod.web.joe.berth")), ["A 10.0.0.1"])
        for build in (self.old, BUILD):
            self.assertEqual(agent.stop(), 0)
            self.install(build)
            agent.start(env=self.use(agent, self.place))
            self.assertEqual(agent.component_state(), "withdrawn")
        agent.request("DELETE", "/v1/agent/drain")
        agent.wait_state("registered")

    def test_berth_xds_of_the_other_version(self):
        """The old one works on. Ours asks for sets, and says what the old agent lacks."""
        self.put(f"{WEB}/c1", {"type": "JSONServiceRecord", "external": [{"api": "http",
            "addressType": "host/port", "protocol": "tcp",
            "addresses": [{"host": "10.0.0.1", "port": "80"}]}]})
        for agent_of, xds_of in self.both():
            agent = self.agent(self.versions[agent_of])
            agent.start(env=self.use(agent, agent_of))
            result = subprocess.run([xds_of / "berth-xds", "--socket", agent.socket, "--dump",
                "prod.web.joe"], capture_output=True, text=True, timeout=60, check=False)
            if xds_of is BUILD:
                self.assertNotEqual(result.returncode, 0)
                self.assertRegex(result.stderr, "older")
                result = subprocess.run([BUILD / "berth", "--socket", agent.socket, "pick",
                    "prod.web.joe"], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(result.returncode, 1)
                self.assertIn("the agent is older than this program", result.stderr)
            else:
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("10.0.0.1", result.stdout)
            self.assertEqual(agent.stop(), 0)


del AgentTest, Previous

if __name__ == "__main__":
    unittest.main()
