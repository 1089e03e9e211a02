"""Who may do what on a real ZooKeeper: the lists that Berth writes, as an independent client reads
them, and what happens to those without rights."""

import base64
import hashlib
import json
import os
import socket
import time
import unittest

from berth import Agent, AgentTest, berth, wait_until
from zookeeper import ZooKeeper

REALM = "EXAMPLE.COM"
HOME = "/registry/users/joe"
COMPONENT = f"/registry{Agent.PATH}"
SERVICE = os.path.dirname(os.path.dirname(os.path.dirname(COMPONENT)))


def digest(user, password):
    """As the server computes it from the credential that a client presents."""
    hashed = hashlib.sha1(f"{user}:{password}".encode()).digest()
    return f"digest:{user}:{base64.b64encode(hashed).decode()}"


class AccessTest(AgentTest):
    # Servers know the accounts of Hadoop only with this provider.
    PROVIDER = [
        "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.start_server()
        cls.addClassCleanup(cls.whole.stop)

    @classmethod
    def start_server(cls):
        # No session, and no node with it, ends because the server is stopped for a while.
        return ZooKeeper("maxSessionTimeout=60000\n", java_options=cls.PROVIDER)

    def setUp(self):
        super().setUp()
        self.server = self.part_of_server()
        self.registry = self.server.url

    def part_of_server(self):
        """A root for each test."""
        return self.whole.part()

    def credential(self, user, password, mode=0o600):
        file = self.folder / f"{user}-{password}"
        file.touch(mode=0o600)
        file.write_text(f"{user}:{password}\n")
        file.chmod(mode)
        return file

    def secure_agent(self, name="agent", user="joe", password="secret", **registry):
        options = {"auth": "digest", "auth_file": self.credential(user, password), "secure": "yes",
            "realm": REALM}
        return self.web_agent(name,
            extra={"registry": {**options, "session_timeout": "60s", **registry}})

    def cli(self, *arguments, user=None, password="secret"):
        login = ["--auth-file", self.credential(user, password)] if user else []
        return berth("--registry", self.registry, *login, *arguments)

    def packets(self):
        """How many the server has received from all clients; each look is one more."""
        with socket.create_connection(("127.0.0.1", self.whole.port)) as connection:
            connection.sendall(b"srvr")
            with connection.makefile() as lines:
                return next(int(line.split(":")[1]) for line in lines
                    if line.startswith("Received:"))

    def assert_quiet(self):
        """A client that tries again for ever and at once would send thousands in this time; pings
        and patience send few."""
        started = time.monotonic()
        before = self.packets()
        time.sleep(2)
        packets = self.packets() - before
        self.assertLess(packets, 20 * (time.monotonic() - started))


class Lists(AccessTest):
    def common(self):
        return [
            "r world:anyone", f"rwcda {digest('joe', 'secret')}",
            *(f"rwcda sasl:{account}@{REALM}" for account in ("hdfs", "mapred", "yarn")),
        ]

    def test_an_agents_nodes_are_world_readable_and_the_users_own(self):
        self.secure_agent().start().wait_state("registered")
        for path in "/registry", "/registry/users", SERVICE, os.path.dirname(COMPONENT), COMPONENT:
            with self.subTest(path):
                self.assertEqual(self.server.acl(path, auth="joe:secret"), sorted(self.common()))

    def test_a_users_home_lets_that_user_create_read_and_delete(self):
        self.secure_agent().start().wait_state("registered")
        self.assertEqual(
            self.server.acl(HOME, auth="joe:secret"),
            sorted([*self.common(), f"rcd sasl:joe@{REALM}"])
        )

    def test_an_account_without_a_realm_gets_nothing_and_is_named(self):
        agent = self.secure_agent(realm="", system_accounts="sasl:yarn@, digest:ops:abc=").start()
        agent.wait_state("registered")
        self.assertEqual(
            self.server.acl(COMPONENT, auth="joe:secret"),
            sorted(["r world:anyone", "rwcda digest:ops:abc=", f"rwcda {digest('joe', 'secret')}"]),
        )
        self.assertRegex(agent.read_log(), r"no realm is set: .*sasl:yarn@")

    def test_the_cli_protects_its_nodes_when_asked_for(self):
        self.assertEqual(self.cli("mknode", "/open").returncode, 0)
        result = self.cli("bind", "/mine", "--webui", "http://h/", "--secure", user="joe")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.server.acl("/registry/open"), ["rwcda world:anyone"])
        self.assertEqual(
            self.server.acl("/registry/mine", auth="joe:secret"),
            sorted(["r world:anyone", f"rwcda {digest('joe', 'secret')}"]),
        )

    def test_the_cli_lets_system_accounts_write_as_the_agent_does(self):
        secure = ["--webui", "http://h/", "--secure", "--realm", REALM]
        for path, options, expected in [
            ("usual", [], self.common()),
            ("other", ["--system-accounts", "digest:ops:abc="],
                [*self.common()[:2], "rwcda digest:ops:abc="]),
            ("none", ["--system-accounts", ""], self.common()[:2]),
        ]:
            result = self.cli("bind", f"/{path}", *secure, *options, user="joe")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.server.acl(f"/registry/{path}", auth="joe:secret"),
                sorted(expected))

    def test_a_replaced_node_keeps_its_protection(self):
        agent = self.secure_agent().start()
        agent.wait_state("registered")
        # The same user overwrites the record with a persistent one of the same container; the agent
        # takes it back.
        record = ["--webui", "http://h/", "--id", "container_1_0001_01_000001", "--persistence",
            "container"]
        result = self.cli("bind", Agent.PATH, "--secure", "--overwrite", *record, user="joe")
        self.assertEqual(result.returncode, 0, result.stderr)
        wait_until(lambda: (self.server.stat(COMPONENT) or {}).get("ephemeralOwner"),
            "the agent has repaired it")
        self.assertEqual(self.server.acl(COMPONENT, auth="joe:secret"), sorted(self.common()))


