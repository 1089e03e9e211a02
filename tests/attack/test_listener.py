"""Somebody behind a listener for external endpoints looks for what it hides."""

import http.client
import json
import unittest

from berth import AgentTest, Answer, service_record
from ports import reserve_port


class Listener(AgentTest):
    def ask(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def test_no_size_tells_of_internal_endpoints(self):
        """A record with them and one without, and a node of another program, look alike."""
        self.port = reserve_port(self)
        record = service_record("10.0.0.1", 80)
        secret = {**record, "internal": [{**record["external"][0], "api": "secret" * 20}]}
        self.put("/services/with", secret)
        self.put("/services/without", record)
        agent = self.agent(**{"listen out": {"address": f"127.0.0.1:{self.port}",
            "under": "/services/**", "scope": "external"}})
        agent.start()
        sizes = {name: self.ask(f"/v1/stat/services/{name}").json["size"]
            for name in ("with", "without")}
        self.assertEqual(sizes["with"], sizes["without"])
        shown = self.ask("/v1/resolve/services/with").body
        self.assertNotIn(b"secret", shown)
        self.assertEqual(sizes["with"], len(json.dumps(json.loads(shown), separators=(",", ":"))))
        whole = agent.get("/v1/stat/services/with").json["size"]
        self.assertGreater(whole, sizes["with"] + 100)


if __name__ == "__main__":
    unittest.main()
