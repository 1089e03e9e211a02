"""Who watches a tree of 50,000 records gets 503 "the registry is connected, and not all of this is
known", over and over, until the agent has read it all; and so does a client that said how long it
can wait.

Source: an operator's 50,000 records on ZooKeeper; three refusals, and a snapshot after 20 s
"""

import json
import subprocess
import threading
import unittest

from berth import PROGRAMS, AgentTest, UnixConnection, berth, service_record, wait_until
from outputs import FROM
from streams import Stream
from wire import Wire
from xds import NAME, Xds
from zk_client import ZkClient
from zookeeper import share_zookeeper

# Reads are bounded by how many are under way, so that it takes long on any machine: of two reads a
# record 64 at a time, 0.6 s each.
MEMBERS = 600
DELAY_S = 0.3


class Large(AgentTest):
    session_timeout = "30s"

    def setUp(self):
        super().setUp()
        zookeeper = share_zookeeper()
        self.addCleanup(zookeeper.stop)
        host, slash, root = zookeeper.hosts.partition("/")
        self.direct = zookeeper.url
        with ZkClient(host) as writer:
            writer.make(f"{slash}{root}/registry{FROM}")
            writer.create_many((f"{slash}{root}/registry{FROM}/c{number}",
                json.dumps(service_record("10.0.0.1", 1024 + number)).encode())
                for number in range(MEMBERS))
        self.wire = Wire(host, delay=DELAY_S)
        self.addCleanup(self.wire.stop)
        self.slow = f"zookeeper://{self.wire.hosts}{slash}{root}/registry"
        self.paths = {f"{FROM}/c{number}" for number in range(MEMBERS)}

    def test_all_clients_wait_for_it(self):
        server = self.agent(registry=self.slow).start()
        xds = Xds(server)
        self.addCleanup(xds.end)
        xds.start()
        watching = subprocess.Popen([PROGRAMS / "berth", "--socket", server.socket, "--format",
            "json", "watch", "-r", "--once", FROM], stdout=subprocess.PIPE, text=True)
        self.addCleanup(watching.kill)
        shown = []
        reader = threading.Thread(target=lambda: shown.append(watching.communicate()[0]))
        reader.start()
        connection = UnixConnection(server.socket)
        self.addCleanup(connection.close)
        # As one that had an answer of an earlier agent.
        connection.request("GET", f"/v1/records{FROM}",
            headers={"If-None-Match": '"r-0"', "Prefer": "wait=600"})

        stream = Stream(server.socket, f"/v1/watch{FROM}?recursive=yes")
        self.addCleanup(stream.close)
        read = [0]
        while (event := stream.next(heartbeats=True))["type"] == "HEARTBEAT":
            self.assertGreater(event["loading"], read[-1])
            self.assertIn("heard_ms", event)
            read.append(event["loading"])
        self.assertGreater(len(read), 1)
        self.assertEqual(event["type"], "SUBSCRIBED")
        self.assertIn("heartbeat_interval_seconds", event)
        self.assertNotIn("stale", event)
        self.assertLessEqual(self.paths, set(event["snapshot"]))

        answer = connection.getresponse()
        records = json.loads(answer.read())
        self.assertEqual(answer.status, 200, records)
        self.assertEqual(answer.headers["Preference-Applied"], "wait=600")
        self.assertEqual(set(records), self.paths)
        reader.join()
        self.assertEqual(watching.returncode, 0)
        self.assertLessEqual(self.paths, set(json.loads(shown[0])["snapshot"]))
        discovery = UnixConnection(xds.socket)
        self.addCleanup(discovery.close)

        def endpoints():
            discovery.request("POST", "/v3/discovery:endpoints",
                json.dumps({"resource_names": [NAME]}))
            answer = discovery.getresponse()
            body = answer.read()
            if answer.status != 200:
                return 0
            (resource,) = json.loads(body)["resources"]
            return sum(len(part["lb_endpoints"]) for part in resource["endpoints"])

        wait_until(lambda: endpoints() == MEMBERS, "berth-xds has them all")
        self.put(f"{FROM}/late", service_record("10.0.0.2", 80), self.direct)
        stream.until(lambda event: event.get("path") == f"{FROM}/late")

    def test_the_registry_itself_is_watched_without_an_agent(self):
        done = berth("--registry", self.slow, "--format", "json", "watch", "-r", "--once", FROM)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(self.paths, set(json.loads(done.stdout)["snapshot"]))


if __name__ == "__main__":
    unittest.main()