class Refusals(AccessTest):
    def setUp(self):
        super().setUp()
        # Everybody may make nodes below the root, but not below joe's.
        self.assertEqual(self.cli("mknode", "/users").returncode, 0)
        result = self.cli(
            "bind", "-p", f"{os.path.dirname(Agent.PATH)}/other", "--webui", "http://h/",
            "--secure", user="joe"
        )
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_without_rights_every_write_is_exit_status_5(self):
        other = f"{os.path.dirname(Agent.PATH)}/other"
        for user in None, "ann":
            for verb in (
                ["bind", other, "--webui", "http://x/", "--overwrite"],
                ["bind", Agent.PATH, "--webui", "http://x/"],
                ["mknode", "/users/joe/x"], ["rm", other], ["rm", "-r", "/users/joe"],
            ):
                with self.subTest(user=user, verb=verb):
                    result = self.cli(*verb, user=user)
                    self.assertEqual(result.returncode, 5, result.stderr)
                    self.assertRegex(result.stderr,
                        r"^berth: NoPathPermissions: /users/joe\S*: permission denied\n$")
            self.assertEqual(self.cli("resolve", other, user=user).returncode, 0)

    def test_a_wrong_password_differs_from_missing_rights(self):
        result = self.cli("mknode", "/users/joe/x", user="joe", password="guess")
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertRegex(result.stderr, "^berth: AuthenticationFailed: .*'joe'.*another password")
        self.assertNotIn("guess", result.stderr)

    def test_an_agent_without_rights_says_so_and_is_patient(self):
        agent = self.secure_agent(user="ann").start()
        agent.wait_state("failed")
        component = agent.status()["components"][0]
        self.assertRegex(component["reason"], "^NoPathPermissions: ")
        self.assertEqual(agent.get("/ready").status, 503)
        self.assert_quiet()
        self.assertIsNone(self.server.stat(COMPONENT))

    def test_an_agent_with_a_wrong_password_says_so_and_is_patient(self):
        agent = self.secure_agent(password="guess").start()
        agent.wait_state("failed")
        component = agent.status()["components"][0]
        self.assertRegex(component["reason"], "^AuthenticationFailed: ")
        self.assert_quiet()
        for text in agent.read_log(), json.dumps(agent.status()):
            self.assertNotIn("guess", text)

    def test_rights_that_are_given_later_are_used(self):
        agent = self.secure_agent(user="ann").start()
        agent.wait_state("failed")
        self.assertEqual(self.cli("rm", "-r", "/users/joe", user="joe").returncode, 0)
        agent.wait_state("registered")

    def test_a_reload_reads_the_credentials_again(self):
        agent = self.secure_agent(user="ann").start()
        agent.wait_state("failed")
        self.credential("ann", "secret").write_text("joe:secret\n")
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        agent.wait_state("registered")


