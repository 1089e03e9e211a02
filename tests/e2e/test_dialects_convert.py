"""Configurations of Registrar and of nerve, converted: what the agent then writes is what they
wrote."""

import json
import re
import subprocess
import unittest

from berth import BUILD, Agent, AgentTest, wait_until

SERVERS = [{"host": "172.27.10.35", "port": 2181}, {"host": "172.27.10.32", "port": 2181},
    {"host": "::1", "port": 2182}]


def registrar(**registration):
    return {
        "adminIp": "172.27.10.72",
        "zookeeper": {"timeout": 60000, "servers": SERVERS},
        "registration": {"type": "load_balancer", "domain": "example.joyent.us", **registration},
    }


class ConvertTest(AgentTest):
    def convert(self, document, kind="registrar"):
        file = self.folder / "other.json"
        file.write_text(json.dumps(document))
        return subprocess.run([BUILD / "berth", "convert", kind, file], capture_output=True,
            text=True, check=False)

    def converted(self, document, kind="registrar"):
        result = self.convert(document, kind)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def run_converted(self, text):
        """An agent with that configuration, on a directory, as the host b44c74d6 and without its
        checks."""
        agent = Agent(self.folder / "agent", self.registry)
        text = re.sub(r"(?m)^url = .*$", f"url = {self.registry}",
            text).replace("${berth.hostname}", "b44c74d6")
        text = text.replace("[agent]\n",
            f"[agent]\nsocket = {agent.socket}\nstate_dir = {agent.folder}/state\n", 1)
        if "[agent]" not in text:
            text += f"[agent]\nsocket = {agent.socket}\nstate_dir = {agent.folder}/state\n"
        agent.config.write_text(text)
        self.addCleanup(agent.end)
        agent.start()
        wait_until(
            lambda: {item["state"] for item in agent.status()["components"][0]["dialects"]}
            == {"registered"}, "the nodes are there"
        )

    def data(self, path):
        return (self.folder / f"registry{path}/_record").read_text()

    def test_a_host_with_aliases(self):
        self.run_converted(self.converted(registrar(aliases=["host-1a.example.joyent.us",
            "host-1b.example.joyent.us"])))
        record = (
            '{"type":"load_balancer","address":"172.27.10.72",'
            '"load_balancer":{"address":"172.27.10.72"}}')
        for name in ("b44c74d6", "host-1a", "host-1b"):
            self.assertEqual(self.data(f"/us/joyent/example/{name}"), record)
        self.assertFalse((self.folder / "registry/us/joyent/example/_record").exists())

    def test_a_service(self):
        service = {"type": "service", "service": {"srvce": "_http", "proto": "_tcp", "port": 80}}
        self.run_converted(self.converted(registrar(service=service)))
        self.assertEqual(
            self.data("/us/joyent/example/b44c74d6"),
            '{"type":"load_balancer","address":"172.27.10.72",'
            '"load_balancer":{"address":"172.27.10.72","ports":[80]}}',
        )
        self.assertEqual(
            self.data("/us/joyent/example"),
            '{"type":"service","service":{"type":"service","service":{"srvce":"_http",'
            '"proto":"_tcp","port":80,"ttl":60}}}',
        )

    def test_every_key_has_its_place_or_a_reason(self):
        document = registrar(ttl=30, ports=[80, 81], heartbeatInterval=3000)
        document["logLevel"] = "trace"
        document["odd\nkey"] = 1
        document["maxAttempts"] = 3
        document["zookeeper"]["connectTimeout"] = 1000
        document["healthCheck"] = {
            "command": "test -e $HOME", "interval": 10000, "threshold": 3, "period": 300,
            "ignoreExitStatus": True,
            "stdoutMatch": {"pattern": "^ok$", "flags": "gi", "invert": True}, "stray": 1,
        }
        text = self.converted(document)
        for line in (
            "log_level = debug",
            "url = zookeeper://172.27.10.35:2181,172.27.10.32:2181,[::1]:2182/registry",
            "session_timeout = 60000ms", "ttl = 30", "ports = 80, 81", "command = test -e $HOME",
            "shell = yes", "fall = 3",
            "window = 300s", "ignore_exit_status = yes", "match = ^ok$$", "match_ignore_case = yes",
            "match_invert = yes",
            "interval = 10000ms", "timeout = 1000ms",
        ):
            self.assertIn(f"\n{line}\n", text)
        for key in (
            "odd?key", "maxAttempts", "zookeeper.connectTimeout", "registration.heartbeatInterval",
            "healthCheck.stdoutMatch.flags", "healthCheck.stray",
        ):
            self.assertRegex(text, rf"\n; dropped: {re.escape(key)}: .+\n")
        self.assert_good(text)

    def assert_good(self, text):
        file = self.folder / "converted.ini"
        file.write_text(text)
        result = subprocess.run([BUILD / "berthd", "-t", "-c", file], capture_output=True,
            text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_options_that_cannot_be_converted_are_named(self):
        for document, words in (
            ({}, "registration.domain"), ([], "registration.domain"),
            ({**registrar(), "zookeeper": {}}, "zookeeper.servers"),
            ({**registrar(), "adminIp": "::1"}, "adminIp"),
        ):
            result = self.convert(document)
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)
        result = subprocess.run([BUILD / "berthd", "--convert-nerve", "/dev/null"],
            capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)

    def test_options_of_berthd_run_it(self):
        file = self.folder / "registrar.json"
        file.write_text(json.dumps(registrar()))
        for program, status in ((file, 0), (self.folder / "none", 1)):
            own, tool = (
                subprocess.run(command, capture_output=True, text=True, check=False)
                for command in (
                    [BUILD / "berthd", "--convert-registrar", program],
                    [BUILD / "berth", "convert", "registrar", program],
                )
            )
            self.assertEqual((own.returncode, tool.returncode), (status, status))
            self.assertEqual((own.stdout, own.stderr), (tool.stdout, tool.stderr))

    def test_programs_that_nobody_converts_are_a_mistake(self):
        for arguments in (["eureka", "/dev/null"], ["registrar"]):
            result = subprocess.run([BUILD / "berth", "convert", *arguments], capture_output=True,
                text=True, check=False)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stdout, "")

    def test_a_service_of_nerve(self):
        text = self.converted(
            {
                "host": "1.2.3.4", "port": 3000, "reporter_type": "zookeeper",
                "zk_hosts": ["localhost:2181"],
                "zk_path": "/nerve/services/web/services", "check_interval": 2, "weight": 2,
                "labels": {"zone": "a"},
                "checks": [{"type": "http", "uri": "/health", "timeout": 0.2, "rise": 3, "fall": 2,
                    "ssl": True, "ssl_verify": False}, {"type": "redis"}],
                "node_type": "ephemeral_sequential",
            },
            "nerve",
        )
        self.assert_good(text)
        for line in (
            "path = /nerve/services/web/services", "weight = 2", "labels.zone = a",
            "target = https://1.2.3.4:3000/health", "tls_verify = no",
            "interval = 2000ms", "timeout = 200ms", "rise = 3", "fall = 2",
        ):
            self.assertIn(f"\n{line}\n", text)
        for key in ("node_type", "checks"):
            self.assertRegex(text, rf"\n; dropped: {re.escape(key)}: .+\n")
        self.run_converted(re.sub(r"(?s)\[check .*", "", text))
        record = next((self.folder / "registry/nerve/services/web/services").glob(
            "b44c74d6_*/_record"))
        self.assertEqual(record.read_text(),
            '{"host":"1.2.3.4","port":3000,"name":"b44c74d6","weight":2,"labels":{"zone":"a"}}')

    def test_services_of_consul(self):
        text = self.converted({"services": [{
            "ID": "web-1", "name": "Web", "port": 8080, "address": "192.0.2.1", "tags": ["a", "b"],
            "meta": {"version": "1.2", "odd key": "x"}, "weights": {"passing": 3, "warning": 1},
            "enable_tag_override": False, "token": "secret",
            "checks": [
                {"http": "https://localhost:8443/health", "interval": "1m30s", "timeout": "500ms",
                    "method": "PUT", "header": {"X-Key": ["v"], "Two": ["a", "b"]}, "body": "{}",
                    "TLSSkipVerify": True, "tls_server_name": "www.example.org",
                    "success_before_passing": 3, "failures_before_critical": 2,
                    "DeregisterCriticalServiceAfter": "90m"},
                {"grpc": "127.0.0.1:9000/app.Greeter", "grpc_use_tls": True, "interval": "5s",
                    "tls_skip_verify": True},
                {"grpc": "127.0.0.1:9000", "interval": "5s"},
                {"tcp": "localhost:22", "interval": "10s", "status": "passing"},
                {"args": ["sh", "-c", "echo it's $HOME"], "interval": "10s", "notes": "x"},
                {"ttl": "30s"},
                {"alias_service": "db"}, {"docker_container_id": "x", "args": ["y"]},
            ],
        }, {"name": "batch", "check": {"script": "test -e /tmp", "interval": "10s"}}],
            "checks": [{"args": ["df"]}], "datacenter": "x"}, "consul")
        self.assert_good(text)
        for line in (
            "[component web-1]", "service_class = web", "attribute.tags = a,b",
            "attribute.version = 1.2", "attribute.weight = 3", "address = 192.0.2.1:8080",
            "[check web-1-1]", "target = https://localhost:8443/health", "interval = 90000ms",
            "timeout = 500ms", "method = PUT", "header.X-Key = v", "body = {}", "tls_verify = no",
            "tls_server_name = www.example.org", "rise = 3", "fall = 2", "warning_status = 429",
            "type = grpc", "target = 127.0.0.1:9000", "service = app.Greeter", "tls = yes",
            "type = tcp", "initial = passing", "command = 'sh' '-c' 'echo it'\\''s $$HOME'",
            "warning_status = 1", "type = ttl", "interval = 30000ms", "[component batch-2]",
            "command = test -e /tmp", "shell = yes",
        ):
            self.assertIn(f"\n{line}\n", text)
        for key in ("meta", "token", "enable_tag_override", "checks.header", "checks.notes",
                "checks.deregister_critical_service_after", "checks.disable_redirects", "checks",
                "datacenter", "port"):
            self.assertRegex(text, rf"\n; dropped: {re.escape(key)}: .+\n")
        for document, words in (({}, "defines no service"), ({"service": {}}, "`name`"),
                ({"service": {"name": "--"}}, "has no letter")):
            result = self.convert(document, "consul")
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
