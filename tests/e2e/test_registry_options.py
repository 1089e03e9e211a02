"""Options that cannot work with a registry are refused before anything starts: by berthd -t,
by berthd, and by the command line."""

import subprocess
import unittest

from berth import BUILD, AgentTest, berth
from rights import needs
from test_libberth import config


def has(feature):
    return f"-DBERTH_ZK_{feature}" in config("ZOOKEEPER_DEFINES")


class Refused(AgentTest):
    def login(self, mode=0o600):
        file = self.folder / "login"
        file.write_text("joe:secret\n")
        file.chmod(mode)
        return file

    def assert_refused(self, option, words, **registry):
        """berthd refuses it with -t and without, in the option's line, and goes no further."""
        agent = self.web_agent(extra={"registry": registry})
        lines = agent.config.read_text().splitlines()
        line = next(number for number, text in enumerate(lines, 1)
            if text.startswith(f"{option} ="))
        for arguments in ["-t"], []:
            result = subprocess.run(
                [BUILD / "berthd", *arguments, "-c", agent.config],
                capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
            )
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stdout + result.stderr, rf"berth\.ini:{line}: .*{words}")
            self.assertFalse((agent.folder / "state").exists())

    def test_a_file_of_credentials_that_others_may_read(self):
        for mode, what in (0o640, "read"), (0o604, "read"), (0o660, "write"), (0o602, "write"):
            file = self.login(mode)
            options = {"url": "zookeeper://127.0.0.1:1/r", "auth": "digest", "auth_file": file}
            self.assert_refused("auth_file", f"group or others may {what} it", **options)
            result = berth("--registry", options["url"], "--auth-file", file, "ls", "/")
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, rf"mode {mode:04o}: group or others may {what} it")

    @needs("user namespace")
    def test_a_secret_that_is_mounted_for_reading_only(self):
        """As Docker and Kubernetes mount it: all in the container may read it, none may write
        it."""
        mount = self.folder / "secrets"
        mount.mkdir()
        url = {"url": "zookeeper://127.0.0.1:1/r", "auth": "digest", "auth_file": mount / "login"}
        agent = self.web_agent(extra={"registry": url})
        script = (
            f"mount -t tmpfs secret {mount} && printf 'joe:secret\\n' >{mount}/login && chmod $0 "
            f"{mount}/login && "
            f"mount -o remount,bind,$1 {mount} && exec {BUILD}/berthd -t -c {agent.config}"
        )
        for mode, access, status in (
            ("0444", "ro", 0), ("0440", "ro", 0), ("0400", "ro", 0), ("0444", "rw", 1),
            ("0446", "ro", 1), ("0464", "ro", 1),
        ):
            with self.subTest(mode=mode, access=access):
                result = subprocess.run(
                    ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, mode,
                        access],
                    capture_output=True, text=True, timeout=60, check=False,
                )
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertEqual("group or others may" in result.stderr, status == 1, result.stderr)

    def test_a_file_of_credentials_that_holds_none(self):
        file = self.login()
        file.write_text("secret\n")
        options = {"url": "zookeeper://127.0.0.1:1/r", "auth": "digest", "auth_file": file}
        self.assert_refused("auth_file", "user:password", **options)
        result = berth("--registry", options["url"], "--auth-file", file, "ls", "/")
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("secret", result.stderr)

    @unittest.skipIf(has("TLS"), "this build has TLS")
    def test_tls_without_a_library_that_has_it_names_the_way(self):
        self.assert_refused("url", "needs a ZooKeeper client library with TLS.*stunnel",
            url="zookeeper+tls://h:1/r")
        result = berth("--registry", "zookeeper+tls://h:1/r", "ls", "/")
        self.assertEqual(result.returncode, 1)
        self.assertIn("stunnel", result.stderr)

    @unittest.skipIf(has("SASL"), "this build has SASL")
    def test_sasl_without_a_library_that_has_it_names_the_way(self):
        options = {"url": "zookeeper://127.0.0.1:1/r", "auth": "sasl"}
        self.assert_refused("auth",
            "needs a ZooKeeper client library with SASL.*auth = digest.*stunnel", **options)

    def test_protection_without_an_identity(self):
        options = {"url": "zookeeper://127.0.0.1:1/r", "secure": "yes"}
        self.assert_refused("secure", "needs auth = digest or sasl", **options)
        result = berth("--registry", options["url"], "mknode", "--secure", "/a")
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs auth = digest or sasl", result.stderr)

    def test_protection_of_a_directory(self):
        options = {"secure": "yes", "auth": "digest", "auth_file": self.login()}
        self.assert_refused("secure", "needs a zookeeper:// registry", **options)
        login = ["--auth-file", options["auth_file"]]
        result = berth("--registry", self.registry, *login, "mknode", "--secure", "/a")
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs a zookeeper:// registry", result.stderr)

    def test_a_worker_that_is_not_installed(self):
        missing = {"BERTH_LIBEXECDIR": str(self.folder)}
        url = "zookeeper://127.0.0.1:1/r"
        result = berth("--registry", url, "--timeout", "1h", "ls", "/", environment=missing)
        self.assertEqual(result.returncode, 4)
        self.assertRegex(result.stderr,
            rf"cannot start the ZooKeeper worker {self.folder}/berth-zookeeper: No such")


if __name__ == "__main__":
    unittest.main()
