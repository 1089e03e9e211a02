"""An output with `format = hosts` for /etc/hosts took localhost away, and every other line that
Berth had not written: names that programs need were gone after the first change.

Source: tracker #45, item B.7
"""

import re
import subprocess
import unittest

from berth import PROGRAMS, berth, wait_until
from outputs import FROM, OutputTest, record

BEFORE = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n"
BEHIND = "10.9.9.9\tlegacy.example.org\n"



def lines(host="10.0.0.1"):
    """Of one component; the first name is that of its path."""
    return (f"{host}\tc1.components.prod.web.joe.users.berth c1.prod.web.joe.berth "
        "prod.web.joe.users.berth prod.web.joe.berth\n")


def block(*texts, name="web"):
    return f"# BEGIN berth {name}\n{''.join(texts)}# END berth {name}\n"


class HostsFile(OutputTest):
    def setUp(self):
        super().setUp()
        self.put(f"{FROM}/c1", record(80, host="10.0.0.1"))

    def hosts_agent(self, **options):
        return self.output_agent(format="hosts", **options)

    def change(self, host):
        self.put(f"{FROM}/c1", record(80, host=host))

    def test_lines_of_others_stay_as_they_are(self):
        for before in (BEFORE, BEFORE.rstrip("\n"), "", None):
            with self.subTest(before=before):
                self.file.unlink(missing_ok=True)
                if before is not None:
                    self.file.write_text(before)
                    self.file.chmod(0o640)
                agent = self.hosts_agent().start()
                kept = BEFORE if before else ""
                self.wait_text(kept + block(lines()))
                self.wait_state(agent, "current")
                if before is not None:
                    self.assertEqual(self.file.stat().st_mode & 0o777, 0o640)
                self.file.write_text("# mine \t\n" + self.file.read_text() + BEHIND)
                self.change("10.0.0.2")
                self.wait_text("# mine \t\n" + kept + block(lines("10.0.0.2")) + BEHIND)
                agent.stop()
                self.change("10.0.0.1")

    def test_a_block_that_is_right_is_not_written_again(self):
        self.file.write_text(BEFORE + block(lines()) + BEHIND)
        before = self.file.stat()
        agent = self.hosts_agent(on_change=self.script("touch $0.ran")).start()
        self.wait_state(agent, "current")
        self.assertEqual(self.file.stat().st_ino, before.st_ino)
        # The command runs for lines of ours, whatever the rest of the file is.
        runs = lambda: self.output(agent)["runs"]
        self.assertEqual(runs(), 1)
        self.file.write_text(BEHIND + block(lines()))
        self.put(f"{FROM}/none", {"type": "JSONServiceRecord"})
        self.wait_state(agent, "current")
        self.assertEqual(runs(), 1)

    def test_nobody_left_empties_the_block(self):
        self.file.write_text(BEFORE + block("old\n") + BEHIND)
        self.hosts_agent(when_empty="write").start()
        self.wait_text(BEFORE + block(lines()) + BEHIND)
        self.remove(f"{FROM}/c1")
        self.wait_text(BEFORE + block() + BEHIND)

    def test_marks_that_are_not_whole_stop_it_and_a_mended_file_is_written(self):
        cases = {
            BEFORE + "# BEGIN berth web\nx\n": "no \"# END berth web\" follows",
            BEFORE + "# END berth web\n": "without \"# BEGIN berth web\"",
            block() + block(): "a second \"# BEGIN berth web\"",
            "# BEGIN berth web\n" + block(name="b"): "no \"# END berth web\" follows",
            "# BEGIN berth web\n" + block(): "no \"# END berth web\" follows",
        }
        for text, why in cases.items():
            with self.subTest(text=text):
                self.file.write_text(text)
                agent = self.hosts_agent().start()
                self.wait_state(agent, "failed")
                self.assertIn(why, self.output(agent)["why"])
                self.assertEqual(self.file.read_text(), text)
                checked = subprocess.run([PROGRAMS / "berthd", "-t", "-c", agent.config],
                    text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                self.assertIn(why, checked.stdout)
                self.file.write_text(BEFORE)
                self.wait_text(BEFORE + block(lines()))
                agent.stop()

    def test_several_outputs_share_a_file(self):
        other = self.output_options(format="hosts", min_instances="1")
        self.file.write_text(BEFORE)
        agent = self.output_agent(format="hosts", more={"output b": other}).start()

        def both():
            text = self.file.read_text()
            return block(lines()) in text and block(lines(), name="b") in text

        wait_until(both, "both blocks are there")
        self.assertEqual(len(self.file.read_text()), len(BEFORE + block(lines()) +
            block(lines(), name="b")))
        self.assertTrue(self.file.read_text().startswith(BEFORE))
        self.change("10.0.0.3")
        wait_until(lambda: self.file.read_text().count(lines("10.0.0.3")) == 2, "both follow")
        agent.stop()

    def test_check_sees_the_whole_file_and_may_refuse_it(self):
        seen = self.folder / "seen"
        check = self.script(f'cp "$1" {seen} && grep -q localhost "$1"', "check")
        self.file.write_text(BEHIND)
        agent = self.hosts_agent(check=f"{check} {{}}").start()
        self.wait_state(agent, "failed")
        self.assertEqual(seen.read_text(), BEHIND + block(lines()))
        self.assertEqual(self.file.read_text(), BEHIND)
        self.file.write_text(BEFORE)
        self.wait_text(BEFORE + block(lines()))

    def test_a_file_that_changes_while_it_is_checked_is_not_lost(self):
        go = self.folder / "go"
        check = self.script(f"touch {go}.asked; until test -e {go}; do sleep 0.05; done", "check")
        self.file.write_text(BEFORE)
        self.hosts_agent(check=check).start()
        wait_until((self.folder / "go.asked").exists, "the check runs")
        self.file.write_text(BEFORE + BEHIND)
        go.touch()
        self.wait_text(BEFORE + BEHIND + block(lines()))

    def test_the_file_of_a_former_version_loses_its_lines_once(self):
        former = f"# components of {FROM}\n{lines()}{lines('10.0.0.7')}"
        self.file.write_text(former + BEFORE)
        agent = self.hosts_agent().start()
        self.wait_text(BEFORE + block(lines()))
        agent.stop()

    def test_the_command_prints_no_marks(self):
        agent = self.agent("reader").start()
        printed = berth("--socket", agent.socket, "render", "--format", "hosts", FROM)
        self.assertEqual(re.sub("^#.*\n", "", printed.stdout), lines())

    def test_another_format_for_the_hosts_file_is_doubted(self):
        agent = self.output_agent(format="lines", path="/etc/hosts")
        checked = subprocess.run([PROGRAMS / "berthd", "-t", "-c", agent.config], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertRegex(checked.stdout, "`path`: /etc/hosts (would hold nothing else|is a mount)")


if __name__ == "__main__":
    unittest.main()
