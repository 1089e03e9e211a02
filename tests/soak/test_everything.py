"""Everything at once for $SOAK_MINUTES (default 20): two hosts' agents on ZooKeeper with
containers that are directories, containers of a runtime, outputs, DNS, xDS, streams, the map,
checks, and an agent inside of a container each; records that come and go, and a fault in each
round. What a process has at rest behind a round has to stay as it was: memory, descriptors,
children, threads, inotify watches, and wake-ups, which a timer that is left behind would add to.

The helpers of the first host are never killed: they have to last. Those of the second one are, by
turns, and its agents are upgraded: what that costs the agent has to be given back. A sanitizer's
build is judged by its reports and by counts, not by its memory.

The curve goes to soak.csv in the build directory.
"""

import contextlib
import csv
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import time
import unittest

from berth import BUILD, PROGRAMS, UnixConnection, service_record, wait_until, wake_ups
from fake_runtime import FakeRuntime
from figures import figure, figure_of_all
from guests import labels
from http2 import DATA, Client, frame, message, text
from lifecycle import LifeTest, Server
from names import ask, reserve_names_port
from rights import needs
from streams import NDJSON, Stream
from xds import ENDPOINTS

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
SANITIZER = os.environ.get("BERTH_SANITIZER", "")
WARM_UP = 1 / 4  # of the time; what is there afterwards has to stay
MEMBERS, NAMES, GUESTS, DIRECTORIES, STREAMS = 20, 40, 3, 3, 12
WEB = "/users/joe/web"
INSIDE = "/users/joe/inside/prod/components"
REST_S = 4
PATIENCE = 300
COUNTS = ("descriptors", "inotify", "children", "threads")
FIGURES = ("memory_kb", *COUNTS, "wake_ups")
# How much a figure may grow over all that is judged: at least so much, or such a part of it.
ROOM = {"memory_kb": (128, 0.03), "wake_ups": (1.0, 0.2)}
READER = r"""
#include <berth.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
/* read SOCKET DIRECTORY MEMBERS THREADS SECONDS: threads that look up by the map. */
static char **words;
static void *look_up(void *argument)
{
	unsigned seed = (unsigned)(size_t)argument + (unsigned)getpid();
	struct timespec end, now, pause = { 0, 2000000 };
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += atoi(words[5]);
	do {
		struct berth *berth;
		struct berth_lookup *lookup = NULL;
		struct berth_failure failure;
		if (berth_open(&berth, words[1], NULL, &failure)) {
			nanosleep(&pause, NULL);
			clock_gettime(CLOCK_MONOTONIC, &now);
			continue;
		}
		(void)!berth_lookup_create(&lookup, berth, words[2], NULL, &failure);
		for (int i = 0; i < 500; i++) {
			char path[256];
			struct berth_answer answer;
			const struct berth_endpoints *found;
			int number = rand_r(&seed) % atoi(words[3]);
			snprintf(path, sizeof(path), "%s/m%d", words[2], number);
			if (!berth_resolve(berth, path, &answer, &failure)) {
				berth_answer_finish(&answer);
			}
			if (lookup) {
				(void)!berth_lookup_get(lookup, &found, &failure);
			}
			nanosleep(&pause, NULL);
		}
		berth_lookup_free(lookup);
		berth_close(berth);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t threads[16];
	words = argv;
	int count = argc == 6 ? atoi(argv[4]) : 0;
	for (int i = 0; i < count; i++) {
		pthread_create(&threads[i], NULL, look_up, (void *)(size_t)i);
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
	}
	return count == 0;
}
"""


def slope(points):
    """Theil and Sen's: the median of the slopes between all pairs of points (x, y)."""
    slopes = [(second[1] - first[1]) / (second[0] - first[0])
        for first, second in itertools.combinations(points, 2) if second[0] > first[0]]
    return statistics.median(slopes) if slopes else 0.0


def grown(points, room):
    """What the figure has grown by over these points by its slope, if that is more than there is
    room for; else 0."""
    growth = slope(points) * (points[-1][0] - points[0][0])
    least, part = room
    return growth if growth > max(least, part * statistics.median(y for _, y in points)) else 0


class Rule(unittest.TestCase):
    """The judge finds what it is to find."""

    def points(self, per_point):
        noise = random.Random(1)
        return [(x, 2000 + per_point * x + noise.randrange(-60, 60)) for x in range(100)]

    def test_noise_is_no_growth(self):
        self.assertEqual(grown(self.points(0), ROOM["memory_kb"]), 0)

    def test_a_step_that_is_given_back_is_no_growth(self):
        points = [(x, y + (500 if 40 < x < 55 else 0)) for x, y in self.points(0)]
        self.assertEqual(grown(points, ROOM["memory_kb"]), 0)

    def test_a_leak_of_two_kilobytes_a_round_is(self):
        self.assertGreater(grown(self.points(2), ROOM["memory_kb"]), 150)


