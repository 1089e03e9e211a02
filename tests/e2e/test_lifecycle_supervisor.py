"""berthd -- CMD: the container's main process, as PID 1 of a namespace of its own where that
matters."""

import contextlib
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time
import unittest

from berth import BUILD, PATIENCE, Agent, exists, has_ended, wait_until
from lifecycle import LifeTest, on_both, rounds, zombies_of
from rights import needs

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def shell(script):
    return ["/bin/sh", "-c", script]


class MainProcess(LifeTest):
    def supervised(self, command, check="true", extra=None, **keywords):
        agent = self.web_agent(check=check, command=command, extra=extra, **keywords)
        return agent

    def trapping(self, traps, **keywords):
        """A registered agent whose main process has set its traps, and waits."""
        ready = self.folder / "ready"
        agent = self.supervised(shell(f"{traps}; touch {ready}; while :; do sleep 0.01; done"),
            **keywords).start()
        wait_until(ready.exists, "the traps are set")
        agent.wait_state("registered")
        return agent

    def run_to_its_end(self, command, **keywords):
        agent = self.supervised(command, **keywords)
        agent.start(wait=False)
        return agent, agent.wait()

    def test_its_exit_status_is_ours(self):
        for script, status in (("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143),
                ("kill -KILL $$", 137)):
            with self.subTest(script=script):
                agent, found = self.run_to_its_end(shell(script))
                self.assertEqual(found, status, agent.read_log())

    def test_it_gets_its_own_stop_signal(self):
        said = self.folder / "said"
        agent = self.trapping(
            f"trap 'echo quit > {said}; exit 9' QUIT; trap 'echo term > {said}; exit 5' TERM",
            extra={"agent": {"stop_signal": "QUIT", "stop_timeout": "60s"}},
        )
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.wait(), 9)
        self.assertEqual(said.read_text(), "quit\n")

    def test_the_signal_that_ended_it_has_a_name(self):
        agent, found = self.run_to_its_end(shell("kill -SEGV $$"))
        self.assertEqual(found, 139)
        lines = [line for line in agent.read_log().splitlines() if "killed by SIGSEGV" in line]
        self.assertEqual(len(lines), 1, agent.read_log())
        self.assertIn(" warn ", lines[0])

    def test_restart_always_starts_again_what_ended_well_until_the_limit(self):
        runs = self.folder / "runs"
        agent, found = self.run_to_its_end(
            shell(f"echo x >> {runs}; exit 0"),
            extra={"agent": {"restart": "always", "restart_limit": "2"}}
        )
        self.assertEqual(found, 0)
        self.assertEqual(runs.read_text(), "x\n" * 3)
        self.assertIn("it ended 3 times in a row: not started again", agent.read_log())

    def test_it_dies_with_a_killed_agent(self):
        said = self.folder / "said"
        agent = self.trapping(
            f"trap 'echo quit > {said}; exit 0' QUIT", extra={"agent": {"stop_signal": "QUIT"}}
        )
        main = agent.status()["main_process"]["pid"]
        agent.kill()
        wait_until(lambda: has_ended(main), "it ended with the agent")
        self.assertEqual(said.read_text(), "quit\n")

    def test_before_and_after_it_commands_run(self):
        order = self.folder / "order"
        script = self.folder / "say.sh"
        script.write_text(f"#!/bin/sh\necho $1 >> {order}\n")
        script.chmod(0o755)
        agent, found = self.run_to_its_end(
            shell(f"echo main >> {order}; exit 4"),
            extra={"agent": {"pre_start": f"{script} before", "post_stop": f"{script} after"}},
        )
        self.assertEqual(found, 4)
        self.assertEqual(order.read_text().split(), ["before", "main", "after"])

    def test_a_restart_runs_them_again(self):
        order = self.folder / "order"
        script = self.folder / "say.sh"
        script.write_text(f"#!/bin/sh\necho $1 >> {order}\n")
        script.chmod(0o755)
        agent, found = self.run_to_its_end(
            shell(f"echo main >> {order}; exit 4"),
            extra={"agent": {
                "restart": "on-failure", "restart_limit": "1", "pre_start": f"{script} before",
                "post_stop": f"{script} after",
            }},
        )
        self.assertEqual(found, 4)
        self.assertEqual(order.read_text().split(), ["before", "main", "after"] * 2)

    def test_when_pre_start_fails_it_is_not_started(self):
        begun = self.folder / "begun"
        agent, found = self.run_to_its_end(
            shell(f"touch {begun}"),
            extra={"agent": {"pre_start": "/bin/sh -c 'echo no disk; exit 3'"}}
        )
        self.assertEqual(found, 3)
        self.assertFalse(begun.exists())
        self.assertIn("pre_start: exit status 3: no disk", agent.read_log())

    def test_a_stop_does_not_wait_for_pre_start(self):
        begun = self.folder / "begun"
        agent = self.supervised(
            shell("exit 1"),
            extra={"agent": {"pre_start": f"/bin/sh -c 'touch {begun}; sleep 1000'"}}
        ).start()
        wait_until(begun.exists, "pre_start runs")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.wait(), 0)

    def test_a_program_that_cannot_be_run_is_127_or_126_and_never_registered(self):
        plain = self.folder / "plain"
        plain.write_text("not a program")
        for program, status in ((self.folder / "missing", 127), (plain, 126), (self.folder, 126)):
            with self.subTest(program=program):
                witness = self.witness()
                agent, found = self.run_to_its_end([str(program)], check=None)
                self.assertEqual(found, status, agent.read_log())
                self.assertEqual(witness.end(), [None])

    def test_registered_only_when_it_runs_and_checks_are_up(self):
        gate = self.folder / "gate"
        agent = self.supervised(shell("sleep 1000"), check=exists(gate)).start()
        wait_until(lambda: agent.check_named("alive")["counts"].get("failing", 0) > 0,
            "the check has run")
        self.assertIsNone(self.identity())
        self.assertTrue(agent.status()["main_process"]["running"])
        gate.touch()
        agent.wait_state("registered")

    def test_its_end_deregisters_at_once_and_ends_the_agent(self):
        gate = self.folder / "gate"
        os.mkfifo(gate)
        agent = self.supervised(
            shell(f"read line < {gate}; exit 7"), extra={"agent": {"drain_delay": "1h"}}
        ).start()
        agent.wait_state("registered")
        gate.write_text("end\n")
        self.assertEqual(agent.wait(), 7)
        self.assert_gone(agent)

    def test_the_record_is_gone_before_it_gets_term(self):
        order = self.folder / "order"
        present = f"{self.store.root}{Agent.PATH}/_record" if not self.server else ""
        probe = f"test -e {present}"
        if self.server:
            probe = " ".join(map(str, self.server.probe_command("stat", self.node())))
        agent = self.trapping(
            f"trap '({probe}) >/dev/null 2>&1 && echo present > {order} || echo absent > {order}; "
            "exit 5' TERM",
            extra={"agent": {"stop_timeout": "60s"}},
        )
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.wait(), 5)
        self.assertEqual(order.read_text(), "absent\n")

    def test_drain_delay_lies_between_deregistering_and_term(self):
        stamp = self.folder / "stamp"
        agent = self.trapping(
            f"trap 'cat /proc/uptime > {stamp}; exit 0' TERM",
            extra={"agent": {"drain_delay": "700ms", "stop_timeout": "60s"}},
        )
        begin = time.clock_gettime(time.CLOCK_BOOTTIME)
        agent.signal(signal.SIGTERM)
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.wait(), 0)
        self.assert_gone(agent)
        self.assertGreater(float(stamp.read_text().split()[0]) - begin, 0.68)  # it is cut to 10 ms

    def test_during_drain_delay_the_record_is_gone_and_all_else_goes_on(self):
        stamp = self.folder / "stamp"
        agent = self.trapping(f"trap 'touch {stamp}; exit 0' TERM",
            extra={"agent": {"drain_delay": "1h"}})
        main = agent.status()["main_process"]["pid"]
        agent.signal(signal.SIGTERM)
        wait_until(lambda: self.identity() is None, "the record is gone")
        wait_until(lambda: agent.status()["phase"] == "lingering", "it stays")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.get("/live").status, 200)
        self.assertFalse(stamp.exists())
        os.kill(main, signal.SIGKILL)
        self.assertEqual(agent.wait(), 137)

    def test_kill_after_stop_timeout(self):
        agent = self.trapping("trap '' TERM", extra={"agent": {"stop_timeout": "300ms"}})
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.wait(), 137)
        self.assert_gone(agent)

    def test_quit_ends_it_and_leaves_the_session(self):
        agent = self.trapping("trap 'exit 4' TERM", extra={"agent": {"stop_timeout": "60s"}})
        before = self.identity()
        agent.signal(signal.SIGQUIT)
        self.assertEqual(agent.wait(), 4)
        if self.server:
            self.assertEqual(self.identity(), before)

    def test_it_survives_an_upgrade_and_its_end_is_noticed_after_it(self):
        gate = self.folder / "gate"
        os.mkfifo(gate)
        agent = self.supervised(shell(f"read line < {gate}; exit 9")).start()
        agent.wait_state("registered")
        before = self.identity()
        main = agent.status()["main_process"]["pid"]
        for _ in range(rounds(5)):
            agent.upgrade()
        agent.wait_state("registered")
        self.assertEqual(agent.status()["main_process"], {"running": True, "pid": main})
        self.assertEqual(self.identity(), before)
        gate.write_text("end\n")
        self.assertEqual(agent.wait(), 9)

    def test_its_death_during_an_upgrade_is_not_lost(self):
        for _ in range(rounds(10)):
            agent = self.supervised(shell("sleep 1000")).start()
            agent.wait_state("registered")
            main = agent.status()["main_process"]["pid"]
            agent.signal(signal.SIGUSR2)
            wait_until(lambda: "executing " in agent.read_log(), "it is about to execute")
            os.kill(main, signal.SIGKILL)
            self.assertEqual(agent.wait(), 137)
            self.assert_gone(agent)
            agent.log.unlink()

    def test_restart_on_failure_waits_longer_each_time_and_withdraws_meanwhile(self):
        stamps = self.folder / "stamps"
        agent = self.supervised(
            shell(f"cat /proc/uptime >> {stamps}; test $(wc -l < {stamps}) -ge 4 || exit 3; sleep "
                  "1000"),
            extra={"agent": {"restart": "on-failure"}},
        ).start()
        wait_until(lambda: stamps.exists() and len(stamps.read_text().splitlines()) == 4,
            "the fourth run")
        agent.wait_state("registered")
        times = [float(line.split()[0]) for line in stamps.read_text().splitlines()]
        pauses = [later - earlier for earlier, later in zip(times, times[1:])]
        # Jitter takes at most half of a pause; each next is twice as long.
        for pause, least in zip(pauses, (0.2, 0.4, 0.8)):
            self.assertGreater(pause, least)
        self.assertEqual(agent.stop(), 143)

    def test_a_clean_end_is_not_restarted(self):
        agent, status = self.run_to_its_end(shell("exit 0"),
            extra={"agent": {"restart": "on-failure"}})
        self.assertEqual(status, 0)
        self.assertNotIn("restarting", agent.read_log())

    def test_stopping_while_it_waits_for_its_restart(self):
        failed = self.folder / "failed"
        for _ in range(10):
            failed.unlink(missing_ok=True)
            agent = self.supervised(
                shell(f"test -e {failed} && exec sleep 1000; touch {failed}; exit 3"),
                extra={"agent": {"restart": "on-failure"}}
            ).start()
            wait_until(lambda: "running -> restarting" in agent.read_log(), "it waits")
            status = agent.stop()
            if agent.read_log().count("main process: stopped -> running") == 1:
                self.assertEqual(status, 0)
                return
            # TERM came too late, and found it running again.
            self.assertEqual(status, 143)
            agent.log.unlink()
        self.fail("it never waits for its restart")

    def test_signals_are_forwarded(self):
        seen = self.folder / "seen"
        ready = self.folder / "ready"
        script = (
            f"trap 'echo usr1 >> {seen}' USR1; trap 'echo winch >> {seen}' WINCH; touch {ready}; "
            "while :; do sleep 0.01; done"
        )
        agent = self.supervised(shell(script)).start()
        wait_until(ready.exists, "it is ready")
        for number, name in ((signal.SIGUSR1, "usr1"), (signal.SIGWINCH, "winch")):
            agent.signal(number)
            wait_until(lambda: seen.exists() and name in seen.read_text(), f"{name} has arrived")
        self.assertEqual(agent.stop(), 143)

    def test_standard_input_passes_to_it(self):
        agent = self.supervised(shell(f"cat > {self.folder}/copy; exit 6"))
        read, write = os.pipe()
        agent.start(wait=False, stdin=read)
        os.close(read)
        os.write(write, b"through\n")
        os.close(write)
        self.assertEqual(agent.wait(), 6)
        self.assertEqual((self.folder / "copy").read_text(), "through\n")

    def test_it_finds_the_world_as_without_us(self):
        probe = (
            "grep -E 'Sig(Ign|Blk)' /proc/self/status; grep -E 'Max (core|open)' "
            "/proc/self/limits; "
            "ls /proc/self/fd | wc -l; env | grep -cE '^(LISTEN|BERTH_UPGRADE)'"
        )
        direct = subprocess.run(shell(probe), capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL)
        out = self.folder / "out"
        agent, _ = self.run_to_its_end(shell(f"({probe}) > {out}"))
        self.assertEqual(out.read_text(), direct.stdout, agent.read_log())


