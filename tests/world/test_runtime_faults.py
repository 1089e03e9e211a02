"""Whoever registered containers by their labels lost the living ones, or kept the dead ones, when
the daemon was slow, came late, lied, or named a process that is another's by now; and paid for each
health check of each container.

Source: tracker #42, after Registrator's #277 and #325, podman #24003 and #27786: containers that
die while nobody looks, events that are lost, a health_status at each run of a check.
"""

import itertools
import json
import os
import pathlib
import re
import subprocess
import time
import unittest

from berth import amount, wait_until, wake_ups
from fake_runtime import FakeRuntime, HEAD
from figures import figure, seconds
from guests import GuestTest, labels
from lifecycle import Shared
from rights import needs

OLD = "2020-01-01T00:00:00Z"
MANY, CHECKED = amount(500), amount(100)
WATCHED_S = 5


def says(text, status="200 OK"):
    def answer(client):
        body = text.encode() if isinstance(text, str) else text
        client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return answer


def drips(client):
    """A byte of a list each tenth of a second."""
    client.sendall(HEAD)
    for _ in itertools.count():
        client.sendall(b"1\r\n[\r\n")
        time.sleep(0.1)


# Answers of a runtime to a request for its list, or for its events.
LIES = {
    "no HTTP": lambda client: client.sendall(b"\xff" * 64 + b"\r\n\r\n"),
    "nothing, and closes": lambda client: client.shutdown(2),
    "an error": says('{"message":"out of order"}', "500 Internal Server Error"),
    "no JSON": says("<html>"),
    "an object": says('{"Id":"0"}'),
    "a number": says("7"),
    "nothing in it": says("[]"),
    "other types": says('[{"Id":7,"Names":{},"State":[]},null,[],"x",{"Id":null},{"Id":"../x"}]'),
    "a deep one": says("[" * 100000),
    "an entry of 4 MiB": says(b'[{"Id":"' + b"0" * (4 << 20) + b'"}]'),
    "20,000 of them": says(json.dumps([{"Id": f"{number:x}", "Names": ["/x"], "State": "running"}
        for number in range(20000)])),
    "the same one over and over": says(json.dumps([{"Id": "abc", "Names": ["/x"],
        "State": f"{number}"} for number in range(1000)])),
}


