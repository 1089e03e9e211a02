"""The agent comes back with what it had saved some time ago, and cannot reach the registry: gRPC
clients and Envoy lose an endpoint that they were told of since.

Source: Envoy's users and Consul #4465 (an empty or older set, served because the source was away)
"""

import json
import shutil
import unittest

from berth import UnixConnection, wait_until
from outputs import FROM, record
from wire import Wire
from xds import NAME, XdsTest
from zookeeper import share_zookeeper

LOOKS = 50


class AfterAnOldSnapshot(XdsTest):
    def setUp(self):
        super().setUp()
        zookeeper = share_zookeeper()
        self.addCleanup(zookeeper.stop)
        self.registry = zookeeper.url
        host, slash, root = zookeeper.hosts.partition("/")
        self.wire = Wire(host)
        self.addCleanup(self.wire.stop)
        self.server = self.agent(
            registry=f"zookeeper://{self.wire.hosts}{slash}{root}/registry").start()
        self.state = self.server.folder / "state"
        self.discovery = self.xds(self.server).start()
        self.connection = UnixConnection(self.discovery.socket)
        self.addCleanup(self.connection.close)

    def ports(self):
        self.connection.request("POST", "/v3/discovery:endpoints",
            json.dumps({"resource_names": [NAME]}))
        (resource,) = json.loads(self.connection.getresponse().read())["resources"]
        return sorted(endpoint["endpoint"]["address"]["socket_address"]["port_value"]
            for part in resource["endpoints"] for endpoint in part["lb_endpoints"])

    def streams(self):
        for line in self.server.get("/metrics").body.decode().splitlines():
            if line.startswith("berth_watchers "):
                return float(line.split()[1])
        return 0

    def test_the_set_stays_until_a_confirmed_one_comes(self):
        self.put(f"{FROM}/c1", record(8001))
        wait_until(lambda: self.ports() == [8001], "the first one is known")
        self.server.stop()
        saved = self.folder / "saved"
        shutil.copy(self.state / "cache", saved)
        self.server.start()
        self.put(f"{FROM}/c2", record(8002))
        wait_until(lambda: self.ports() == [8001, 8002], "both are known")

        self.wire.cut()
        self.server.kill()
        shutil.copy(saved, self.state / "cache")
        self.server.start()
        wait_until(lambda: self.streams() > 0, "berth-xds follows it again")
        for _ in range(LOOKS):
            self.assertEqual(self.ports(), [8001, 8002])

        self.remove(f"{FROM}/c1")
        self.wire.mend()
        wait_until(lambda: self.ports() == [8002], "the registry is back")


if __name__ == "__main__":
    unittest.main()
