"""GET /v1/targets: what Prometheus' http_sd_configs reads."""

import http.client
import shutil
import unittest

from berth import wait_until
from outputs import FROM, OutputTest, record
from proxies import free_ports


class Targets(OutputTest):
    def setUp(self):
        super().setUp()
        self.put_member("c1", 9100, **{"yarn:id": "container_1", "description": "first"})
        self.put_member("c2", 9101, protocol="https")
        (self.port,) = free_ports(1)
        self.server = self.agent(agent={"listen": f"127.0.0.1:{self.port}"}).start()

    def targets(self, query="", path=FROM):
        answer = self.server.get(f"/v1/targets{path}{query}")
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/json"))
        return [target for item in answer.json for target in item["targets"]]

    def test_every_address_with_its_labels(self):
        answer = self.server.get(f"/v1/targets{FROM}")
        self.assertEqual(answer.json[0]["targets"], ["127.0.0.1:9100"])
        labels = answer.json[0]["labels"]
        self.assertEqual(labels["__meta_berth_path"], f"{FROM}/c1")
        self.assertEqual((labels["__meta_berth_name"], labels["__meta_berth_id"]),
            ("c1", "container_1"))
        self.assertEqual(labels["__meta_berth_description"], "first")
        self.assertEqual(self.targets(), ["127.0.0.1:9100", "127.0.0.1:9101"])
        self.assertEqual(self.targets(path=f"{FROM}/c1"), ["127.0.0.1:9100"])
        self.assertEqual(self.targets("?protocol=HTTPS"), ["127.0.0.1:9101"])
        self.assertEqual(self.targets("?scope=internal"), [])
        self.assertEqual(self.server.get(f"/v1/targets{FROM}?scope=outer").status, 400)
        self.assertEqual(self.server.get(f"/v1/targets{FROM}", Accept="text/plain").status, 406)

    def test_over_tcp_and_with_a_tag(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", f"/v1/targets{FROM}")
        answer = connection.getresponse()
        body = answer.read()
        self.assertEqual(answer.status, 200)
        self.assertEqual(body, self.server.get(f"/v1/targets{FROM}").body)
        connection.request("GET", f"/v1/targets{FROM}",
            headers={"If-None-Match": answer.headers["ETag"]})
        self.assertEqual(connection.getresponse().status, 304)
        connection.close()

    def test_changes_are_seen_and_nobody_is_an_empty_list(self):
        self.assertEqual(self.targets(path="/users/nobody/at/all"), [])
        self.assertEqual(self.server.get("/v1/targets/users/Nobody").status, 400)
        self.put("/users/nobody/at/all", record(9200))
        wait_until(lambda: self.targets(path="/users/nobody/at/all") == ["127.0.0.1:9200"],
            "the target is there")
        self.remove(FROM)
        wait_until(lambda: self.targets() == [], "all are gone")

    def test_unknown_while_the_registry_is_away_is_no_empty_list(self):
        self.assertEqual(len(self.targets()), 2)
        shutil.move(self.folder / "registry", self.folder / "away")
        wait_until(lambda: self.server.get("/v1/targets/users/other").status == 503,
            "nothing is known of it")
        answer = self.server.get(f"/v1/targets{FROM}")
        self.assertIn(answer.status, (200, 503))
        shutil.move(self.folder / "away", self.folder / "registry")
        wait_until(lambda: self.server.get("/v1/targets/users/other").status == 200,
            "it is known again")


if __name__ == "__main__":
    unittest.main()
