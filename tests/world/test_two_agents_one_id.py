"""A second agent with the same id took over the record of the first one, which lived, in spite of
on_conflict = refuse: an id is no proof of being the same agent. And after kill -9 with an older
session saved, an agent was in conflict with its own records until their session timed out.

Source: tracker #45, B.8 and C.3; two compose projects that use one file.
"""

import json
import shutil
import signal
import subprocess
import unittest

from berth import PROGRAMS, Agent, berth, wait_until
from hosting import WEB, BridgeTest
from lifecycle import Directory, LifeTest, SessionTest, Shared


class Case(LifeTest):
    def second(self, **options):
        """An agent with the id and the path of the first one, somewhere else."""
        agent = self.web_agent("second", extra={"endpoint rest": {"address": "http://10.0.0.2/"}},
            **options)
        return agent.start()

    def is_refused(self, agent):
        agent.wait_state("conflict")
        reason = agent.status()["components"][0]["reason"]
        self.assertIn("it has our yarn:id, and another agent's mark", reason)


class Twins:
    """Of one id, at one path."""

    def test_the_newcomer_waits_for_the_end_of_the_first(self):
        first = self.web_agent().start()
        first.wait_state("registered")
        before = self.version()
        second = self.second()
        self.is_refused(second)
        # As often as it looks: it does not change its mind.
        for _ in range(3):
            first.get("/live")
            second.signal(signal.SIGHUP)
            wait_until(lambda: second.get("/live").status == 200, "it answers")
        self.assertEqual((second.component_state(), self.version()), ("conflict", before))
        self.assertEqual(first.component_state(), "registered")
        first.stop()
        second.wait_state("registered")
        self.assertIn("10.0.0.2", self.record())

    def test_after_a_kill_of_the_first_it_waits_for_the_session(self):
        first = self.web_agent().start()
        first.wait_state("registered")
        second = self.second()
        self.is_refused(second)
        first.kill()
        second.wait_state("registered")

    def test_on_conflict_takeover_is_for_those_who_want_it(self):
        first = self.web_agent().start()
        first.wait_state("registered")
        self.second(on_conflict="takeover").wait_state("registered")
        first.wait_state("conflict")
        self.assertIn("10.0.0.2", self.record())

    def test_of_a_persistent_record_the_one_that_was_replaced_says_so(self):
        first = self.web_agent(znode="persistent").start()
        first.wait_state("registered")
        second = self.second(znode="persistent")
        second.wait_state("registered")
        self.is_refused(first)
        before = self.version()
        first.stop()
        self.assertEqual(self.version(), before, "it does not take out another one's record")
        self.assertEqual(second.component_state(), "registered")


class OnDirectory(Twins, Case):
    registry_kind = Directory


class OnZooKeeper(Twins, Case, SessionTest):
    registry_kind = Shared
    session_timeout = "5s"

    def test_a_dialect_s_node_is_not_taken_either(self):
        sections = {"dialect discovery": {"type": "curator", "service": "web",
            "instance_id": "one", "base": f"/{self.registry.rpartition('/')[2]}-discovery"},
            "endpoint rest": {"address_type": "host/port", "address": "10.0.0.1:80"}}
        first = self.web_agent(extra=sections).start()
        wait_until(lambda: self.dialect(first)["state"] == "registered", "the node is there")
        path = Agent.PATH.replace("web-1", "web-2")
        second = self.web_agent("second", extra=sections, path=path).start()
        second.wait_state("registered")
        wait_until(lambda: self.dialect(second)["state"] == "conflict", "it is another agent's")
        first.stop()
        wait_until(lambda: self.dialect(second)["state"] == "registered", "it is free")

    def dialect(self, agent):
        return agent.status()["components"][0]["dialects"][0]


