"""libberth as others get it: installed, found by pkg-config, used by the program in the
documentation."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from berth import BUILD, PATIENCE, AgentTest, wait_until
from zookeeper import share_zookeeper

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "."))


def config(name):
    """A variable of the build."""
    for line in (BUILD / "config.mk").read_text().splitlines():
        key, _, value = line.partition("=")
        if key.strip() == name:
            return value.strip()
    return ""


class InstallTest(AgentTest):
    """Installs once for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="installed-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.root = pathlib.Path(folder)
        subprocess.run(
            ["make", "-s", "-C", BUILD, "install", f"DESTDIR={cls.root}"],
            check=True, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        )

    def setUp(self):
        super().setUp()
        (pc,) = self.root.rglob("berth.pc")
        self.library = pc.parent.parent
        self.environment = {
            **os.environ,
            "PKG_CONFIG_PATH": str(pc.parent),
            "PKG_CONFIG_SYSROOT_DIR": str(self.root),
            "LD_LIBRARY_PATH": str(self.library),
            "BERTH_LIBEXECDIR": str(BUILD),
        }

    def run_good(self, *command, **keywords):
        result = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=300, check=False,
            stdin=subprocess.DEVNULL, **keywords,
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def compile(self, source, *more):
        program = self.folder / "program"
        flags = self.run_good("pkg-config", "--cflags", "--libs", "berth", env=self.environment)
        sanitizer = os.environ.get("BERTH_SANITIZER")
        self.run_good(
            *shlex.split(config("CC") or "cc"), "-Wall", "-Wextra", "-Werror", source, "-o",
            program,
            *shlex.split(flags), *([f"-fsanitize={sanitizer}"] if sanitizer else []), *more,
        )
        return program


class Installed(InstallTest):
    def test_the_example_registers_resolves_and_lists(self):
        program = self.compile(SOURCE / "docs" / "examples" / "register.c")
        output = self.run_good(program, self.registry, "/users/joe/example", env=self.environment)
        self.assertEqual(output,
            "/users/joe/example is at http://localhost:8080/\n/users/joe/example\n")
        self.assertIsNone(self.in_registry("/users/joe/example"))

    def test_the_example_works_on_zookeeper_too(self):
        # The session would outlast our patience, so the record goes with berth_close().
        with share_zookeeper() as server:
            program = self.compile(SOURCE / "docs" / "examples" / "register.c")
            output = self.run_good(program, server.url, "/users/joe/example", env=self.environment)
            self.assertEqual(output,
                "/users/joe/example is at http://localhost:8080/\n/users/joe/example\n")
            # A stopped server reads of it later than berth_close() waits.
            wait_until(lambda: server.stat("/registry/users/joe/example") is None,
                "the record is gone", patience=20)

    def test_the_library_has_a_soname_and_its_symbols_a_version(self):
        library = self.library / "libberth.so"
        self.assertRegex(self.run_good("readelf", "-d", library), r"SONAME.*\[libberth\.so\.\d+\]")
        self.assertIn("berth_open@@BERTH_0", self.run_good("nm", "-D", library))

    def test_the_manual_declares_what_the_header_declares(self):
        header = (SOURCE / "lib" / "berth.h").read_text() + (
            SOURCE / "lib" / "berth_error.h").read_text()
        manual = (SOURCE / "docs" / "libberth.3").read_text()
        code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        code = re.sub(r"(?m)^typedef.*$", "", code)
        declared = set(re.findall(r"\b(berth_[a-z_]+)\(", code))
        self.assertEqual(declared, set(re.findall(r"^\.Fn (berth_[a-z_]+)", manual, re.M)))


