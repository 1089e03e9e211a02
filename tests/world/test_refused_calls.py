"""The kernel is old, or the runtime's filter is older than the kernel: a call answers ENOSYS or
EPERM. Each command check could not run, and the component was never registered.

Source: tracker #45, B.4; podman #10130 (close_range), moby #42680 (clone3), moby #35996 (statx).
"""

import unittest

from berth import BUILD, wait_until
from main_job import MainJob
from zookeeper import share_zookeeper

REFUSE = BUILD / "tests/support/refuse"
# Each by itself, on the registry whose agent makes it: the job is done without it.
ON_A_DIRECTORY = ["close_range", "faccessat2", "getrandom", "inotify_init1", "memfd_create",
    "openat2", "statx"]
ON_ZOOKEEPER = ["close_range", "landlock_create_ruleset", "landlock_restrict_self", "membarrier",
    "pidfd_open", "pidfd_send_signal", "prctl", "rseq", "seccomp"]
# All that Linux has got since 3.15; with "?" where a libseccomp does not know it.
NEWER = ["seccomp", "getrandom", "memfd_create", "bpf", "execveat", "userfaultfd", "membarrier",
    "mlock2", "copy_file_range", "preadv2", "pwritev2", "pkey_mprotect", "statx", "rseq",
    "io_pgetevents", "pidfd_send_signal", "io_uring_setup", "open_tree", "pidfd_open", "clone3",
    "close_range", "openat2", "pidfd_getfd", "faccessat2", "process_madvise", "epoll_pwait2",
    "mount_setattr", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
    "process_mrelease", "futex_waitv", "?cachestat", "?fchmodat2", "?map_shadow_stack",
    "?statmount", "?mseal"]
# Nothing takes their place: the reason names them. (error, call, on ZooKeeper)
NEEDED = [("ENOSYS", "renameat2", False), ("EPERM", "renameat2", False), ("EPERM", "clone3", True)]


@unittest.skipUnless(REFUSE.exists(), "built without libseccomp (--without-sandbox)")
class RefusedCalls(MainJob):
    @classmethod
    def setUpClass(cls):
        cls.server = share_zookeeper()
        cls.addClassCleanup(cls.server.stop)

    def below(self, error, calls):
        return f'set -- {REFUSE} {error} "{",".join(calls)}" -- "$@"'

    def refused(self, error, calls, on_zookeeper):
        # An upgrade is known by the name of the process that writes the log, which prctl() gives.
        self.run_job(self.below(error, calls), self.server.url if on_zookeeper else None,
            upgrades=calls != ["prctl"])

    def needed(self, error, call, on_zookeeper):
        agent = self.agent_in(self.below(error, [call]), self.server.url if on_zookeeper else None)
        agent.start()
        wait_until(lambda: call in agent.read_log(), f"the log names {call}")
        agent.stop()

    def test_needed_openat2_by_a_bridge(self):
        agent = self.agent_in(self.below("ENOSYS", ["openat2"]))
        agent.write_config({"bridge": {"containers": self.folder / "containers"}})
        agent.start(wait=False)
        self.assertEqual(agent.wait(), 1)
        self.assertIn("needs openat2(), as Linux has it since 5.6", agent.read_log())


def add(what, error, calls, on_zookeeper):
    def test(self):
        getattr(self, what)(error, calls, on_zookeeper)
    name = "all_that_is_newer" if calls is NEWER else "".join(calls)
    place = "on_zookeeper" if on_zookeeper else "on_a_directory"
    setattr(RefusedCalls, f"test_{what}_{name}_{error}_{place}", test)


for refusal in "ENOSYS", "EPERM":
    for name in ON_A_DIRECTORY:
        add("refused", refusal, [name], False)
    for name in ON_ZOOKEEPER:
        add("refused", refusal, [name], True)
for kind in False, True:
    add("refused", "ENOSYS", NEWER, kind)
for refusal, name, kind in NEEDED:
    add("needed", refusal, name, kind)


if __name__ == "__main__":
    unittest.main()
