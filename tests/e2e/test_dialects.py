"""A component in other schemes' trees: its nodes come, change and go with it, on both backends."""

import json
import os
import pathlib
import signal
import unittest
import uuid

from berth import exists, wait_until
from lifecycle import Directory, LifeTest, Shared, on_both
from zk_client import ZkClient, ZkError


class Tree:
    """All nodes below a path of the server's tree, read past our own code: {path: data}."""

    def __init__(self, test):
        self.test = test

    def _of_directory(self, top):
        nodes = {}
        store = Directory(self.test.folder)
        for folder, _, _ in os.walk(f"{store.root}{top}"):
            path = folder.removeprefix(str(store.root))
            owner = pathlib.Path(folder) / "_owner"
            record = pathlib.Path(folder) / "_record"
            if owner.exists() and store.identity(path) is None:
                continue
            try:
                nodes[path] = record.read_text()
            except FileNotFoundError:
                nodes[path] = ""
        return nodes

    def _of_server(self, client, path, nodes):
        data = client.get(path)
        if data is None:
            return
        nodes[path] = data.decode()
        try:
            for name in client.children(path):
                self._of_server(client, f"{path.rstrip('/')}/{name}", nodes)
        except ZkError:
            pass  # it has gone meanwhile

    def below(self, top):
        if not self.test.server:
            return self._of_directory(top)
        nodes = {}
        with ZkClient(self.test.server.hosts) as client:
            self._of_server(client, top, nodes)
        return nodes

    def leaves(self, top):
        """Those with data, relative to `top`."""
        return {path.removeprefix(top): data for path, data in self.below(top).items() if data}


HOST = (
    '{"type":"load_balancer","address":"10.9.8.7","ttl":25,"load_balancer":{"address":"10.9.8.7",'
    '"ports":[8080]}}')
SERVICE = (
    '{"type":"service","service":{"type":"service","service":{"srvce":"_http","proto":"_tcp",'
    '"port":8080,"ttl":60}}}')


