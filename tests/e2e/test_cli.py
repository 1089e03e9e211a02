"""The command line, as scripts and people use it: on a registry, through an agent, and with what is
wrong."""

import fcntl
import json
import os
import pty
import pwd
import re
import select
import shlex
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from berth import BUILD, PATIENCE, Agent, AgentTest, berth, exists, wait_until
from rights import require

VERBS = (
    "resolve ls records endpoints pick stat exists find watch wait bind mknode rm purge "
    "status checks history ready live drain undrain undamp reload run-check report supply withdraw "
    "help version completion"
).split()


class Usage(AgentTest):
    def test_help_names_every_verb_and_each_verb_explains_itself(self):
        text = berth("--help").stdout
        for verb in VERBS:
            self.assertRegex(text, rf"(?m)^  {verb} ")
            explained = berth(verb, "--help")
            self.assertEqual(explained.returncode, 0)
            self.assertRegex(explained.stdout, rf"^Usage: berth {verb}( \S.*)?\n")
            self.assertNotRegex(explained.stdout, r"(?m) $")

    def test_help_of_each_verb_ends_with_an_example_that_is_good(self):
        verbs = re.findall(r"(?m)^  ([a-z-]+) +\S", berth("--help").stdout)
        self.assertGreater(len(verbs), 30)
        for verb in verbs:
            with self.subTest(verb=verb):
                example = re.search(rf"\nExample:\n  berth ({verb}\b.*)\n\Z",
                    berth(verb, "--help").stdout)[1]
                words = shlex.split(re.split(r" && | \|\| | >", example)[0])
                # Nothing is there that would answer: only a mistake in the words is status 2.
                result = berth(*[{"URL": "dir:/proc/none", "2m": "1s"}.get(word, word)
                    for word in words], environment={"BERTH_SOCKET": "/proc/none"})
                self.assertTrue(result.returncode != 2 or "needs a terminal" in result.stderr,
                    result.stderr)

    def test_the_manual_knows_every_verb_and_option(self):
        with open(os.path.join(os.environ["BERTH_SRC_DIR"], "docs", "berth.1"),
                encoding="utf-8") as file:
            manual = file.read()
        for verb in VERBS:
            self.assertRegex(manual, rf"(Cm|It Cm) {verb}\b")
            for option in re.findall(r"--([a-z-]+)", berth(verb, "--help").stdout):
                self.assertRegex(manual, rf"(Fl|[,|]) -{option}\b")

    def test_version(self):
        self.assertRegex(berth("--version").stdout, r"^berth \d+\.\d+\.\d+\n$")

    def test_mistakes_are_exit_status_2_and_said_in_words(self):
        for arguments, words in [
            ([], "--help"),
            (["statsu"], "did you mean status?"),
            (["resolve"], "needs a PATH"),
            (["resolve", "/a", "/b"], 'does not take "/b"'),
            (["run-check", ""], "needs a NAME"),
            (["resolve", "--regstry", "x", "/a"], "did you mean --registry?"),
            (["resolve", "-l", "/a"], "does not take --long"),
            (["resolve", "-q", "/a"], "no option -q"),
            (["resolve", "/a", "--format"], "needs a value"),
            (["resolve", "/a", "--format", "xml"], "text or json"),
            (["resolve", "/a", "--timeout", "soon"], "30s"),
            (["resolve", "/a", "--timeout", "0s"], "from 1ms to 596h"),
            (["drain", "--for", "0s"], "from 1s to 596h"),
            (["drain", "--for", "597h"], "from 1s to 596h"),
            (["drain", "--for", "99999999999999999999"], "from 1s to 596h"),
            (["mknode", "/a"], "BERTH_REGISTRY"),
            (["--registry", f"dir:{self.folder}/none", "status"], "for the agent"),
            (["--registry", f"dir:{self.folder}/none", "--socket", "x", "ls", "/"], "exclude"),
            (["--registry", f"dir:{self.folder}/none", "purge", "--id", "x"], "--persistence"),
            (["--registry", f"dir:{self.folder}/none", "bind", "/a"], "--file"),
            (["--registry", "foo:x", "ls", "/"], "dir:/path, zookeeper://"),
            (["--registry", "/path", "ls", "/"], "dir:/path, zookeeper://"),
            (["--registry", "", "ls", "/"], "dir:/path, zookeeper://"),
            (["--registry", "zk://h", "ls", "/"], "dir:/path, zookeeper://"),
            (["find", "--persistence", "forever"],
                "container, application-attempt, application or permanent"),
            (["ls", "/", "--", "true"], "takes no command"),
        ]:
            with self.subTest(arguments):
                result = berth(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_the_environment_names_a_registry_by_its_url_too(self):
        for value, words in ("/path", "dir:/path, zookeeper://"), ("", "BERTH_REGISTRY"):
            result = berth("mknode", "/a", environment={"BERTH_REGISTRY": value})
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)

    def test_no_agent_is_exit_status_4(self):
        with tempfile.TemporaryDirectory() as folder:
            for verb in ["status"], ["resolve", "/a"], ["exists", "/a"], ["watch", "/a"], ["drain"]:
                result = berth("--socket", f"{folder}/none.sock", *verb)
                self.assertEqual(result.returncode, 4, verb)
                self.assertTrue(result.stderr.startswith("berth: AgentUnavailable: "),
                    result.stderr)


