"""The blocks of code in README.md and docs/ that can run, run: configurations are good, commands
are such that programs take them."""

import json
import pathlib
import re
import shlex
import subprocess
import unittest

from berth import BUILD, PATIENCE, AgentTest, berth

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md",
    *sorted((SOURCE / "docs").glob("*.md"))]
# Its blocks are run as a whole by test_first_hour.py, as programs of PROTOCOL.md by
# test_lookups_documented.py.
TRANSCRIPTS = {"FIRST-HOUR.md"}

# Every other block, by document and language: the test that runs it, or why nothing can.
FATES = {
    ("README.md", ""): "a diagram, not code",
    ("README.md", "ini"): "test_every_configuration_is_good",
    ("README.md", "dockerfile"): "test_the_entry_point_is_one",
    ("README.md", "console"): "test_the_agent_takes_every_command_of_berth",
    ("docs/ARCHITECTURE.md", ""): "a diagram and a table of folders, not code",
    ("docs/BACKUP.md", "sh"): "tests/e2e/test_backup.py",
    ("docs/BRIDGE.md", ""): "a diagram, not code",
    ("docs/BRIDGE.md", "ini"): "test_every_configuration_is_good",
    ("docs/DIALECTS.md", "ini"): "test_every_configuration_is_good",
    ("docs/FIRST-HOUR.md", "console"): "tests/e2e/test_first_hour.py",
    ("docs/FOLLOW.md", "haproxy"): "tests/e2e/test_output_recipes.py",
    ("docs/FOLLOW.md", "ini"): "test_every_configuration_is_good",
    ("docs/FOLLOW.md", "json"): "test_every_json_is_json",
    ("docs/FOLLOW.md", "yaml"): "tests/more/test_prometheus.py",
    ("docs/FOLLOW.md", "sh"): "tests/e2e/test_output_recipes.py",
    ("docs/MIGRATING.md", "ini"): "test_every_configuration_is_good",
    ("docs/MIGRATING.md", "yaml"): "compose files with Registrator, and without it",
    ("docs/PROTOCOL.md", "json"): "test_every_json_is_json",
    ("docs/PROTOCOL.md", "sh"): "tests/e2e/test_lookups_documented.py",
    ("docs/PROTOCOL.md", "python"): "tests/e2e/test_lookups_documented.py",
    ("docs/PROTOCOL.md", "javascript"): "tests/e2e/test_lookups_documented.py",
    ("docs/PROTOCOL.md", "go"): "tests/more/test_go.py",
    ("docs/RELEASING.md", "sh"): "tests/more/test_packages.py",
    ("docs/TROUBLESHOOTING.md", "console"): "test_the_agent_takes_every_command_of_berth",
}


def blocks(language):
    for document in DOCUMENTS:
        if document.name in TRANSCRIPTS:
            continue
        for text in re.findall(rf"(?ms)^```{language}\n(.*?)^```$", document.read_text()):
            yield document.name, text


class Blocks(AgentTest):
    def test_every_block_has_a_test(self):
        found = {(str(file.relative_to(SOURCE)), language) for file in DOCUMENTS
                 for language, _ in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", file.read_text())}
        self.assertEqual(found, set(FATES))
        for fate in FATES.values():
            if fate.startswith("test_"):
                self.assertTrue(hasattr(self, fate), fate)
            elif fate.startswith("tests/"):
                self.assertTrue((SOURCE / fate).exists(), fate)

    def test_the_entry_point_is_one(self):
        """Docker's list form; berthd takes the words behind its own as the program to run."""
        texts = [text for _, text in blocks("dockerfile")]
        self.assertEqual(len(texts), 1)
        form = re.fullmatch(r"ENTRYPOINT (\[.*\])\nSTOPSIGNAL SIGTERM\n", texts[0])
        words = json.loads(form.group(1))
        self.assertEqual(words[:2], ["berthd", "--"])
        program = self.folder / "catalina.sh"
        program.write_text("#!/bin/sh\necho \"started with $*\"\n")
        program.chmod(0o755)
        agent = self.web_agent()
        result = subprocess.run([BUILD / "berthd", "-c", agent.config, *words[1:2], program,
            *words[3:]], capture_output=True, text=True, timeout=PATIENCE,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("started with " + " ".join(words[3:]), result.stdout)

    def test_every_configuration_is_good(self):
        count = 0
        for number, (name, text) in enumerate(blocks("ini")):
            with self.subTest(document=name):
                file = self.folder / f"{number}.ini"
                file.write_text(text)
                result = subprocess.run([BUILD / "berthd", "-t", "-c", file], capture_output=True,
                    text=True, timeout=PATIENCE, check=False)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                count += 1
        self.assertGreater(count, 0)

    def test_every_json_is_json(self):
        for name, text in blocks("json"):
            with self.subTest(document=name):
                json.loads(text)

    def test_the_agent_takes_every_command_of_berth(self):
        """What a reader types, on an agent with other names: the exit status is that of an answer,
        never of wrong usage."""
        agent = self.web_agent().start()
        agent.wait_state("registered")
        commands = [(name, line[2:]) for name, text in blocks("console")
            for line in text.splitlines() if line.startswith("$ ")]
        commands = [(name, re.sub(r"\s+#.*", "", line)) for name, line in commands]
        own = [(name, line) for name, line in commands if line.startswith("berth ")
            and not re.search(r"[|&;<>]", line)]
        self.assertGreater(len(own), 5)
        for name, line in own:
            words = shlex.split(line)[1:]
            if words[0] == "watch":
                words += ["--once"]
            if words[0] in ("top", "web"):  # until they are interrupted: test_top.py, test_web.py
                words += ["--help"]
            with self.subTest(document=name, command=line):
                result = berth("--socket", agent.socket, *words)
                self.assertIn(result.returncode, (0, 3), result.stderr)

    def test_curls_requests_exist(self):
        agent = self.web_agent().start()
        found = 0
        for name, text in blocks("console"):
            for path in re.findall(r"curl .*http://(?:berth|localhost)(/\S*)", text):
                with self.subTest(document=name, path=path):
                    answer = agent.get(path.strip("'\""))
                    self.assertTrue(answer.status == 200
                        or answer.json.get("title") in ("PathNotFound", "NoRecord"), answer.body)
                    found += 1
        self.assertGreater(found, 0)


del AgentTest

if __name__ == "__main__":
    unittest.main()