class DialectTest(LifeTest):
    def setUp(self):
        super().setUp()
        self.top = f"/t{uuid.uuid4().hex}"
        self.tree = Tree(self)
        self.domain = f"web.{self.top[1:]}"

    def sections(self, **changes):
        sections = {
            "endpoint http": {"api": "http", "protocol": "http", "address_type": "host/port",
                "address": "10.9.8.7:8080"},
            "dialect binder": {
                "type": "registrar", "endpoint": "http", "domain": self.domain, "host_name": "h1",
                "host_type": "load_balancer",
                "aliases": f"alias.web.{self.top[1:]}", "ttl": "25", "service": "http",
            },
            "dialect members": {"type": "serverset", "endpoint": "http",
                "path": f"{self.top}/members"},
            "dialect curator": {"type": "curator", "endpoint": "http",
                "base": f"{self.top}/curator", "service": "My App", "instance_id": "i1"},
            "dialect spring": {"type": "spring", "endpoint": "http", "base": f"{self.top}/spring",
                "service": "app", "instance_id": "i1"},
            "dialect nerve": {"type": "nerve", "endpoint": "http", "path": f"{self.top}/nerve",
                "instance_id": "i1"},
        }
        for section, options in changes.items():
            sections[f"dialect {section}"].update(options)
        return sections

    def start(self, name="agent", check="true", **changes):
        agent = self.web_agent(name, check, self.sections(**changes)).start()
        self.wait_dialects(agent, "registered")
        return agent

    def states(self, agent):
        return {item["name"]: item["state"] for item in agent.status()["components"][0]["dialects"]}

    def wait_dialects(self, agent, state):
        try:
            wait_until(lambda: set(self.states(agent).values()) == {state},
                f"all dialects are {state}")
        except AssertionError as error:
            raise AssertionError(
                f"{error}: {agent.status()['components'][0]['dialects']}\n"
                f"{agent.read_log()[-3000:]}") from None

    def nodes(self):
        """What is there, with numbers and times left out: {path: data}."""
        nodes = {}
        for path, data in self.tree.leaves(self.top).items():
            base, _, last = path.rpartition("_")
            path = f"{base}_#" if last.isdigit() and len(last) == 10 else path
            self.assertNotIn(path, nodes, "a member is there twice")
            nodes[path] = data
        return nodes

    EXPECTED = {
        "/web", "/web/h1", "/web/alias", "/members/member_#", "/curator/My App/i1",
        "/spring/app/i1", "/nerve/i1_#",
    }

    def assert_all(self):
        self.assertEqual(set(self.nodes()), self.EXPECTED)

    def wait_gone(self):
        """Only the service record stays, which is of all instances."""
        wait_until(lambda: set(self.nodes()) == {"/web"}, "the nodes have gone")

    def test_nodes_are_those_of_each_scheme(self):
        self.start()
        nodes = self.nodes()
        self.assertEqual(set(nodes), self.EXPECTED)
        self.assertEqual(nodes["/web/h1"], HOST)
        self.assertEqual(nodes["/web/alias"], HOST)
        self.assertEqual(nodes["/web"], SERVICE)
        self.assertEqual(
            nodes["/members/member_#"],
            '{"serviceEndpoint":{"host":"10.9.8.7","port":8080},"additionalEndpoints":{},'
            '"status":"ALIVE"}'
        )
        self.assertEqual(nodes["/nerve/i1_#"], '{"host":"10.9.8.7","port":8080,"name":"i1"}')
        curator = json.loads(nodes["/curator/My App/i1"])
        self.assertEqual((curator["address"], curator["port"], curator["payload"]),
            ("10.9.8.7", 8080, None))
        self.assertEqual(json.loads(nodes["/spring/app/i1"])["payload"]["metadata"],
            {"instance_status": "UP"})

    def test_they_go_with_the_agent(self):
        agent = self.start()
        self.assertEqual(agent.stop(), 0)
        self.wait_gone()

    def test_a_drain_takes_all_of_them_out_and_its_end_brings_them_back(self):
        agent = self.start()
        agent.request("POST", "/v1/agent/drain", {"reason": "test"})
        self.wait_dialects(agent, "withdrawn")
        self.assertEqual(set(self.nodes()), {"/web"})
        agent.request("DELETE", "/v1/agent/drain")
        self.wait_dialects(agent, "registered")
        self.assert_all()

    def test_a_failing_check_takes_all_of_them_out(self):
        flag = self.folder / "healthy"
        flag.touch()
        agent = self.start(check=exists(flag))
        flag.unlink()
        self.wait_dialects(agent, "withdrawn")
        self.assertEqual(set(self.nodes()), {"/web"})
        flag.touch()
        self.wait_dialects(agent, "registered")
        self.assert_all()

    def test_a_check_of_their_endpoint_takes_all_of_them_out_and_the_reason_says_so(self):
        flag = self.folder / "healthy"
        flag.touch()
        check = {"type": "command", "command": exists(flag), "interval": "100ms",
            "endpoints": "http"}
        agent = self.web_agent(extra={**self.sections(), "check http": check}).start()
        self.wait_dialects(agent, "registered")
        agent.wait_state("registered")  # its own record may take longer than theirs
        flag.unlink()
        self.wait_dialects(agent, "withdrawn")
        self.assertEqual(set(self.nodes()), {"/web"})
        for dialect in agent.status()["components"][0]["dialects"]:
            self.assertIn("endpoint http is out", dialect["reason"], dialect)
        agent.wait_state("registered")  # without the endpoint, as soon as that is written
        flag.touch()
        self.wait_dialects(agent, "registered")
        self.assert_all()

    def test_a_dynamic_endpoint_without_an_address_is_waited_for(self):
        sections = self.sections()
        sections["endpoint http"] = {"api": "http", "protocol": "http", "address_type": "host/port",
            "dynamic": "yes"}
        agent = self.web_agent(extra=sections).start()
        agent.wait_state("registered")
        self.wait_dialects(agent, "withdrawn")
        for dialect in agent.status()["components"][0]["dialects"]:
            self.assertIn("endpoint http has no address", dialect["reason"], dialect)
        agent.request("PUT", "/v1/agent/endpoints/http", {"addresses": ["10.9.8.7:8080"]})
        self.wait_dialects(agent, "registered")
        self.assert_all()

    def test_after_a_kill_the_next_agent_has_each_of_them_once(self):
        agent = self.start()
        agent.kill()
        agent.start()
        self.wait_dialects(agent, "registered")
        self.assert_all()

    def test_an_upgrade_changes_none_of_them(self):
        agent = self.start()
        before = self.tree.leaves(self.top)
        identities = {path: self.identity_of(path) for path in before}
        agent.upgrade()
        self.wait_dialects(agent, "registered")
        self.assertEqual(self.tree.leaves(self.top), before)
        self.assertEqual({path: self.identity_of(path) for path in before}, identities)

    def identity_of(self, path):
        """Tells a node from another one at the same path."""
        if not self.server:
            return os.stat(f"{self.store.root}{self.top}{path}").st_ino
        stat = self.server.stat(f"{self.top}{path}")
        return stat and stat["czxid"]

    def remove(self, path):
        """As another program does it."""
        if self.server:
            with ZkClient(self.server.hosts) as client:
                client.delete(f"{self.top}{path}")
        else:
            folder = pathlib.Path(f"{self.store.root}{self.top}{path}")
            folder.rename(f"{self.store.root}/_tmp/removed-{uuid.uuid4().hex}")

    def test_a_node_that_another_program_deletes_comes_back(self):
        agent = self.start()
        for path in [path for path in self.tree.leaves(self.top) if path != "/web"]:
            self.remove(path)
        wait_until(lambda: set(self.nodes()) == self.EXPECTED, "all nodes are back")
        self.wait_dialects(agent, "registered")

    def test_a_reload_renames_an_alias_and_changes_members(self):
        agent = self.start()
        member = next(path for path in self.tree.leaves(self.top) if path.startswith("/members"))
        changed = self.sections(binder={"aliases": f"other.web.{self.top[1:]}"},
            members={"shard": "3"}, nerve={"weight": "5"})
        agent.sections.update(changed)
        agent.write_config(agent.sections)
        agent.signal(signal.SIGHUP)

        def is_changed():
            nodes = self.nodes()
            return (
                set(nodes) == self.EXPECTED - {"/web/alias"} | {"/web/other"}
                and '"shard":3' in nodes["/members/member_#"]
                and '"weight":5' in nodes["/nerve/i1_#"]
            )

        wait_until(lambda: self.settled_nodes(is_changed), "the nodes are changed")
        self.assertNotIn(member, self.tree.leaves(self.top), "a change is another member")

    def settled_nodes(self, condition):
        """False while a member is there twice: a change joins before it leaves."""
        try:
            return condition()
        except AssertionError:
            return False

    def test_a_dialect_that_is_no_longer_configured_leaves(self):
        agent = self.start()
        self.assertIn(b'{dialect="binder"}', agent.get("/metrics").body)
        for name in ("members", "binder"):
            del agent.sections[f"dialect {name}"]
        agent.write_config(agent.sections)
        agent.signal(signal.SIGHUP)
        wait_until(
            lambda: set(self.nodes()) == {"/web", "/curator/My App/i1", "/spring/app/i1",
                "/nerve/i1_#"}, "two dialects have left"
        )
        self.assertNotIn(b'{dialect="binder"}', agent.get("/metrics").body)

    def named_agent(self, name, extra):
        """One more agent, whose component has this name."""
        agent = self.agent(name)
        agent.sections = agent.component(None)
        agent.sections["component"].update({"name": name, "id": f"container_{name}"})
        agent.sections.update(extra)
        agent.write_config(agent.sections)
        return agent

    def test_a_node_of_another_instance_is_a_conflict_of_that_dialect_alone(self):
        other = self.named_agent("web-2", {
            "endpoint http": {"api": "http", "protocol": "http", "address_type": "host/port",
                "address": "10.9.8.6:8080"},
            "dialect binder": {**self.sections()["dialect binder"], "host_name": "h2"},
        }).start()
        wait_until(lambda: self.states(other) == {"binder": "registered"},
            "the other one is registered")
        agent = self.web_agent(extra=self.sections()).start()
        agent.wait_state("registered")
        wait_until(
            lambda: self.states(agent)
            == {"binder": "conflict", "members": "registered", "curator": "registered",
                "spring": "registered", "nerve": "registered"},
            "one dialect has a conflict",
        )
        self.assertIn("/web/h1", self.nodes(), "the alias holds nothing else back")
        self.assertIn('berth_dialect_registered{dialect="binder"} 0',
            agent.get("/metrics").body.decode())
        self.assertIn('berth_dialect_registered{dialect="nerve"} 1',
            agent.get("/metrics").body.decode())
        history = agent.get("/v1/agent/history").json
        self.assertIn("dialect binder", json.dumps(history))
        other.stop()
        self.wait_dialects(agent, "registered")

    def test_nodes_that_cannot_be_written_are_shown(self):
        agent = self.web_agent(extra={
            "endpoint http": {"api": "http", "protocol": "http", "address_type": "path",
                "address": "/run/app.sock"},
            "dialect nerve": {"type": "nerve", "endpoint": "http", "path": f"{self.top}/nerve"},
        }).start()
        agent.wait_state("registered")
        wait_until(lambda: self.states(agent) == {"nerve": "failed"}, "the dialect has failed")
        self.assertIn("host and a port", agent.status()["components"][0]["dialects"][0]["reason"])

    def test_a_rolling_change_of_twenty_leaves_nineteen(self):
        count = 20
        agents = [self.rolling_agent(number, weight=1) for number in range(count)]
        groups = {"/members": "member_", "/nerve": "", "/spring/app": ""}
        for agent in agents:
            self.wait_dialects(agent, "registered")
        fewest = {group: count for group in groups}

        def look():
            names = self.tree.below(self.top)
            for group in groups:
                inside = {path for path in names if path.startswith(f"{self.top}{group}/")
                    and names[path]}
                ports = {self.port_in(names[path]) for path in inside}
                fewest[group] = min(fewest[group], len(ports))
            return names

        look()
        for number, agent in enumerate(agents):
            agent.sections.update(self.rolling_sections(number, weight=2))
            agent.write_config(agent.sections)
            agent.signal(signal.SIGHUP)
            wait_until(
                lambda number=number: any(
                    '"weight":2' in data and f'"port":{9000 + number}' in data
                    for path, data in look().items() if "/nerve/" in path
                ),
                "the agent has changed",
            )
        look()
        self.assertTrue(all(number >= count - 1 for number in fewest.values()), fewest)

    def port_in(self, data):
        value = json.loads(data)
        return value.get("port") or value["serviceEndpoint"]["port"]

    def rolling_sections(self, number, weight):
        address = f"10.9.8.7:{9000 + number}"
        return {
            "endpoint http": {"api": "http", "protocol": "http", "address_type": "host/port",
                "address": address},
            "dialect members": {"type": "serverset", "endpoint": "http",
                "path": f"{self.top}/members", "shard": str(weight)},
            "dialect spring": {
                "type": "spring", "endpoint": "http", "base": f"{self.top}/spring",
                "service": "app",
                "instance_id": f"i{number}", "metadata.v": str(weight),
            },
            "dialect nerve": {
                "type": "nerve", "endpoint": "http", "path": f"{self.top}/nerve",
                "instance_id": f"i{number}", "weight": str(weight),
            },
        }

    def rolling_agent(self, number, weight):
        return self.named_agent(f"web-{number}", self.rolling_sections(number, weight)).start()


