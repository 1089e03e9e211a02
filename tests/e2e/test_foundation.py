"""The main job, end to end on the dir: registry: registered, checked, taken out, brought back,
looked up."""

import fcntl
import json
import os
import pathlib
import signal
import stat
import subprocess
import unittest

from berth import BUILD, FAILS, Agent, AgentTest, berth, exists, pack_ini, wait_until
from rights import needs

# Its files are on another device than its directories, as stat() says, since its parts are on
# different file systems.
ON_AN_OVERLAY = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
    'mount -t tmpfs none "$1/upper" && mkdir "$1/upper/files" "$1/upper/work" && '
    'mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper/files,workdir=$1/upper/work" none '
    '"$1/root" && shift && exec "$@"', "sh"]


class Registration(AgentTest):
    def test_registers_what_the_configuration_says(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        record = self.in_registry()
        self.assertEqual(record["type"], "JSONServiceRecord")
        self.assertEqual(record["description"], "a test")
        self.assertEqual(record["yarn:id"], "container_1_0001_01_000001")
        self.assertEqual(record["yarn:persistence"], "container")
        self.assertEqual(record["internal"], [])
        endpoint = record["external"][0]
        self.assertEqual(endpoint["api"], "http://example.org/rest/v1")
        self.assertEqual(endpoint["protocol"], "REST")
        self.assertEqual(endpoint["protocolType"], "REST")
        self.assertEqual(endpoint["addresses"], [{"uri": "http://127.0.0.1:8080/"}])

    def test_the_file_on_disk_is_the_record(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        text = (self.folder / f"registry{Agent.PATH}/_record").read_text()
        self.assertTrue(text.startswith('{"type":"JSONServiceRecord"')
            or text.startswith('{"type": "JSONServiceRecord"'))
        self.assertEqual(json.loads(text), self.in_registry())

    @needs("processes")
    def test_files_that_its_caller_has_closed_are_not_taken_for_others(self):
        agent = self.web_agent().start(preexec_fn=lambda: os.closerange(0, 3))
        agent.wait_state("registered")
        for number in range(3):
            self.assertEqual(os.readlink(f"/proc/{agent.process.pid}/fd/{number}"), "/dev/null")

    def test_never_registered_before_the_first_success(self):
        agent = self.web_agent(check=FAILS).start()
        wait_until(lambda: agent.check_named("alive")["state"] == "down", "the check is down")
        self.assertIsNone(self.in_registry())
        self.assertEqual(agent.get("/ready").status, 503)
        self.assertEqual(agent.get("/live").status, 200)

    def test_initial_passing_registers_at_once(self):
        agent = self.web_agent(
            check=FAILS, extra={"check alive": {"initial": "passing", "interval": "1h",
                "start_grace": "1h"}}
        ).start()
        agent.wait_state("registered")

    def test_failing_takes_out_and_passing_brings_back(self):
        flag = self.folder / "healthy"
        flag.touch()
        agent = self.web_agent(check=exists(flag)).start()
        agent.wait_state("registered")
        flag.unlink()
        agent.wait_state("withdrawn")
        self.assertIsNone(self.in_registry())
        self.assertEqual(agent.get(f"/v1/resolve{Agent.PATH}").status, 404)
        flag.touch()
        agent.wait_state("registered")
        self.assertIsNotNone(self.in_registry())

    def test_takes_three_failures_by_default(self):
        counter, ill = self.folder / "count", self.folder / "ill"
        script = self.folder / "check.sh"
        script.write_text(f"#!/bin/sh\n[ ! -e {ill} ] || {{ echo x >> {counter}; exit 2; }}\n")
        script.chmod(0o755)
        # A run that is ended by its timeout would be a failure that the script has not counted.
        agent = self.web_agent(check=str(script), extra={"check alive": {"timeout": "50s"}}).start()
        agent.wait_state("registered")
        ill.touch()
        agent.wait_state("withdrawn")
        runs = len(counter.read_text().splitlines())
        self.assertGreaterEqual(runs, 3)

    def test_term_deregisters_and_exits_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                agent = self.web_agent().start()
                agent.wait_state("registered")
                agent.signal(number)
                self.assertEqual(agent.wait(), 0)
                self.assertIsNone(self.in_registry())
                self.assertFalse(agent.socket.exists())

    def test_kill_9_makes_the_record_invisible_at_once(self):
        # Without a check: its command, killed between fork and exec, holds what its parent has
        # open.
        agent = self.web_agent(check=None).start()
        agent.wait_state("registered")
        reader = self.agent("reader").start()
        self.assertEqual(reader.get(f"/v1/resolve{Agent.PATH}").status, 200)
        agent.kill()
        self.assertIsNone(self.in_registry())
        wait_until(lambda: reader.get(f"/v1/resolve{Agent.PATH}").status == 404,
            "the reader's cache has noticed")
        parent = Agent.PATH.rsplit("/", 1)[0]
        self.assertEqual(reader.get(f"/v1/list{parent}").json, [])

    def test_a_restarted_agent_takes_over_its_dead_predecessors_place(self):
        agent = self.web_agent(check=None).start()
        agent.wait_state("registered")
        agent.kill()
        agent.start()
        agent.wait_state("registered")
        self.assertIsNotNone(self.in_registry())

    def test_an_external_delete_is_repaired(self):
        agent = self.web_agent(check=None, znode="persistent").start()
        agent.wait_state("registered")
        self.assertEqual(berth("--registry", self.registry, "rm", Agent.PATH).returncode, 0)
        wait_until(lambda: self.in_registry() is not None, "the record is back")

    def test_an_external_change_is_repaired(self):
        agent = self.web_agent(check=None, znode="persistent").start()
        agent.wait_state("registered")
        other = self.folder / "other.json"
        changed = {**self.in_registry(), "description": "changed by somebody"}
        other.write_text(json.dumps(changed))
        result = berth("--registry", self.registry, "bind", Agent.PATH, "--file", other,
            "--overwrite")
        self.assertEqual(result.returncode, 0, result.stderr)
        wait_until(lambda: (self.in_registry() or {}).get("description") == "a test",
            "the record is as it should be")

    def test_anothers_live_record_is_a_conflict(self):
        first = self.web_agent("first").start()
        first.wait_state("registered")
        second = self.web_agent("second", id="container_1_0001_01_000099").start()
        second.wait_state("conflict")
        self.assertEqual(self.in_registry()["yarn:id"], "container_1_0001_01_000001")
        self.assertIn("container_1_0001_01_000001", second.status()["components"][0]["reason"])
        first.stop()
        second.wait_state("registered")

    def test_takeover_takes_anothers_live_record(self):
        first = self.web_agent("first").start()
        first.wait_state("registered")
        second = self.web_agent("second", id="container_1_0001_01_000099",
            on_conflict="takeover").start()
        second.wait_state("registered")
        self.assertEqual(self.in_registry()["yarn:id"], "container_1_0001_01_000099")
        first.wait_state("conflict")

    def test_a_record_that_grows_beyond_the_limits_is_failed_and_says_so(self):
        dynamic = {"api": "urn:port", "protocol": "REST", "address_type": "uri", "dynamic": "yes"}
        agent = self.web_agent(
            check=None,
            extra={
                "agent": {"log_level": "warn"},
                "endpoint one": dynamic,
                "endpoint two": dynamic,
                "check one": {"type": "ttl", "interval": "1h", "endpoints": "one"},
            },
            **{"attribute.ballast": "x" * 60000},
        ).start()
        agent.wait_state("registered")
        before = self.in_registry()
        for endpoint in "one", "two":
            # Each alone is within the limits, and while its check has not passed the first is not
            # in the record.
            addresses = [f"http://{number}/".ljust(1024, "x") for number in range(100, 140)]
            answer = agent.request("PUT", f"/v1/agent/endpoints/{endpoint}",
                {"addresses": addresses})
            self.assertEqual(answer.status, 204, answer.body)
        wait_until(lambda: self.in_registry() != before, "the second is in the record")
        before = self.in_registry()
        self.assertEqual(agent.request("PUT", "/v1/agent/checks/one", {"status": "passing"}).status,
            204)
        agent.wait_state("failed")
        reason = agent.status()["components"][0]["reason"]
        self.assertRegex(reason, "^LimitExceeded: .* at most 131072 are allowed$")
        self.assertIn(reason, agent.get("/ready").body.decode())
        self.assertEqual([item["why"] for item in agent.get("/v1/agent/history").json
            if item["to"] == "failed"], [reason])
        self.assertIn(f"-> failed: {reason}", agent.read_log())
        self.assertEqual(self.in_registry(), before)
        self.assertEqual(agent.request("DELETE", "/v1/agent/endpoints/two").status, 204)
        agent.wait_state("registered")

    def test_several_components_and_their_checks(self):
        agent = self.agent()
        sections = {**agent.component("true", name="one"), **agent.component(FAILS, name="two")}
        agent.write_config(sections)
        agent.start()
        agent.wait_state("registered", "one")
        wait_until(lambda: agent.check_named("alivetwo")["state"] == "down",
            "the other check is down")
        # The record at its path may not be known yet.
        agent.wait_state("withdrawn", "two")
        self.assertIsNone(self.in_registry(f"{os.path.dirname(Agent.PATH)}/two"))

    def test_a_timed_out_command_that_forked_and_ignores_term_is_dead(self):
        pids = self.folder / "pids"
        script = self.folder / "stubborn.sh"
        script.write_text(
            f"#!/bin/sh\ntrap '' TERM\n(trap '' TERM; sh -c 'echo $PPID' >> {pids}; "
            "while :; do sleep 0.1; done) &\nwhile :; do sleep 0.1; done\n"
        )
        script.chmod(0o755)
        # A run may be over before its child has begun; then it is the next one's child.
        agent = self.web_agent(check=str(script),
            extra={"check alive": {"timeout": "500ms", "interval": "100ms"}}).start()
        wait_until(lambda: pids.exists() and "\n" in pids.read_text(), "a run has a child")
        child = int(pids.read_text().split("\n", maxsplit=1)[0])
        wait_until(lambda: not os.path.exists(f"/proc/{child}"), "its forked child is gone")
        wait_until(lambda: (agent.check_named("alive")["last"] or {}).get("verdict") == "timed-out",
            "it timed out")


class Lookups(AgentTest):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "registry"

    def put(self, path, text):
        node = self.tree / path.strip("/")
        node.mkdir(parents=True)
        if text is not None:
            (node / "_record").write_text(text)

    def test_errors_keep_their_names_and_harm_nobody(self):
        self.put("/services/good", '{"type":"JSONServiceRecord","external":[],"internal":[]}')
        self.put("/services/empty", None)
        self.put("/services/other", '{"hello": "world"}')
        self.put("/services/broken", '{"type":"JSONServiceRecord",')
        agent = self.agent().start()
        for path, status, title in (
            ("/services/Good", 400, "InvalidPathname"),
            ("/services/../services/good", 400, "InvalidPathname"),
            ("/services//good", 400, "InvalidPathname"),
            ("/services/%67ood", 400, "InvalidPathname"),
            ("/services/good/", 400, "InvalidPathname"),
            ("/services/missing", 404, "PathNotFound"),
            ("/services/empty", 404, "NoRecord"),
            ("/services/other", 404, "NoRecord"),
            ("/services/broken", 502, "InvalidRecord"),
        ):
            with self.subTest(path=path):
                answer = agent.get(f"/v1/resolve{path}")
                self.assertEqual((answer.status, answer.json["title"]), (status, title))
                self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
                self.assertEqual(agent.get("/v1/resolve/services/good").status, 200)

    def test_answers_say_how_fresh_they_are(self):
        self.put("/services/good", '{"type":"JSONServiceRecord"}')
        agent = self.agent().start()
        first = agent.get("/v1/resolve/services/good")
        second = agent.get("/v1/resolve/services/good")
        self.assertEqual(first.headers["X-Cache"], "MISS")
        self.assertEqual(second.headers["X-Cache"], "HIT")
        self.assertEqual(second.headers["Age"], "0")
        unchanged = agent.get("/v1/resolve/services/good", If_None_Match=second.headers["ETag"])
        self.assertEqual(unchanged.status, 304)

    def test_a_cached_answer_follows_the_registry(self):
        self.put("/services/good", '{"type":"JSONServiceRecord","description":"one"}')
        agent = self.agent().start()
        self.assertEqual(agent.get("/v1/resolve/services/good").json["description"], "one")
        changed = self.folder / "changed.json"
        changed.write_text('{"type":"JSONServiceRecord","description":"two"}')
        berth("--registry", self.registry, "bind", "/services/good", "--file", changed,
            "--overwrite")
        wait_until(
            lambda: agent.get("/v1/resolve/services/good").json["description"] == "two",
            "the answer has changed"
        )

    def test_list_and_stat(self):
        for name in ("b", "a", "c"):
            self.put(f"/services/{name}", '{"type":"JSONServiceRecord"}')
        agent = self.agent().start()
        self.assertEqual(agent.get("/v1/list/services").json, ["/services/a", "/services/b",
            "/services/c"])
        self.assertEqual(agent.get("/v1/list/").json, ["/services"])
        answer = agent.get("/v1/stat/services").json
        self.assertEqual((answer["path"], answer["children"]), ("/services", 3))
        self.assertGreater(answer["time"], 1_600_000_000_000)


class Daemon(AgentTest):
    def test_help_and_version(self):
        for program in ("berthd", "berth"):
            for option in ("--help", "--version"):
                with self.subTest(program=program, option=option):
                    result = subprocess.run([BUILD / program, option], capture_output=True,
                        text=True, check=False)
                    self.assertEqual(result.returncode, 0)
                    self.assertIn(program, result.stdout)

    def test_seven_mistakes_are_seven_errors_with_their_lines(self):
        config = self.folder / "bad.ini"
        config.write_text(
            "[agent]\n"                       # 1
            "log_level = loud\n"              # 2: wrong word
            "drian_delay = 1s\n"              # 3: unknown key
            "[registry]\n"                    # 4
            "url = ftp://example.org/\n"      # 5: unknown scheme
            "session_timeout = soon\n"        # 6: no duration
            "[cache]\n"                       # 7
            "max_size = many\n"               # 8: no size
            "[chekc web]\n"                   # 9: unknown section
            "type = command\n"                # 10
            "[cache extra]\n"                 # 11: takes no name
        )
        result = subprocess.run([BUILD / "berthd", "-t", "-c", config], capture_output=True,
            text=True, check=False)
        self.assertEqual(result.returncode, 1)
        lines = [line for line in result.stderr.splitlines() if line.startswith(str(config))]
        numbers = [int(line[len(str(config)) + 1 :].split(":")[0]) for line in lines]
        self.assertEqual(sorted(numbers), [2, 3, 5, 6, 8, 9, 11], result.stderr)
        self.assertIn("drain_delay", result.stderr)

    def test_a_file_without_c_is_no_command(self):
        for arguments in ["my.ini"], ["-t", "my.ini"], ["my.ini", "--", "true"]:
            result = subprocess.run([BUILD / "berthd", *arguments], capture_output=True, text=True,
                check=False)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn("write -c my.ini", result.stderr)

    def test_warnings_count_as_mistakes_with_strict(self):
        config = self.folder / "doubtful.ini"
        config.write_text("[component]\npath = /services/x\ndescription = costs $PRICE\n"
            "[endpoint a]\napi = a\nprotocol = p\naddress_type = uri\naddress = a:b\n"
            "[check c]\ntype = ttl\n")
        found = ("1 component, 1 endpoint, 1 check, registry dir:/var/lib/berth/registry; "
            "at /services/x; 1 warning")
        for arguments, status, verdict in (["-t"], 0, f"good: {found}"), (["-t", "--strict"], 1,
                f"bad: {found}"):
            result = subprocess.run(
                [BUILD / "berthd", *arguments, "-c", config], capture_output=True, text=True,
                check=False
            )
            self.assertEqual(result.returncode, status, arguments)
            self.assertEqual(result.stdout, f"{config}: {verdict}\n")
            self.assertIn(f"{config}:3: warning: `description`: `$PRICE` stays as it is",
                result.stderr)
        result = subprocess.run([BUILD / "berthd", "--strict", "-c", config], capture_output=True,
            text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--strict goes with -t", result.stderr)

    def test_the_sample_configuration_has_no_doubts(self):
        sample = pathlib.Path(os.environ["BERTH_SRC_DIR"]) / "conf" / "berth.ini"
        result = subprocess.run(
            [BUILD / "berthd", "-t", "--strict", "-c", sample], capture_output=True, text=True,
            check=False
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_t_and_capital_t(self):
        agent = self.web_agent()
        self.assertEqual(subprocess.run([BUILD / "berthd", "-t", "-c", agent.config],
            check=False).returncode, 0)
        printed = subprocess.run(
            [BUILD / "berthd", "-T", "-c", agent.config], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn("interval = 100ms", printed)
        again = self.folder / "again.ini"
        again.write_text(printed)
        second = subprocess.run([BUILD / "berthd", "-T", "-c", again], capture_output=True,
            text=True, check=True)
        self.assertEqual(second.stdout, printed)

    def test_a_bad_configuration_does_not_start(self):
        config = self.folder / "bad.ini"
        config.write_text(pack_ini({"agent": {"nonsense": "1"}}))
        result = subprocess.run([BUILD / "berthd", "-c", config], capture_output=True, text=True,
            check=False)
        self.assertEqual(result.returncode, 1)

    def test_a_stale_socket_is_replaced_and_a_live_one_is_not(self):
        agent = self.agent().start()
        agent.kill()
        self.assertTrue(agent.socket.exists())
        agent.start()
        thief = self.agent("thief", agent={"socket": agent.socket})
        thief.start(wait=False)
        self.assertEqual(thief.wait(), 1)
        self.assertEqual(agent.get("/live").status, 200)

    def test_the_socket_has_the_configured_mode(self):
        agent = self.agent(agent={"socket_mode": "0600"}).start()
        self.assertEqual(stat.S_IMODE(os.stat(agent.socket).st_mode), 0o600)

    def test_the_directories_of_socket_and_state_are_made_for_everybody(self):
        run = self.folder / "run" / "berth"
        agent = self.agent(agent={"socket": run / "berth.sock",
            "state_dir": self.folder / "var" / "lib" / "berth"})
        agent.socket = run / "berth.sock"
        before = os.umask(0o077)
        self.addCleanup(os.umask, before)
        agent.start()
        for made in run, run.parent, self.folder / "var", self.folder / "var" / "lib":
            self.assertEqual(stat.S_IMODE(os.stat(made).st_mode), 0o755, made)
        agent.stop()

    def test_a_state_directory_that_others_can_change_is_not_used(self):
        state = self.folder / "agent/state"
        agent = self.web_agent()
        state.mkdir(parents=True)
        state.chmod(0o777)
        agent.start()
        agent.wait_state("registered")
        self.assertIn("the state directory is not trusted", agent.read_log())
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(list(state.iterdir()), [])

    def test_a_state_file_that_others_can_write_to_is_not_read(self):
        agent = self.web_agent().start()
        self.assertEqual(agent.request("POST", "/v1/agent/drain", {"reason": "upkeep"}).status, 204)
        self.assertEqual(agent.stop(), 0)
        (self.folder / "agent/state/drain").chmod(0o666)
        agent.start()
        agent.wait_state("registered")
        self.assertIn("the saved drain cannot be read and is ignored", agent.read_log())
        self.assertIn("others can write to it (mode 0666)", agent.read_log())

    def test_one_agent_for_a_state_directory(self):
        agent = self.agent().start()
        second = self.agent("second", agent={"state_dir": agent.folder / "state"})
        second.start(wait=False)
        self.assertEqual(second.wait(), 1)
        self.assertRegex(second.read_log(), r"cannot start: another agent uses \S+/state\n")

    def test_a_start_waits_a_moment_for_a_predecessor_that_is_ending(self):
        agent = self.agent()
        (agent.folder / "state").mkdir()

        def waited():
            before = agent.read_log().count("waiting whether it ends")
            with open(agent.folder / "state/lock", "wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                agent.start(wait=False)
                wait_until(lambda: agent.read_log().count("waiting whether it ends") > before,
                    "it has found the lock taken")
            wait_until(lambda: agent.starts() or agent.process.poll() is not None,
                "it has started or given up")
            if agent.starts():
                return True
            # Right, if we have stood still for longer than it waits, and wrong if it happens each
            # time.
            self.assertEqual(agent.wait(), 1)
            self.assertIn("cannot start: another agent uses", agent.read_log())
            return False

        wait_until(waited, "it has waited for the lock")
        wait_until(agent.answers, "it has started")

    def test_the_level_warning_includes_conflicts(self):
        self.web_agent("first").start().wait_state("registered")
        second = self.web_agent("second", id="container_2",
            extra={"agent": {"log_level": "warn"}}).start()
        second.wait_state("conflict")
        self.assertIn("-> conflict: another record is at", second.read_log())
        self.assertNotIn('""', second.read_log(),
            "what the other record has not is not shown as empty")
        self.assertNotIn("-> writing", second.read_log())

    @needs("mount namespace")
    def test_a_directory_on_an_overlay_of_two_file_systems(self):
        for name in "lower", "upper", "root":
            (self.folder / name).mkdir()
        agent = self.web_agent(registry=f"dir:{self.folder}/root/registry")
        with open(agent.log, "ab") as log:
            agent.process = subprocess.Popen(
                [*ON_AN_OVERLAY, self.folder, agent.program, "-c", agent.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        wait_until(agent.answers, "the agent answers")
        agent.wait_state("registered")
        before = agent.get(f"/v1/stat{Agent.PATH}").json
        agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(agent.get(f"/v1/stat{Agent.PATH}").json, before)
        agent.stop()

    def test_logs_one_line_a_transition_in_both_formats(self):
        agent = self.web_agent(extra={"agent": {"log_format": "json"}}).start()
        agent.wait_state("registered")
        agent.stop()
        lines = [json.loads(line) for line in agent.read_log().splitlines()]
        registered = [line for line in lines if "-> registered" in line["message"]]
        self.assertEqual(len(registered), 1)
        self.assertEqual(registered[0]["subject"], "component web-1")


if __name__ == "__main__":
    unittest.main()
