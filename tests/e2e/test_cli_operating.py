"""The command line for operators and scripts: waiting, probes, reports, bursts of changes,
completions."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

from berth import BUILD, PATIENCE, PROGRAMS, Agent, AgentTest, berth, exists, wait_until
from rights import require

CHANGING = (
    "bind mknode rm purge drain undrain undamp reload run-check report supply withdraw".split()
)


class Words(AgentTest):
    def test_a_suggestion_never_names_a_verb_that_changes_something(self):
        for verb in CHANGING:
            for mistyped in verb[:-1], verb + verb[-1], verb[1:], verb[1] + verb[0] + verb[2:]:
                result = berth(mistyped)
                self.assertEqual(result.returncode, 2)
                named = re.search(r"did you mean ([\w-]+)\?", result.stderr)
                self.assertNotIn(named and named.group(1), CHANGING, mistyped)
        self.assertIn("did you mean version?", berth("versoin").stderr)

    def test_help_and_version_are_verbs_too(self):
        self.assertEqual(berth("help").stdout, berth("--help").stdout)
        self.assertEqual(berth("help", "watch").stdout, berth("watch", "--help").stdout)
        self.assertEqual(berth("version").stdout, berth("--version").stdout)
        result = berth("help", "wathc")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("did you mean watch?", result.stderr)

    def test_json_has_three_spellings(self):
        registry = ["--registry", self.registry]
        self.assertEqual(berth(*registry, "mknode", "-p", "/a/b").returncode, 0)
        texts = {
            berth(*registry, "ls", "/a", *option).stdout
            for option in (["--json"], ["-o", "json"], ["--output=json"], ["--format", "json"],
                ["-f", "json"])
        }
        self.assertEqual([json.loads(text) for text in texts], [["/a/b"]])

    def test_nothing_found_is_3_in_every_format(self):
        registry = ["--registry", self.registry]
        berth(*registry, "mknode", "-p", "/a/b")
        for verb, nothing in (["endpoints", "/a"], []), (["records", "/a"],
                {}), (["find", "--id", "x"], {}):
            for form in "text", "json":
                with self.subTest(verb, form=form):
                    result = berth(*registry, *verb, "--format", form)
                    self.assertEqual(result.returncode, 3)
                    self.assertRegex(result.stderr, "^berth: NoRecord: .*\n$")
                    if form == "json":
                        self.assertEqual(json.loads(result.stdout), nothing)
                    else:
                        self.assertEqual(result.stdout, "")


class Completions(AgentTest):
    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}

    def run_shell(self, *command):
        result = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE,
            check=False, stdin=subprocess.DEVNULL,
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def script(self, shell, name):
        result = berth("completion", shell)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        file = self.folder / name
        file.write_text(result.stdout)
        return file

    def bash(self, *words):
        file = self.script("bash", "berth.bash")
        text = " ".join(f"'{word}'" for word in words)
        return self.run_shell(
            "bash", "-c",
            f". {file}; compopt() {{ :; }}; COMP_WORDS=(berth {text}); COMP_CWORD={len(words)}; "
            "_berth; "
            'echo "${COMPREPLY[@]}"',
        ).split()

    def test_bash_completes_verbs_options_values_and_paths(self):
        self.assertEqual(sorted(self.bash("und")), ["undamp", "undrain"])
        self.assertEqual(self.bash("watch", "--se"), ["--settle"])
        self.assertEqual(self.bash("--json", "watch", "--se"), ["--settle"])
        self.assertEqual(self.bash("ls", "--se"), [])
        self.assertEqual(self.bash("ls", "--format", ""), ["text", "json"])
        self.assertEqual(self.bash("report", "x", "p"), ["passing"])
        web = self.web_agent().start()
        web.wait_state("registered")
        self.environment["BERTH_SOCKET"] = str(web.socket)
        self.assertEqual(self.bash("ls", "/us"), ["/users"])
        self.assertEqual(self.bash("resolve", f"{os.path.dirname(Agent.PATH)}/"), [Agent.PATH])

    def test_bash_and_zsh_and_fish_take_their_scripts(self):
        for shell in "bash", "zsh", "fish":
            if not shutil.which(shell):
                self.skipTest(f"{shell} is not installed")
            self.run_shell(shell, "-n", str(self.script(shell, f"berth.{shell}")))

    def test_fish_completes_verbs_options_and_values(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        file = self.script("fish", "berth.fish")

        def complete(line):
            lines = self.run_shell("fish", "-c",
                f"source {file}; complete -C '{line}'").splitlines()
            return sorted(line.split("\t")[0] for line in lines)

        self.assertEqual(complete("berth und"), ["undamp", "undrain"])
        self.assertEqual(complete("berth watch --se"), ["--settle"])
        self.assertEqual(complete("berth report x f"), ["failing"])

    def test_every_verb_and_option_is_in_every_script(self):
        verbs = re.findall(r"(?m)^  ([a-z-]+) +\S", berth("--help").stdout)
        self.assertGreater(len(verbs), 25)
        for shell in "bash", "zsh", "fish":
            text = berth("completion", shell).stdout
            for verb in verbs:
                self.assertRegex(text, rf"\b{verb}\b")
                for option in re.findall(r"(?m)--([a-z-]+)", berth(verb, "--help").stdout):
                    self.assertRegex(text, rf"(--|-l ){option}\b", f"{shell}: {verb}")


class ThroughAnAgent(AgentTest):
    PARENT = os.path.dirname(Agent.PATH)

    def start(self, extra=None, **keywords):
        self.flag = self.folder / "healthy"
        self.flag.touch()
        self.web = self.web_agent(check=exists(self.flag), extra=extra, **keywords).start()
        self.web.wait_state("registered")

    def start_ttl(self):
        extra = {
            "check heart": {"type": "ttl", "interval": "1h", "fall": "1"},
            "endpoint port": {"api": "urn:port", "protocol": "tcp", "address_type": "host/port",
                "dynamic": "yes"},
            "registry": {"update_interval": "0s"},
        }
        self.web = self.web_agent(check=None, extra=extra).start()
        self.web.wait_state("withdrawn")

    def berth(self, *arguments, **keywords):
        return berth("--socket", self.web.socket, *arguments, **keywords)

    def good(self, *arguments, **keywords):
        result = self.berth(*arguments, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def running(self, *arguments, **keywords):
        process = subprocess.Popen(
            [PROGRAMS / "berth", "--socket", self.web.socket, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            text=True, **keywords,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for stream in process.stdout, process.stderr:
            if stream:
                self.addCleanup(stream.close)
        return process

    # ---- probes

    def test_ready_and_live_are_exit_statuses_with_a_reason(self):
        self.start_ttl()
        result = self.berth("ready")
        self.assertEqual(result.returncode, 1)
        self.assertIn("web-1", result.stderr)
        answer = self.berth("ready", "--json")
        self.assertEqual(answer.returncode, 1)
        self.assertFalse(json.loads(answer.stdout)["ready"])
        self.assertIn("heart", json.loads(answer.stdout)["reason"])
        self.good("live")
        self.good("report", "heart", "passing")
        self.web.wait_state("registered")
        self.good("ready")
        self.assertEqual(json.loads(self.good("ready", "-o", "json")), {"ready": True})
        self.web.stop()
        for verb in "ready", "live":
            self.assertEqual(self.berth(verb).returncode, 4)

    def test_status_tells_withdrawn_by_its_exit_status_on_request(self):
        self.start()
        self.good("status", "--exit-code")
        self.flag.unlink()
        self.web.wait_state("withdrawn")
        self.good("status")
        for form in "text", "json":
            result = self.berth("status", "--exit-code", "--format", form)
            self.assertEqual(result.returncode, 1)
            self.assertIn("withdrawn", result.stdout)

    def test_a_refused_user_learns_which_options_decide(self):
        keywords = {}
        if os.geteuid() == 0:
            require(self, "users")
        self.start()
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            self.web.folder.chmod(0o755)
            self.web.socket.chmod(0o600)
            keywords = {"user": 65534, "group": 65534, "extra_groups": []}
        else:
            self.web.socket.chmod(0)
        result = self.berth("status", **keywords)
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertRegex(result.stderr, "^berth: NoPathPermissions: .*socket_mode and socket_group")

    # ---- reports of the application

    def test_an_application_reports_and_supplies_from_a_script(self):
        self.start_ttl()
        self.good("report", "--message", "all is fine", "heart", "passing")
        self.web.wait_state("registered")
        self.assertIn("all is fine", self.good("checks"))
        self.good("supply", "port", "h:1", "[::1]:2")
        wait_until(lambda: len(self.in_registry()["external"]) == 2, "the endpoint is in")
        self.assertEqual(
            self.good("endpoints", "--plain", "--protocol", "tcp", self.PARENT), "h:1\n[::1]:2\n"
        )
        self.good("withdraw", "port")
        wait_until(lambda: len(self.in_registry()["external"]) == 1, "the endpoint is out")
        self.good("report", "heart", "failing")
        self.web.wait_state("withdrawn")
        for arguments, status, words in (
            (["report", "heart"], 2, "needs a STATUS"),
            (["report", "heart", "well"], 2, "passing, warning or failing"),
            (["report", "none", "passing"], 3, "none"),
            (["supply", "port"], 2, "needs a ADDRESS"),
            (["supply", "none", "h:1"], 3, "none"),
            (["withdraw", "none"], 3, "none"),
        ):
            with self.subTest(arguments):
                result = self.berth(*arguments)
                self.assertEqual(result.returncode, status)
                self.assertIn(words, result.stderr)

    # ---- addresses for scripts

    def test_plain_prints_what_text_plain_gives(self):
        self.start()
        answer = self.web.get(f"/v1/endpoints{self.PARENT}", Accept="text/plain")
        self.assertEqual(self.good("endpoints", "--plain", self.PARENT), answer.body.decode())
        self.assertEqual(self.berth("endpoints", "--plain", "--first", self.PARENT).returncode, 2)
        self.assertEqual(self.berth("endpoints", "--plain", "--json", self.PARENT).returncode, 2)
        self.assertEqual(self.berth("endpoints", "--plain", "--api", "urn:none",
            self.PARENT).returncode, 3)

    # ---- waiting

    def test_wait_returns_when_a_path_offers_enough_addresses(self):
        self.start_ttl()
        for where in ["--socket", self.web.socket], ["--registry", self.registry]:
            with self.subTest(where[0]):
                waiter = subprocess.Popen([BUILD / "berth", *where, "wait", self.PARENT],
                    stdin=subprocess.DEVNULL)
                two = subprocess.Popen(
                    [BUILD / "berth", *where, "wait", "--endpoints", "2", self.PARENT],
                    stdin=subprocess.DEVNULL
                )
                for process in waiter, two:
                    self.addCleanup(process.wait)
                    self.addCleanup(process.kill)
                late = berth(*where, "wait", self.PARENT, "--timeout", "300ms")
                self.assertEqual(late.returncode, 4)
                self.assertRegex(late.stderr,
                    "^berth: Timeout: (there is no such path yet|0 of 1 addresses)\n")
                self.assertIsNone(waiter.poll())
                self.good("report", "heart", "passing")
                self.assertEqual(waiter.wait(PATIENCE), 0)
                late = berth(*where, "wait", "--endpoints", "2", self.PARENT, "--timeout", "300ms")
                self.assertIn("1 of 2 addresses", late.stderr)
                self.assertIsNone(two.poll())
                self.good("supply", "port", "h:1")
                self.assertEqual(two.wait(PATIENCE), 0)
                self.assertEqual(
                    berth(*where, "wait", "--protocol", "none", self.PARENT, "--timeout",
                        "1ms").returncode, 4
                )
                self.good("withdraw", "port")
                self.good("report", "heart", "failing")
                wait_until(lambda: self.in_registry() is None, "the record is gone")

    def test_wait_for_the_own_components_outlives_an_agent_that_is_not_there_yet(self):
        self.flag = self.folder / "healthy"
        self.web = self.web_agent(check=exists(self.flag))
        waiter = self.running("wait", "--registered")
        named = self.running("wait", "--registered", "web-1")
        self.assertEqual(self.berth("wait", "--registered", "--timeout", "1ms").returncode, 4)
        self.web.start()
        self.web.wait_state("withdrawn")
        result = self.berth("wait", "--registered", "--timeout", "300ms")
        self.assertEqual(result.returncode, 4)
        self.assertRegex(result.stderr, "^berth: Timeout: web-1 is withdrawn: ")
        result = self.berth("wait", "--registered", "other", "--timeout", "300ms")
        self.assertIn("no component other", result.stderr)
        self.assertIsNone(waiter.poll())
        self.flag.touch()
        self.assertEqual(waiter.wait(PATIENCE), 0)
        self.assertEqual(named.wait(PATIENCE), 0)

    def test_wait_says_what_it_needs(self):
        for arguments in [], ["--registered", "--endpoints", "2"], ["--registered", "--registry",
                self.registry], \
                ["--endpoints", "0", "/a"], ["/a", "/b"]:
            self.assertEqual(berth("wait", *arguments).returncode, 2, arguments)

    # ---- bursts of changes

    def bind(self, name):
        result = berth("--registry", self.registry, "bind", "-p", f"/burst/{name}", "--webui",
            "http://h/")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_once_shows_the_picture_and_ends(self):
        self.start()
        self.bind("a")
        lines = self.good("watch", "--once", "-r", "/burst").splitlines()
        self.assertEqual([line.split()[1:3] for line in lines],
            [["SUBSCRIBED", "/burst"], ["SUBSCRIBED", "/burst/a"]])
        self.assertEqual(json.loads(self.good("watch", "--once", "--json", "/burst"))["snapshot"],
            {"/burst": None})
        out = self.folder / "out"
        result = self.berth("watch", "--once", "-r", "/burst", "--", "sh", "-c",
            f"echo $BERTH_PATH >>{out}; exit 7")
        self.assertEqual(result.returncode, 7)
        self.assertEqual(out.read_text().split(), ["/burst", "/burst/a"])

    def test_settle_runs_the_command_once_for_a_burst_with_the_whole_picture(self):
        self.start()
        for number in range(5):
            self.bind(f"n{number}")
        out = self.folder / "out"
        script = f'{{ echo "$BERTH_EVENT $BERTH_PATH $(cat)"; }} >>{out}'
        once = self.good("watch", "--once", "--settle", "50ms", "-r", "/burst", "--", "sh", "-c",
            "cat")
        self.assertEqual(len(json.loads(once)), 6)
        self.running("watch", "--settle", "2s", "-r", "/burst", "--", "sh", "-c", script)

        def lines():
            return out.read_text().splitlines() if out.exists() else []

        wait_until(lambda: len(lines()) == 1, "the first picture was shown")
        event, path, picture = lines()[0].split(" ", 2)
        self.assertEqual((event, path, len(json.loads(picture))), ("SUBSCRIBED", "/burst", 6))
        for number in range(5, 9):
            self.bind(f"n{number}")
        wait_until(lambda: len(lines()) >= 2 and len(json.loads(lines()[-1].split(" ", 2)[2]))
            == 10, "the burst was shown")
        # Nine binds that a busy machine stretches over more than the time make more runs, but never
        # one each.
        self.assertLess(len(lines()), 5)
        self.assertEqual(lines()[1].split(" ")[:2], ["UPDATED", "/burst"])
        failing = self.berth("watch", "--once", "--settle", "10ms", "/burst", "--", "sh", "-c",
            "exit 9")
        self.assertEqual(failing.returncode, 9)
        self.assertEqual(self.berth("watch", "--settle", "1s", "/burst").returncode, 2)

    def test_a_picture_that_cannot_be_handed_over_runs_no_command(self):
        self.start()
        self.bind("a")

        def files_end_early():
            # A write is cut short at 16 bytes, and the next one fails.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

        result = self.berth("watch", "--once", "/burst/a", "--", "sh", "-c", "cat",
            preexec_fn=files_end_early)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("sh: File too large", result.stderr)

    # ---- history

    def test_history_is_cut_by_number_and_time(self):
        self.start()
        everything = json.loads(self.good("history", "--json"))
        self.assertGreater(len(everything), 2)
        self.assertEqual(json.loads(self.good("history", "--json", "-n", "2")), everything[-2:])
        self.assertEqual(json.loads(self.good("history", "--json", "--since", "1h")), everything)
        self.assertEqual(len(self.good("history", "-n", "1").splitlines()), 2)
        wait_until(lambda: time.time() - everything[-1]["time"] > 1.5, "the last item is old")
        self.assertEqual(json.loads(self.good("history", "--json", "--since", "1s")), [])

    def test_history_follows_what_happens(self):
        self.start()
        follow = self.running("history", "--follow", "--json", "-n", "1", stdout=subprocess.PIPE)
        self.assertEqual(json.loads(follow.stdout.readline())["to"], "registered")
        self.flag.unlink()
        seen = []
        while "withdrawn" not in seen:
            seen.append(json.loads(follow.stdout.readline())["to"])
        self.assertIn("down", seen)
        follow.send_signal(signal.SIGINT)
        follow.wait(PATIENCE)


if __name__ == "__main__":
    import unittest

    unittest.main()
