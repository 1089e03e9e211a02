"""The scripts of init/sysv and init/openrc, as installed, in a fresh root: they start, reload,
upgrade and stop an agent that is registered for as long as the service runs.
"""

import pathlib
import re
import shutil
import tempfile
import unittest

from berth import wait_until
from container import Container
from rights import needs

RECORD = "/users/devteam/web/test1/components/web-1"
CONFIG = """\
[registry]
url = dir:/var/lib/registry
[component]
user = devteam
service_class = web
instance = test1
name = web-1
[endpoint http]
api = urn:x
protocol = http
address_type = uri
address = http://127.0.0.1:8080/
"""


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.box = Container(self.folder, BERTH_REGISTRY="dir:/var/lib/registry")
        self.addCleanup(self.box.end)
        (self.box.stage / "etc" / "berth" / "berth.ini").write_text(CONFIG)
        self.log = self.folder / "log"

    def start_box(self, **files):
        for name, text in files.items():
            file = self.box.stage / "etc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        # A process 1 that leaves no zombies.
        self.box.start(["/usr/bin/perl", "-e", "$SIG{CHLD} = 'IGNORE'; sleep 1000 while 1"],
            self.log)
        self.run_in("mkdir -p /var/log")

    def run_in(self, command, status=0):
        got, output = self.box.run(command)
        logs = self.box.run("cat /var/log/berthd.log")[1]
        self.assertEqual(got, status, f"{command}\n{output}\n{logs}")
        return output

    def wait_live(self):
        wait_until(lambda: self.box.run("berth live")[0] == 0, "the agent answers")

    def run_life(self, script):
        """`script` takes start, status, reload, upgrade and stop."""
        self.run_in(f"{script} start")
        self.run_in("berth wait --registered --timeout 50s")
        self.run_in(f"{script} status")
        pid = re.search(r'"pid": (\d+)', self.run_in("berth status --json")).group(1)
        # A second start makes no second agent.
        self.box.run(f"{script} start")
        self.assertEqual(self.run_in("cat /proc/[0-9]*/comm").split().count("berthd"), 1)
        self.run_in(f"{script} reload")
        wait_until(lambda: "-> reloaded" in self.run_in("cat /var/log/berthd.log"),
            "it has reloaded")
        self.run_in(f"{script} upgrade")
        wait_until(lambda: self.run_in("cat /var/log/berthd.log").count(" runs, pid ") == 2,
            "it was upgraded")
        self.run_in("berth wait --registered --timeout 50s")
        self.assertIn(f'"pid": {pid}', self.run_in("berth status --json"))
        self.run_in(f"{script} stop")
        self.run_in(f"berth --registry $BERTH_REGISTRY resolve {RECORD}", 3)
        self.assertNotIn("berthd", self.run_in("cat /proc/[0-9]*/comm").split())
        self.assertNotEqual(self.box.run(f"{script} status")[0], 0)


@needs("process namespace")
@unittest.skipUnless(shutil.which("start-stop-daemon")
    and pathlib.Path("/lib/lsb/init-functions").exists(), "no LSB functions here")
class Sysv(Script):
    SCRIPT = "/usr/local/share/berth/init/sysv/berthd"

    def test_its_life(self):
        self.start_box(**{"default/berthd": "BERTH_USER=\n"})
        self.run_life(self.SCRIPT)

    def test_a_bad_configuration_is_not_started_and_not_reloaded(self):
        self.start_box(**{"default/berthd": "BERTH_USER=\n"})
        self.run_in(f"{self.SCRIPT} start")
        self.wait_live()
        self.run_in("echo nonsense >>/etc/berth/berth.ini")
        self.assertNotEqual(self.box.run(f"{self.SCRIPT} reload")[0], 0)
        self.run_in("berth live")
        self.run_in(f"{self.SCRIPT} stop")
        self.assertNotEqual(self.box.run(f"{self.SCRIPT} start")[0], 0)

    def test_it_gives_the_agent_another_user(self):
        self.start_box(**{"default/berthd": "BERTH_USER=nobody\n"})
        self.run_in(f"{self.SCRIPT} start")
        self.wait_live()
        self.assertEqual(self.run_in("stat -c %U /proc/$(cat /run/berthd.pid)").strip(), "nobody")
        self.run_in(f"{self.SCRIPT} stop")


