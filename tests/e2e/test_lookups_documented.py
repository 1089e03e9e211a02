"""docs/PROTOCOL.md: its programs run as they are written there, and it names every request that the agent has."""

import shutil
import unittest

from documented import DOCUMENT, DocumentedTest, example


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


if __name__ == "__main__":
    unittest.main()
