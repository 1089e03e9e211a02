"""Containers in random orders, under Docker: run, stop, kill, pause, rename and remove them, kill
the daemon, the agent, upgrade it. After each, the registry soon has what runs, and nothing else: a
witness asks both, by clients that are not ours.

$BERTH_ROUNDS is the number of orders; $BERTH_SEED repeats a run.
"""

import json
import os
import random
import signal
import time
import unittest

from berth import wait_until
from figures import figure, seconds
from kazoo_client import kazoo, nodes_below
from lifecycle import Shared, rounds
from rights import needs
from runtimes import Docker, RuntimeTest, labels

MOST = 6  # containers
ALL = ("running", "paused", "exited", "created", "restarting")


@needs("mounts", "freezer")
class Orders(RuntimeTest):
    registry_kind = Shared
    session_timeout = "30s"
    count = rounds(20)

    def make_runtime(self):
        return Docker(self.folder / "runtime", live_restore=True)

    # ---- the witness ----

    def running(self):
        """{id: name of its service} of what the runtime says that it runs."""
        found = {}
        for entry in self.runtime.call("GET", "/containers/json"):
            if entry["State"] == "running":
                found[entry["Id"]] = entry["Labels"]["berth.path"]
        return found

    def registered(self):
        top = self.node("")
        return {json.loads(data)["yarn:id"]: path.removeprefix(top)
            for path, (data, _) in nodes_below(self.eyes, top).items() if data.startswith("{")}

    # ---- orders ----

    def names(self, *states):
        return [entry["Names"][0][1:] for entry in
            self.runtime.call("GET", "/containers/json?all=true") if entry["State"] in states]

    def one(self, *states):
        """Any container in one of these states; one is made if there is none."""
        names = self.names(*states)
        return self.dice.choice(names) if names else self.run_one()

    def run_one(self):
        self.made += 1
        name = f"n{self.made}"
        if len(self.names(*ALL)) >= MOST:
            self.remove_one()
        policy = self.dice.choice(("no", "no", "always"))
        self.runtime.run(name, labels(name), host={"RestartPolicy": {"Name": policy}})
        return name

    def stop_one(self):
        self.runtime.order(self.one("running"), "stop", t=1)

    def start_one(self):
        names = self.names("exited")
        if names:
            self.runtime.order(self.dice.choice(names), "start")
        else:
            self.run_one()

    def kill_one(self):
        self.runtime.order(self.one("running"), "kill")

    def kill_a_process(self):
        self.runtime.kill_process(self.one("running"))

    def pause_one(self):
        self.runtime.order(self.one("running"), "pause")

    def unpause_one(self):
        names = self.names("paused")
        if names:
            self.runtime.order(self.dice.choice(names), "unpause")
        else:
            self.pause_one()

    def hang_up(self):
        self.runtime.order(self.one("running"), "kill", signal="HUP")

    def rename_one(self):
        self.made += 1
        self.runtime.order(self.one("running", "paused", "exited"), "rename", name=f"r{self.made}")

    def remove_one(self):
        names = self.names(*ALL)
        if names:
            self.runtime.remove(self.dice.choice(names))

    def restart_one(self):
        self.runtime.order(self.one("running"), "restart", t=1)

    def kill_the_daemon(self):
        self.runtime.kill()
        self.runtime.start()

    def stop_the_daemon(self):
        self.runtime.stop()
        self.runtime.start()

    def kill_the_agent(self):
        self.host.kill()
        self.host.start()

    def upgrade_the_agent(self):
        self.host.upgrade()

    ORDERS = ([run_one, start_one, stop_one, kill_one, kill_a_process, pause_one, unpause_one,
        hang_up, rename_one, remove_one, restart_one] * 2
        + [kill_the_daemon, stop_the_daemon, kill_the_agent, upgrade_the_agent])

    def agree(self, done):
        """How long it takes until both say the same; they may change in between, as by a policy
        that starts a container again."""
        begin = time.monotonic()
        last = {}

        def same():
            before = self.running()
            last.update(runs=before, registered=self.registered())
            return last["registered"] == before == self.running()
        try:
            wait_until(same, "the registry has what runs")
        except AssertionError as error:
            raise AssertionError(f"{error}: {done}; {last}; {self.host.get('/v1/bridge').json}\n"
                f"{self.host.read_log()[-8000:]}") from None
        return time.monotonic() - begin

    def test_after_each_the_registry_has_what_runs(self):
        seed = int(os.environ.get("BERTH_SEED", random.randrange(1 << 32)))
        print(f"BERTH_SEED={seed} repeats this", flush=True)
        self.dice = random.Random(seed)
        self.made = 0
        self.eyes = self.enterContext(kazoo(self.server.hosts))
        for _ in range(MOST // 2):
            self.run_one()
        done, longest, late = [], 0, 0
        for _ in range(self.count):
            order = self.dice.choice(self.ORDERS)
            done.append(order.__name__)
            order(self)
            took = self.agree(done)
            late += took > 2
            longest = max(longest, took)
        self.assertIsNone(self.host.process.poll())
        for name in self.names(*ALL):
            self.runtime.remove(name)
        self.agree([*done, "all are removed"])
        self.assertEqual(self.registered(), {})
        figure(self, f"{self.count} orders, seed {seed}: both agree {seconds(longest)} at most "
            f"after each, {late} times after more than 2 s")


if __name__ == "__main__":
    unittest.main()
