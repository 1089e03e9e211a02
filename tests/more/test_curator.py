"""Curator's own reader finds what [dialect] type = curator has written, and [import] what Curator's
own writer has."""

import pathlib
import subprocess
import unittest

from berth import AgentTest, wait_until
from zookeeper import CLASS_PATH, JARS, ZooKeeper

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
NAMES = ("curator-x-discovery", "curator-framework", "curator-client", "guava", "jackson-core",
    "jackson-databind", "jackson-annotations", "slf4j-api")


class CuratorTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = ZooKeeper()
        self.addCleanup(self.server.stop)
        self.registry = self.server.url
        jars = [f"{JARS}/{name}.jar" for name in NAMES]
        self.class_path = ":".join([str(self.folder), *jars, CLASS_PATH])
        programs = [PROGRAMS / "CuratorReader.java", PROGRAMS / "CuratorWriter.java"]
        subprocess.run(["javac", "-cp", self.class_path, "-d", self.folder, *programs], check=True)

    def read(self):
        command = ["java", "-Xmx128m", "-cp", self.class_path, "CuratorReader", self.server.hosts,
            "/discovery", "My App"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        return result.stdout.splitlines()

    def test_it_finds_the_instance_and_misses_it_afterwards(self):
        extra = {
            "endpoint http": {"api": "http", "protocol": "http", "address_type": "host/port",
                "address": "10.9.8.7:8080"},
            "dialect curator": {
                "type": "curator", "endpoint": "http", "base": "/discovery", "service": "My App",
                "instance_id": "i1", "payload": '{"a":1}',
            },
        }
        agent = self.web_agent(extra=extra).start()
        wait_until(lambda: agent.status()["components"][0]["dialects"][0]["state"] == "registered",
            "the instance is registered")
        self.assertEqual(self.read(), ["i1 http://10.9.8.7:8080 DYNAMIC {a=1}"])
        agent.stop()
        self.assertEqual(self.read(), [])

    def test_its_instances_are_records_of_an_import(self):
        agent = self.agent(**{"import app": {"type": "curator", "from": "/discovery/My App",
            "as": "/services/app"}}).start()
        addresses = lambda: agent.get("/v1/endpoints/services/app",
            accept="text/plain").body.decode().split()
        arguments = [self.server.hosts, "/discovery", "My App", "i1", "10.9.8.7", "8080"]
        command = ["java", "-Xmx128m", "-cp", self.class_path, "CuratorWriter", *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as writer:
            wait_until(lambda: addresses() == ["10.9.8.7:8080"], "the instance is there")
            record = agent.get("/v1/resolve/services/app/i1").json
            self.assertEqual((record["yarn:id"], record["curator:serviceType"]), ("i1", "DYNAMIC"))
            writer.stdin.close()
            wait_until(lambda: addresses() == [], "the instance has gone")
        self.assertEqual(writer.returncode, 0)


if __name__ == "__main__":
    unittest.main()