class SysvHeader(unittest.TestCase):
    def test_it_is_what_init_systems_read(self):
        text = pathlib.Path(__file__).resolve().parents[2].joinpath(
            "init/sysv/berthd.in").read_text()
        header = text.partition("### BEGIN INIT INFO\n")[2].partition("### END INIT INFO")[0]
        fields = dict(re.findall(r"(?m)^# ([A-Za-z-]+): +(.*)$", header))
        self.assertLessEqual({"Provides", "Required-Start", "Required-Stop", "Default-Start",
            "Default-Stop", "Short-Description"}, set(fields))
        self.assertEqual(fields["Provides"], "berthd")


# OpenRC makes these while it boots a machine: without the folders it takes every service for one
# that is being started.
BOOTED = """
set -e
cp /usr/local/share/berth/init/openrc/berthd /etc/init.d/berthd
chmod 755 /etc/init.d/localmount
mkdir -p /run/lock /run/openrc
cd /run/openrc
mkdir daemons exclusive failed hotplugged inactive init.d options scheduled started starting
mkdir stopping tmp wasinactive
echo default >softlevel
"""
# supervise-daemon opens a PAM session for its child, and respawns a child that PAM refuses without
# end.
PAM = "".join(f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "password",
    "session"))


@needs("process namespace")
@unittest.skipUnless(shutil.which("openrc-run"), "OpenRC is not installed")
class OpenRC(Script):
    SCRIPT = "/etc/init.d/berthd"

    def start_box(self):
        super().start_box(**{"conf.d/berthd": "BERTH_USER=root:root\n", "rc.conf": "",
            "pam.d/other": PAM,
                             "init.d/localmount": "#!/sbin/openrc-run\nstart() { :; }\n"})
        self.run_in(BOOTED)

    def test_its_life(self):
        self.start_box()
        self.run_life(self.SCRIPT)

    def test_its_supervisor_starts_it_again(self):
        self.start_box()
        self.run_in(f"{self.SCRIPT} start")
        self.wait_live()
        before = self.run_in("berth status --json")
        pid = re.search(r'"pid": (\d+)', before).group(1)
        self.run_in(f"kill -KILL {pid}")
        wait_until(lambda: self.box.run("berth live")[0] == 0
            and f'"pid": {pid}' not in self.run_in("berth status --json"), "another agent answers")
        self.run_in(f"{self.SCRIPT} stop")

    def test_its_supervisor_replaces_an_agent_that_is_frozen(self):
        self.start_box()
        self.run_in("printf 'BERTH_WATCHDOG=1\\nBERTH_RETRY=TERM/1/KILL/2\\n'"
            " >>/etc/conf.d/berthd")
        self.run_in(f"{self.SCRIPT} start")
        self.wait_live()
        # As the supervisor asks for it: a script that does not know the word is a bad agent, too.
        self.run_in(f"{self.SCRIPT} healthcheck")
        pid = re.search(r'"pid": (\d+)', self.run_in("berth status --json")).group(1)
        self.run_in(f"kill -STOP {pid}")
        wait_until(lambda: self.box.run("berth --timeout 1s live")[0] == 0
            and f'"pid": {pid}' not in self.run_in("berth status --json"), "another agent answers")
        self.assertNotIn("stopping: SIGTERM", self.run_in("cat /var/log/berthd.log"),
            "a good agent was stopped")
        self.run_in(f"{self.SCRIPT} stop")

    def test_openrc_knows_its_commands_and_a_bad_configuration_is_not_started(self):
        self.start_box()
        said = self.run_in("/etc/init.d/berthd describe 2>&1")
        for command in ("checkconfig", "reload", "upgrade"):
            self.assertIn(f"{command}: ", said)
        self.assertIn("good", self.run_in("/etc/init.d/berthd checkconfig"))
        self.run_in("echo nonsense >>/etc/berth/berth.ini")
        self.assertNotEqual(self.box.run("/etc/init.d/berthd checkconfig")[0], 0)
        self.assertNotEqual(self.box.run("/etc/init.d/berthd start")[0], 0)


del Script

if __name__ == "__main__":
    unittest.main()
