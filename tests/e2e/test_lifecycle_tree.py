"""Records that have children, nodes of other programs at our path, and records that outlive the
agent."""

import signal
import unittest

from berth import FAILS, Agent, AgentTest, berth, exists, preloaded, wait_until
from lifecycle import LifeTest, on_both

PARENT = "/users/devteam/slider/app1"
CHILD = f"{PARENT}/components/w1"


class Tree(LifeTest):
    def parent(self, name="agent", **keywords):
        agent = self.web_agent(name, path=PARENT, persistence="application", on_stop="remove",
            **keywords).start()
        agent.wait_state("registered")
        return agent

    def put_child(self):
        done = berth("--registry", self.registry, "mknode", "-p", CHILD)
        self.assertEqual(done.returncode, 0, done.stderr)

    def remove_child(self):
        done = berth("--registry", self.registry, "rm", "-r", f"{PARENT}/components")
        self.assertEqual(done.returncode, 0, done.stderr)

    def family(self):
        """One agent with the parent and the child as components."""
        agent = self.agent()
        sections = agent.component(name="app", path=PARENT, persistence="application",
            on_stop="remove")
        sections.update(agent.component(name="w1", path=CHILD))
        agent.write_config(sections)
        agent.start()
        agent.wait_state("registered", "app")
        agent.wait_state("registered", "w1")
        return agent

    def assert_emptied(self, agent):
        self.assertEqual(self.record(PARENT), "")
        self.assertEqual(agent.get(f"/v1/resolve{PARENT}").status, 404)

    def wait_gone(self):
        wait_until(lambda: self.record(PARENT) is None, "the node has gone")

    def test_a_failing_check_takes_the_record_out_and_the_node_goes_with_its_last_child(self):
        flag = self.folder / "flag"
        flag.touch()
        agent = self.parent(check=exists(flag))
        self.put_child()
        flag.unlink()
        agent.wait_state("withdrawn")
        self.assert_emptied(agent)
        self.assertIn("children", agent.status()["components"][0]["reason"])
        flag.touch()
        agent.wait_state("registered")
        self.assertIn("JSONServiceRecord", self.record(PARENT))
        flag.unlink()
        agent.wait_state("withdrawn")
        self.remove_child()
        self.wait_gone()

    def test_a_drain_is_done(self):
        agent = self.parent()
        self.put_child()
        self.assertEqual(berth("--socket", agent.socket, "drain", "--wait").returncode, 0)
        self.assert_emptied(agent)

    def test_term_takes_the_record_out_and_no_time(self):
        agent = self.parent()
        self.put_child()
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.record(PARENT), "")
        self.assertNotIn("could be deregistered", agent.read_log())

    def test_a_reload_without_the_component_takes_the_record_out_and_later_the_node(self):
        agent = self.parent()
        self.put_child()
        agent.write_config(agent.component())
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        wait_until(lambda: self.record(PARENT) == "", "the record is out")
        agent.wait_state("registered")
        self.remove_child()
        self.wait_gone()

    def test_children_are_withdrawn_before_their_parents(self):
        agent = self.family()
        agent.request("POST", "/v1/agent/drain", {})
        agent.wait_state("withdrawn", "app")
        log = agent.read_log()
        child_gone = log.index("component w1: withdrawing -> withdrawn")
        self.assertLess(child_gone, log.index("component app: registered -> withdrawing"))
        self.assertIsNone(self.record(CHILD))
        self.assertEqual(agent.stop(), 0)

    def test_a_failing_parent_leaves_its_child_alone(self):
        flag = self.folder / "flag"
        flag.touch()
        agent = self.agent()
        sections = agent.component(check=exists(flag), name="app", path=PARENT,
            persistence="application")
        sections.update(agent.component(name="w1", path=CHILD))
        agent.write_config(sections)
        agent.start()
        agent.wait_state("registered", "app")
        agent.wait_state("registered", "w1")
        flag.unlink()
        agent.wait_state("withdrawn", "app")
        self.assert_emptied(agent)
        self.assertEqual(agent.component_state("w1"), "registered")
        self.assertEqual(agent.get(f"/v1/resolve{CHILD}").status, 200)


on_both(globals(), Tree)


