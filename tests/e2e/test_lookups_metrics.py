"""GET /metrics: every family of the contract, with its type and labels, in a form that Prometheus
accepts."""

import os
import re
import unittest

from berth import AgentTest, wait_until
from streams import Stream

# name: (type, labels)
FAMILIES = {
    "berth_build_info": ("gauge", {"version"}),
    "berth_registry_connected": ("gauge", set()),
    "berth_registry_session_expirations_total": ("counter", set()),
    "berth_registry_request_duration_seconds": ("histogram", {"result"}),
    "berth_registered": ("gauge", {"component"}),
    "berth_transitions_total": ("counter", {"component", "to"}),
    "berth_hook_runs_total": ("counter", {"component", "result"}),
    "berth_damped": ("gauge", {"component"}),
    "berth_penalty": ("gauge", {"component"}),
    "berth_draining": ("gauge", {"component"}),
    "berth_config_last_reload_successful": ("gauge", set()),
    "berth_config_last_reload_success_timestamp_seconds": ("gauge", set()),
    "berth_main_process_restarts_total": ("counter", set()),
    "berth_log_lines_lost_total": ("counter", set()),
    "berth_state_saved": ("gauge", set()),
    "berth_check_up": ("gauge", {"check"}),
    "berth_check_warning": ("gauge", {"check"}),
    "berth_check_overdue": ("gauge", {"check"}),
    "berth_check_duration_seconds": ("histogram", {"check"}),
    "berth_check_runs_total": ("counter", {"check", "result"}),
    "berth_lookups_total": ("counter", {"result"}),
    "berth_lookup_duration_seconds": ("histogram", set()),
    "berth_cache_entries": ("gauge", set()),
    "berth_cache_bytes": ("gauge", set()),
    "berth_cache_stale_seconds": ("gauge", set()),
    "berth_cache_evictions_total": ("counter", set()),
    "berth_cache_refusals_total": ("counter", set()),
    "berth_shared_bytes": ("gauge", set()),
    "berth_shared_entries": ("gauge", set()),
    "berth_shared_maps_total": ("counter", set()),
    "berth_watchers": ("gauge", set()),
    "berth_clients": ("gauge", set()),
    "berth_propagation_seconds": ("histogram", set()),
    "berth_dns_queries_total": ("counter", {"transport"}),
    "berth_dns_replies_total": ("counter", {"code"}),
    "berth_dns_stale_total": ("counter", set()),
    "berth_dns_servers": ("gauge", {"state"}),
    "berth_dns_forwarded_total": ("counter", set()),
    "berth_dns_truncated_total": ("counter", set()),
    "berth_dns_limited_total": ("counter", set()),
    "berth_dns_dropped_total": ("counter", set()),
    "berth_dialect_registered": ("gauge", {"dialect"}),
    "berth_xds_running": ("gauge", set()),
    "berth_xds_connections": ("gauge", set()),
    "berth_xds_names": ("gauge", set()),
    "berth_xds_refusals": ("gauge", set()),
    "berth_xds_restarts_total": ("counter", set()),
    "berth_bridge_containers": ("gauge", set()),
    "berth_bridge_records": ("gauge", {"state"}),
    "berth_bridge_registered": ("gauge", {"container"}),
    "berth_bridge_transitions_total": ("counter", {"container", "to"}),
    "berth_output_current": ("gauge", {"output"}),
    "berth_output_instances": ("gauge", {"output"}),
    "berth_output_writes_total": ("counter", {"output"}),
    "berth_output_runs_total": ("counter", {"output"}),
    "berth_output_failures_total": ("counter", {"output"}),
    "process_cpu_seconds_total": ("counter", set()),
    "process_resident_memory_bytes": ("gauge", set()),
    "process_virtual_memory_bytes": ("gauge", set()),
    "process_start_time_seconds": ("gauge", set()),
    "process_open_fds": ("gauge", set()),
    "process_max_fds": ("gauge", set()),
}
SAMPLE = re.compile(
    r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"(?:,(?!\})|'
    r'(?=\})))+)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


class Exposition:
    """The text format 0.0.4, read strictly."""

    def __init__(self, text):
        assert text.endswith("\n"), "the last line has no end"
        self.types = {}
        self.samples = {}  # (name, labels) -> value
        family, helped = None, set()
        for line in text[:-1].split("\n"):
            if line.startswith("# HELP "):
                name, _, words = line[7:].partition(" ")
                assert words and name not in helped, line
                helped.add(name)
            elif line.startswith("# TYPE "):
                family, kind = line[7:].split(" ")
                assert family in helped and family not in self.types, line
                assert kind in ("counter", "gauge", "histogram"), line
                self.types[family] = kind
            else:
                self._sample(line, family)

    def _sample(self, line, family):
        match = SAMPLE.match(line)
        assert match, f"no sample: {line}"
        name, labels, value = match.groups()
        suffixes = ("_bucket", "_sum", "_count") if self.types[family] == "histogram" else ("",)
        assert name in [family + suffix for suffix in suffixes], f"{line} in {family}"
        key = (name, frozenset(LABEL.findall(labels or "")))
        assert key not in self.samples, f"twice: {line}"
        self.samples[key] = float(value)

    def value(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())))

    def labels_of(self, family):
        return [
            {key for key, _ in labels} - {"le"}
            for name, labels in self.samples
            if re.sub("_(bucket|sum|count)$", "", name) == family or name == family
        ]

    def check_histograms(self):
        """Buckets add up, and the last one is the count."""
        for name, labels in list(self.samples):
            if not name.endswith("_count") or self.types.get(name[:-6]) != "histogram":
                continue
            buckets = sorted(
                (float(dict(other)["le"]), value)
                for (bucket, other), value in self.samples.items()
                if bucket == name[:-6] + "_bucket" and {pair for pair in other if pair[0] != "le"}
                == labels
            )
            counts = [count for _, count in buckets]
            assert counts == sorted(counts) and buckets[-1] == (float("inf"),
                self.samples[name, labels]), name
            assert (name[:-6] + "_sum", labels) in self.samples


