"""Outputs: files that follow the registry."""

import contextlib
import json
import os
import pathlib
import re
import signal
import stat
import time
import unittest

from berth import berth, wait_until
from outputs import FROM, Members, OutputTest, record

LINES = "127.0.0.1:8001\n127.0.0.1:8002\n"
CHANGES = int(os.environ.get("BERTH_CHANGES", "200"))


def processes_with(word):
    """The command lines that hold the word."""
    found = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_text(errors="replace").replace("\0", " ")
            found += [line] if word in line else []
    return found


class Files(OutputTest):
    def setUp(self):
        super().setUp()
        self.put_member("c1", 8001)
        self.put_member("c2", 8002)

    def test_a_file_follows_the_members(self):
        agent = self.output_agent().start()
        self.wait_text(LINES)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o644)
        self.put_member("c0", 8000)
        self.wait_text(f"127.0.0.1:8000\n{LINES}")
        self.remove_member("c1")
        self.wait_text("127.0.0.1:8000\n127.0.0.1:8002\n")
        self.wait_state(agent, "current")
        output = self.output(agent)
        self.assertEqual((output["instances"], output["writes"], output["failures"]), (2, 3, 0))
        self.assertEqual([file.name for file in self.directory.iterdir()], ["web.txt"])

    def test_every_format(self):
        self.put(f"{FROM}/c1/deeper", record(8003, protocol="https"))
        files = {name: self.directory / name for name in ("json", "prometheus", "envoy", "haproxy",
            "nginx", "hosts", "env")}
        sections = {
            f"output {name}": self.output_options(format=name, path=file,
                **({"backend": "web"} if name == "haproxy" else {}))
            for name, file in files.items()
        }
        sections["output tree"] = self.output_options(**{"from": f"{FROM}/**", "protocol": "https"})
        agent = self.agent(**sections).start()
        self.wait_text("127.0.0.1:8003\n")
        for name in files:
            self.wait_state(agent, "current", name)
        self.assertEqual([item["path"] for item in json.loads(files["json"].read_text())],
            [f"{FROM}/c1", f"{FROM}/c2"])
        self.assertEqual(json.loads(files["prometheus"].read_text())[1]["targets"],
            ["127.0.0.1:8002"])
        envoy = json.loads(files["envoy"].read_text())["resources"][0]
        self.assertEqual((envoy["cluster_name"], len(envoy["endpoints"][0]["lb_endpoints"])),
            ("envoy", 2))
        self.assertEqual(
            files["haproxy"].read_text(),
            "backend web\n    server berth:c1 127.0.0.1:8001\n    server berth:c2 127.0.0.1:8002\n",
        )
        self.assertEqual(files["nginx"].read_text(),
            "server 127.0.0.1:8001;\nserver 127.0.0.1:8002;\n")
        self.assertIn("127.0.0.1\tc2.components.prod.web.joe.users.berth c2.prod.web.joe.berth "
            "prod.web.joe.users.berth prod.web.joe.berth\n",
            files["hosts"].read_text())
        self.assertIn("ENV_COUNT=2\n", files["env"].read_text())

    def test_equal_content_is_not_written_and_not_announced(self):
        ran = self.folder / "ran"
        agent = self.output_agent(on_change=f"/bin/sh -c 'echo run >>{ran}'").start()
        self.wait_text(LINES)
        self.wait_state(agent, "current")
        stamp = self.stamp()
        self.put_member("c1", 8001, description="another text, the same address")
        agent.upgrade()
        self.wait_state(agent, "current")
        agent.stop()
        agent.start()
        self.wait_state(agent, "current")
        agent.kill()
        agent.start()
        self.wait_state(agent, "current")
        self.assertEqual(self.stamp(), stamp)
        self.assertEqual(ran.read_text(), "run\n")

    def test_owner_and_mode_stay_unless_they_are_given(self):
        self.file.write_text("before")
        self.file.chmod(0o600)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(self.file, 65534, 65533)
        agent = self.output_agent().start()
        self.wait_text(LINES)
        status = self.file.stat()
        self.assertEqual(stat.S_IMODE(status.st_mode), 0o600)
        if is_root:
            self.assertEqual((status.st_uid, status.st_gid), (65534, 65533))
        stamp = self.stamp()
        agent.sections["output web"].update(mode="0640", owner=os.geteuid(), group=os.getegid())
        agent.write_config(agent.sections)
        self.assertEqual(berth("--socket", agent.socket, "reload").returncode, 0)
        wait_until(lambda: self.stamp() != stamp, "the file has the new owner")
        status = self.file.stat()
        self.assertEqual((stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid),
            (0o640, os.geteuid(), os.getegid()))
        self.assertEqual(self.file.read_text(), LINES)

    def test_too_few_instances_leave_the_file(self):
        agent = self.output_agent(min_instances=2).start()
        self.wait_text(LINES)
        self.remove_member("c1")
        self.wait_state(agent, "held")
        self.assertIn("1 of at least 2", self.output(agent)["why"])
        self.remove_member("c2")
        wait_until(lambda: "0 of at least 2" in self.output(agent)["why"], "nobody is left")
        self.assertEqual(self.file.read_text(), LINES)
        self.put_member("c3", 8003)
        self.put_member("c4", 8004)
        self.wait_text("127.0.0.1:8003\n127.0.0.1:8004\n")

    def test_an_empty_set_is_written_when_it_is_meant(self):
        agent = self.output_agent(min_instances=2, when_empty="write", format="nginx").start()
        wait_until(self.file.exists, "it is written")
        self.remove_member("c1")
        self.remove_member("c2")
        self.wait_text("server 127.0.0.1:9 down;\n")
        self.wait_state(agent, "current")

    def test_a_path_that_comes_later(self):
        agent = self.output_agent(**{"from": "/users/joe/new/one"}).start()
        self.wait_state(agent, "held")
        self.assertFalse(self.file.exists())
        self.put("/users/joe/new/one/c1", record(8009))
        self.wait_text("127.0.0.1:8009\n")

    def test_a_reload_touches_what_has_changed(self):
        other = self.directory / "other"
        ran = self.folder / "ran"
        agent = self.output_agent(
            on_change=f"/bin/sh -c 'echo run >>{ran}'",
            more={"output other": self.output_options(path=other)}
        ).start()
        self.wait_text(LINES)
        self.wait_text(LINES, other)
        self.wait_state(agent, "current")
        self.wait_state(agent, "current", "other")
        stamps = self.stamp(), self.stamp(other)
        sections = dict(agent.sections)
        sections["output web"] = {**sections["output web"], "quiet": "30ms"}
        sections["output third"] = self.output_options(path=self.directory / "third", format="env")
        agent.write_config(sections)
        self.assertEqual(berth("--socket", agent.socket, "reload").returncode, 0)
        self.wait_state(agent, "current", "third")
        self.wait_state(agent, "current")
        self.assertEqual((self.stamp(), self.stamp(other)), stamps)
        self.assertEqual(ran.read_text(), "run\n")
        self.assertEqual(self.output(agent, "other")["writes"], 1)
        self.assertIn('output="other"', agent.get("/metrics").body.decode())
        del sections["output other"], sections["output third"]
        agent.write_config(sections)
        self.assertEqual(berth("--socket", agent.socket, "reload").returncode, 0)
        self.assertEqual([item["name"] for item in agent.status()["outputs"]], ["web"])
        self.assertTrue(other.exists())
        self.assertNotIn('output="other"', agent.get("/metrics").body.decode())