class Stop(LifeTest):
    def stopped(self, **options):
        agent = self.web_agent(**options).start()
        agent.wait_state("registered")
        self.assertEqual(agent.stop(), 0)
        return agent

    def test_processes_outside_of_a_container_outlive_the_agent(self):
        for persistence in "application", "application-attempt", "permanent":
            with self.subTest(persistence):
                path = f"/services/{persistence}"
                agent = self.stopped(persistence=persistence, path=path)
                self.assertIn("JSONServiceRecord", self.record(path))
                self.assertNotIn("could be deregistered", agent.read_log())

    def test_the_next_agent_goes_on_with_the_record(self):
        self.stopped(persistence="application")
        before, made = self.version(), self.identity()
        agent = self.web_agent(persistence="application").start()
        agent.wait_state("registered")
        self.assertEqual(self.version(), before)
        agent.stop()
        agent = self.web_agent("next", persistence="application").start()
        agent.wait_state("registered")
        self.assertEqual(self.identity(), made, "another one marks it, in place")

    def test_remove_removes_it(self):
        self.stopped(persistence="application", on_stop="remove")
        self.assertIsNone(self.record())

    def test_keep_keeps_a_containers_persistent_record(self):
        self.stopped(znode="persistent", on_stop="keep")
        self.assertIn("JSONServiceRecord", self.record())

    def test_a_drain_removes_it_all_the_same(self):
        agent = self.web_agent(persistence="application").start()
        agent.wait_state("registered")
        agent.request("POST", "/v1/agent/drain", {})
        agent.wait_state("withdrawn")
        self.assertEqual(agent.stop(), 0)
        self.assertIsNone(self.record())

    def test_keep_needs_a_persistent_node(self):
        agent = self.web_agent(on_stop="keep").start(wait=False)
        self.assertEqual(agent.wait(), 1)
        self.assertIn("znode = persistent", agent.read_log())

    def test_an_agent_whose_check_fails_keeps_nothing(self):
        agent = self.web_agent(persistence="application", check=FAILS).start()
        wait_until(lambda: agent.check_named("alive")["state"] == "down", "it is down")
        self.assertEqual(agent.stop(), 0)
        self.assertIsNone(self.record())


on_both(globals(), Stop)


class Others(LifeTest):
    def test_a_node_of_another_program_is_refused_and_taken_over_only_on_request(self):
        witness = self.web_agent("witness", path="/services/witness").start()
        witness.wait_state("registered")
        path = "/services/foreign"
        if self.server:
            self.assertEqual(self.server.probe("create", self.node(path), "host-a:1234").returncode,
                0)
        else:
            node = self.store.root / path[1:]
            node.mkdir(parents=True)
            (node / "_record").write_text("host-a:1234")
        agent = self.web_agent(path=path).start()
        agent.wait_state("conflict")
        self.assertIn("another program", agent.status()["components"][0]["reason"])
        self.assertEqual(self.record(path), "host-a:1234")
        agent.write_config(agent.component(path=path, on_conflict="takeover"))
        self.assertEqual(agent.request("POST", "/v1/agent/reload").status, 200)
        agent.wait_state("registered")

    def test_two_live_agents_with_one_record_and_no_id_do_not_take_it_from_each_other(self):
        first = self.web_agent("first", id="").start()
        first.wait_state("registered")
        before = self.identity()
        second = self.web_agent("second", id="").start()
        second.wait_state("conflict")
        self.assertEqual(self.identity(), before)
        first.stop()
        second.wait_state("registered")


class Left(LifeTest):
    """A record without an id that outlives the agent: the successor knows it by the node's
    version."""

    def keeper(self, name="agent", **options):
        agent = self.web_agent(name, id="", persistence="application", description="before",
            **options)
        agent.start().wait_state("registered")
        return agent

    def change(self, agent):
        agent.write_config(agent.component(id="", persistence="application", description="after"))

    def test_a_changed_configuration_changes_the_record_of_the_predecessor(self):
        agent = self.keeper()
        for end in agent.stop, agent.kill:
            end()
            self.assertIsNotNone(self.record())
            self.change(agent)
            agent.start().wait_state("registered")
            self.assertIn("after", self.record())

    def test_a_record_that_another_client_wrote_meanwhile_is_not_ours(self):
        agent = self.keeper()
        agent.stop()
        theirs = berth("--registry", self.registry, "bind", "--overwrite", Agent.PATH, "--webui",
            "http://theirs/")
        self.assertEqual(theirs.returncode, 0, theirs.stderr)
        self.change(agent)
        agent.start().wait_state("conflict")
        self.assertIn("http://theirs/", self.record())

    def test_another_agent_does_not_know_it(self):
        self.keeper().stop()
        other = self.web_agent("other", id="", persistence="application",
            description="after").start()
        other.wait_state("conflict")
        self.assertIn("before", self.record())


class LeftByAKilledAgent(AgentTest):
    def test_the_record_is_known_though_the_agent_never_heard_that_it_was_written(self):
        """It is killed when it is about to note the version of what it wrote."""
        agent = self.web_agent(id="", persistence="application", description="before")
        written = f"{self.folder}/registry{Agent.PATH}/_record"
        agent.start(wait=False, env=preloaded(BERTH_KILL=f"persistent={written}"))
        self.assertEqual(agent.wait(), -signal.SIGKILL)
        self.assertEqual(self.in_registry()["description"], "before")
        agent.write_config(agent.component(id="", persistence="application", description="after"))
        agent.start().wait_state("registered")
        self.assertEqual(self.in_registry()["description"], "after")


on_both(globals(), Others)
on_both(globals(), Left)

if __name__ == "__main__":
    unittest.main()