class Metrics(AgentTest):
    def scrape(self):
        answer = self.server.get("/metrics")
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4")
        return Exposition(answer.body.decode())

    def setUp(self):
        super().setUp()
        self.server = self.web_agent(on_change="true", extra={
            "output o": {"from": "/users", "format": "env", "path": self.folder / "o"},
            "dialect d": {"type": "serverset", "path": "/servers"},
            "bridge": {"containers": self.folder / "containers"},
        })
        (self.folder / "containers/web-1").mkdir(parents=True)
        self.server.start()
        self.server.wait_state("registered")

    def test_every_family_is_there_with_its_type_and_labels(self):
        exposition = self.scrape()
        exposition.check_histograms()
        self.assertEqual({name: kind for name, (kind, _) in FAMILIES.items()}, exposition.types)
        for name, (_, labels) in FAMILIES.items():
            found = exposition.labels_of(name)
            self.assertTrue(found, f"{name} has no sample")
            for item in found:
                self.assertEqual(item, labels, name)

    def test_the_manual_explains_every_name(self):
        with open(os.path.join(os.environ["BERTH_SRC_DIR"], "docs", "berthd.8"),
                encoding="utf-8") as file:
            manual = file.read()
        for name in FAMILIES:
            if name.startswith("berth_"):
                self.assertRegex(manual, rf"(?m)^\.It Li {name}( |$)")

    def test_values_say_what_happened(self):
        path = self.server.PATH
        before = self.scrape()
        for target in (f"/v1/resolve{path}", f"/v1/resolve{path}", "/v1/resolve/NO"):
            self.server.get(target)
        stream = Stream(self.server.socket, f"/v1/watch{path}")
        self.addCleanup(stream.close)
        stream.next()

        def alone():
            """The stream and who asks; that the connections before have ended, the agent may hear
            after their end."""
            now = self.scrape()
            return now if now.value("berth_clients") <= 2 else None

        after = wait_until(alone, "two clients are left")

        def grown(name, **labels):
            return after.value(name, **labels) - (before.value(name, **labels) or 0)

        self.assertEqual(after.value("berth_registry_connected"), 1)
        requests = "berth_registry_request_duration_seconds_count"
        self.assertGreater(after.value(requests, result="ok"), 0)
        for result in "timeout", "unavailable":
            self.assertEqual(before.value(requests, result=result), 0)
        self.assertIsNotNone(before.value(requests, result="refused"))
        self.assertEqual(after.value("berth_registered", component="web-1"), 1)
        self.assertEqual(after.value("berth_check_up", check="alive"), 1)
        self.assertGreaterEqual(after.value("berth_check_runs_total", check="alive",
            result="passing"), 1)
        self.assertGreaterEqual(after.value("berth_transitions_total", component="web-1",
            to="registered"), 1)
        self.assertEqual(grown("berth_lookups_total", result="hit") + grown("berth_lookups_total",
            result="miss"), 2)
        self.assertEqual(grown("berth_lookups_total", result="error"), 1)
        self.assertEqual(grown("berth_lookup_duration_seconds_count"), 2)
        self.assertEqual((after.value("berth_watchers"), after.value("berth_clients")), (1, 2))
        self.assertGreater(after.value("berth_cache_entries"), 0)
        self.assertGreater(after.value("berth_cache_bytes"), 0)
        self.assertEqual(after.value("berth_cache_stale_seconds"), 0)
        self.server.request("POST", "/v1/agent/drain", {"reason": "a test"})
        stream.until(lambda event: event["type"] == "DELETED")
        wait_until(lambda: (self.scrape().value("berth_propagation_seconds_count") or 0) > 0,
            "the propagation is measured")
        wait_until(lambda: self.scrape().value("berth_registered", component="web-1") == 0,
            "the component is out")


if __name__ == "__main__":
    unittest.main()
