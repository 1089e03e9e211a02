"""A new configuration while the agent runs: what changed changes, all else is not touched, a bad
file changes nothing."""

import copy
import json
import os
import random
import re
import signal
import unittest

from berth import Agent, exists, wait_until
from lifecycle import LifeTest, on_both, rounds

SEED = int(os.environ.get("BERTH_SEED", "6"))


class Edits:
    """A model of a configuration and random edits of it, half of them mistakes. Same seed, same
    edits."""

    NAMES = ["one", "two", "three", "four", "five"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.components = {}
        for name in self.NAMES[:3]:
            self.add(name)

    def add(self, name):
        self.components[name] = {
            "leaf": name, "text": "first", "endpoints": {"rest": 8080}, "attribute": "",
            "ephemeral": True, "check": True,
            "persistence": "container",
        }

    @staticmethod
    def path(component):
        return Agent.PATH.replace("web-1", component["leaf"])

    def sections(self):
        """In an order of their own: the place of a section must not matter."""
        sections = {}
        for name, component in self.components.items():
            sections[f"component {name}"] = {
                "user": "joe", "service_class": "org-example-web", "instance": "test",
                "name": component["leaf"],
                "id": f"container_1_0001_01_00000{self.NAMES.index(name)}",
                "description": component["text"],
                "znode": "ephemeral" if component["ephemeral"] else "persistent",
                "persistence": component["persistence"],
            }
            if component["attribute"]:
                sections[f"component {name}"]["attribute.colour"] = component["attribute"]
            for endpoint, port in component["endpoints"].items():
                sections[f"endpoint {endpoint}-{name}"] = {
                    "component": name, "api": "http://example.org/rest", "protocol": "REST",
                    "address_type": "uri",
                    "address": f"http://127.0.0.1:{port}/",
                }
            if component["check"]:
                sections[f"check alive-{name}"] = {
                    "component": name, "type": "command", "command": "true", "interval": "100ms",
                }
        items = list(sections.items())
        self.random.shuffle(items)
        return dict(items)

    def edit(self):
        """A change that is good; the names that it touches."""
        name = self.random.choice(list(self.components))
        component = self.components[name]
        kind = self.random.choice(
            ["text", "port", "endpoint", "attribute", "move", "znode", "check", "remove", "add",
                "persistence"]
        )
        if kind == "text":
            component["text"] = f"text {self.random.random()}"
        elif kind == "port":
            component["endpoints"]["rest"] = self.random.randrange(1, 65536)
        elif kind == "endpoint":
            if component["endpoints"].pop("more", None) is None:
                component["endpoints"]["more"] = 9090
        elif kind == "attribute":
            component["attribute"] = f"{self.random.random()}"
        elif kind == "move":
            component["leaf"] = f"{name}-{self.random.randrange(1000)}"
        elif kind == "znode":
            component["ephemeral"] = not component["ephemeral"]
        elif kind == "check":
            component["check"] = not component["check"]
        elif kind == "persistence":
            component["persistence"] = self.random.choice(["application", "permanent", "container"])
        elif kind == "remove" and len(self.components) > 1:
            del self.components[name]
        else:
            absent = [candidate for candidate in self.NAMES if candidate not in self.components]
            name = absent[0] if absent else name
            self.add(name)
        return kind, {name}

    MISTAKES = [
        ("component broken", {"user": "@no.name"}),
        ("endpoint lost", {"component": "nobody", "api": "x", "protocol": "REST",
            "address_type": "uri", "address": "x:"}),
        ("check lost", {"type": "command", "command": "true", "component": "nobody"}),
        ("agent", {"drain_delay": "soon"}),
        ("agent", {"colour": "blue"}),
        ("registry", {"session_timeout": "77s"}),
        ("agent", {"state_dir": "/nowhere"}),
        ("nonsense", {"key": "value"}),
    ]

    def mistake(self):
        return self.random.choice(self.MISTAKES)


class RandomEdits(LifeTest):
    def write(self, agent, edits, mistake=None):
        sections = edits.sections()
        if mistake:
            section, options = mistake
            sections.setdefault(section, {}).update(options)
        agent.write_config(sections)

    def reload(self, agent):
        return agent.request("POST", "/v1/agent/reload")

    def records(self, paths, registry=None):
        """As two agents write them: but for their marks."""
        return {path: (re.sub(r',"berth:holder":"\w+"', "", self.record(path, registry) or ""),
            self.is_ephemeral(path, registry)) for path in paths}

    def expected(self, number, edits, paths):
        """What a fresh agent writes into an empty registry."""
        registry = f"{self.registry}-{number}"
        fresh = self.agent(f"fresh{number}", registry=registry)
        self.write(fresh, edits)
        fresh.start()
        for name in edits.components:
            fresh.wait_state("registered", name)
        records = self.records(paths, registry)
        fresh.stop()
        return records

    def test_after_each_the_registry_is_what_a_fresh_agent_would_write(self):
        edits = Edits(SEED)
        agent = self.agent()
        self.write(agent, edits)
        agent.start()
        for name in edits.components:
            agent.wait_state("registered", name)
        paths = {Edits.path(component) for component in edits.components.values()}
        expected = self.expected("start", edits, paths)
        for number in range(rounds(20)):
            before = copy.deepcopy(edits.components)
            versions = {path: self.version(path) for path in paths}
            broken = number % 2 == 1
            with self.subTest(number=number, seed=SEED, broken=broken):
                if broken:
                    # A good edit next to the mistake must not come through either.
                    kind, _ = edits.edit()
                    mistake = edits.mistake()
                    self.write(agent, edits, mistake)
                    answer = self.reload(agent)
                    self.assertGreaterEqual(answer.status, 400, (kind, mistake, answer.body))
                    self.assertTrue(agent.status()["reload_problems"], mistake)
                    self.assertEqual({path: self.version(path) for path in paths}, versions,
                        (kind, mistake))
                    edits.components = before
                    continue
                kind, touched = edits.edit()
                self.write(agent, edits)
                answer = self.reload(agent)
                self.assertLess(answer.status, 300, answer.body)
                self.assertIsNone(agent.status()["reload_problems"])
                paths |= {Edits.path(component) for component in edits.components.values()}
                expected = self.expected(number, edits, paths)
                wait_until(
                    lambda: self.records(paths) == expected,
                    f"the registry is as it should be after {kind} of {touched}: "
                    f"{self.records(paths)} instead of {expected}\n{agent.read_log()[-3000:]}",
                )
                for name, component in edits.components.items():
                    if name not in touched:
                        path = Edits.path(component)
                        self.assertEqual(self.version(path), versions[path], (kind, name))


on_both(globals(), RandomEdits)


class Reload(LifeTest):
    def hup(self, agent):
        before = agent.read_log().count("config: in force -> ")
        agent.signal(signal.SIGHUP)
        wait_until(lambda: agent.read_log().count("config: in force -> ") > before,
            "it has read the configuration")

    def test_an_unchanged_check_keeps_state_counts_and_schedule(self):
        agent = self.web_agent(extra={"check alive": {"interval": "1h"}}).start()
        agent.wait_state("registered")
        before = agent.check_named("alive")
        version = self.version()
        for _ in range(3):
            self.hup(agent)
        after = agent.check_named("alive")
        self.assertEqual(after["counts"], before["counts"])
        self.assertEqual(after["state"], "up")
        self.assertAlmostEqual(after["next_run"], before["next_run"], delta=0.1)
        self.assertEqual(self.version(), version)

    def test_a_changed_check_starts_anew_and_the_record_stays_until_its_verdict(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        version = self.version()
        gate = self.folder / "gate"
        os.mkfifo(gate)
        agent.sections["check alive"]["command"] = f"/bin/sh -c 'read line < {gate}'"
        agent.write_config(agent.sections)
        self.hup(agent)
        self.assertEqual(agent.check_named("alive")["state"], "pending")
        self.assertEqual(self.version(), version)
        gate.write_text("go\n")
        wait_until(lambda: agent.check_named("alive")["state"] == "up", "it is up")
        self.assertEqual(self.version(), version)

    def test_a_component_that_moves_keeps_its_checks_state(self):
        agent = self.agent()
        sections = agent.component("true", name="one")
        sections["check aliveone"]["interval"] = "1h"
        agent.write_config(sections)
        agent.start()
        agent.wait_state("registered", "one")
        counts = agent.check_named("aliveone")["counts"]
        sections["component one"]["name"] = "moved"
        agent.write_config(sections)
        self.hup(agent)
        old, new = (Agent.PATH.replace("web-1", leaf) for leaf in ("one", "moved"))
        wait_until(lambda: self.record(new) and not self.record(old), "the record has moved")
        self.assertEqual(agent.check_named("aliveone")["counts"], counts)

    def test_a_failing_component_that_is_removed_leaves_nothing(self):
        flag = self.folder / "flag"
        flag.touch()
        agent = self.agent()
        sections = {**agent.component("true", name="one"), **agent.component(exists(flag),
            name="two")}
        agent.write_config(sections)
        agent.start()
        agent.wait_state("registered", "two")
        flag.unlink()
        agent.wait_state("withdrawn", "two")
        self.assertIn(b'{component="two"', agent.get("/metrics").body)
        for section in ("component two", "endpoint resttwo", "check alivetwo"):
            del sections[section]
        agent.write_config(sections)
        self.hup(agent)
        self.assertEqual([item["name"] for item in agent.status()["components"]], ["one"])
        self.assertNotIn(b'{component="two"', agent.get("/metrics").body)
        self.assertEqual(agent.stop(), 0)

    def test_removed_and_added_again_at_once(self):
        agent = self.agent()
        both = {**agent.component("true", name="one"), **agent.component("true", name="two")}
        one = agent.component("true", name="one")
        agent.write_config(both)
        agent.start()
        agent.wait_state("registered", "two")
        path = Agent.PATH.replace("web-1", "two")
        for _ in range(rounds(20)):
            agent.write_config(one)
            self.assertLess(agent.request("POST", "/v1/agent/reload").status, 300)
            agent.write_config(both)
            self.assertLess(agent.request("POST", "/v1/agent/reload").status, 300)
        agent.wait_state("registered", "two")
        wait_until(lambda: self.record(path), "the record is there")
        agent.write_config(one)
        self.hup(agent)
        wait_until(lambda: not self.record(path), "the record is gone")

    def test_a_persistent_record_may_change_its_id(self):
        agent = self.web_agent(check=None, znode="persistent").start()
        agent.wait_state("registered")
        agent.sections["component"]["id"] = "container_1_0001_01_000002"
        agent.write_config(agent.sections)
        self.hup(agent)
        wait_until(lambda: "container_1_0001_01_000002" in (self.record() or ""),
            "the record has the new id")
        agent.wait_state("registered")
        self.assertEqual(agent.stop(), 0)
        self.assert_gone(agent)

    def test_a_persistent_record_is_registered_until_a_new_check_has_its_verdict(self):
        agent = self.web_agent(check=None, znode="persistent").start()
        agent.wait_state("registered")
        version = self.version()
        # No FIFO: the killed agent's command would read it too.
        gate = self.folder / "gate"
        slow = f"/bin/sh -c 'until test -e {gate}; do sleep 0.01; done'"
        agent.sections.update({"check slow": {"command": slow, "timeout": "60s"}})
        agent.write_config(agent.sections)
        self.hup(agent)
        self.assertEqual(agent.component_state(), "registered")
        agent.kill()
        agent.start()
        agent.wait_state("registered")
        self.assertEqual(agent.check_named("slow")["state"], "pending")
        self.assertEqual(agent.get("/ready").status, 200)
        self.assertEqual(self.version(), version)
        gate.touch()
        wait_until(lambda: agent.check_named("slow")["state"] == "up", "it is up")
        self.assertEqual(self.version(), version)

    def test_options_that_cannot_change_are_named(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        version = self.version()
        for section, key, value in (
            ("agent", "socket", self.folder / "other.sock"),
            ("agent", "socket_mode", "0600"),
            ("agent", "state_dir", self.folder / "other"),
            ("agent", "listen", "127.0.0.1:1"),
            ("registry", "url", "dir:/nowhere"),
            ("registry", "session_timeout", "7s"),
            ("registry", "realm", "EXAMPLE"),
        ):
            with self.subTest(key=key):
                sections = copy.deepcopy(agent.sections)
                sections.setdefault(section, {})[key] = value
                agent.write_config(sections)
                answer = agent.request("POST", "/v1/agent/reload")
                self.assertEqual(answer.status, 422, answer.body)
                self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
                self.assertEqual((answer.json["title"], answer.json["reloaded"]), ("Failed", False))
                self.assertIn(f"[{section}] {key} cannot change", answer.body.decode())
                self.assertIn(f"[{section}] {key} cannot change",
                    json.dumps(agent.status()["reload_problems"]))
                self.assertIn(f"[{section}] {key} cannot change", agent.read_log())
        agent.write_config(agent.sections)
        self.assertLess(agent.request("POST", "/v1/agent/reload").status, 300)
        self.assertIsNone(agent.status()["reload_problems"])
        self.assertEqual(self.version(), version)

    def test_the_cache_and_the_metrics_follow(self):
        agent = self.web_agent().start()
        agent.wait_state("registered")
        of_check = b'berth_check_up{check="alive"}'
        self.assertIn(of_check, agent.get("/metrics").body)
        self.assertIn(b"\nberth_cache_entries 0\n", agent.get("/metrics").body)
        del agent.sections["check alive"]
        agent.sections["cache"] = {"warm": "/users/**"}
        agent.write_config(agent.sections)
        self.hup(agent)
        wait_until(lambda: b"\nberth_cache_entries 0\n" not in agent.get("/metrics").body,
            "what is warm is kept")
        self.assertNotIn(of_check, agent.get("/metrics").body)

    def test_while_stopping_it_is_refused(self):
        agent = self.web_agent(extra={"agent": {"drain_delay": "1h"}}).start()
        agent.wait_state("registered")
        agent.signal(signal.SIGTERM)
        wait_until(lambda: agent.status()["phase"] == "lingering", "it is stopping")
        answer = agent.request("POST", "/v1/agent/reload")
        self.assertGreaterEqual(answer.status, 400)
        agent.signal(signal.SIGHUP)
        self.assertEqual(agent.status()["phase"], "lingering")
        agent.signal(signal.SIGQUIT)
        self.assertEqual(agent.wait(), 0)
        self.assert_gone(agent)


on_both(globals(), Reload)
del LifeTest

if __name__ == "__main__":
    unittest.main()
