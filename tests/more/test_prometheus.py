"""A real Prometheus finds its targets: by a file, and without one over HTTP."""

import http.client
import json
import re
import subprocess
import time
import unittest

from berth import wait_until
from proxies import end, free_ports, missing
from recipes import RecipeTest, blocks


@unittest.skipIf(missing("prometheus"), missing("prometheus"))
class Prometheus(RecipeTest):
    def start(self, config):
        (self.port,) = free_ports(1)
        folder = self.folder / "prometheus"
        folder.mkdir()
        file = folder / "prometheus.yml"
        file.write_text(config)
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{self.port}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        self.addCleanup(end, process)
        wait_until(lambda: self.targets() is not None,
            f"Prometheus answers: {(folder / 'log').read_text()}")

    def targets(self):
        """{address: labels} of what Prometheus scrapes, or None."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/api/v1/targets?state=active")
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if answer.status != 200:
            return None
        return {item["discoveredLabels"]["__address__"]: item["labels"]
            for item in json.loads(body)["data"]["activeTargets"]}

    def wait_targets(self, *ports):
        wanted = {f"127.0.0.1:{port}" for port in ports}
        began = time.monotonic()
        wait_until(lambda: self.targets() is not None and self.targets().keys() == wanted,
            f"the targets are {wanted}, not {self.targets()}")
        return time.monotonic() - began

    def scrape_config(self, word):
        return self.place_below(next(block for block in blocks("yaml") if word in block))

    def test_by_a_file(self):
        self.members.put("c1", 9101)
        self.recipe("prometheus-file").start()
        file = self.root / "etc/prometheus/web.json"
        wait_until(file.exists, "the file is written")
        self.start(self.scrape_config("file_sd_configs"))
        self.wait_targets(9101)
        self.assertEqual(self.targets()["127.0.0.1:9101"]["component"], "c1")
        times = []
        for port in range(9102, 9104):
            self.members.put("c2", port)
            times.append(self.wait_targets(9101, port))
        print("# from the registry to Prometheus' targets, by a file:",
            " ".join(f"{took * 1000:.0f}" for took in times), "ms")
        self.members.remove("c1")
        self.members.remove("c2")
        self.wait_targets()

    def test_without_a_file(self):
        (listen,) = free_ports(1)
        self.members.put("c1", 9101)
        agent = self.recipe("prometheus-http",
            listen=("127.0.0.1:8930", f"127.0.0.1:{listen}")).start()
        config = self.scrape_config("http_sd_configs").replace("127.0.0.1:8930",
            f"127.0.0.1:{listen}")
        self.start(re.sub(r"refresh_interval: \S+", "refresh_interval: 1s", config))
        self.wait_targets(9101)
        self.members.put("c2", 9102)
        took = self.wait_targets(9101, 9102)
        print("# from the registry to Prometheus' targets, over HTTP, asked each second: "
              f"{took * 1000:.0f} ms")
        agent.stop()
        # A registry that cannot be asked is not an empty list.
        log = self.folder / "prometheus" / "log"
        wait_until(lambda: "connection refused" in log.read_text(), "Prometheus has asked in vain")
        self.assertEqual(len(self.targets()), 2)
        agent.start()
        self.members.remove("c1")
        self.wait_targets(9102)


if __name__ == "__main__":
    unittest.main()