class Homes(AccessTest):
    """An administrator makes /users and the homes; users make what is below."""

    OWNER = digest("joe", "secret")

    def setUp(self):
        super().setUp()
        self.assertEqual(self.as_admin("mknode", "-p", "/users").returncode, 0)

    def as_admin(self, *arguments):
        return self.cli(*arguments, "--secure", "--system-accounts", "", user="admin")

    def test_the_owner_creates_reads_and_deletes_but_does_not_write_the_home(self):
        made = self.as_admin("mknode", "--owner", self.OWNER, "/users/joe")
        self.assertEqual((made.returncode, made.stdout), (0, "/users/joe made\n"), made.stderr)
        self.assertEqual(
            self.server.acl(HOME, auth="admin:secret"),
            sorted(["r world:anyone", f"rwcda {digest('admin', 'secret')}", f"rcd {self.OWNER}"]),
        )
        self.assertEqual(self.cli("mknode", "/users/ann", user="ann").returncode, 5)
        self.assertEqual(self.cli("mknode", "/users/joe/web", user="ann").returncode, 5)
        self.assertEqual(self.cli("mknode", "/users/joe/web", user="joe").returncode, 0)
        self.assertEqual(self.cli("rm", "/users/joe/web", user="joe").returncode, 0)
        over = self.cli("bind", "/users/joe", "--webui", "http://h/", "--overwrite", user="joe")
        self.assertEqual(over.returncode, 5, over.stderr)
        self.secure_agent(system_accounts="").start().wait_state("registered")

    def test_an_existing_home_keeps_its_owner_and_it_is_said(self):
        self.as_admin("mknode", "--owner", self.OWNER, "/users/joe").check_returncode()
        again = self.as_admin("mknode", "--owner", digest("ann", "secret"), "/users/joe")
        self.assertEqual((again.returncode, again.stdout),
            (0, "/users/joe existed before, and keeps its owner\n"))
        self.assertIn(f"rcd {self.OWNER}", self.server.acl(HOME, auth="admin:secret"))

    def test_only_the_home_itself_has_the_owner(self):
        self.as_admin("mknode", "-p", "--owner", self.OWNER, "/users/team/joe").check_returncode()
        self.assertNotIn(f"rcd {self.OWNER}", self.server.acl("/registry/users/team",
            auth="admin:secret"))
        self.assertIn(f"rcd {self.OWNER}", self.server.acl("/registry/users/team/joe",
            auth="admin:secret"))

    def test_an_owner_who_would_get_no_rights_makes_no_node(self):
        for arguments, reason in [
            (["mknode", "--owner", "joe"], "needs a realm"),
            (["mknode", "--owner", "digest:"], "malformed"),
        ]:
            result = self.as_admin(*arguments, "/users/joe")
            self.assertEqual(result.returncode, 1)
            self.assertIn(reason, result.stderr)
        result = self.cli("mknode", "--owner", self.OWNER, "/users/joe", user="admin")
        self.assertEqual(result.returncode, 1)
        self.assertIn("secure", result.stderr)
        self.assertIsNone(self.server.stat(HOME))


class Quota(AccessTest):
    """A server that enforces quotas: at most so many nodes below /registry/users."""

    PROVIDER = ["-Dzookeeper.enforceQuota=true"]
    LIMITS = "/zookeeper/quota/registry/users/zookeeper_limits"

    @classmethod
    def setUpClass(cls):
        """Quotas are of paths from the server's root: each test starts a server."""

    def part_of_server(self):
        self.whole = self.start_server()
        self.addCleanup(self.whole.stop)
        return self.whole

    def setUp(self):
        super().setUp()
        self.assertEqual(self.cli("mknode", "-p", "/users/ann").returncode, 0)
        used = ("/zookeeper/quota/registry/users/zookeeper_stats", self.limit(2))
        self.server.load([("/zookeeper/quota/registry", ""), ("/zookeeper/quota/registry/users",
            ""), (self.LIMITS, self.limit(2)), used])

    @staticmethod
    def limit(count):
        return f"count={count},bytes=-1=;byteHardLimit=-1;countHardLimit={count}"

    def test_a_write_over_the_quota_exceeds_a_limit_and_says_which(self):
        result = self.cli("mknode", "/users/joe")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, "^berth: LimitExceeded: /users/joe: .*quota")
        self.assertEqual(self.cli("mknode", "/services").returncode, 0, "elsewhere there is none")

    def test_an_agent_says_so_and_registers_when_the_quota_is_raised(self):
        agent = self.web_agent().start()
        agent.wait_state("failed")
        self.assertRegex(agent.status()["components"][0]["reason"], "^LimitExceeded: .*quota")
        self.assert_quiet()
        self.assertEqual(self.server.probe("set", self.LIMITS, self.limit(100)).returncode, 0)
        agent.wait_state("registered")


class ServerWithoutSasl(AccessTest):
    PROVIDER = []

    def test_a_home_of_an_account_that_the_server_cannot_know_is_refused(self):
        result = self.cli("mknode", "-p", "--secure", "--realm", REALM, "--owner", "joe",
            "/users/joe", user="admin")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f"sasl:joe@{REALM}", result.stderr)
        self.assertIsNone(self.server.stat(HOME))

    def test_accounts_that_the_server_cannot_know_are_left_out_with_one_line(self):
        agent = self.secure_agent().start()
        agent.wait_state("registered")
        lines = [line for line in agent.read_log().splitlines()
            if "the server knows no SASL accounts" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], " warn .* sasl:")



if __name__ == "__main__":
    unittest.main()