on_both(globals(), MainProcess)


@needs("terminals")
class Terminal(LifeTest):
    """As with tini: the main process is the foreground process group, and ^C reaches it."""

    def test_the_main_process_has_the_terminal(self):
        # The handler does not run in a sleep that begins just after the signal: so they are short.
        script = (
            "import os,signal,time\n"
            "signal.signal(signal.SIGINT, lambda *_: (os.write(1, b'interrupted\\n'), "
            "os._exit(9)))\n"
            "os.write(1, f'foreground {os.tcgetpgrp(0) == os.getpgrp()}\\n'.encode())\n"
            "os.write(1, b'read ' + os.read(0, 100))\n"
            "while True: time.sleep(0.01)"
        )
        agent = self.web_agent(command=[sys.executable, "-c", script], check=None)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        command = [BUILD / "berthd", "-c", agent.config, "--", *agent.command]
        # A session of its own whose controlling terminal this is. The agent's log would fall into
        # the output's lines.
        with open(agent.log, "ab") as log:
            agent.process = subprocess.Popen(
                ["setsid", "--ctty", "--wait", *command],
                stdin=slave, stdout=slave, stderr=log,
                env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)},
            )
        os.close(slave)
        output = ""

        def until(text):
            nonlocal output
            deadline = time.monotonic() + PATIENCE
            while text not in output:
                ready, _, _ = select.select([master], [], [], max(0, deadline - time.monotonic()))
                self.assertTrue(ready, output)
                output += os.read(master, 4096).decode(errors="replace")

        until("foreground True")
        os.write(master, b"hello\n")
        until("read hello")
        os.write(master, b"\x03")
        until("interrupted")
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while os.read(master, 4096):
                pass
        self.assertEqual(agent.process.wait(PATIENCE), 9)


