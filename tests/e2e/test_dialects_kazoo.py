"""Other schemes' nodes on ZooKeeper, seen and written by a client that is not ours:
python3-kazoo."""

import json
import os
import re
import time
import unittest
import uuid

from berth import AgentTest, berth, wait_until
from checks import FOR_EVER, OnZooKeeper
from kazoo_client import Group, kazoo, nodes_below
from zookeeper import ZooKeeper

HOST = (
    '{"type":"load_balancer","address":"10.9.8.7","ttl":25,"load_balancer":{"address":"10.9.8.7",'
    '"ports":[8080]}}')
SERVICE = (
    '{"type":"service","service":{"type":"service","service":{"srvce":"_http","proto":"_tcp",'
    '"port":8080,"ttl":60}}}')
MEMBER = (
    '{"serviceEndpoint":{"host":"10.9.8.7","port":8080},"additionalEndpoints":{},"status":"ALIVE"}')
NERVE = '{"host":"10.9.8.7","port":8080,"name":"i1"}'
URI_PARTS = (
    '"uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},'
    '{"value":"address","variable":true},{"value":":","variable":false},{"value":"port",'
    '"variable":true}]}'
)
CURATOR = (
    '{"name":"app","id":"i1","address":"10.9.8.7","port":8080,"sslPort":null,"payload":null,'
    '"registrationTimeUTC":#,'
    '"serviceType":"DYNAMIC",' + URI_PARTS + "}"
)
SPRING = (
    '{"name":"app","id":"i1","address":"10.9.8.7","port":8080,"sslPort":null,"payload":'
    '{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"app",'
    '"name":"app",'
    '"metadata":{"instance_status":"UP"}},"registrationTimeUTC":#,"serviceType":"DYNAMIC",'
    + URI_PARTS + "}"
)