def cpu_s(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return sum(map(int, stat.rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def private_kb(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"(?m)^Private_\w+: +(\d+)", text)))


@needs("freezer")
class Daemon(GuestTest):
    """The runtime's daemon."""

    def stream(self):
        wait_until(lambda: self.runtime.streams, "the agent hears events")

    def ask_anew(self):
        """The agent asks for the list once it has lost its stream."""
        for stream in list(self.runtime.streams):
            stream.shutdown(2)

    def test_it_is_slow(self):
        self.runtime.delay_s = 0.7
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host()
        self.await_in("one", "two")
        self.runtime.delay_s = 3
        begin = time.monotonic()
        one.kill()
        self.await_out("one")
        took = time.monotonic() - begin
        self.runtime.run("three", labels("three"))
        self.await_in("three")
        self.assertTrue(self.record("two"))
        figure(self, f"3 s an answer: a record gone {seconds(took)} after the kill, the others "
            "stay, a new one comes")

    def test_it_is_absent_at_first(self):
        self.runtime.stop_listening()
        self.runtime.path.unlink()
        self.host()
        wait_until(lambda: self.source()["state"] == "away", "the runtime is away")
        self.assertIn("No such file", self.source()["why"])
        self.runtime.listen()
        begin = time.monotonic()
        self.runtime.run("one", labels("one"))
        self.await_in("one")
        figure(self, f"registered {seconds(time.monotonic() - begin)} after it had come")

    def test_lies(self):
        self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        witness = self.witness("/services/one")
        for number, (what, lie) in enumerate(LIES.items()):
            for path in (r"/containers/json", r"/events"):
                with self.subTest(what, path=path):
                    self.stream()
                    asked = len(self.runtime.requests)
                    self.runtime.answers[path] = lie
                    self.ask_anew()
                    wait_until(lambda path=path, asked=asked: any(re.match(f"GET {path}", line)
                        for line in self.runtime.requests[asked:]), "it has been asked")
                    self.runtime.answers.clear()
                    name = f"n{number}{'el'[path == '/events']}"
                    self.runtime.run(name, labels(name))
                    self.ask_anew()
                    self.await_in(name)
                    self.assertIsNone(self.agent_of_host.process.poll())
        self.assertEqual(len(witness.end()), 1)
        figure(self, f"{len(LIES)} lies in a list and as events: the record of a living container "
            "0 events, a new one is registered after each")

    def test_a_list_of_a_byte_at_a_time(self):
        """It is given up after some time; then what events name goes first."""
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host()
        self.await_in("one", "two")
        self.stream()
        self.runtime.answers[r"/containers/json"] = drips
        self.ask_anew()
        one.kill()
        self.await_out("one")
        begin = time.monotonic()
        self.runtime.run("three", labels("three"))
        self.await_in("three")
        self.assertTrue(self.record("two"))
        figure(self, f"a dead one goes at once, a new one comes after "
            f"{seconds(time.monotonic() - begin)}")

    def test_lies_of_one_container(self):
        self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        witness = self.witness("/services/one")
        for number, more in enumerate((
                {"State": None}, {"State": {"Status": "running", "Pid": -1}}, {"Id": "0" * 64},
                {"State": {"Status": "running", "Pid": 1 << 40, "StartedAt": "x" * 10000}},
                {"State": {"Status": "running", "Pid": "1"}}, {"Config": []},
                {"NetworkSettings": {"Ports": {"x": 7, "99999999999/tcp": [{"HostPort": "-1"}]}}},
                {"Name": "/" + "x" * 5000}, {"Name": "/a\n[container *]\nallow = /**"},
                {"HostConfig": 7}, {"Config": {"Labels": {"berth.path": "/services/one"}}})):
            with self.subTest(more=more):
                liar = self.runtime.run(f"liar{number}", {})
                liar.more = more
                self.runtime.event("start", liar)
                self.runtime.run(f"n{number}", labels(f"n{number}"))
                self.await_in(f"n{number}")
                self.assertIsNone(self.agent_of_host.process.poll())
        self.assertEqual(len(witness.end()), 1)
        figure(self, "11 lies about one container: another one's record 0 events")

    def test_it_names_more_containers_than_there_are(self):
        """As events, each with an id of its own; it says of each that it is the one that lives."""
        one = self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        self.stream()
        witness, before = self.witness("/services/one"), self.helper()
        text = "".join(json.dumps({"Type": "container", "Action": "start",
            "Actor": {"ID": f"{number:064x}", "Attributes": {}}}) + "\n"
            for number in range(1 << 20, (1 << 20) + amount(100000))).encode()
        for stream in self.runtime.streams:
            stream.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")
        self.runtime.run("two", labels("two"))
        self.await_in("two")
        self.assertEqual((self.helper(), len(witness.end())), (before, 1))
        one.kill()
        self.await_out("one")
        figure(self, f"{amount(100000):,} ids in events: another one's record 0 events, a new one "
            "is registered, berth-runtime is the same process")

    def test_its_words_have_no_end(self):
        """Less than 1 MiB each, so that they are read."""
        self.runtime.run("one", labels("one"))
        self.host()
        self.await_in("one")
        pid, before = self.agent_of_host.process.pid, self.helper()
        before_kb = private_kb(pid)
        for number in range(amount(100)):
            self.runtime.run(f"liar{number}", labels(f"liar{number}"), lambda liar:
                liar.more.update({"Config": {"Image": "x" * 500000, "Labels": liar.labels}}))
        self.runtime.run("two", labels("two"))
        self.await_in("two")
        liar = next(iter(self.runtime.containers.values())).id
        wait_until(lambda: sum(part["state"] == "refused" for part in
            self.agent_of_host.get("/v1/bridge").json["containers"]) == amount(100),
            f"they are refused: {liar}")
        self.assertEqual(self.helper(), before)
        figure(self, f"{amount(100)} containers with an image's name of 500 KB: refused; the "
            f"agent's memory grows by {(private_kb(pid) - before_kb) / 1024:.1f} MiB")

    def test_an_id_is_part_of_another_one(self):
        """It names the process of another container, whose id has its own in it."""
        one = self.runtime.run("one", labels("one"))
        liar = self.runtime.add("liar", labels("liar"))
        del self.runtime.containers[liar.id]
        self.addCleanup(liar.end)
        liar.id, liar.pid = one.id[-8:], one.pid
        self.runtime.containers[liar.id] = liar
        self.host()
        self.await_in("one")
        wait_until(lambda: self.state_of("liar") == "no pid namespace", "it is not trusted")
        self.assertFalse(self.record("liar"))
        del self.runtime.containers[liar.id]

    def test_events_are_lost(self):
        """A stream that begins anew has a list behind it."""
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host()
        self.await_in("one", "two")
        self.stream()
        self.runtime.mute = True
        one.kill()
        one.running = False
        self.runtime.run("three", labels("three"))
        self.await_out("one")
        begin = time.monotonic()
        self.ask_anew()
        self.await_in("three")
        self.assertTrue(self.record("two"))
        figure(self, f"a dead one goes without; a new one comes {seconds(time.monotonic() - begin)}"
            " after the stream has begun anew")


@needs("freezer")
class Process(GuestTest):
    """The process that the runtime names."""

    def imposter(self):
        process = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def begin(self):
        self.one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host()
        self.await_in("one", "two")

    def start_again(self, imposter):
        """The agent, when the container has ended and its pid is another process's."""
        self.agent_of_host.kill()
        self.one.kill()
        self.one.pid = imposter.pid
        self.agent_of_host.start()
        self.await_out("one")
        wait_until(lambda: self.state_of("one") == "no pid namespace", "it is not trusted")
        self.await_in("two")
        self.assertFalse(self.record("one"))

    def test_its_pid_is_used_again(self):
        self.begin()
        self.one.kill()
        self.await_out("one")
        self.one.pid = self.imposter().pid
        self.runtime.event("start", self.one)
        wait_until(lambda: self.state_of("one") == "no pid namespace", "it is not trusted")
        self.assertFalse(self.record("one"))
        self.one.folder.joinpath("cgroup.procs").write_text(str(self.one.pid))
        self.one.started = OLD  # a process of it, but one that was started in it later
        self.runtime.event("start", self.one)
        wait_until(lambda: "is not its first one" in self.part("one")["why"], "it is not trusted")
        self.assertFalse(self.record("one"))
        figure(self, "another container's process, and one that was started later: 0 registered")

    def test_its_pid_is_used_again_while_the_agent_is_away(self):
        self.begin()
        self.start_again(self.imposter())
        self.assertIn("control group", self.part("one")["why"])

    def test_a_later_process_of_it_has_its_pid_while_the_agent_is_away(self):
        self.begin()
        imposter = self.imposter()
        self.one.folder.joinpath("cgroup.procs").write_text(str(imposter.pid))
        self.one.started = OLD
        self.start_again(imposter)
        self.assertIn("is not its first one", self.part("one")["why"])

    def test_it_restarts_in_a_loop(self):
        """Each life is another process; two inspections hardly name the same one."""
        self.begin()
        count = amount(50)
        for number in range(count):
            self.one.kill()
            self.runtime.event("die", self.one)
            self.one.restart(f"2030-01-01T00:00:{number:02}Z")
            self.runtime.event("start", self.one)
        self.await_in("one")
        wait_until(lambda: self.state_of("one") == "served", "it is served")
        self.one.kill()
        self.one.running = False
        self.await_out("one")
        self.assertTrue(self.record("two"))
        figure(self, f"{count} lives without a pause: the last one is registered, and goes with "
            "its process")


@needs("freezer")
class Agents(GuestTest):
    registry_kind = Shared

    def test_it_starts_again_while_the_runtime_is_absent(self):
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host()
        self.await_in("one", "two")
        witness = self.witness("/services/two")
        self.agent_of_host.kill()
        self.runtime.stop_listening()
        self.runtime.path.unlink()
        one.kill()
        one.running = False
        self.agent_of_host.start()
        wait_until(lambda: self.source()["state"] == "away", "the runtime is away")
        self.runtime.listen()
        self.await_out("one")
        self.await_in("two")
        wait_until(lambda: self.state_of("two") == "served", "it is served")
        self.assertEqual(len(witness.end()), 1)
        figure(self, "a living container's record: 0 events; who died meanwhile goes")

    def test_a_standby_takes_its_containers_over(self):
        one = self.runtime.run("one", labels("one"))
        self.runtime.run("two", labels("two"))
        self.host(bridge={"standby": "yes"})
        self.await_in("one", "two")
        second = self.agent("second")
        second.socket, second.config = self.agent_of_host.socket, self.agent_of_host.config
        second.start(wait=False)
        wait_until(lambda: "standby: another agent uses" in second.read_log(), "it waits")
        witness = self.witness("/services/two")
        begin = time.monotonic()
        self.agent_of_host.kill()
        one.kill()
        one.running = False
        self.agent_of_host = second
        self.await_out("one")
        took = time.monotonic() - begin
        wait_until(lambda: self.state_of("two") == "served", "it is served")
        self.assertEqual(len(witness.end()), 1)
        figure(self, f"who died meanwhile is gone {seconds(took)} after the kill, a living "
            "container's record: 0 events")


@needs("freezer")
class Many(GuestTest):
    registry_kind = Shared

    def host(self):
        return super().host(agent={"log_level": "warn"},
            **{"container *": {"allow": "/services/**", "rate": "1000"}})

    def registered(self):
        text = self.agent_of_host.get("/metrics").body.decode()
        return int(re.search(r'berth_bridge_records{state="registered"} (\d+)', text)[1])

    def await_count(self, count):
        wait_until(lambda: self.registered() == count, f"{count} are registered")

    def wake_ups_a_second(self):
        before = wake_ups(self.agent_of_host.process.pid)
        time.sleep(WATCHED_S)
        return (wake_ups(self.agent_of_host.process.pid) - before) / WATCHED_S

    def test_500_at_once(self):
        self.runtime.run("first", labels("first"))
        self.host()
        self.await_count(1)
        pid = self.agent_of_host.process.pid
        idle, before_kb = self.wake_ups_a_second(), private_kb(pid)
        many = [self.runtime.add(f"c{number}", labels(f"c{number}")) for number in range(MANY)]
        begin = time.monotonic()
        for one in many:
            self.runtime.event("start", one)
        self.await_count(1 + MANY)
        came = time.monotonic() - begin
        each_kb = (private_kb(pid) - before_kb) / MANY
        rates = iter(self.wake_ups_a_second, None)
        with_all = next(rate for rate in rates if rate < idle + 1)  # once it has calmed down
        begin = time.monotonic()
        for one in many:
            one.process.kill()
        self.await_count(1)
        gone = time.monotonic() - begin
        self.assertTrue(self.record("first"))
        text = (f"{MANY} come in {seconds(came)} and go in {seconds(gone)}; {each_kb:.1f} KiB of "
            f"memory each; {with_all:.2f} wake-ups a second, {idle:.2f} with one")
        figure(self, text)
        if not os.environ.get("BERTH_SANITIZER"):
            self.assertLess(each_kb, 12, text)

    def test_health_checks_of_a_second(self):
        """Each run of them is three events, which the agent does not want, and under podman one
        more, which says what it knows."""
        many = [self.runtime.run(f"c{number}", labels(f"c{number}")) for number in range(CHECKED)]
        for one in many:
            one.health = "healthy"
        self.host()
        self.await_count(CHECKED)
        wait_until(lambda: self.runtime.streams, "the agent hears events")
        time.sleep(1)
        pids = (self.agent_of_host.process.pid, self.helper())
        shares = []
        for actions in (("exec_create: check", "exec_start: check", "exec_die"),
                ("exec_create: check", "health_status")):
            asked, told = len(self.runtime.requests), self.runtime.told
            used, until = sum(map(cpu_s, pids)), time.monotonic() + WATCHED_S
            for one in itertools.cycle(many):
                for action in actions:
                    self.runtime.event(action, one, health_status="healthy")
                time.sleep(1 / CHECKED)
                if time.monotonic() > until:
                    break
            shares.append((sum(map(cpu_s, pids)) - used) / WATCHED_S * 100)
            self.assertLess(len(self.runtime.requests) - asked, 5)
        self.assertGreater(self.runtime.told, told)
        figure(self, f"{CHECKED} containers: {shares[0]:.1f} % of a processor by Docker, "
            f"{shares[1]:.1f} % by podman, which tells each run")
        many[0].health = "unhealthy"
        self.runtime.event("health_status", many[0], health_status="unhealthy")
        self.await_count(CHECKED - 1)
        many[0].health = "healthy"
        self.runtime.event("health_status: healthy", many[0])
        self.await_count(CHECKED)


if __name__ == "__main__":
    unittest.main()
