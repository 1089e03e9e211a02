"""The agent of a host is killed and started again, and records of living containers go and come
back: its first look at a container was over before its end, since there were many records or the
machine was busy, and what it had not come to was taken for the record of a container that had
ended.

Source: this project's tracker #45, from a check beside which four audits ran.
"""

import json
import subprocess
import sys
import unittest

from berth import amount, service_record, wait_until
from hosting import WEB, BridgeTest
from lifecycle import Shared

RECORDS = amount(400)  # more than a look has time for
OWNER = """
import fcntl, os, struct, sys
record, held = sys.stdin.readline(), []
for number in range(int(sys.argv[2])):
    folder = f"{sys.argv[1]}/c{number}"
    os.makedirs(folder)
    owner = open(f"{folder}/_owner", "w")
    owner.write("pid 1\\n")
    owner.flush()
    fcntl.fcntl(owner, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    held.append(owner)
    with open(f"{folder}/_new", "w") as file:
        file.write(record)
    os.rename(file.name, f"{folder}/_record")
sys.stdin.readline()
"""


class Restart(BridgeTest):
    registry_kind = Shared
    session_timeout = "30s"

    def metric(self, name):
        for line in self.agent_of_host.get("/metrics").body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return 0

    def await_all(self):
        wait_until(lambda: self.metric('berth_bridge_registered{container="dir/web-1"}') == RECORDS,
            "all are registered")

    def test_records_beyond_the_time_of_a_look(self):
        self.agent_of_host = self.host(**{"container *": {"allow": "/users/joe/web/**",
            "rate": 10000, "max_records": RECORDS, "max_bytes": "8M"}})
        inside = self.container("web-1")
        owner = subprocess.Popen([sys.executable, "-c", OWNER, f"{inside}{WEB}", str(RECORDS)],
            stdin=subprocess.PIPE, text=True)
        self.addCleanup(owner.communicate)
        owner.stdin.write(json.dumps(service_record("10.0.0.1", 80)) + "\n")
        owner.stdin.flush()
        self.await_all()
        witness = self.witness(f"{WEB}/c{RECORDS - 1}")
        self.agent_of_host.kill()
        self.agent_of_host.start()
        self.await_all()
        self.assertEqual(self.metric(
            'berth_bridge_transitions_total{container="dir/web-1",to="withdrawn"}'), 0)
        self.assertEqual(len(witness.end()), 1)


del BridgeTest

if __name__ == "__main__":
    unittest.main()