class Written(OnZooKeeper):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        # Containers that are empty go soon.
        sweep = ["-Dznode.container.checkIntervalMs=200"]
        cls.server = ZooKeeper(f"maxSessionTimeout={cls.SESSION_TIMEOUT_S * 1000}\n", sweep)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.top = f"/t{uuid.uuid4().hex}"
        self.domain = f"web.{self.top[1:]}"

    def sections(self, **more):
        endpoint = {"api": "http", "protocol": "http", "address_type": "host/port",
            "address": "10.9.8.7:8080"}
        return {
            "endpoint http": endpoint,
            "dialect binder": {
                "type": "registrar", "endpoint": "http", "domain": self.domain, "host_name": "h1",
                "host_type": "load_balancer",
                "aliases": f"alias.{self.domain}, other.{self.domain}", "ttl": "25",
                "service": "http",
            },
            "dialect members": {"type": "serverset", "endpoint": "http",
                "path": f"{self.top}/members"},
            "dialect curator": {"type": "curator", "endpoint": "http",
                "base": f"{self.top}/curator", "service": "app", "instance_id": "i1"},
            "dialect spring": {"type": "spring", "endpoint": "http", "base": f"{self.top}/spring",
                "service": "app", "instance_id": "i1"},
            "dialect nerve": {"type": "nerve", "endpoint": "http", "path": f"{self.top}/nerve",
                "instance_id": "i1"},
            **more,
        }

    def wait_dialects(self, agent, state):
        states = lambda: {item["state"] for item in agent.status()["components"][0]["dialects"]}
        wait_until(lambda: states() == {state}, f"all dialects are {state}")

    def test_each_node_is_exactly_that_of_its_scheme(self):
        agent = self.web_agent(extra=self.sections()).start()
        self.wait_dialects(agent, "registered")
        with kazoo(self.server.hosts) as reader:
            nodes = nodes_below(reader, self.top)
        session = int(agent.status()["registry"]["session"], 16)
        texts, owners = {}, {}
        for path, (data, stat) in nodes.items():
            name = re.sub(r"_\d{10}$", "_#", path.removeprefix(self.top))
            texts[name] = re.sub(r'("registrationTimeUTC":)\d{13}\b', r"\1#", data)
            owners[name] = {0: "none", session: "agent"}.get(stat.ephemeralOwner, "another")
        self.assertEqual({name: text for name, text in texts.items() if text}, {
            "/web": SERVICE, "/web/h1": HOST, "/web/alias": HOST, "/web/other": HOST,
            "/members/member_#": MEMBER,
            "/curator/app/i1": CURATOR, "/spring/app/i1": SPRING.replace('"id":"app"',
                '"id":"container_1_0001_01_000001"'),
            "/nerve/i1_#": NERVE,
        })
        above = ("/curator", "/curator/app", "/spring", "/spring/app", "/web", "/members", "/nerve")
        self.assertEqual(owners, {**dict.fromkeys(above, "none"),
            **dict.fromkeys(self.ALL, "agent")})
        # The service record follows the hosts.
        hosts = max(nodes[f"{self.top}/web/{name}"][1].czxid for name in ("h1", "alias", "other"))
        self.assertGreater(nodes[f"{self.top}/web"][1].mzxid, hosts)

    def test_parents_of_curators_instances_are_containers(self):
        agent = self.web_agent(extra=self.sections()).start()
        self.wait_dialects(agent, "registered")
        self.assertEqual(agent.stop(), 0)
        # A stat shows no owner, as of a persistent node; only the server's sweep tells which is
        # which.
        with kazoo(self.server.hosts) as reader:
            wait_until(
                lambda: {path.removeprefix(self.top) for path in nodes_below(reader, self.top)}
                == {"/web", "/members", "/nerve"},
                "the server has deleted the containers",
            )

    def instances(self, reader):
        """The nodes of the instance, without the digits of sequential ones; each once."""
        names = [re.sub(r"_\d{10}$", "_#", path.removeprefix(self.top))
            for path, (data, _) in nodes_below(reader, self.top).items() if data]
        self.assertEqual(len(names), len(set(names)), names)
        return set(names) - {"/web"}

    ALL = {"/web/h1", "/web/alias", "/web/other", "/members/member_#", "/curator/app/i1",
        "/spring/app/i1", "/nerve/i1_#"}

    def test_none_of_registrars_faults_with_aliases_and_a_service_record(self):
        scripted = self.scripted()
        sections = self.sections(registry={"update_interval": "0s"})
        agent = self.scripted_agent(scripted, {"fall": "3", "window": "168h"}, sections,
            damping="no")
        scripted.says(2)
        agent.start()
        with kazoo(self.server.hosts) as reader:
            # Nothing is registered before the first check has passed.
            self.runs(agent, scripted, 2)
            self.assertEqual(self.instances(reader), set())
            self.assertIsNone(reader.exists(f"{self.top}/web"), "no service record either")
            self.assertEqual(self.runs(agent, scripted, 0), "up")
            self.wait_dialects(agent, "registered")
            self.assertEqual(self.instances(reader), self.ALL)
            # The window is cleared by every recovery, and an outage does not make the next one
            # quicker.
            for _ in range(2):
                for status in (2, 0, 2, 0):
                    self.assertEqual(self.runs(agent, scripted, status), "up")
                self.assertEqual(self.instances(reader), self.ALL)
                self.assertEqual(self.runs(agent, scripted, 2), "down")
                self.wait_dialects(agent, "withdrawn")
                self.assertEqual(self.instances(reader), set(), "no alias stays")
                self.assertEqual(reader.get(f"{self.top}/web")[0].decode(), SERVICE)
                self.assertEqual(self.runs(agent, scripted, 0), "up")
                self.wait_dialects(agent, "registered")
                self.assertEqual(self.instances(reader), self.ALL)
            # Recoveries do not overlap: the nodes of the last one are as they were made.
            for _ in range(3):
                self.runs(agent, scripted, 2, 2, 2, 0)
            self.wait_dialects(agent, "registered")
            settled = {path: stat.czxid for path, (_, stat) in nodes_below(reader,
                self.top).items()}
            self.runs(agent, scripted, 0, 0)
            self.assertEqual({path: stat.czxid for path, (_, stat) in nodes_below(reader,
                self.top).items()}, settled)
            self.assertEqual(self.instances(reader), self.ALL)
            # A node that another program deletes comes back, an alias and the service record, too.
            for name in ("/web/h1", "/web/alias"):
                reader.delete(f"{self.top}{name}")
            reader.set(f"{self.top}/web", b"")
            wait_until(lambda: self.instances(reader) == self.ALL, "the hosts are back")
            wait_until(lambda: reader.get(f"{self.top}/web")[0].decode() == SERVICE,
                "the service record is back")

    def test_an_unhealthy_instance_reappears_neither_with_the_connection_nor_with_another_session(
            self):
        scripted = self.scripted()
        agent = self.scripted_agent(scripted, {"fall": "1"}, self.sections()).start()
        self.wait_dialects(agent, "registered")
        self.runs(agent, scripted, 2)
        self.wait_dialects(agent, "withdrawn")
        self.server.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected",
            "the agent misses the server")
        self.server.restart()
        wait_until(lambda: agent.status()["registry"]["state"] == "connected",
            "the agent is connected again")
        self.wait_dialects(agent, "withdrawn")
        with kazoo(self.server.hosts) as reader:
            self.assertEqual(self.instances(reader), set())
            pid = agent.process.pid
            agent.expire_session(self.server)
            self.wait_dialects(agent, "withdrawn")
            self.assertEqual(self.instances(reader), set())
            self.assertEqual(agent.status()["pid"], pid)
            self.runs(agent, scripted, 0)
            self.wait_dialects(agent, "registered")
            self.assertEqual(self.instances(reader), self.ALL)

    def test_the_next_session_has_each_node_once_and_the_last_one_none(self):
        def named(nodes):
            return {re.sub(r"_\d{10}$", "_#", path.removeprefix(self.top)): node
                for path, node in nodes.items()}

        agent = self.scripted_agent(self.scripted(), extra=self.sections()).start()
        self.wait_dialects(agent, "registered")
        with kazoo(self.server.hosts) as reader:
            before = named(nodes_below(reader, self.top))
            agent.expire_session(self.server)
            session = int(agent.status()["registry"]["session"], 16)

            def are_owned():
                nodes = nodes_below(reader, self.top).items()
                owned = {path: node for path, node in nodes if node[1].ephemeralOwner == session}
                return named(owned).keys() == self.ALL

            wait_until(are_owned, "the new session has each node")
            self.wait_dialects(agent, "registered")
            self.assertEqual(self.instances(reader), self.ALL)
            after = named(nodes_below(reader, self.top))
        self.assertEqual({name: data for name, (data, _) in after.items()},
            {name: data for name, (data, _) in before.items()})
        self.assertEqual({stat.ephemeralOwner for _, stat in after.values()}, {0, session})
        self.assertEqual(after["/web"][1],
            before["/web"][1]._replace(cversion=after["/web"][1].cversion,
                pzxid=after["/web"][1].pzxid))

    def wait_instances(self, agent, state):
        self.wait_dialects(agent, state)
        with kazoo(self.server.hosts) as reader:
            self.assertEqual(self.instances(reader), self.ALL if state == "registered" else set())
            self.assertEqual(reader.get(f"{self.top}/web")[0].decode(), SERVICE)
            return {path: stat.czxid for path, (_, stat) in nodes_below(reader, self.top).items()}

    def test_faults_of_the_check_and_of_the_server_take_out_and_bring_back_all_nodes(self):
        alive, text = self.scripted("alive"), self.scripted("text")
        hang, child = self.folder / "hang", self.folder / "child"
        command = (
            f"[ -e {hang} ] || exit 0; sleep 1000 & echo $! >{child}.new; mv {child}.new {child}; "
            "wait")
        agent = self.scripted_agent(alive, {"fall": "1"}, self.sections(
            **{
                "registry": {"update_interval": "0s"},
                "check text": {**text.options, "match": "refused|lost", "match_invert": "yes",
                    "fall": "1"},
                "check slow": {"shell": "yes", "command": command, "timeout": "1s",
                    "interval": FOR_EVER, "fall": "1"},
            }
        ), damping="no").start()

        def is_up(name):
            return self.run_check(agent, name)["state"] == "up"

        def lose_the_connection():
            text.says(0, "connection lost")
            self.assertFalse(is_up("text"))

        def find_the_connection():
            text.says(0, "all is well")
            self.assertTrue(is_up("text"))

        def time_out():
            hang.touch()
            wait_until(lambda: not is_up("slow") and child.exists(),
                "a run has come so far as to have a child")
            pid = int(child.read_text())
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the shell's child is gone")

        def be_in_time():
            hang.unlink()
            wait_until(lambda: is_up("slow"), "a run has been in time")

        def fail_without_a_server():
            self.server.kill()
            wait_until(lambda: agent.status()["registry"]["state"] != "connected",
                "the agent misses the server")
            self.assertEqual(self.runs(agent, alive, 2), "down")
            self.server.restart()

        def recover():
            self.assertEqual(self.runs(agent, alive, 0), "up")

        wait_until(lambda: is_up("slow"), "a run has been in time")
        self.wait_instances(agent, "registered")
        for take_out, bring_back in (
            (lose_the_connection, find_the_connection), (time_out, be_in_time),
            (fail_without_a_server, recover),
        ):
            with self.subTest(take_out.__name__):
                take_out()
                self.wait_instances(agent, "withdrawn")
                bring_back()
                self.wait_instances(agent, "registered")
        # Recoveries while the server is stopped: the last one counts, once.
        self.server.pause()
        try:
            for _ in range(3):
                self.assertEqual(self.runs(agent, alive, 2, 0), "up")
        finally:
            self.server.resume()
        settled = self.wait_instances(agent, "registered")
        self.runs(agent, alive, 0, 0)
        self.assertEqual(self.wait_instances(agent, "registered"), settled)

    def received(self, agent):
        """Packets that the server has had from the agent's session, by its own count."""
        session = agent.status()["registry"]["session"].removeprefix("0x")
        line = next(line for line in self.server.command("cons").splitlines()
            if f"sid=0x{session}," in line)
        return int(re.search(r"recved=(\d+)", line).group(1))

    def written(self):
        return int(re.search(r"Zxid: (\S+)", self.server.command("srvr")).group(1), 16)

    def test_requests_of_one_component_in_five_dialects(self):
        agent = self.scripted_agent(self.scripted(),
            extra=self.sections(registry={"session_timeout": "16s"})).start()
        self.wait_dialects(agent, "registered")
        agent.wait_state("registered")
        first = self.received(agent)
        with kazoo(self.server.hosts) as other:
            for name in ("curator", "spring"):  # holds the containers
                other.create(f"{self.top}/{name}/app/other")
        agent.stop()
        agent.start()
        self.wait_dialects(agent, "registered")
        agent.wait_state("registered")
        again = self.received(agent)
        # Measured: 84 and 42; the bounds hold some retries and contact reads.
        self.assertLessEqual(first, 110)
        self.assertLessEqual(again, 70)
        # Then only the reads that keep the contact, one in a quarter of the session's timeout, and
        # pings.
        timeout_s = agent.status()["registry"]["session_timeout_ms"] / 1000
        before, began = self.received(agent), time.monotonic()
        # The end of an earlier test's session is a write, too: one ping without any is enough.
        wait_until(lambda: self.pings_without_a_write(agent), "nothing is written")
        elapsed = time.monotonic() - began
        self.assertLessEqual(self.received(agent) - before, elapsed / (timeout_s / 4) * 2 + 3)

    def pings_without_a_write(self, agent):
        before, zxid = self.received(agent), self.written()
        wait_until(lambda: self.received(agent) > before, "the agent has pinged")
        return self.written() == zxid