@needs("process namespace")
class Init(LifeTest):
    """PID 1 of a PID namespace."""

    def as_init(self, command, **keywords):
        agent = self.web_agent(command=command, **keywords)
        with open(agent.log, "ab") as log:
            agent.process = subprocess.Popen(
                [*UNSHARE, BUILD / "berthd", "-c", agent.config, "--", *command],
                env={**os.environ, "BERTH_LIBEXECDIR": str(BUILD)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )
        wait_until(agent.answers, f"the agent answers; its log:\n{agent.read_log()}")
        return agent

    def inner(self, agent):
        """The agent's pid as we see it."""
        children = pathlib.Path(
            f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text().split()
        return int(children[0])

    def test_200_orphans_leave_no_zombie(self):
        orphans = self.folder / "orphans"
        script = (
            f"trap 'exit 0' TERM; i=0; while [ $i -lt 200 ]; do (sh -c 'echo x >> {orphans}' &) ; "
            "i=$((i+1)); done; "
            "while :; do sleep 0.05; done"
        )
        agent = self.as_init(shell(script))
        wait_until(lambda: orphans.exists() and len(orphans.read_text()) == 400,
            "200 orphans have run")
        pid = self.inner(agent)
        wait_until(lambda: zombies_of(pid) == 0, "none of them is left")
        agent.wait_state("registered")
        self.assertEqual(agent.status()["pid"], 1)
        os.kill(pid, signal.SIGUSR2)
        wait_until(lambda: agent.read_log().count(" runs, pid 1,") == 2, "it has been upgraded")
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(agent.wait(), 0)
        self.assert_gone(agent)

    def test_exit_statuses_come_through(self):
        for script, status in (("exit 3", 3), ("kill -KILL $$", 137), ("kill -TERM $$", 143)):
            with self.subTest(script=script):
                gate = self.folder / f"gate{status}"
                os.mkfifo(gate)
                agent = self.as_init(shell(f"read line < {gate}; {script}"))
                agent.wait_state("registered")
                gate.write_text("end\n")
                self.assertEqual(agent.wait(), status)
                self.assertIsNone(self.identity())


del LifeTest

if __name__ == "__main__":
    unittest.main()
