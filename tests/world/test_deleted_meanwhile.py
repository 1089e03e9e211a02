"""A record that was deleted while the agent could not reach ZooKeeper is answered again, as STALE,
to a client that has just read a list of its directory without it.

Source: the simulation (seed 620 of an hour); then 8 of 8 reconnects to a ZooKeeper 3.8.0
"""

import json
import unittest

from berth import AgentTest, UnixConnection, service_record, wait_until
from wire import Wire
from zk_client import ZkClient
from zookeeper import share_zookeeper

ROUNDS = 3


class DeletedMeanwhile(AgentTest):
    def setUp(self):
        super().setUp()
        self.zookeeper = share_zookeeper()
        self.addCleanup(self.zookeeper.stop)
        host, slash, self.root = self.zookeeper.hosts.partition("/")
        self.root = f"{slash}{self.root}/registry"
        self.wire = Wire(host)
        self.addCleanup(self.wire.stop)
        self.writer = ZkClient(host)
        self.addCleanup(self.writer.close)
        self.server = self.agent(registry=f"zookeeper://{self.wire.hosts}{self.root}").start()
        self.connection = UnixConnection(self.server.socket)
        self.addCleanup(self.connection.close)

    def ask(self, target, **headers):
        """The status, whether the answer is stale, and the body."""
        self.connection.request("GET", target, headers=headers)
        answer = self.connection.getresponse()
        return answer.status, answer.headers["X-Cache"] == "STALE", answer.read().decode()

    def delete_unheard(self, path):
        """Nothing passes meanwhile, and the connection ends."""
        self.wire.cut()
        self.writer.delete(self.root + path)
        self.wire.drop()
        self.wire.mend()

    def connection_since(self):
        """When the present connection began; None: there is none."""
        registry = json.loads(self.ask("/v1/agent")[2])["registry"]
        return registry["since"] if registry["state"] == "connected" else None

    def test_a_list_without_a_path_is_the_last_word_on_it(self):
        for number in range(ROUNDS):
            directory = f"/services/round-{number}"
            path = f"{directory}/gone"
            self.writer.make(self.root + directory)
            self.writer.create(self.root + path, json.dumps(service_record("db", 1)).encode())
            wait_until(lambda: self.ask(f"/v1/resolve{path}")[0] == 200, "the record is known")
            before = self.connection_since()
            self.delete_unheard(path)
            wait_until(lambda: self.connection_since() not in (None, before),
                "the agent is connected again")
            # It reads the record now, and does not believe at once that it has gone.
            self.ask(f"/v1/resolve{path}", **{"Cache-Control": "no-cache"})
            self.assertEqual(self.ask(f"/v1/list{directory}"), (200, False, "[]\n"))
            status, stale, body = self.ask(f"/v1/resolve{path}")
            self.assertEqual((status, stale), (404, False), body)


if __name__ == "__main__":
    unittest.main()