class OneAgent(Case, SessionTest):
    """It knows what it has written in any session, and nothing blinks."""

    registry_kind = Shared
    session_timeout = "60s"

    def setUp(self):
        super().setUp()
        self.state = self.folder / "agent/state"
        self.sections = {"dialect discovery": {"type": "curator", "service": "web",
            "instance_id": "one", "base": f"/{self.registry.rpartition('/')[2]}-discovery"},
            "endpoint rest": {"address_type": "host/port", "address": "10.0.0.1:80"}}

    def start(self, **options):
        self.one = self.web_agent(extra=self.sections, **options).start()
        self.await_all()
        return self.one

    def await_all(self):
        self.one.wait_state("registered")
        dialect = lambda: self.one.status()["components"][0]["dialects"][0]
        wait_until(lambda: dialect()["state"] == "registered", "the node of the dialect is there")
        self.paths = [self.node(), *dialect()["nodes"]]

    def owners(self):
        """The sessions of the record and of the dialect's node."""
        return {stat and stat["ephemeralOwner"] for stat in map(self.server.stat, self.paths)}

    def in_another_session(self):
        """Without the file of its session it makes another one, and takes its records along."""
        before = self.owners()
        witness = self.witness()
        self.one.signal(signal.SIGQUIT)
        self.one.wait()
        kept = shutil.copy(self.state / "session", self.folder / "session")
        (self.state / "session").unlink()
        self.one.start()
        self.await_all()
        self.assertEqual(len(self.owners()), 1)
        self.assertNotEqual(self.owners(), before)
        self.assertEqual(len(witness.end()), 2, "the record has never been away")
        return kept, before

    def test_a_session_that_was_not_saved(self):
        self.start()
        self.in_another_session()
        history = self.one.get("/v1/agent/history").json
        self.assertNotIn("conflict", [event["to"] for event in history
            if event["subject"].startswith("component")])

    def test_an_older_session_that_was_saved(self):
        """The disk was full when the later one was made, and the agent was killed."""
        self.start()
        kept, older = self.in_another_session()
        witness = self.witness()
        self.one.kill()
        shutil.copy(kept, self.state / "session")
        self.one.start()
        self.await_all()
        self.assertEqual(self.owners(), older)
        self.assertEqual(len(witness.end()), 2, "the record has never been away")

    def test_a_record_without_an_id(self):
        self.start(id="")
        self.in_another_session()

    def test_a_record_of_a_failing_component_goes_at_once(self):
        gate = self.folder / "gate"
        gate.touch()
        self.sections["check gate"] = {"type": "command", "command": f"/usr/bin/test -e {gate}",
            "interval": "100ms", "fall": "1"}
        self.start(check=None)
        self.one.signal(signal.SIGQUIT)
        self.one.wait()
        (self.state / "session").unlink()
        gate.unlink()
        self.one.start()
        wait_until(lambda: self.owners() == {None}, "no node of the former session is left")

    def test_a_record_of_a_version_that_marked_none(self):
        """It is known by its session, and not written for want of a mark alone."""
        self.start()
        marked = json.loads(self.record())
        self.assertRegex(marked.pop("berth:holder"), r"^[0-9a-f]{32}$")
        self.one.signal(signal.SIGQUIT)
        self.one.wait()
        self.server.probe("set", self.node(), json.dumps(marked)).check_returncode()
        before = self.version()
        self.one.start()
        self.await_all()
        self.assertEqual(self.version(), before)

    def test_a_persistent_record_whose_list_was_lost(self):
        self.start(znode="persistent", id="")
        self.one.kill()
        (self.state / "persistent").unlink()
        self.sections["endpoint rest"]["address"] = "10.0.0.9:80"
        self.start(znode="persistent", id="")
        self.assertIn("10.0.0.9", self.record())


class Strangers(Case, SessionTest):
    registry_kind = Shared

    def test_a_mark_that_was_read_is_of_no_use(self):
        first = self.web_agent().start()
        first.wait_state("registered")
        mark = json.loads(self.record())["berth:holder"]
        secret = (self.folder / "agent/state/holder").read_text()
        self.assertNotIn(mark, secret)
        second = self.web_agent("second", **{"attribute.berth:holder": mark})
        said = subprocess.run([PROGRAMS / "berthd", "-t", "-c", second.config],
            capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 1)
        self.assertIn("the agent sets the attribute berth:holder of a record", said.stderr)
        # Nor is it in the way of those who look for texts of the service.
        name = "web-1.test.org-example-web.joe.berth"
        texts = berth("--socket", first.socket, "host", "--type", "TXT", name)
        self.assertIn("yarn:component", texts.stdout + texts.stderr)
        self.assertNotIn("berth:holder", texts.stdout)


class Hosts(BridgeTest):
    """Records of containers, which the hosts' agents announce."""

    registry_kind = Shared
    session_timeout = "60s"

    def test_another_host_s_container_with_one_id_waits(self):
        self.host()
        inside = self.container("web-1")
        self.register(inside, f"{WEB}/c1", **{"yarn:id": "one"})
        self.await_record(f"{WEB}/c1")
        public = json.loads(self.record(f"{WEB}/c1"))
        self.containers = self.folder / "others"
        self.containers.mkdir()
        other = self.agent("other", **{"bridge": {"containers": self.containers},
            "container *": {"allow": "/users/joe/web/**"}}).start()
        copied = {"berth:holder": public["berth:holder"], "berth:claim": public["berth:holder"]}
        self.register(self.container("web-1"), f"{WEB}/c1", **{"yarn:id": "one"}, **copied)
        why = self.await_state(other, "web-1", f"{WEB}/c1", "conflict")
        self.assertIn("it has our yarn:id, and another agent's mark", why)
        self.assertEqual(json.loads(self.record(f"{WEB}/c1")), public)

    def test_a_host_s_agent_with_an_older_session_knows_what_it_has_announced(self):
        host = self.host()
        self.register(self.container("web-1"), f"{WEB}/c1")
        self.await_record(f"{WEB}/c1")
        witness = self.witness(f"{WEB}/c1")
        host.signal(signal.SIGQUIT)
        host.wait()
        (host.folder / "state/session").unlink()
        host.start()
        self.await_state(host, "web-1", f"{WEB}/c1", "registered")
        self.assertEqual(len(witness.end()), 2, "the record has never been away")


del Case, LifeTest, SessionTest, BridgeTest

if __name__ == "__main__":
    unittest.main()
