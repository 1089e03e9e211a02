"""docs/PROTOCOL.md: its programs run as they are written there, and it names every request that the
agent has."""

import re
import shutil
import unittest

from documented import DOCUMENT, DocumentedTest, example


def members(value):
    """The names of all members, at any depth."""
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value,
            list) else ():
        yield from members(inner)


class Documented(DocumentedTest):
    def interpreted(self, language, interpreter):
        self.assertTrue(shutil.which(interpreter), f"{interpreter} is not installed")
        program = self.folder / "program"
        program.write_text(example(language))
        self.follows([interpreter, program])

    def test_shell(self):
        self.interpreted("sh", "sh")

    def test_python(self):
        self.interpreted("python", "python3")

    def test_node(self):
        self.interpreted("javascript", "node")

    def test_every_request_is_described(self):
        text = DOCUMENT.read_text()
        for item in self.server.get("/").json["resources"]:
            self.assertIn(item["path"], text)

    def test_every_member_of_the_agents_own_views_is_described(self):
        agent = self.web_agent("views").start()
        agent.wait_state("registered")
        code = re.findall(r"`([^`\n]+)`|^```json\n(.*?)^```", DOCUMENT.read_text(), re.S | re.M)
        known = {word for spans in code for word in re.findall(r"[a-z][a-z_-]*", " ".join(spans))}
        views = [agent.get(f"/v1/agent{path}").json for path in ("", "/checks", "/history")]
        # the name of the endpoint
        unknown = {name for view in views for name in members(view)} - known - {"rest"}
        self.assertEqual(unknown, set())


if __name__ == "__main__":
    unittest.main()
