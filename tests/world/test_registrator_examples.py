"""Containers whose labels and variables Registrator read were found by other names, or at other
ports, after the move: what its guide shows is what its users have.

Source: tracker #42; the examples of "Service Object" in Registrator's user guide, and those of its
quickstart and of its backend for ZooKeeper.
"""

import unittest

from berth import AgentTest, berth, wait_until
from fake_runtime import FakeRuntime, describe_run
from rights import needs

HOST = "192.168.1.102"
# The options of `docker run`, and of each service its name, port, tags and attributes, and its ID
# where the guide gives one: without, the ID is made of the container's id and the port.
EXAMPLES = [
    ("--name redis.0 -p 10000:6379 progrium/redis", [("redis", 10000, None, {}, None)]),
    ("--name redis.0 -p 10000:6379 -e SERVICE_NAME=db -e SERVICE_TAGS=master,backups "
        "-e SERVICE_REGION=us2 progrium/redis",
        [("db", 10000, "master,backups", {"region": "us2"}, None)]),
    ("--name redis.0 -p 10000:6379 -e SERVICE_NAME=db -e SERVICE_TAGS=/(;\\,:-_)/ "
        "-e SERVICE_REGION=us2 progrium/redis",
        [("db", 10000, "/(;\\,:-_)/", {"region": "us2"}, None)]),
    ("--name nginx.0 -p 4443:443 -p 8000:80 progrium/nginx",
        [("nginx-443", 4443, None, {}, None), ("nginx-80", 8000, None, {}, None)]),
    ("--name nginx.0 -p 4443:443 -p 8000:80 -e SERVICE_443_NAME=https "
        "-e SERVICE_443_ID=https.12345 -e SERVICE_443_SNI=enabled -e SERVICE_80_NAME=http "
        "-e SERVICE_TAGS=www progrium/nginx",
        [("https", 4443, "www", {"sni": "enabled"}, "https.12345"),
            ("http", 8000, "www", {}, None)]),
    ("--name redis.0 -p 10000:6379 -l SERVICE_NAME=db -l SERVICE_TAGS=master,backups "
        "-l SERVICE_REGION=us2 dockerfile/redis",
        [("db", 10000, "master,backups", {"region": "us2"}, None)]),
    ("--name redis -p 32768:6379 redis", [("redis", 32768, None, {}, None)]),
    ("--name x -p 49153:80 -e SERVICE_80_NAME=www ubuntu:14.04",
        [("www", 49153, None, {}, None)]),
    # In words: defaults of an image, which whoever runs it overrides, and what is left out.
    ("--name x -p 81:80 -e SERVICE_NAME=image -l SERVICE_NAME=operator x/y:1",
        [("operator", 81, None, {}, None)]),
    ("--name x -p 81:80 -p 444:443 -e SERVICE_NAME=web x",
        [("web-80", 81, None, {}, None), ("web-443", 444, None, {}, None)]),
    ("--name x -p 81:80 -p 444:443 -e SERVICE_80_IGNORE=true -e SERVICE_443_NAME=s x",
        [("s", 444, None, {}, None)]),
    ("--name x -p 53:53/udp -e SERVICE_NAME=dns x", [("dns", 53, "udp", {}, None)]),
    ("--name x -p 81:80 -l SERVICE_IGNORE=true x", []),
    ("--name x -p 0:80 x", []),
]


@needs("freezer")
class Examples(AgentTest):
    def setUp(self):
        super().setUp()
        self.runtime = FakeRuntime(self.folder / "api.sock")
        self.addCleanup(self.runtime.end)
        self.host = self.agent("host", **{
            "runtime fake": {"socket": self.runtime.path, "address": HOST, "labels": "registrator"},
            "container *": {"allow": "/services/**"}}).start()

    def part(self, container):
        return next((one for one in self.host.get("/v1/bridge").json["containers"]
            if one.get("id") == container.id), None)

    def services(self, container):
        """Those of the container, as others find them by name."""
        found = []
        for record in self.part(container)["records"]:
            _, _, name, _, instance = record["path"].split("/")
            endpoints = berth("--registry", self.registry, "endpoints", "--plain",
                f"/services/{name}/components").stdout.split()
            shown = self.in_registry(record["path"])
            attributes = {key: value for key, value in shown.items() if key in ("region", "sni")}
            (endpoint,) = shown["external"]
            self.assertEqual(endpoint["api"], name)
            found.append((name, endpoints, shown.get("tags"), attributes, instance))
        return sorted(found, key=str)

    def test_all_examples_give_the_same_services(self):
        for number, (options, expected) in enumerate(EXAMPLES):
            container = self.runtime.run(f"c{number}", {}, describe_run(options.split()))
            wait_until(lambda container=container: self.part(container) and all(
                one["state"] == "registered" for one in self.part(container)["records"]),
                f"{options} is served")
            self.assertEqual(self.services(container), sorted((
                (name, [f"{HOST}:{port}"], tags, attributes, self.instance(container, options,
                    port, identity))
                for name, port, tags, attributes, identity in expected), key=str), options)
            self.runtime.remove(container)
            wait_until(lambda: self.host.get("/v1/bridge").json["containers"] == [],
                f"{options} has gone")

    @staticmethod
    def instance(container, options, port, identity):
        """An ID that is no name of a node gets a hash behind it; the guide's own has a dot."""
        if identity:
            return "https-12345-31429e3a"
        inner = next(word.split(":")[1] for word in options.split()
            if word.startswith(f"{port}:")).replace("/", "-")
        return f"{container.id[:12]}-{inner}"


if __name__ == "__main__":
    unittest.main()