class Commands(OutputTest):
    def setUp(self):
        super().setUp()
        self.put_member("c1", 8001)

    def test_a_command_makes_the_content(self):
        command = (
            "python3 -c 'import json, sys; all = json.load(sys.stdin); "
            "print(all[\"name\"], all[\"from\"], sorted(all[\"records\"]), "
            "[item[\"address\"][\"port\"] for item in all[\"endpoints\"]])'"
        )
        self.output_agent(format=None, render=command).start()
        self.wait_text(f"web {FROM} ['{FROM}/c1'] ['8001']\n")

    def test_a_check_that_refuses_leaves_the_old_file(self):
        check = self.script(
            'test "$BERTH_OUTPUT" = web && ! grep -q 8002 "$1" || { echo "8002 is bad" >&2; exit '
            '3; }')
        agent = self.output_agent(check=f"{check} {{}}").start()
        self.wait_text("127.0.0.1:8001\n")
        self.put_member("c2", 8002)
        self.wait_state(agent, "failed")
        self.assertEqual(self.output(agent)["why"], "check: exit status 3")
        self.assertEqual(self.file.read_text(), "127.0.0.1:8001\n")
        # It is tried again all the time, and meanwhile it is in other states.
        wait_until(lambda: [file.name for file in self.directory.iterdir()] == ["web.txt"],
            "the bad file is away")
        history = [item for item in agent.get("/v1/agent/history").json
            if item["subject"] == "output web"]
        self.assertEqual((history[-1]["to"], history[-1]["why"], history[-1]["output"]),
            ("failed", "check: exit status 3", "8002 is bad"))
        self.assertRegex(agent.read_log(),
            r"(?m)^.* warn +output web: current -> failed: check: exit status 3: 8002 is bad")
        self.assertRegex(agent.get("/metrics").body.decode(),
            r'(?m)^berth_output_failures_total{output="web"} [1-9]')
        wait_until(lambda: re.search(r"(?ms)^web +failed +2.*check: exit status 3",
            berth("--socket", agent.socket, "status").stdout), "berth status says it")
        before = self.output(agent)["failures"]
        wait_until(lambda: self.output(agent)["failures"] > before, "it is tried again")
        self.remove_member("c2")
        self.put_member("c3", 8003)
        self.wait_text("127.0.0.1:8001\n127.0.0.1:8003\n")
        self.wait_state(agent, "current")
        self.assertIn('berth_output_current{output="web"} 1', agent.get("/metrics").body.decode())

    def test_the_file_is_whole_with_every_end_of_render(self):
        mode = self.folder / "mode"
        mode.write_text("good")
        render = self.script(
            f'case $(cat {mode}) in good) exec cat;; hang) sleep 1000 & wait;; nothing) exit 0;; '
            'half) head -c 20; exit 1;; garbage) head -c 5000 /dev/urandom;; crash) kill -SEGV '
            '$$;; esac'
        )
        check = self.script('python3 -m json.tool "$1" >/dev/null', "check")
        agent = self.output_agent(format=None, render=render, check=f"{check} {{}}").start()

        def set_timeout(timeout):
            """A short one is for the command that hangs alone: others take as long as they do."""
            agent.sections["output web"]["timeout"] = timeout
            agent.write_config(agent.sections)
            self.assertEqual(berth("--socket", agent.socket, "reload").returncode, 0)

        wait_until(self.file.exists, "it is written")
        self.wait_state(agent, "current")
        stamp = self.stamp()
        for number, (kind, why) in enumerate(
            {
                "hang": "render: not ended after 100 ms",
                "nothing": "render: it printed nothing",
                "half": "render: exit status 1",
                "garbage": "check: exit status",
                "crash": "render: killed by SIGSEGV",
            }.items()
        ):
            mode.write_text(kind)
            set_timeout("100ms" if kind == "hang" else "1m")
            self.put_member("c2", 8100 + number)
            wait_until(lambda: why in self.output(agent)["why"],
                f"{kind} is {why}: {self.output(agent)}")
            self.assertEqual(self.stamp(), stamp)
            json.loads(self.file.read_text())
        mode.write_text("good")
        self.put_member("c2", 8002)
        self.wait_state(agent, "current")
        self.assertIn("8002", self.file.read_text())
        agent.stop()
        self.assertEqual(processes_with(str(render)), [])

    def test_a_command_that_died_with_the_agent_runs_again(self):
        ran = self.folder / "ran"
        slow = self.folder / "slow"
        slow.touch()
        pid = self.folder / "pid"
        command = self.script(
            f"echo begin >>{ran}; test -e {slow} && echo $$ >{pid} && exec sleep 1000; cat "
            f"$BERTH_OUTPUT_PATH >>{ran}"
        )
        agent = self.output_agent(on_change=command).start()
        wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"), "it runs")
        self.assertEqual(self.output(agent)["state"], "notifying")
        agent.kill()
        os.kill(int(pid.read_text()), signal.SIGKILL)
        slow.unlink()
        stamp = self.stamp()
        agent.start()
        self.wait_state(agent, "current")
        self.assertEqual(ran.read_text(), "begin\nbegin\n127.0.0.1:8001\n")
        self.assertEqual(self.stamp(), stamp)

    def test_a_command_that_fails_is_run_again(self):
        good = self.folder / "good"
        agent = self.output_agent(on_change=f"/bin/sh -c 'test -e {good}'").start()
        self.wait_state(agent, "failed")
        self.assertEqual(self.output(agent)["why"], "on_change: exit status 1")
        self.assertEqual(self.file.read_text(), "127.0.0.1:8001\n")
        good.touch()
        self.wait_state(agent, "current")
        self.assertEqual(self.output(agent)["writes"], 1)
        self.assertGreaterEqual(self.output(agent)["runs"], 2)

    def test_a_burst_is_few_runs_one_at_a_time_and_ends_with_the_last_state(self):
        ran = self.folder / "ran"
        command = self.script(
            f"mkdir {self.folder}/lock || echo two >>{ran}; sleep 0.2; rmdir {self.folder}/lock; "
            f"echo run >>{ran}")
        agent = self.output_agent(on_change=command, quiet="200ms", max_wait="5s").start()
        self.wait_state(agent, "current")
        members = Members(self.registry)
        began = time.monotonic()
        for number in range(CHANGES):
            members.put(f"m{number % 50}", 10000 + number)
            if number % 7 == 0:
                members.remove(f"m{(number * 3) % 50}")
            time.sleep(0.01)
        expected = members.ports()
        wait_until(
            lambda: {int(line.split(":")[1]) for line in self.file.read_text().split()} == expected,
            "the file is what the registry holds"
        )
        self.wait_state(agent, "current")
        took = time.monotonic() - began
        runs = ran.read_text().split()
        self.assertNotIn("two", runs)
        # One at the start, one each 5 s of the burst, and the last ones; more if this process stood
        # still in it.
        print(f"# {CHANGES} changes, {took:.1f} s, {len(runs)} runs of on_change, "
              f"{self.output(agent)['writes']} writes")
        self.assertLess(len(runs), CHANGES / 4)
        self.assertEqual(self.output(agent)["runs"], len(runs))


if __name__ == "__main__":
    unittest.main()
