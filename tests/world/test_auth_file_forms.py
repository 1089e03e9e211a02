"""An agent logs in as nobody that the server knows: the file with user and password was written by
an editor that puts a byte order mark first, or by a template that leaves a blank behind the
password.
The same editor writes records and other programs' configurations.

Source: PowerShell's `Out-File -Encoding utf8`, which writes a mark; templates with a blank at the
end of a line
"""

import json
import pathlib
import unittest

from berth import Agent, AgentTest, berth, service_record
from kazoo_client import kazoo, make_digest_acl
from zookeeper import share_zookeeper

BOM = b"\xef\xbb\xbf"
GOOD = [b"ann:s3cret\n", b"ann:s3cret\r\n", BOM + b"ann:s3cret\n", BOM + b"ann:s3cret",
    b"ann:s3:cret", b"ann:s3 cret\n"]
BAD = {b"ann:s3cret \n": "blank", b"ann:s3cret\t": "blank", b" ann:s3cret": "blank",
    b"ann: s3cret\n": "blank", b"ann :s3cret": "blank", BOM: "user:password",
    b"ann:s3cret\nbob:x\n": "one line", b"# who\nann:s3cret\n": "one line",
    "ann:s3cret".encode("utf-16"): "one line"}


class AuthFileForms(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = share_zookeeper()
        self.addCleanup(self.server.stop)
        self.file = self.folder / "auth"
        self.file.touch(0o600)

    def secure_agent(self, content, number=0):
        self.file.write_bytes(content)
        agent = self.agent(f"agent{number}", registry=f"{self.server.url}{number}")
        agent.write_config({"registry": {"auth": "digest", "auth_file": self.file, "secure": "yes",
            "system_accounts": ""}, **agent.component()})
        return agent

    def test_the_identity_is_user_and_password_alone(self):
        for number, content in enumerate(GOOD):
            agent = self.secure_agent(content, number).start()
            agent.wait_state("registered")
            user, _, password = content.removeprefix(BOM).decode().strip().partition(":")
            with kazoo(self.server.hosts) as client:
                client.add_auth("digest", f"{user}:{password}")  # it shows its own alone
                acls, _ = client.get_acls(f"/registry{number}{Agent.PATH}")
            wanted = make_digest_acl(user, password, all=True).id
            self.assertIn(wanted, [acl.id for acl in acls], content)
            agent.stop()

    def test_another_identity_is_refused(self):
        for content, said in BAD.items():
            done = self.secure_agent(content).verdict()
            self.assertEqual(done.returncode, 1, content)
            self.assertIn(said, done.stderr, content)
            self.assertNotIn("s3cret", done.stderr)


class OtherFiles(AgentTest):
    def write(self, name, content):
        file = self.folder / name
        file.write_bytes(BOM + json.dumps(content).encode())
        return file

    def test_a_record_with_a_mark_is_bound(self):
        done = berth("--registry", self.registry, "bind", "-p", "/services/a", "--file",
            self.write("record", service_record("10.0.0.1", 80)))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_configuration_of_another_program_with_a_mark_is_converted(self):
        file = self.write("nerve", {"host": "10.1.2.3", "port": 80, "zk_hosts": ["h:2181"],
            "zk_path": "/a", "checks": []})
        self.assertEqual(berth("convert", "nerve", file).returncode, 0)
        piped = berth("convert", "nerve", "/dev/stdin", stdin=pathlib.Path(file).open("rb"))
        self.assertEqual(piped.returncode, 0, piped.stderr)


if __name__ == "__main__":
    unittest.main()
