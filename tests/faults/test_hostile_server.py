"""An agent whose ZooKeeper lies in every way that a server can: the agent lives, stays small, says
what is wrong, and recovers."""

import os
import time

from berth import BUILD, Agent, AgentTest, wait_until
from fake_zookeeper import HOSTILE, FakeZooKeeper

GROUPS = 4
MOST_KB = 192 * 1024


def most_resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


class HostileServer(AgentTest):
    def state(self):
        return self.server.status()["registry"]["state"]

    def worker_folder(self):
        """
        The worker with its sanitizer's reports in the agent's log: the client library's mistakes,
        which end the worker, are why it is a process of its own, and no finding.
        """
        folder = self.folder / "libexec"
        folder.mkdir()
        worker = folder / "berth-zookeeper"
        worker.write_text(
            '#!/bin/sh\nASAN_OPTIONS="$ASAN_OPTIONS:log_path=stderr" '
            'UBSAN_OPTIONS="$UBSAN_OPTIONS:log_path=stderr" '
            f'exec {BUILD}/berth-zookeeper "$@"\n'
        )
        worker.chmod(0o755)
        return folder

    def go_through(self, modes):
        fake = FakeZooKeeper()
        self.addCleanup(fake.stop)
        self.server = self.web_agent(
            registry=fake.url,
            extra={"registry": {"session_timeout": "2s"}, "cache": {"warm": "/users/**"}},
        ).start(env={**os.environ, "BERTH_LIBEXECDIR": str(self.worker_folder())})
        self.server.wait_state("registered")
        for mode in modes:
            with self.subTest(mode=mode):
                self.suffer(fake, mode)
        self.assertLess(most_resident_kb(self.server.process.pid), MOST_KB)

    def suffer(self, fake, mode):
        seen = len(self.server.read_log())
        fake.set_mode(mode)
        wait_until(fake.lied.is_set, f"the agent has met {mode}")
        # Long enough for some workers, connections or sessions to end by it.
        until = time.monotonic() + 1.5
        undisturbed = True
        while time.monotonic() < until:
            self.assertEqual(self.server.get("/live").status, 200)
            self.server.get(f"/v1/records{Agent.PATH.rsplit('/', 1)[0]}")
            undisturbed = undisturbed and self.state() == "connected"
            time.sleep(0.05)
        words = self.server.read_log()[seen:]
        self.assertTrue(undisturbed or "registry" in words, words)
        fake.set_mode("honest")
        wait_until(lambda: self.state() == "connected", f"connected again after {mode}")
        self.server.wait_state("registered")
        wait_until(lambda: Agent.PATH in "".join(fake.tree.nodes), "the node is there")


def _test(number):
    return lambda self: self.go_through(list(HOSTILE)[number::GROUPS])


for _number in range(GROUPS):
    setattr(HostileServer, f"test_modes_{_number}", _test(_number))
