"""Outputs while things are broken: the file is always a whole picture, and an outage changes no
byte of it."""

import os
import pathlib
import shutil
import subprocess
import time
import unittest

from berth import berth, wait_until
from figures import figure, seconds
from outputs import OutputTest
from rights import needs
from zookeeper import ZooKeeper

BOTH = "127.0.0.1:8001\n127.0.0.1:8002\n"


class Registry(OutputTest):
    session_timeout = "2s"

    def setUp(self):
        super().setUp()
        self.zookeeper = ZooKeeper()
        self.addCleanup(self.zookeeper.stop)
        self.registry = self.zookeeper.url
        self.put_member("c1", 8001)
        self.put_member("c2", 8002)

    def start(self, **options):
        self.ran = self.folder / "ran"
        agent = self.output_agent(on_change=f"/bin/sh -c 'echo run >>{self.ran}'",
            **options).start()
        self.wait_text(BOTH)
        self.wait_state(agent, "current")
        self.before = self.stamp()
        return agent

    def assert_untouched(self):
        self.assertEqual(self.stamp(), self.before)
        self.assertEqual(self.file.read_text(), BOTH)
        self.assertEqual(self.ran.read_text(), "run\n")

    @staticmethod
    def is_away(agent):
        return agent.status()["registry"]["state"] != "connected"

    def test_an_outage_a_restart_an_upgrade_and_a_reload_change_no_byte(self):
        agent = self.start()
        self.zookeeper.kill()
        wait_until(lambda: self.is_away(agent), "the registry is away")
        self.assert_untouched()
        agent.upgrade()
        wait_until(lambda: agent.answers() and self.is_away(agent),
            "the new program runs without a registry")
        self.assertEqual(berth("--socket", agent.socket, "reload").returncode, 0)
        self.assertNotEqual(self.output(agent)["state"], "failed")
        self.assert_untouched()
        agent.kill()
        agent.start()
        self.wait_state(agent, "waiting")
        self.assert_untouched()
        self.zookeeper.restart()
        self.wait_state(agent, "current")
        self.assert_untouched()
        self.put_member("c3", 8003)
        self.wait_text(f"{BOTH}127.0.0.1:8003\n")
        figure(self, "an outage with an upgrade, a reload, a kill and a start: 0 bytes changed, "
            "on_change ran 0 times")

    def test_a_frozen_server_changes_nothing(self):
        agent = self.start()
        self.zookeeper.pause()
        self.addCleanup(self.zookeeper.resume)
        wait_until(lambda: self.is_away(agent), "the registry is away")
        self.assert_untouched()
        self.zookeeper.resume()
        self.remove_member("c1")
        self.wait_text("127.0.0.1:8002\n")

    def test_a_wiped_registry_leaves_the_last_members(self):
        agent = self.start()
        self.zookeeper.kill()
        shutil.rmtree(pathlib.Path(self.zookeeper.directory) / "data" / "version-2")
        self.zookeeper.restart()
        self.wait_state(agent, "held")
        self.assert_untouched()
        self.put_member("c9", 8009)
        self.wait_text("127.0.0.1:8009\n")

    def test_many_outputs_of_one_path_cost_one_watch_and_one_picture(self):
        def figures(count):
            more = {f"output o{number}": self.output_options(path=self.directory / f"o{number}")
                for number in range(1, count)}
            agent = self.output_agent(f"of{count}", more=more).start()
            for name in ["web", *(f"o{number}" for number in range(1, count))]:
                self.wait_state(agent, "current", name)
            watches = self.watches()
            metrics = agent.get("/metrics").body.decode()
            agent.stop()
            wait_until(lambda: self.watches() == 0, "the watches are gone")
            return watches, [line for line in metrics.splitlines()
                if line.startswith(("berth_cache_entries", "berth_cache_bytes"))]

        one = figures(1)
        five = figures(5)
        print(f"# one output: {one}; five: {five}")
        self.assertEqual(one, five)

    def watches(self):
        answer = self.zookeeper.command("mntr")
        return int(next(line.split()[1] for line in answer.splitlines()
            if line.startswith("zk_watch_count")))


@needs("mount namespace")
class Disk(OutputTest):
    """The file is on a small file system of the agent's own, in a mount namespace."""

    def setUp(self):
        super().setUp()
        self.put_member("c1", 8001)
        wrapper = self.script(
            'exec unshare --mount --propagation private -- sh -c \'mount -t tmpfs -o size=64k none '
            '"$0" && exec "$@"\' '
            f'"{self.directory}" "$BERTHD" "$@"',
            "berthd",
        )
        self.agent_in_place = self.output_agent()
        os.environ["BERTHD"] = str(self.agent_in_place.program)
        self.agent_in_place.program = wrapper
        self.agent_in_place.start()
        self.seen = pathlib.Path(f"/proc/{self.agent_in_place.process.pid}/root{self.directory}")
        self.file = self.seen / "web.txt"
        self.wait_text("127.0.0.1:8001\n")
        self.wait_state(self.agent_in_place, "current")

    def remount(self, how):
        subprocess.run(
            ["nsenter", "--mount", "--target", str(self.agent_in_place.process.pid), "mount", "-o",
                f"remount,{how}", self.directory], check=True
        )

    def fails_meanwhile(self, why):
        agent = self.agent_in_place
        self.put_member("c2", 8002)
        self.wait_state(agent, "failed")
        self.assertIn(why, self.output(agent)["why"])
        self.assertEqual(self.file.read_text(), "127.0.0.1:8001\n")

    def recovers(self):
        self.wait_text(BOTH)
        self.wait_state(self.agent_in_place, "current")
        self.assertEqual([file.name for file in self.seen.iterdir()], ["web.txt"])

    def test_a_full_disk_leaves_the_file(self):
        filler = self.seen / "filler"
        with filler.open("wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(bytes(4096))
            except OSError:
                pass
        self.fails_meanwhile("No space left on device")
        filler.unlink()
        begun = time.monotonic()
        self.recovers()
        figure(self, "the old file stays, the reason is named; written "
            f"{seconds(time.monotonic() - begun)} after there was room")

    def test_a_read_only_directory_leaves_the_file(self):
        self.remount("ro")
        self.fails_meanwhile("Read-only file system")
        self.remount("rw")
        self.recovers()


if __name__ == "__main__":
    unittest.main()