class Read(AgentTest):
    """The exact nodes of each scheme's own programs, in records."""

    NODES = {
        "registrar": {
            "/org/example/web": SERVICE,
            "/org/example/web/h1": '{"type":"load_balancer",'
                                   '"load_balancer":{"address":"10.9.8.7"}}',
        },
        "serverset": {
            "/ss/member_0000000003": '{"serviceEndpoint":{"host":"10.9.8.7","port":8080},'
                                     '"additionalEndpoints":{"http":'
            '{"host":"10.9.8.7","port":8080}},"status":"ALIVE","shard":0,"metadata":{"k":"v"}}',
        },
        "curator": {"/curator/app/i1": CURATOR.replace("#", "1700000000000")},
        "spring": {"/spring/app/i1": SPRING.replace("#", "1700000000000")},
        "nerve": {"/nerve/i1_0000000007": '{"host":"10.9.8.7","port":8080,"name":"i1","weight":2,'
                                          '"labels":{"a":"b"}}'},
        "mesos": {
            "/mesos/json.info_0000000012": '{"address":{"hostname":"h1","ip":"10.9.8.7",'
                                           '"port":8080},"capabilities":[{"type":"AGENT_UPDATE"}],'
            '"hostname":"h1","id":"c0","ip":117967114,"pid":"master@10.9.8.7:8080","port":8080,'
            '"version":"1.11.0"}',
        },
    }
    LABELS = {
        "registrar": "h1", "serverset": "member--0000000003", "curator": "i1", "spring": "i1",
        "nerve": "i1--0000000007", "mesos": "leader",
    }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = ZooKeeper()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.registry = self.server.url

    def group(self, kind):
        return min(self.NODES[kind]) if kind == "registrar" else min(self.NODES[kind]).rsplit("/",
            1)[0]

    def addresses(self, agent, kind):
        return set(agent.get(f"/v1/endpoints/imported/{kind}",
            accept="text/plain").body.decode().split())

    def test_members_come_change_and_go_as_another_client_has_them(self):
        imports = {f"import {kind}": {"type": kind, "from": self.group(kind),
            "as": f"/imported/{kind}"} for kind in self.NODES}
        file = self.folder / "file"
        agent = self.agent(**imports, **{"output file": {"from": "/imported/**", "format": "lines",
            "path": str(file), "quiet": "10ms"}}).start()
        status = berth("--socket", agent.socket, "status")
        for kind in self.NODES:
            self.assertRegex(status.stdout,
                rf"{kind} +{kind} +/imported/{kind} +{self.group(kind)}")
        shown = {(item["type"], item["as"], item["from"]) for item in agent.status()["imports"]}
        self.assertEqual(shown, {(kind, f"/imported/{kind}", self.group(kind))
            for kind in self.NODES})
        with kazoo(self.server.hosts) as keeper:
            with kazoo(self.server.hosts) as writer:
                for kind, nodes in self.NODES.items():
                    for path, data in nodes.items():
                        owned = path != self.group(kind)
                        (keeper if not owned else writer).create(path, data.encode(),
                            ephemeral=owned, makepath=True)
                for kind in self.NODES:
                    wait_until(lambda kind=kind: self.addresses(agent, kind) == {"10.9.8.7:8080"},
                        f"the {kind} member is there")
                    record = agent.get(f"/v1/resolve/imported/{kind}/{self.LABELS[kind]}").json
                    self.assertEqual((record["dialect"], record["yarn:persistence"]),
                        (kind, "container"), record)
                for kind, nodes in self.NODES.items():
                    path, data = max(nodes.items())
                    writer.set(path, data.replace("10.9.8.7", "10.9.8.6").encode())
                for kind in self.NODES:
                    wait_until(lambda kind=kind: self.addresses(agent, kind) == {"10.9.8.6:8080"},
                        f"the {kind} member has changed")
                # An output follows them like records: an address for each member, and one for
                # serverset's second endpoint.
                wait_until(lambda: file.exists() and file.read_text().split()
                    == ["10.9.8.6:8080"] * 7, "the output has the members")
            # The writer's session has ended, and its members with it.
            for kind in self.NODES:
                wait_until(lambda kind=kind: self.addresses(agent, kind) == set(),
                    f"the {kind} member has gone")

    def test_a_watching_reader_sees_one_member_more_and_one_less(self):
        with kazoo(self.server.hosts) as reader:
            reader.ensure_path("/watched")
            group = Group(reader, "/watched")
            endpoint = {"api": "http", "protocol": "http", "address_type": "host/port",
                "address": "10.9.8.7:8080"}
            agent = self.web_agent(extra={
                "endpoint http": endpoint, "dialect nerve": {"type": "nerve", "endpoint": "http",
                    "path": "/watched", "instance_id": "i1"},
            }).start()
            wait_until(lambda: [json.loads(text or "{}").get("port") for text in group.texts()]
                == [8080], "the reader has the member")
            agent.stop()
            wait_until(lambda: group.texts() == [], "the reader misses it")


if __name__ == "__main__":
    unittest.main()