def below(pid):
    """The processes below one: (pid, name)."""
    with contextlib.suppress(OSError):
        for child in map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            with contextlib.suppress(OSError):
                yield child, pathlib.Path(f"/proc/{child}/comm").read_text().strip()
                yield from below(child)


def counts_of(pid):
    place = pathlib.Path(f"/proc/{pid}")
    watches = 0
    descriptors = os.listdir(place / "fd")
    for info in (place / "fdinfo").iterdir():
        with contextlib.suppress(OSError):
            watches += sum(line.startswith("inotify ") for line in info.open(encoding="ascii"))
    return {"descriptors": len(descriptors), "inotify": watches,
        "children": len((place / "task" / str(pid) / "children").read_text().split()),
        "threads": len(os.listdir(place / "task"))}


def memory_kb(pid):
    rows = dict(line.split()[:2] for line in
        pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return int(rows["Pss_Anon:"]) + int(rows["Pss_Shmem:"])


class Host:
    """One host's agent with all that it can do, and an agent in a container of it."""

    def __init__(self, test, name):
        self.test, self.name = test, name
        self.folder = test.folder / name
        self.containers = self.folder / "containers"
        self.containers.mkdir(parents=True)
        self.runtime = FakeRuntime(self.folder / "api.sock")
        test.addCleanup(lambda: self.runtime.end())
        self.port, self.listen = reserve_names_port(test), reserve_names_port(test)
        self.agent = test.agent(name, **self.sections())
        self.numbers, self.ended = itertools.count(), 0
        self.web = f"{WEB}/{name}/components"

    def sections(self):
        return {
            "agent": {"log_level": "info", "listen": f"127.0.0.1:{self.listen}"},
            "bridge": {"containers": self.containers},
            "runtime fake": {"socket": self.runtime.path, "address": "192.0.2.7"},
            "container *": {"allow": "/services/**, /users/**", "rate": "1000"},
            "cache": {"warm": f"{WEB}/**", "max_size": "1M", "confirm": "3s", "resync": "1m"},
            "dns": {"listen": f"127.0.0.1:{self.port}"},
            "xds": {"listen": self.folder / "xds.sock"},
            "output lines": {"from": f"{WEB}/{self.name}/components", "format": "lines",
                "path": self.folder / "lines", "quiet": "50ms", "on_change": "true"},
            "output hosts": {"from": f"{WEB}/**", "format": "hosts", "path": self.folder / "hosts",
                "quiet": "50ms"},
            "output targets": {"from": f"{WEB}/**", "format": "prometheus",
                "path": self.folder / "targets.json", "quiet": "50ms"},
            "component own": {"path": f"/services/{self.name}-own", "damping": "no",
                "on_change": "true"},
            "endpoint own": {"component": "own", "api": "http", "protocol": "tcp",
                "address_type": "host/port", "address": "10.0.0.1:80"},
            "check command": {"component": "own", "type": "command", "command": "true",
                "interval": "500ms", "timeout": "60s"},
            "check tcp": {"component": "own", "type": "tcp", "timeout": "60s",
                "target": f"127.0.0.1:{self.port}", "interval": "500ms"},
            "check http": {"component": "own", "type": "http", "interval": "500ms",
                "target": f"http://127.0.0.1:{self.listen}/live", "timeout": "60s"},
            "check ttl": {"component": "own", "type": "ttl", "interval": "24h", "fall": "1",
                "initial": "passing"},
        }

    def start(self):
        self.agent.start()
        folder = self.containers / "inside"
        folder.mkdir()
        self.inside = self.test.agent(f"{self.name}-inside", registry=f"host:{folder}", **{
            "agent": {"log_level": "info"}, "cache": {"warm": f"{WEB}/**"},
            "component": {"path": f"{INSIDE}/{self.name}", "damping": "no"},
            "endpoint tcp": {"api": "http", "protocol": "tcp", "address_type": "host/port",
                "address": "10.0.0.1:80"},
            "check alive": {"type": "command", "command": "true", "interval": "500ms",
                "timeout": "60s"}})
        self.inside.start()
        for number in range(GUESTS):
            self.runtime.run(f"{self.name}-stays{number}", labels(f"{self.name}-stays{number}"))
        self.reader = self.read(2, int(MINUTES * 60) + 36000)
        wait_until(self.is_at_rest, f"{self.name} is at rest: {self.agent.read_log()[-2000:]}")

    def read(self, threads, seconds):
        process = subprocess.Popen([self.test.reader, self.agent.socket, self.web, str(MEMBERS),
            str(threads), str(seconds)], stdin=subprocess.DEVNULL)
        self.test.addCleanup(process.wait)
        self.test.addCleanup(process.kill)
        return process

    def is_at_rest(self):
        """Registered, connected and served as at the beginning."""
        with contextlib.suppress(OSError, KeyError, IndexError):
            status, bridge = self.agent.status(), self.agent.get("/v1/bridge").json
            return (status["registry"]["state"] == "connected"
                and status["components"][0]["state"] == "registered"
                and status["xds"]["running"] and bridge["runtimes"][0]["state"] == "served"
                and len(bridge["containers"]) == 1 + GUESTS
                and all(record["state"] == "registered" for part in bridge["containers"]
                    for record in part["records"])
                and sum(len(part["records"]) for part in bridge["containers"]) == 1 + GUESTS
                and self.inside.component_state() == "registered"
                and self.inside.status()["registry"]["state"] == "connected")
        return False

    def processes(self):
        """{role: pid}"""
        found = {}
        for role, agent in (("host", self.agent), ("inside", self.inside)):
            found[f"{role} berthd"] = agent.process.pid
            for pid, name in below(agent.process.pid):
                if name.startswith("berth-"):
                    found[f"{role} {name}"] = pid
        found["reader"] = self.reader.pid
        return {f"{self.name} {role}": pid for role, pid in found.items()}

    def helper(self, name):
        return next((pid for pid, comm in below(self.agent.process.pid) if comm == name[:15]), None)

    # The parts of a round.

    def churn(self, rng):
        self.directories()
        self.guests(rng)
        self.ask_all(rng)
        self.checks()

    def directories(self):
        name = next(self.numbers)
        folders = [self.containers / f"d{name}-{number}" for number in range(DIRECTORIES)]
        holders = []
        for number, folder in enumerate(folders):
            folder.mkdir()
            wait_until((folder / "registry").is_dir, "the container is taken up", PATIENCE)
            path = f"{WEB}/{self.name}-d{number}/components/c1"
            holders.append((path, subprocess.Popen(
                [PROGRAMS / "berth", "--registry", f"dir:{folder}/registry", "bind", "-p",
                    "--ephemeral", path, "--file", self.test.record_file],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)))
        for path, holder in holders:
            # On a machine that gives a holder no processor it may lose its record, and end.
            wait_until(lambda path=path, holder=holder: holder.poll() is not None
                or self.agent.get(f"/v1/resolve{path}").status == 200,
                f"{path} is there: {self.agent.get('/v1/bridge').body}", PATIENCE)
        for _, holder in holders:
            self.ended += holder.poll() is not None
            holder.kill()
            holder.wait()
        for path, _ in holders:
            wait_until(lambda path=path: self.agent.get(f"/v1/resolve{path}").status == 404,
                f"{path} has gone: {self.agent.get('/v1/bridge').body}", PATIENCE)
        for folder in folders:
            wait_until(lambda folder=folder: shutil.rmtree(folder, ignore_errors=True)
                or not folder.exists(), "it is removed")

    def guests(self, rng):
        names = [f"{self.name}-guest{number}" for number in range(GUESTS)]
        ones = [self.runtime.run(name, labels(name)) for name in names]
        for name in names:
            wait_until(lambda name=name: self.agent.get(f"/v1/resolve/services/{name}").status
                == 200, f"{name} is there: {self.agent.get('/v1/bridge').body}", PATIENCE)
        for one in ones:
            if rng.random() < 0.5:
                one.kill()  # and the runtime learns it afterwards
            self.runtime.remove(one)
        for name in names:
            wait_until(lambda name=name: self.agent.get(f"/v1/resolve/services/{name}").status
                == 404, f"{name} has gone: {self.agent.get('/v1/bridge').body}", PATIENCE)

    def ask_all(self, rng):
        for number in range(NAMES):
            with contextlib.suppress(Exception):  # a datagram may be lost
                ask(self.port, f"m{number}.{self.name}.web.joe.berth", patience=2,
                    tcp=number % 8 == 0)
        connection = UnixConnection(self.agent.socket)
        for target in ("resolve{0}/m1", "list{0}", "records{0}", "endpoints{0}", "set{0}",
                "targets", "find?under={0}", "agent", "agent/checks", "agent/history", "bridge",
                "names/{1}.web.joe.berth", "stat{0}/m1",
                f"resolve{WEB}/unknown-{rng.randrange(100000)}/components/x"):
            connection.request("GET", f"/v1/{target.format(self.web, self.name)}")
            connection.getresponse().read()
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        connection.close()
        streams = [Stream(self.agent.socket, f"/v1/watch{self.web}?recursive=yes", NDJSON)
            for _ in range(STREAMS)]
        for stream in streams[::2]:  # nobody reads the others
            stream.next(PATIENCE)
        for stream in streams:
            stream.close()
        client = Client(self.folder / "xds.sock")
        client.open(1)
        client.send(frame(DATA, 0, 1, message(text(3, f"{self.name}.web.joe"),
            text(4, ENDPOINTS))))
        client.wait(DATA, 1)
        client.close()
        self.read(4, 1).wait()

    def checks(self):
        for status, state in (("failing", "withdrawn"), ("passing", "registered")):
            self.agent.request("PUT", "/v1/agent/checks/ttl", {"status": status})
            wait_until(lambda state=state: self.agent.component_state() in (state, "failing")
                or state == "withdrawn", f"the component is {state}", PATIENCE)
        self.agent.signal(signal.SIGHUP)


@needs("freezer")
class Everything(LifeTest):
    registry_kind = Server
    session_timeout = "30s"

    def setUp(self):
        super().setUp()
        self.reader = self.folder / "read"
        flags = [f"-fsanitize={SANITIZER}"] if SANITIZER else []
        subprocess.run(["cc", "-x", "c", "-", "-g", "-O1", *flags, "-o", self.reader, "-I",
            SOURCE / "lib", "-L", BUILD, f"-Wl,-rpath,{BUILD}", "-lberth", "-pthread"],
            input=READER, text=True, check=True)
        self.record_file = self.folder / "record.json"
        self.record_file.write_text(json.dumps(service_record("10.0.0.1", 80,
            **{"yarn:persistence": "container"})))
        self.lasting, self.killed = self.hosts = [Host(self, name) for name in ("lasts", "dies")]
        self.rows, self.base, self.later = [], {}, []

    def make_members(self, rng):
        parents = {}
        for host in self.hosts:
            path = self.node(host.web)
            parents.update({path[:at]: "" for at in range(1, len(path)) if path[at] == "/"},
                **{path: ""})
        self.server.load(parents.items())
        self.put_members(rng, range(MEMBERS))

    def put_members(self, rng, numbers):
        """Members of both hosts' services, written by another client."""
        self.server.load((self.node(f"{host.web}/m{number}"), json.dumps(service_record(
            f"10.1.0.{rng.randrange(250)}", 8000 + number)))
            for host in self.hosts for number in numbers)

    def remove_members(self, numbers):
        for host in self.hosts:
            for number in numbers:
                self.server.probe("delete", self.node(f"{host.web}/m{number}"))

    # Faults.

    def nothing(self):
        pass

    def server_stands_still(self):
        self.server.pause()
        time.sleep(2)
        self.server.resume()

    def server_restarts(self):
        self.server.kill()
        time.sleep(0.5)
        self.server.restart()

    def sessions_expire(self):
        for host in self.hosts:
            host.agent.expire_session(self.server)

    def runtime_ends_its_streams(self):
        for host in self.hosts:
            streams, host.runtime.streams = host.runtime.streams, []
            for stream in streams:
                with contextlib.suppress(OSError):
                    stream.shutdown(2)

    def runtime_is_away(self):
        for host in self.hosts:
            host.runtime.stop_listening()
            host.runtime.path.unlink()
        self.runtime_ends_its_streams()
        time.sleep(0.5)
        for host in self.hosts:
            host.runtime.listen()

    def helpers_are_killed(self):
        for name in ("berth-zookeeper", "berth-looker", "berth-runtime", "berth-xds"):
            before = self.killed.helper(name)
            with contextlib.suppress(ProcessLookupError):
                os.kill(before, signal.SIGKILL)
            wait_until(lambda name=name, before=before: self.killed.helper(name) not in (None,
                before), f"{name} runs again", PATIENCE)

    def agents_are_upgraded(self):
        for agent in (self.killed.agent, self.killed.inside):
            agent.upgrade()

    FAULTS = (agents_are_upgraded, helpers_are_killed, sessions_expire, runtime_is_away,
        server_restarts, runtime_ends_its_streams, server_stands_still, nothing)

    # At rest.

    def counts(self):
        """{process: counts}; a check or a hook that runs just then is one child more."""
        return {role: counts_of(pid) for host in self.hosts
            for role, pid in host.processes().items()}

    def more_than(self, base, found):
        gone = [f"{role} is not there" for role in base if role not in found]
        return gone + [f"{role} {what}: {found[role][what]}, not {base[role][what]}"
            for role in base if role in found for what in COUNTS
            if found[role][what] > base[role][what]]

    def rest(self, minutes, warm):
        for host in self.hosts:
            wait_until(host.is_at_rest, f"{host.name} is at rest: "
                f"{host.agent.get('/v1/bridge').body} {host.agent.read_log()[-3000:]}", PATIENCE)
        time.sleep(REST_S)
        found, problems = {}, ["not looked at"]
        deadline = time.monotonic() + (PATIENCE / 2 if warm else REST_S)
        while problems and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                found = self.counts()
                problems = self.more_than(self.base, found) if self.base else []
            if problems:
                time.sleep(0.2)
        if warm:
            self.later += [f"minute {minutes:.1f}: {problem}" for problem in problems]
        elif found:  # while it warms up, the most that was there counts
            for role, counts in found.items():
                before = self.base.setdefault(role, dict(counts))
                for what in COUNTS:
                    before[what] = max(before[what], counts[what])
        pids = {role: pid for host in self.hosts for role, pid in host.processes().items()}
        before, began = {role: wake_ups(pid) for role, pid in pids.items()}, time.monotonic()
        time.sleep(REST_S)
        passed = time.monotonic() - began
        for role, pid in pids.items():
            with contextlib.suppress(OSError, KeyError):
                self.rows.append({"minute": round(minutes, 2), "process": role,
                    "warm": int(warm), "memory_kb": memory_kb(pid), **found[role],
                    "wake_ups": round((wake_ups(pid) - before[role]) / passed, 2)})

    def judge(self):
        """The slopes of what may vary; growth is an error."""
        problems = list(self.later)
        for role in sorted({row["process"] for row in self.rows}):
            rows = [row for row in self.rows if row["process"] == role]
            judged = [row for row in rows if row["warm"]]
            if len(judged) < 3 * len(self.FAULTS):
                figure_of_all(f"{role}: too few rounds for a slope")
                continue
            texts, turn = [], len(self.FAULTS)
            for what in FIGURES:
                # Of each turn of the faults the most: an upgraded agent begins with little.
                turns = [judged[at:at + turn] for at in range(0, len(judged) - turn + 1, turn)]
                points = [(rows[-1]["minute"], max(row[what] for row in rows)) for rows in turns]
                texts.append(f"{what} {points[0][1]}, {statistics.median(y for _, y in points):g}, "
                    f"{points[-1][1]} ({slope(points) * 60:+.2f} an hour)")
                if what in ROOM and not (SANITIZER or "reader" in role and what == "wake_ups"):
                    growth = grown(points, ROOM[what])
                    problems += [f"{role}: {what} has grown by {growth:.1f}"] if growth else []
            figure_of_all(f"{role}: {'; '.join(texts)}")
        return problems

    def save(self):
        with open(BUILD / "soak.csv", "w", encoding="ascii", newline="") as file:
            writer = csv.DictWriter(file, ["minute", "process", "warm", *FIGURES])
            writer.writeheader()
            writer.writerows(self.rows)

    def test_all_stays_as_it_was(self):
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {seed}, {MINUTES:g} minutes", flush=True)
        rng = random.Random(seed)
        self.make_members(rng)
        for host in self.hosts:
            host.start()
        begin, rounds = time.monotonic(), 0
        while (minutes := (time.monotonic() - begin) / 60) < MINUTES or rounds < 3:
            for host in self.hosts:
                host.churn(rng)
            gone = rng.sample(range(MEMBERS), MEMBERS // 2)
            self.remove_members(gone)
            self.FAULTS[rounds % len(self.FAULTS)](self)
            self.put_members(rng, gone)
            # Twice round all faults: all that is made on demand is there.
            self.rest(minutes, rounds >= 2 * len(self.FAULTS) and minutes >= WARM_UP * MINUTES)
            rounds += 1
            self.save()
        problems = self.judge()
        figure(self, f"{rounds} rounds in {(time.monotonic() - begin) / 60:.0f} minutes; "
            f"{len(problems)} figures have grown; "
            f"{sum(host.ended for host in self.hosts)} holders of records ended by themselves")
        self.assertEqual(problems, [], f"seed {seed}")


del LifeTest

if __name__ == "__main__":
    unittest.main()