class Calls(InstallTest):
    """What only programs call, by a program."""

    def setUp(self):
        super().setUp()
        source = SOURCE / "tests" / "e2e" / "programs" / "use_libberth.c"
        self.program = self.compile(source, "-std=gnu11")

    def call(self, where, *arguments):
        return subprocess.run(
            [self.program, where, *map(str, arguments)], env=self.environment, capture_output=True,
            text=True,
            timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
        )

    def assert_called(self, where, *arguments):
        result = self.call(where, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_heartbeat_decides_whether_the_component_is_registered(self):
        agent = self.web_agent(check=None,
            extra={"check beat": {"type": "ttl", "interval": "1h"}}).start()
        self.assert_called(agent.socket, "report", "beat", "passing", "all is well")
        agent.wait_state("registered")
        self.assertEqual(agent.check_named("beat")["last"]["output"], "all is well")
        self.assert_called(agent.socket, "report", "beat", "warning", "not so well")
        self.assertEqual(agent.component_state(), "registered")
        for _ in range(3):
            self.assert_called(agent.socket, "report", "beat", "failing", "broken")
        agent.wait_state("withdrawn")
        result = self.call(agent.socket, "report", "other", "passing", "")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "^PathNotFound: .*other")

    def addresses(self):
        record = self.in_registry()
        return [item["addresses"] for item in record["external"]] if record else None

    def dynamic_agent(self, **options):
        endpoint = {
            "api": "http://example.org/d", "protocol": "REST", "address_type": "uri",
            "dynamic": "yes", **options,
        }
        agent = self.web_agent(extra={"endpoint late": endpoint}).start()
        agent.wait_state("registered")
        self.static = self.addresses()
        return agent

    def test_addresses_are_supplied_and_withdrawn(self):
        agent = self.dynamic_agent()
        self.assert_called(agent.socket, "supply", "late", "http://h:1/", "http://h:2/")
        wait_until(
            lambda: self.addresses() == [*self.static,
                [{"uri": "http://h:1/"}, {"uri": "http://h:2/"}]],
            "both addresses are registered",
        )
        self.assert_called(agent.socket, "withdraw", "late")
        wait_until(lambda: self.addresses() == self.static, "they are gone")
        result = self.call(agent.socket, "supply", "nope", "http://h/")
        self.assertRegex(result.stderr, "^PathNotFound: .*nope")

    def test_addresses_that_are_held_go_with_the_handle(self):
        agent = self.dynamic_agent(hold="connection")
        holder = subprocess.Popen(
            [self.program, agent.socket, "supply", "late", "http://h:1/"], env=self.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.assertEqual(holder.stdout.readline(), b"supplied\n")
        wait_until(lambda: self.addresses() == [*self.static, [{"uri": "http://h:1/"}]],
            "it is registered")
        holder.communicate(timeout=PATIENCE)
        wait_until(lambda: self.addresses() == self.static, "it is gone")

    def test_a_write_accessor_may_change_what_was_shared(self):
        with share_zookeeper() as server:
            login = self.folder / "login"
            login.touch(mode=0o600)
            login.write_text("joe:secret")
            self.assert_called(server.url, "share", login, "/shared", "ann", "hers")
            self.assertEqual(server.probe("set", "/registry/shared", "x").returncode, 1)
            for user in "ann:hers", "joe:secret":
                self.assertEqual(server.probe("set", "/registry/shared", "x", auth=user).returncode,
                    0)

    def member(self, name, port):
        """A node of nerve's, from another program, in one step."""
        new = self.folder / "new"
        new.mkdir()
        (new / "_record").write_text(json.dumps({"host": "10.9.8.7", "port": port, "name": name}))
        return new.rename(self.group / name)

    def test_members_of_an_import_are_read_and_watched(self):
        self.group = self.folder / "registry" / "shop"
        self.group.mkdir(parents=True)
        self.member("one", 1)
        agent = self.agent(**{"import shop": {"type": "nerve", "from": "/shop",
            "as": "/services/shop"}}).start()
        follower = subprocess.Popen(
            [self.program, agent.socket, "follow", "/services/shop"], env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(follower.stdout.close)
        self.addCleanup(follower.wait)
        self.addCleanup(follower.kill)
        name, _, snapshot = follower.stdout.readline().partition(" ")
        self.assertEqual((name, list(json.loads(snapshot))),
            ("SUBSCRIBED", ["/services/shop", "/services/shop/one"]))
        two = self.member("two", 2)
        self.assertEqual(follower.stdout.readline(), "UPDATED /services/shop/two\n")
        result = self.call(agent.socket, "look", "/services/shop")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [item.split(" ", 1) for item in result.stdout.rstrip("\f").split("\f")]
        self.assertEqual([text for kind, text in lines if kind == "child"],
            ["/services/shop/one", "/services/shop/two"])
        records = [json.loads(text) for kind, text in lines if kind == "record"]
        self.assertEqual([(record["dialect"], record["yarn:id"]) for record in records],
            [("nerve", "one"), ("nerve", "two")])
        addresses = [text for kind, text in lines if kind == "address"]
        self.assertEqual(addresses, ["/services/shop/one 10.9.8.7:1",
            "/services/shop/two 10.9.8.7:2"])
        self.assertIn(["children", "2"], lines)
        self.assertEqual(json.loads(lines[-1][1]), {"/services/shop/one": records[0],
            "/services/shop/two": records[1]})
        two.rename(self.folder / "gone")
        self.assertEqual(follower.stdout.readline(), "DELETED /services/shop/two\n")
        self.assertEqual(follower.wait(PATIENCE), 0)

    def test_a_call_on_the_wrong_kind_of_handle_says_so(self):
        agent = self.web_agent().start()
        self.assert_called(agent.socket, "wrong-handle")
        self.assert_called(self.registry, "wrong-handle")


if __name__ == "__main__":
    unittest.main()
