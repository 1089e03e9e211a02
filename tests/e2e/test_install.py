"""configure, make install, and the scripts around the build."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from berth import BUILD, PATIENCE, Agent, wait_until

SOURCE = pathlib.Path(os.environ.get("BERTH_SRC_DIR", "..")).resolve()


class Temporary(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_in(self, folder, *command, status=0, **environment):
        result = subprocess.run(
            list(map(str, command)), cwd=folder, env={**os.environ, **environment},
            capture_output=True, text=True,
            timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
        )
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout


class Configure(Temporary):
    def test_directories_may_refer_to_others_as_debhelper_writes_them(self):
        self.run_in(
            self.folder, SOURCE / "configure", "--build=x86_64-linux-gnu", "--prefix=/usr",
            "--includedir=${prefix}/include",
            "--mandir=${prefix}/share/man", "--infodir=${prefix}/share/info", "--sysconfdir=/etc",
            "--localstatedir=/var",
            "--disable-option-checking", "--disable-silent-rules",
            "--libdir=${exec_prefix}/lib/x86_64-linux-gnu",
            "--runstatedir=/run", "--disable-maintainer-mode", "--disable-dependency-tracking",
            "--docdir=${datarootdir}/doc/berth",
        )
        values = dict(re.findall(r"(?m)^(\w+) = (.*)$", (self.folder / "config.mk").read_text()))
        self.assertEqual(values["includedir"], "/usr/include")
        self.assertEqual(values["mandir"], "/usr/share/man")
        self.assertEqual(values["libdir"], "/usr/lib/x86_64-linux-gnu")
        self.assertEqual(values["docdir"], "/usr/share/doc/berth")


class Install(Temporary):
    def setUp(self):
        super().setUp()
        self.said = self.run_in(BUILD, "make", "install", f"DESTDIR={self.folder}", MAKEFLAGS="")

    def installed(self):
        return {f"/{path.relative_to(self.folder)}" for path in self.folder.rglob("*")
            if not path.is_dir()}

    def test_documents_and_completions_are_installed_and_leave_with_the_rest(self):
        values = dict(re.findall(r"(?m)^(\w+) = (.*)$", (BUILD / "config.mk").read_text()))
        share, docs = values["datarootdir"], values["docdir"]
        self.assertLessEqual(
            {f"{docs}/PROTOCOL.md", f"{docs}/LICENSE", f"{docs}/README.md",
                f"{share}/fish/vendor_completions.d/berth.fish",
             f"{share}/bash-completion/completions/berth", f"{share}/zsh/site-functions/_berth"},
            self.installed(),
        )
        self.run_in(BUILD, "make", "uninstall", f"DESTDIR={self.folder}", MAKEFLAGS="")
        self.assertEqual(self.installed(), set())

    def test_it_says_how_to_go_on(self):
        values = dict(re.findall(r"(?m)^(\w+) = (.*)$", (BUILD / "config.mk").read_text()))
        self.assertRegex(self.said, r"(?m)^  ldconfig ")
        units = re.findall(rf"({values['datarootdir']}\S+/berthd\.\w+)",
            self.said.partition("Next:")[2])
        self.assertEqual(len(units), 2)
        self.assertLessEqual(set(units), self.installed())

    def test_the_manuals_refer_to_what_is_installed(self):
        for page in "berthd.8", "berth.1", "libberth.3":
            self.assertTrue("share/doc/berth/PROTOCOL.md" in (SOURCE / "docs" / page).read_text(),
                page)

    def test_the_installed_completions_work(self):
        values = dict(re.findall(r"(?m)^(\w+) = (.*)$", (BUILD / "config.mk").read_text()))
        share = f"{self.folder}{values['datarootdir']}"
        path = f"{self.folder}{values['bindir']}:{os.environ['PATH']}"
        script = f". {share}/bash-completion/completions/berth; complete -p berth"
        self.assertEqual(self.run_in("/", "bash", "-c", script, PATH=path),
            "complete -F _berth berth\n")


class Worker(unittest.TestCase):
    def test_an_agent_in_a_build_tree_finds_its_worker(self):
        with tempfile.TemporaryDirectory(prefix="e2e-") as folder:
            agent = Agent(folder, "zookeeper://127.0.0.1:9/registry")
            agent.program = BUILD / "berthd"
            environment = {name: value for name, value in os.environ.items()
                if name != "BERTH_LIBEXECDIR"}
            self.addCleanup(agent.end)
            agent.start(env=environment)
            worker = wait_until(agent.worker, "the worker is found")
            self.assertEqual(os.readlink(f"/proc/{worker}/exe"), str(BUILD / "berth-zookeeper"))
            agent.stop()


class ContinuousIntegration(Temporary):
    """.ci/run with a quickstart that only prints, and a root that is this one."""

    def run_ci(self, quickstart, status, made=0):
        (self.folder / ".ci").mkdir()
        shutil.copy(SOURCE / ".ci" / "run", self.folder / ".ci" / "run")
        bare = (f"[ $1 = make ] && exit {made}\n"
            "echo in a root of its own; shift 2; exec \"$@\"")
        for name, text in (("quickstart", quickstart), (".ci/bare", bare)):
            script = self.folder / name
            script.write_text(f"#!/bin/sh\n{text}\n")
            script.chmod(0o755)
        return self.run_in("/", self.folder / ".ci" / "run", status=status).splitlines()

    def test_both_parts_run_in_a_root_of_their_own_and_their_sum_is_the_last_line(self):
        lines = self.run_ci(
            'echo "part $1"; case $1 in check) echo "10 passed, 0 failed, 2 skipped" ;; '
                            'check-more) echo "5 passed, 0 failed, 1 skipped" ;; esac', 0)
        self.assertEqual([*lines[0:2], *lines[3:5]],
            ["in a root of its own", "part check", "in a root of its own", "part check-more"])
        self.assertEqual(lines[-1], "15 passed, 0 failed, 3 skipped")

    def test_where_no_root_can_be_made_they_run_on_the_machine_and_say_so(self):
        lines = self.run_ci('echo "part $1"; echo "1 passed, 0 failed, 0 skipped"', 0, made=1)
        self.assertIn("on this machine itself", lines[0])
        self.assertEqual([lines[1], lines[3]], ["part check", "part check-more"])
        self.assertEqual(lines[-1], "2 passed, 0 failed, 0 skipped")

    def test_a_failure_in_the_first_part_is_a_failure_of_all(self):
        lines = self.run_ci('[ $1 = check ] && { echo "10 passed, 1 failed, 0 skipped"; exit 1; }; '
                            'echo "5 passed, 0 failed, 0 skipped"', 1)
        self.assertEqual(lines[-1], "15 passed, 1 failed, 0 skipped")

    def test_a_part_that_breaks_off_counts_as_a_failure(self):
        lines = self.run_ci('[ $1 = check-more ] && exit 1; echo "10 passed, 0 failed, 0 skipped"',
            1)
        self.assertEqual(lines[-1], "10 passed, 1 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