on_both(globals(), DialectTest)


class LostSession(LifeTest):
    """Only a server has sessions that end before their process."""

    registry_kind = Shared

    def test_a_member_whose_endpoint_is_out_stays_out(self):
        top = f"/t{uuid.uuid4().hex}"
        flag = self.folder / "healthy"
        flag.touch()
        agent = self.web_agent(extra={
            "endpoint http": {"api": "http", "protocol": "http", "address_type": "host/port",
                "address": "10.9.8.7:8080"},
            "check http": {"type": "command", "command": exists(flag), "interval": "100ms",
                "endpoints": "http"},
            "dialect nerve": {"type": "nerve", "endpoint": "http", "path": f"{top}/nerve",
                "instance_id": "i1"},
        }).start()
        tree = Tree(self)
        wait_until(lambda: tree.leaves(top), "the member is there")
        flag.unlink()
        wait_until(lambda: not tree.leaves(top), "the member has gone")
        before = self.identity()
        agent.expire_session(self.server)
        wait_until(lambda: self.node() and self.identity() != before,
            "the component is registered again")
        agent.wait_state("registered")
        runs = agent.check_named("http")["counts"]
        wait_until(lambda: agent.check_named("http")["counts"] != runs, "the agent has gone on")
        self.assertEqual(agent.status()["components"][0]["dialects"][0]["state"], "withdrawn")
        self.assertEqual(tree.leaves(top), {})
        flag.touch()
        wait_until(lambda: tree.leaves(top), "the member is back")


if __name__ == "__main__":
    unittest.main()
