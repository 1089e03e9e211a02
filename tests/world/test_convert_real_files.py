"""Files of Registrar and nerve as sites have them are converted, and the result is refused, or
means something else: a domain of one label, a pattern of an empty line, headers of a check, a label
without a value, nerve's main file.

Source: Triton's and Manta's files for Registrar (mahi, electric-moray, binder, ufds); Yelp's files
for nerve; nerve's README
"""

import json
import re
import unittest

from berth import AgentTest, berth, wait_until
from foreign_nodes import InDirectory

ZOOKEEPER = {"servers": [{"host": "10.77.77.9", "port": 2181}, {"host": "10.77.77.10",
    "port": 2181}], "timeout": 60000}
NERVE = {"host": "10.1.2.3", "port": 31337, "zk_hosts": ["127.0.0.1:2181"],
    "zk_path": "/smartstack/global/geocoder", "check_interval": 2.0, "weight": 10,
    "labels": {"superregion:norcal-devc": "", "deploy_group": "prod.canary"},
    "checks": [{"type": "http", "host": "127.0.0.1", "port": 6666, "uri": "/http/geocoder/status",
        "timeout": 1.0, "open_timeout": 1.0, "rise": 1, "fall": 2,
        "headers": {"x-smartstack-target-identity": "geo$coder", "Host": "geocoder",
            "Connection": "close"}, "expect": "OK"}]}


def service(name, protocol, port, **more):
    return {"type": "service", "service": {"srvce": name, "proto": protocol, "port": port, **more}}


def registrar(domain, kind, check=None, **more):
    document = {"registration": {"domain": domain, "type": kind, **more}, "zookeeper": ZOOKEEPER,
        "adminIp": "10.0.0.5"}
    return {**document, "healthCheck": check} if check else document


def health(pattern, **more):
    return {"command": "/bin/sh -c 'cat /answer'", "interval": 1000, "threshold": 1,
        "timeout": 1000, "stdoutMatch": {"pattern": pattern}, **more}


REGISTRAR = {
    "line feed": registrar("authcache.emy-10.example.org", "redis_host",
        health("^\n$", ignoreExitStatus=True, __comment__="a missing key"), ttl=30,
        service={**service("_redis", "_tcp", 6379), "ttl": 60}),
    "empty": registrar("electric-moray.emy-10.example.org", "moray_host", health("")),
    "inner": registrar("binder.example.org", "rr_host", service=service("_dns", "_udp", 53,
        ttl=60), ttl=60),
    "ports": registrar("ufds.example.org", "rr_host", service=service("_ldap", "_tcp", 636, ttl=60),
        ttl=60, ports=[1390, 1391, 1392, 1393]),
    "host": registrar("stor.example.org", "host", ttl=1800, aliases=["1.stor.example.org"]),
    "label": registrar("moray", "db_host", ttl=60),
}


class RealFiles(InDirectory, AgentTest):
    def setUp(self):
        super().setUp()
        self.prepare()

    def converted(self, program, document):
        file = self.folder / "from.json"
        file.write_text(json.dumps(document))
        done = berth("convert", program, file)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def agent_of(self, text):
        """An agent with that configuration, on the test's registry."""
        text = re.sub(r"(?s)\[(agent|registry)\].*?(?=\n\[)", "", text)
        text = text.replace("[check health]", "[check old]")
        agent = self.agent()
        agent.config.write_text(agent.config.read_text() + text)
        return agent

    def test_each_of_registrars_is_good(self):
        for name, document in REGISTRAR.items():
            agent = self.agent()
            agent.config.write_text(self.converted("registrar", document))
            done = agent.verdict()
            self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")

    def test_patterns_ports_and_times_are_kept(self):
        text = {name: self.converted("registrar", document)
            for name, document in REGISTRAR.items()}
        self.assertIn("\nmatch = ^$\n", text["line feed"])
        self.assertNotIn("match", text["empty"])
        self.assertIn("\nservice_ttl = 60\n", text["inner"])
        self.assertIn("\nports = 1390, 1391, 1392, 1393\n", text["ports"])

    def test_a_pattern_of_an_empty_line_passes_that_alone(self):
        text = self.converted("registrar", REGISTRAR["line feed"])
        answer = self.folder / "answer"
        answer.write_text("found\n")
        agent = self.agent_of(re.sub(r"cat /answer", f"cat {answer}", text)).start()
        wait_until(lambda: agent.check_named("old").get("last"), "the check has run")
        self.assertNotEqual(agent.check_named("old")["state"], "up")
        answer.write_text("\n")
        wait_until(lambda: agent.check_named("old")["state"] == "up", "an empty line passes")

    def test_a_domain_of_one_label_has_its_node(self):
        text = self.converted("registrar", REGISTRAR["label"])
        self.agent_of(text).start()
        wait_until(lambda: list((self.root / "moray").glob("*/_record")), "the host's node")

    def test_nerves_headers_and_labels_are_kept(self):
        text = self.converted("nerve", NERVE)
        for line in ("header.x-smartstack-target-identity = geo$$coder", "host = geocoder",
                "labels.superregion:norcal-devc = ", "attribute.weight = 10", "weight = 10"):
            self.assertIn(f"\n{line}\n", text)
        self.assertIn("\n; dropped: checks.headers: ", text)
        agent = self.agent_of(re.sub(r"(?s)\[check .*", "", text))
        self.assertEqual(agent.verdict().returncode, 0, agent.verdict().stderr)
        agent.start()
        group = self.root / "smartstack/global/geocoder"
        wait_until(lambda: list(group.glob("*/_record")), "the member's node")
        member = json.loads(next(group.glob("*/_record")).read_text())
        self.assertEqual((member["weight"], member["labels"]), (10, NERVE["labels"]))

    def test_nerves_other_files_are_named_for_what_they_are(self):
        for document, said in (
            ({"instance_id": "i", "service_conf_dir": "/etc/nerve/services"}, "main file"),
            ({"instance_id": "i", "services": {"web": NERVE}}, "main file"),
            ({"instance_id": "i", "services": {}, "heartbeat_path": "/x"}, "main file"),
            ({**NERVE, "reporter_type": "etcd"}, 'its reporter is "etcd"'),
        ):
            file = self.folder / "other.json"
            file.write_text(json.dumps(document))
            done = berth("convert", "nerve", file)
            self.assertEqual((done.returncode, said in done.stderr), (1, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