class OnARegistry(AgentTest):
    def berth(self, *arguments, **keywords):
        return berth("--registry", self.registry, *arguments, **keywords)

    def good(self, *arguments, **keywords):
        result = self.berth(*arguments, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def json(self, *arguments):
        return json.loads(self.good(*arguments, "--format", "json"))

    def test_short_forms_make_whole_records(self):
        self.good("bind", "-p", "/a/web", "--webui", "http://h/", "--description", "für alle",
            "--id", "c_1")
        self.good("bind", "-p", "/a/inet", "--inet", "[::1]:80", "--api", "x:y", "--internal")
        self.good("bind", "-p", "/a/uri", "--uri", "x://h", "--api", "x:y", "--persistence",
            "permanent")
        web = self.json("resolve", "/a/web")
        self.assertEqual(list(web)[0], "type")
        self.assertEqual((web["description"], web["yarn:id"]), ("für alle", "c_1"))
        self.assertEqual(web["external"][0]["protocol"], "webui")
        inet = self.json("resolve", "/a/inet")
        self.assertEqual(inet["external"], [])
        self.assertEqual(inet["internal"][0]["addresses"], [{"hostname": "::1", "port": "80"}])
        self.assertEqual(self.json("ls", "/a"), ["/a/inet", "/a/uri", "/a/web"])
        self.assertEqual(list(self.json("records", "/a")), ["/a/inet", "/a/uri", "/a/web"])
        self.assertEqual(list(self.json("find", "--protocol", "WEBUI")), ["/a/web"])
        self.assertEqual(list(self.json("find", "--type", "JSONServiceRecord", "--id", "c_1")),
            ["/a/web"])
        self.assertEqual(self.berth("find", "--type", "other").returncode, 3)
        self.assertEqual(self.json("endpoints", "/a", "--api", "x:y", "--scope",
            "internal")[0]["path"], "/a/inet")
        self.assertEqual(self.good("endpoints", "--first", "/a"), "[::1]:80\n")
        self.assertIn(self.good("endpoints", "--random", "/a"), ("[::1]:80\n", "http://h/\n",
            "x://h\n"))

    def write_record(self, path, address_type, *addresses):
        """As another program stores it."""
        endpoint = {"api": "x:y", "addressType": address_type, "protocolType": "tcp",
            "addresses": addresses}
        node = self.folder / "registry" / path[1:]
        node.mkdir(parents=True)
        (node / "_record").write_text(json.dumps({"type": "JSONServiceRecord",
            "external": [endpoint]}))

    def test_an_address_without_a_form_in_one_line_is_shown_whole(self):
        self.good("mknode", "/a")
        free = {"foo": "bar", "baz": "1"}
        self.write_record("/a/free", "x-custom", free)
        self.assertEqual(self.json("endpoints", "/a")[0]["address"], free)
        for verb in ["endpoints", "/a"], ["resolve", "/a/free"]:
            self.assertIn('{"foo":"bar","baz":"1"}', self.good(*verb))
        for choice in "--first", "--random":
            self.assertEqual(self.berth("endpoints", choice, "/a").returncode, 3)
        self.write_record("/a/uri", "uri", {"uri": "http://h/"})
        for choice in "--first", "--random":
            self.assertEqual(self.good("endpoints", choice, "/a"), "http://h/\n")

    def test_addresses_in_the_spelling_of_other_programs_are_read(self):
        self.good("mknode", "/a")
        self.write_record("/a/list", "uri", ["http://h:1"])
        self.write_record("/a/zk", "zktriple", {"hostname": "h", "port": "2181", "path": "/x"})
        self.assertRegex(self.good("resolve", "/a/list"), r"(?m)tcp +http://h:1$")
        self.assertRegex(self.good("resolve", "/a/zk"), r"(?m)tcp +h:2181/x$")

    def test_a_record_from_a_file_and_from_standard_input(self):
        record = {"type": "JSONServiceRecord", "external": [], "internal": [],
            "x": {"y": [1.5, None]}}
        file = self.folder / "record.json"
        file.write_text(json.dumps(record))
        self.good("bind", "/a", "--file", file)
        with open(file, encoding="utf-8") as stdin:
            self.assertEqual(self.berth("bind", "/a", "--file", "-", stdin=stdin).returncode, 1)
        with open(file, encoding="utf-8") as stdin:
            self.good("bind", "/a", "--file", "-", "--overwrite", stdin=stdin)
        self.assertEqual(self.json("resolve", "/a")["x"], {"y": [1.5, None]})

    def test_a_record_ends_with_its_file_and_not_with_a_nul(self):
        file = self.folder / "record.json"
        file.write_bytes(b'{"type":"JSONServiceRecord"}\0{"x":1}')
        result = self.berth("bind", "/a", "--file", file)
        self.assertEqual(result.returncode, 1)
        self.assertIn("InvalidRecord", result.stderr)
        self.assertEqual(self.berth("exists", "/a").returncode, 3)

    def test_numbers_keep_their_digits(self):
        file = self.folder / "record.json"
        file.write_text('{"type":"JSONServiceRecord","x":1.2345678901234567}')
        self.good("bind", "/a", "--file", file)
        for verb in ["resolve", "/a"], ["records", "/"], ["find"]:
            self.assertIn("1.2345678901234567", self.good(*verb, "--format", "json"))
        self.assertIn("1.2345678901234567", self.good("resolve", "/a"))

    def test_a_record_of_a_megabyte_is_refused_before_anything_is_sent(self):
        file = self.folder / "record.json"
        for size in 128 * 1024 + 1, 1024 * 1024, 8 * 1024 * 1024:
            record = '{"type":"JSONServiceRecord","x":""}'
            file.write_text(record.replace('""', f'"{"x" * (size - len(record))}"'))
            result = self.berth("bind", "/a", "--file", file)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, "^berth: LimitExceeded: .*131072")
        self.assertEqual(self.berth("exists", "/a").returncode, 3)

    def test_errors_have_a_name_and_an_exit_status(self):
        self.good("mknode", "-p", "/a/b")
        for arguments, status, name in [
            (["resolve", "/none"], 3, "PathNotFound"),
            (["resolve", "/a"], 3, "NoRecord"),
            (["resolve", "/A"], 1, "InvalidPathname"),
            (["bind", "/a", "--webui", "http://h/"], 1, "FileAlreadyExists"),
            (["rm", "/a"], 1, "PathIsNotEmptyDirectory"),
            (["endpoints", "--first", "/a"], 3, "NoRecord"),
        ]:
            with self.subTest(arguments):
                result = self.berth(*arguments)
                self.assertEqual(result.returncode, status)
                self.assertRegex(result.stderr, rf"^berth: {name}: .+\n$")
        self.assertEqual(self.berth("exists", "/none").returncode, 3)
        self.assertEqual(self.berth("exists", "/a").returncode, 0)
        self.good("rm", "/none")
        self.good("rm", "-r", "/a")
        self.assertEqual(self.json("ls", "/"), [])

    def test_a_question_does_not_make_the_registry(self):
        mistyped = f"dir:{self.folder}/regsitry"
        for question in ["ls", "/"], ["exists", "/"], ["find"], ["records", "/a"], ["rm", "-r",
                "/a"]:
            answer = berth("--registry", mistyped, *question)
            self.assertEqual(answer.returncode, 0 if question[0] == "rm" else 3, answer.stderr)
        self.assertFalse((self.folder / "regsitry").exists())
        self.assertEqual(berth("--registry", mistyped, "mknode", "/a").returncode, 0)
        self.assertEqual(berth("--registry", mistyped, "ls", "/").stdout, "/a\n")

    def test_a_missing_parent_is_an_error_that_says_how_to_make_it(self):
        for write in ["mknode", "/x/y"], ["bind", "/x/y", "--webui", "http://h/"]:
            with self.subTest(write):
                result = self.berth(*write)
                self.assertEqual(result.returncode, 3)
                self.assertEqual(
                    result.stderr,
                    "berth: PathNotFound: /x/y: its parent does not exist; -p makes it\n"
                )
                self.assertEqual(self.berth("exists", "/x").returncode, 3)
        self.good("bind", "-p", "/x/y", "--webui", "http://h/")
        self.good("mknode", "/x/y")  # an existing node is not an error, and stays as it is
        self.assertEqual(len(self.json("resolve", "/x/y")["external"]), 1)

    def test_mknode_makes_a_home_that_belongs_to_its_user(self):
        root = self.folder / "shared"
        root.mkdir()
        root.chmod(0o1777)
        me = pwd.getpwuid(os.geteuid()).pw_name
        result = berth("--registry", f"dir:{root}", "mknode", "-p", "--owner", me, "/users/joe")
        self.assertEqual((result.returncode, result.stdout), (0, "/users/joe made\n"),
            result.stderr)
        self.assertEqual((root / "users/joe").stat().st_uid, os.geteuid())
        if os.geteuid() == 0:
            other = pwd.getpwnam("nobody")
            result = berth("--registry", f"dir:{root}", "mknode", "--owner", "nobody", "/users/ann")
            self.assertEqual(result.returncode, 0, result.stderr)
            status = (root / "users/ann").stat()
            self.assertEqual((status.st_uid, status.st_gid), (other.pw_uid, other.pw_gid))
            self.assertEqual((root / "users").stat().st_uid, 0)

    def test_mknode_refuses_an_owner_who_could_do_nothing_with_the_home(self):
        me = pwd.getpwuid(os.geteuid()).pw_name
        result = self.berth("mknode", "--owner", me, "/home")
        self.assertEqual(result.returncode, 1)
        self.assertIn("mode 1777", result.stderr)
        root = self.folder / "shared"
        root.mkdir()
        root.chmod(0o1777)
        result = berth("--registry", f"dir:{root}", "mknode", "--owner", "digest:joe:HASH", "/home")
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no user", result.stderr)
        self.assertFalse((root / "home").exists())

    def test_mknode_says_whether_it_made_the_node(self):
        self.assertEqual(self.good("mknode", "-p", "/a/b"), "/a/b made\n")
        self.assertEqual(self.good("mknode", "/a/b"), "/a/b existed before\n")
        self.assertEqual(self.json("mknode", "/a"), {"path": "/a", "made": False})
        self.assertEqual(self.json("mknode", "/a/c"), {"path": "/a/c", "made": True})

    def test_an_obstacle_is_named(self):
        self.good("mknode", "-p", "/a/b/c")
        self.assertEqual(
            self.berth("rm", "/a/b").stderr, "berth: PathIsNotEmptyDirectory: /a/b has 1 child\n"
        )
        (self.folder / "registry/a/b/notes.txt").write_text("mine")
        result = self.berth("rm", "-r", "/a")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "^berth: PathIsNotEmptyDirectory: .*/a/b/notes.txt")
        file = self.folder / "file"
        file.write_text("no directory")
        result = berth("--registry", f"dir:{file}", "ls", "/")
        self.assertEqual(result.returncode, 4)
        self.assertIn("Not a directory", result.stderr)

    def test_purge_deletes_what_matches_and_shows_it_first(self):
        for name, owner in ("one", "c_1"), ("two", "c_2"):
            self.good("bind", "-p", f"/a/{name}", "--webui", "http://h/", "--id", owner,
                "--persistence", "container")
        purge = ["purge", "--id", "c_1", "--persistence", "container"]
        found = self.json(*purge, "--dry-run")
        self.assertEqual((list(found["matches"]), found["deleted"]), (["/a/one"], 0))
        self.good("mknode", "/a/one/below")
        self.assertEqual(self.json(*purge, "--dry-run")["paths"], ["/a/one", "/a/one/below"])
        self.assertEqual(self.json(*purge, "--dry-run", "--policy", "skip-on-children")["paths"],
            [])
        result = self.berth(*purge, "--dry-run", "--policy", "fail-on-children")
        self.assertRegex(result.stderr, "^berth: PathIsNotEmptyDirectory: /a/one")
        self.assertIn("would delete /a/one/below\n", self.berth(*purge, "--dry-run").stdout)
        self.assertEqual(self.json("ls", "/a"), ["/a/one", "/a/two"])
        result = self.berth(*purge)
        self.assertIn("deleted /a/one\ndeleted /a/one/below\n1 record matched, 2 nodes deleted",
            result.stdout)
        self.assertEqual(result.stderr, "")  # progress is for terminals
        self.assertEqual(self.json("ls", "/a"), ["/a/two"])

    def test_an_ephemeral_record_is_held_until_interrupted(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGKILL:
            holder = subprocess.Popen(
                [BUILD / "berth", "--registry", self.registry, "bind", "-p", "/a/e", "--ephemeral"]
                + ["--webui", "http://h/"],
                stdin=subprocess.DEVNULL,
            )
            try:
                wait_until(lambda: self.berth("resolve", "/a/e").returncode == 0,
                    "the record is there")
                holder.send_signal(number)
                holder.wait(PATIENCE)
            finally:
                holder.kill()
                holder.wait()
            wait_until(lambda: self.berth("exists", "/a/e").returncode == 3, "the record is gone")

    def hold(self, path):
        holder = subprocess.Popen(
            [BUILD / "berth", "--registry", self.registry, "bind", "-p", path, "--ephemeral",
                "--webui", "http://h/"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(holder.stderr.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        wait_until(lambda: self.berth("resolve", path).returncode == 0, "the record is there")
        return holder

    def test_a_held_record_that_is_deleted_is_bound_again(self):
        holder = self.hold("/a/e")
        for _ in range(2):
            self.good("rm", "/a/e")
            self.assertIn("/a/e is gone", holder.stderr.readline())
            self.assertIn("/a/e is bound again", holder.stderr.readline())
            self.assertEqual(self.berth("resolve", "/a/e").returncode, 0)
        holder.terminate()
        self.assertEqual(holder.wait(PATIENCE), 0)
        self.assertEqual(self.berth("exists", "/a/e").returncode, 3)

    def test_a_held_record_that_is_replaced_ends_the_holding(self):
        holder = self.hold("/a/e")
        self.good("bind", "/a/e", "--webui", "http://other/", "--overwrite")
        self.assertEqual(holder.wait(PATIENCE), 1)
        self.assertRegex(holder.stderr.read(), "^berth: FileAlreadyExists: .*replaced")
        self.assertIn("http://other/", self.good("resolve", "/a/e"))

    def test_a_core_dump_does_not_hold_the_password(self):
        auth = self.folder / "auth"
        auth.touch(mode=0o600)
        auth.write_text("joe:secret\n")
        group = 65534 if os.geteuid() == 0 else None
        holder = subprocess.Popen(
            [BUILD / "berth", "--registry", self.registry, "--auth-file", auth]
            + ["bind", "-p", "/a/e", "--ephemeral", "--webui", "http://h/"],
            stdin=subprocess.DEVNULL, group=group,
        )
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        wait_until(lambda: self.berth("resolve", "/a/e").returncode == 0, "the record is there")
        # The kernel gives what it shows of such a process to root, user and group.
        shown = os.stat(f"/proc/{holder.pid}/environ")
        self.assertEqual((shown.st_uid, shown.st_gid), (0, 0))

    def test_control_characters_of_a_record_do_not_reach_the_terminal(self):
        self.good("bind", "-p", "/a/x", "--webui", "http://h/", "--description",
            "a\033[2Jb\nc\u202ed")
        for verb in ["resolve", "/a/x"], ["records", "/a"], ["find"]:
            text = self.good(*verb)
            self.assertNotIn("\033", text)
            self.assertNotIn("\u202e", text)
            self.assertIn(r"a\x1b[2Jb\nc", text)

    def test_columns_line_up_whatever_is_in_them(self):
        self.good("bind", "-p", "/a/x", "--inet", "h:1", "--api", "api:日本", "--protocol", "tcp")
        self.good("bind", "-p", "/a/y", "--inet", "h:22", "--api", "api:x", "--protocol", "tcp")
        rows = self.good("endpoints", "/a").splitlines()
        heading = rows[0].index("PATH")
        self.assertEqual(rows[2].index("/a/y"), heading)
        self.assertEqual(rows[1].index("/a/x"), heading - 2)  # two characters of two cells each

    def test_a_watch_shows_the_tree_and_its_changes(self):
        self.good("mknode", "-p", "/a/b")
        watch = Watch(self, "--registry", self.registry, "-r", "/a")
        first = watch.next()
        self.assertEqual((first["type"], first["snapshot"]),
            ("SUBSCRIBED", {"/a": None, "/a/b": None}))
        self.good("bind", "-p", "/a/b/c", "--webui", "http://h/")
        event = watch.next()
        self.assertEqual((event["type"], event["path"]), ("UPDATED", "/a/b/c"))
        self.assertEqual(event["record"]["external"][0]["protocol"], "webui")
        self.good("rm", "-r", "/a/b")
        gone = [watch.next(), watch.next()]
        self.assertEqual([event["type"] for event in gone], ["DELETED", "DELETED"])
        self.assertEqual({event["path"] for event in gone}, {"/a/b", "/a/b/c"})

    def test_a_path_that_is_not_there_yet_can_be_watched(self):
        watch = Watch(self, "--registry", self.registry, "/a")
        self.assertEqual(watch.next()["snapshot"], {})
        self.good("mknode", "/a")
        event = watch.next()
        self.assertEqual((event["type"], event["path"], event["record"]), ("UPDATED", "/a", None))


class Watch:
    """berth watch as JSON lines."""

    def __init__(self, test, *arguments):
        self.process = subprocess.Popen(
            [BUILD / "berth", "--format", "json", "watch", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0,
        )
        self.text = b""
        test.addCleanup(self.end)

    def next(self):
        while b"\n" not in self.text:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            piece = self.process.stdout.read(65536) if ready else b""
            if not piece:
                raise AssertionError("no event came")
            self.text += piece
        line, _, self.text = self.text.partition(b"\n")
        return json.loads(line)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ThroughAnAgent(AgentTest):
    def start(self, check=None, extra=None, **keywords):
        self.flag = self.folder / "healthy"
        self.flag.touch()
        # A command that is stopped is late, which is not a failure.
        extra = {"check alive": {"timeout": "50s", **(check or {})}, **(extra or {})}
        self.web = self.web_agent(check=exists(self.flag), extra=extra, **keywords).start()
        self.web.wait_state("registered")

    def berth(self, *arguments, **keywords):
        return berth("--socket", self.web.socket, *arguments, **keywords)

    def json(self, *arguments):
        result = self.berth(*arguments, "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_lookups_are_those_of_the_registry(self):
        self.start()
        parent = os.path.dirname(Agent.PATH)
        for verb in (
            ["resolve", Agent.PATH], ["ls", parent], ["ls", "-l", parent], ["records", parent],
            ["endpoints", parent], ["endpoints", Agent.PATH], ["stat", Agent.PATH],
            ["exists", Agent.PATH],
            ["find", "--protocol", "rest"],
        ):
            with self.subTest(verb):
                direct = berth("--registry", self.registry, "--format", "json", *verb)
                self.assertEqual(self.json(*verb), json.loads(direct.stdout))
        self.assertEqual(self.berth("resolve", "/none").returncode, 3)
        self.assertEqual(self.berth("endpoints", "--first", parent).stdout,
            "http://127.0.0.1:8080/\n")

    def test_a_number_that_is_too_large_makes_no_record_unreadable(self):
        self.start()
        text = (
            '{"type":"JSONServiceRecord","external":[{"api":"urn:x","addressType":"uri",'
            '"protocolType":"x","addresses":[{"uri":"x://h"}]}],'
            '"big":12345678901234567890,"huge":1e400}'
        )
        folder = self.folder / "registry/foreign/one"
        folder.mkdir(parents=True)
        (folder / "_record").write_text(text)
        self.assertEqual(self.web.get("/v1/resolve/foreign/one").body.decode(), text)
        for where in ["--registry", self.registry], ["--socket", self.web.socket]:
            for verb in ["resolve", "/foreign/one"], ["records", "/foreign"], ["find", "--under",
                    "/foreign"]:
                with self.subTest(where=where, verb=verb):
                    result = berth(*where, "--format", "json", *verb)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertRegex(result.stdout, r'"big": 1\.234567890123456\d*e19')
            self.assertEqual(berth(*where, "endpoints", "--first", "/foreign/one").stdout,
                "x://h\n")

    def test_berth_socket_names_the_agent(self):
        self.start()
        result = berth("status", environment={"BERTH_SOCKET": str(self.web.socket)})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_status_checks_and_history_tell_what_is_so(self):
        self.start()
        self.assertRegex(self.berth("status").stdout, rf"web-1 +registered +.*\n  {Agent.PATH}\n")
        self.assertRegex(self.berth("checks").stdout, r"alive +web-1 +up ")
        self.flag.unlink()
        self.web.wait_state("withdrawn")
        self.assertRegex(self.berth("status").stdout, r"web-1 +withdrawn ")
        self.assertRegex(self.berth("checks").stdout, r"alive +web-1 +down ")
        self.assertRegex(self.berth("history").stdout, r"withdrawn")
        self.assertIn("down", [item["to"] for item in self.json("history")])

    def test_run_check_shows_the_result_and_exits_by_it(self):
        self.start()
        run_check = ["run-check", "alive", "--timeout", "50s"]
        result = self.berth(*run_check)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("passing", result.stdout)
        self.flag.unlink()
        self.assertEqual(self.berth(*run_check).returncode, 1)
        self.assertEqual(self.berth("run-check", "nope").returncode, 3)
        strange = self.berth("run-check", "x\033[31m")
        self.assertEqual(strange.returncode, 3)
        self.assertIn(r'named "x\x1b[31m"', strange.stderr)

    def test_drain_waits_until_the_registry_shows_it_no_longer(self):
        self.start()
        self.assertEqual(self.berth("drain", "--reason", "new disk", "--wait").returncode, 0)
        self.assertIsNone(self.in_registry())
        self.assertIn("new disk", self.berth("status").stdout)
        self.assertEqual(self.berth("undrain").returncode, 0)
        self.web.wait_state("registered")

    def test_drain_and_undrain_are_one_document_for_programs(self):
        self.start()
        drain = self.json("drain", "--reason", "new disk", "--wait")
        self.assertEqual((drain["active"], drain["reason"], drain["done"]),
            (True, "new disk", True))
        self.assertFalse(self.json("undrain")["active"])
        self.assertTrue(self.json("drain")["active"])

    def test_a_drain_that_takes_longer_than_the_timeout_goes_on(self):
        self.start(extra={"agent": {"drain_delay": "1h"}})
        # Each request must be answered within that time, too.
        result = self.berth("drain", "--wait", "--timeout", "6s")
        self.assertEqual(result.returncode, 4)
        self.assertRegex(result.stderr, r"^berth: Timeout: .*; the drain goes on\n$")
        wait_until(lambda: self.in_registry() is None, "the drain went on")
        self.web.kill()  # which would wait for the delay

    def test_reload_shows_what_is_wrong(self):
        self.start()
        good = self.web.config.read_text()
        line = good.count("\n") + 2
        self.web.config.write_text(f"{good}\n[registr]\n")
        result = self.berth("reload")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.web.config}:{line}: ", result.stderr)
        self.assertIn("berth: Failed: the configuration has 1 problem", result.stderr)
        self.web.config.write_text(good)
        self.assertEqual(self.berth("reload").returncode, 0)

    def test_reload_shows_what_would_change_and_leaves_it(self):
        self.start()
        good = self.web.config.read_text()
        self.assertEqual(self.berth("reload", "--dry-run").stdout, "nothing would change\n")
        before = self.web.status()
        self.web.config.write_text(
            good.replace("description = a test", "description = another")
            + "[endpoint admin]\napi = admin\nprotocol = http\naddress_type = uri\n"
              "address = http://joe:secret@127.0.0.1:81/\n")
        result = self.berth("reload", "--dry-run")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout,
            "[component] description: a test -> another\n[endpoint admin] added\n")
        answer = json.loads(self.berth("reload", "--dry-run", "--json").stdout)
        self.assertEqual((answer["reloaded"], answer["problems"]), (False, []))
        self.assertEqual(answer["changes"][1], {"section": "endpoint admin", "change": "added"})
        after = self.web.status()
        self.assertEqual(after["components"], before["components"])
        self.web.config.write_text(f"{good}\n[registr]\n")
        self.assertEqual(self.berth("reload", "--dry-run").returncode, 1)
        self.assertIsNone(self.web.status()["reload_problems"])
        self.web.config.write_text(good)
        self.assertEqual(self.web.request("POST", "/v1/agent/reload?dry_run=maybe").status, 400)

    def test_watch_runs_a_command_for_each_change(self):
        self.start()
        out = self.folder / "out"
        script = f'echo "$BERTH_EVENT $BERTH_PATH $(cat)" >>{out}'
        watch = subprocess.Popen(
            [BUILD / "berth", "--socket", self.web.socket, "watch", Agent.PATH, "--", "/bin/sh",
                "-c", script],
            stdin=subprocess.DEVNULL,
        )
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)

        def lines():
            return out.read_text().splitlines() if out.exists() else []

        wait_until(lambda: len(lines()) == 1, "the record was shown")
        event, path, record = lines()[0].split(" ", 2)
        self.assertEqual((event, path), ("SUBSCRIBED", Agent.PATH))
        self.assertEqual(json.loads(record)["description"], "a test")
        self.flag.unlink()
        wait_until(lambda: len(lines()) == 2, "its end was shown")
        self.assertEqual(lines()[1], f"DELETED {Agent.PATH} ")

    def test_watch_says_when_its_command_fails(self):
        self.start()
        watch = subprocess.Popen(
            [BUILD / "berth", "--socket", self.web.socket, "watch", Agent.PATH, "--", "/bin/sh",
                "-c", "exit 3"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(watch.stderr.close)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        self.assertEqual(watch.stderr.readline(),
            f"berth: note: SUBSCRIBED of {Agent.PATH}: /bin/sh ended with exit status 3\n")
        self.flag.unlink()
        self.assertEqual(watch.stderr.readline(),
            f"berth: note: DELETED of {Agent.PATH}: /bin/sh ended with exit status 3\n")
        self.flag.touch()
        self.web.wait_state("registered")
        self.assertEqual(self.berth("watch", Agent.PATH, "--", "/no/such/command").returncode, 1)

    def test_a_watch_outlives_the_agent(self):
        # No command is being started just when the agent is killed: until it is executed it would
        # hold the agent's locks.
        self.start(check={"interval": "1h"})
        watch = Watch(self, "--socket", str(self.web.socket), Agent.PATH)
        self.assertEqual(watch.next()["type"], "SUBSCRIBED")
        self.web.kill()
        self.assertEqual(watch.next()["type"], "LOST")
        self.web.start()
        event = watch.next()
        self.assertEqual(event["type"], "RESYNC")

    def test_colour_is_for_terminals_only(self):
        self.start()
        self.assertNotIn("\033", self.berth("status").stdout)
        self.assertIn("\033[32m", self.on_terminal("status"))
        self.assertNotIn("\033", self.on_terminal("status", NO_COLOR="1"))

    LONG = "container-1408631738011-0001-01-000002"

    def test_status_loses_nothing_on_a_narrow_terminal(self):
        self.start(extra={"component": {"name": self.LONG}})
        self.flag.unlink()
        self.web.wait_state("withdrawn")
        component = self.web.status()["components"][0]
        lines = self.on_terminal("status", width=80, NO_COLOR="1").splitlines()
        row = next(i for i, line in enumerate(lines) if line.startswith(self.LONG))
        self.assertRegex(lines[row], "^.{1,80}$")
        self.assertEqual(lines[row + 1], f"  {component['path']}")
        self.assertEqual(lines[row + 2], f"  {component['reason']}")

    def test_a_long_reason_is_broken_between_words(self):
        self.start()
        reason = (
            "a reason of many words that no narrow terminal shows in one line, as an operator may "
            "well write it")
        self.assertEqual(self.berth("drain", "--wait", "--reason", reason).returncode, 0)
        for width in 40, 80:
            lines = self.on_terminal("status", width=width, NO_COLOR="1").splitlines()
            begin = next(i for i, line in enumerate(lines) if line.startswith("  draining: "))
            self.assertLessEqual(max(map(len, lines[begin:])), width)
            self.assertTrue(all(line.startswith("    ") for line in lines[begin + 1 :]), lines)
            self.assertIn(reason, " ".join(line.strip() for line in lines[begin:]))

    def test_no_terminal_is_too_narrow_for_what_a_check_said(self):
        """checks and history break a sentence inside of its column, or below the row."""
        said = (
            "no route to the database of the shop at db-1.example.org, tried for the seventh time "
            "in a row")
        script = self.folder / "say"
        script.write_text(f"test -e {self.folder}/healthy || {{ echo '{said}'; exit 1; }}\n")
        self.start(check={"command": f"sh {script}"})
        self.flag.unlink()
        wait_until(lambda: self.web.check_named("alive")["state"] == "down", "it is down")
        for verb in "checks", "history":
            for width in 60, 80, 120, 200:
                with self.subTest(verb, width=width):
                    lines = self.on_terminal(verb, width=width, NO_COLOR="1").splitlines()
                    self.assertLessEqual(max(map(len, lines)), width, lines)
                    self.assertNotIn("…", "".join(lines))
                    if verb == "checks":
                        self.assertIn(said, re.sub(r"\s+", " ", "\n".join(lines[1:])), lines)

    def test_tables_are_fitted_to_the_terminal(self):
        self.start(extra={"component": {"name": self.LONG}})
        parent = os.path.dirname(Agent.PATH)
        for width in 80, 100:
            for verb, key in (["checks"], "alive"), (["history"], ""), (["endpoints", parent],
                    "http://127.0.0.1:8080/"):
                with self.subTest(verb, width=width):
                    lines = self.on_terminal(*verb, width=width, NO_COLOR="1").splitlines()
                    self.assertLessEqual(max(map(len, lines)), width)
                    self.assertTrue(lines[1].startswith(key), lines)
            self.assertIn(f"{parent}/{self.LONG}", self.on_terminal("records", parent, width=width))
        self.assertIn(self.LONG, self.berth("checks").stdout)  # no terminal, nothing is cut

    def on_terminal(self, *arguments, width=0, **environment):
        require(self, "terminals")
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, width, 0, 0))
        process = subprocess.Popen(
            [BUILD / "berth", "--socket", self.web.socket, *arguments],
            stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm",
                **environment},
        )
        os.close(slave)
        text = b""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            text += piece
        os.close(master)
        self.assertEqual(process.wait(PATIENCE), 0)
        return text.decode()


if __name__ == "__main__":
    unittest.main()
