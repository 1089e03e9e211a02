"""A target of gRPC with a port, as people write it (xds:///prod.web.devteam:8080), has no
endpoints, and nobody says why: the port is a part of the resource's name.

Source: grpc/proposal A27 (the resource is named by the target behind "xds:///"); Istio's and
Traffic Director's examples of gRPC, whose targets have ports
"""

import json
import unittest

from berth import UnixConnection, berth, wait_until
from xds import NAME, XdsTest

COMPONENTS = "/users/joe/web/prod/components"
SAME = [NAME, f"{NAME}:8080", f"{NAME}:1", f"{NAME}.berth", f"{NAME}.berth.", f"{NAME}.berth:80",
    f"{NAME}.:80", NAME.upper(), f"_http._tcp.{NAME}", f"_http._tcp.{NAME}:443", f"c1.{NAME}:9",
    COMPONENTS, f"{COMPONENTS}/c1", f"{COMPONENTS}/c1:8080"]
NOTHING = [f"{NAME}:http", f"{NAME}:", f"{NAME}:123456", f"http://{NAME}", f"{NAME}/a", "a..b",
    f"{NAME}:80:80", "/Users/a:80"]


class XdsNames(XdsTest):
    def setUp(self):
        super().setUp()
        self.members.put("c1", 8001)
        self.server = self.agent().start()

    def test_a_port_and_the_forms_of_a_name_mean_the_same(self):
        for name in SAME:
            done = berth("-s", self.server.socket, "xds-dump", name)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn('"port_value":8001', done.stdout, name)
            self.assertEqual(json.loads(done.stdout)["endpoints"]["cluster_name"], name)

    def test_a_name_that_can_mean_nothing_is_refused_with_a_hint(self):
        for name in NOTHING:
            done = berth("-s", self.server.socket, "xds-dump", name)
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertIn("write INSTANCE.CLASS.USER", done.stderr, name)

    def test_the_log_names_it_when_a_client_asks(self):
        xds = self.xds(self.server).start()
        client = UnixConnection(xds.socket)
        self.addCleanup(client.close)
        client.request("POST", "/v3/discovery:endpoints",
            json.dumps({"resource_names": [f"{NAME}:http"]}), {"Content-Type": "application/json"})
        self.assertEqual(client.getresponse().status, 200)
        wait_until(lambda: f'"{NAME}:http" has no endpoints' in xds.read_log(), "the hint")


if __name__ == "__main__":
    unittest.main()
