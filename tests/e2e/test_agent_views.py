"""The agent's own views over the socket: tags, waiting, the stream of all of them, who sees what
checks printed."""

import http.client
import json
import threading
import unittest

from berth import UnixConnection, wait_until
from checks import FOR_EVER, CheckTest, as_somebody_else
from ports import reserve_port
from rights import needs
from streams import EVENT_STREAM, NDJSON, RECORDIO, Stream

VIEWS = ("/v1/agent", "/v1/agent/checks", "/v1/agent/history")
SECRET = "password=hunter2"


class ViewTest(CheckTest):
    def setUp(self):
        super().setUp()
        self.port = reserve_port(self)
        self.server = self.web_agent(
            check=None,
            extra={
                "check beat": {"type": "ttl", "interval": FOR_EVER, "fall": "1"},
                "agent": {"listen": f"127.0.0.1:{self.port}", "heartbeat_interval": "300ms"},
            },
        ).start()
        self.report("passing")
        self.server.wait_state("registered")

    def report(self, status, output=""):
        self.assertEqual(self.server.request("PUT", "/v1/agent/checks/beat",
            {"status": status, "output": output}).status, 204)

    def over_tcp(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def settled_tag(self, path):
        """The tag once nothing changes any more of itself."""

        def same():
            tags = [self.server.get(path).headers["ETag"] for _ in range(3)]
            return tags[0] if len(set(tags)) == 1 else None

        return wait_until(same, "the view is steady")


class Tags(ViewTest):
    def test_tags_are_weak_because_time_passes_in_the_views(self):
        for path in VIEWS:
            tag = self.settled_tag(path)
            self.assertTrue(tag.startswith('W/"'), tag)
            self.assertEqual(self.server.get(path, If_None_Match=tag[2:]).status, 304,
                "weak comparison")
            self.assertEqual(self.server.get(path, If_Match=tag).status, 412,
                "no strong comparison succeeds")

    def test_time_alone_changes_no_tag(self):
        for path in VIEWS:
            tag = self.settled_tag(path)
            answer = self.server.get(path, If_None_Match=tag)
            self.assertEqual((answer.status, answer.body), (304, b""), path)

    def test_a_change_changes_it(self):
        before = [self.settled_tag(path) for path in VIEWS]
        self.report("failing", "out of disk")
        self.server.wait_state("withdrawn")
        for path, tag in zip(VIEWS, before):
            self.assertEqual(self.server.get(path, If_None_Match=tag).status, 200, path)

    def test_a_wait_ends_with_the_change(self):
        for path, change in ((VIEWS[0], "failing"), (VIEWS[1], "passing"), (VIEWS[2], "failing")):
            tag = self.settled_tag(path)
            answers = []
            waiter = threading.Thread(
                target=lambda: answers.append(self.server.get(path, If_None_Match=tag,
                    Prefer="wait=60"))
            )
            waiter.start()
            wait_until(lambda: b"berth_watchers 1\n" in self.server.get("/metrics").body,
                "it waits")
            self.report(change)
            waiter.join()
            self.assertEqual(answers[0].status, 200, path)
            self.assertEqual(answers[0].headers["Preference-Applied"], "wait=60")
            self.assertNotEqual(answers[0].headers["ETag"], tag)

    def test_a_wait_that_runs_out_is_not_modified(self):
        tag = self.settled_tag("/v1/agent")
        answer = self.server.get("/v1/agent", If_None_Match=tag, Prefer="wait=1")
        self.assertEqual((answer.status, answer.headers["Preference-Applied"]), (304, "wait=1"))

    def test_a_waiter_that_leaves_is_forgotten(self):
        connection = UnixConnection(self.server.socket)
        tag = self.settled_tag("/v1/agent")
        connection.request("GET", "/v1/agent", headers={"If-None-Match": tag, "Prefer": "wait=600"})
        wait_until(lambda: b"berth_watchers 1\n" in self.server.get("/metrics").body, "it waits")
        connection.close()
        wait_until(lambda: b"berth_watchers 0\n" in self.server.get("/metrics").body,
            "it is forgotten")


class History(ViewTest):
    def test_the_last_ones_and_the_later_ones(self):
        self.report("failing")
        self.server.wait_state("withdrawn")
        everything = self.server.get("/v1/agent/history").json
        self.assertEqual(self.server.get("/v1/agent/history?n=2").json, everything[-2:])
        since = everything[0]["time"]
        later = self.server.get(f"/v1/agent/history?since={since!r}").json
        self.assertEqual(later, [item for item in everything if item["time"] > since])
        for query in ("n=x", "since=-1", "n=1x"):
            self.assertEqual(self.server.get(f"/v1/agent/history?{query}").status, 400, query)


class Watching(ViewTest):
    def test_a_snapshot_and_then_what_changes(self):
        for framing in (RECORDIO, NDJSON, EVENT_STREAM):
            self.report("passing")
            self.server.wait_state("registered")
            with Stream(self.server.socket, "/v1/agent/watch", framing) as stream:
                first = stream.event()
                self.assertEqual(first["type"], "SUBSCRIBED")
                self.assertEqual(first["heartbeat_interval_seconds"], 0.3)
                self.assertEqual(first["snapshot"]["agent"]["components"][0]["state"], "registered")
                self.assertEqual(first["snapshot"]["checks"][0]["name"], "beat")
                self.report("failing", "out of disk")
                seen = {}
                while "AGENT" not in seen or seen["AGENT"]["agent"]["components"][0][
                        "state"] != "withdrawn":
                    event = stream.event()
                    self.assertIn(event["type"], ("AGENT", "CHECK", "TRANSITION", "HEARTBEAT"))
                    seen[event["type"]] = event
                self.assertEqual(seen["CHECK"]["check"]["state"], "down")
                self.assertIn("subject", seen["TRANSITION"]["transition"])

    def test_a_quiet_one_beats(self):
        with Stream(self.server.socket, "/v1/agent/watch") as stream:
            while stream.event()["type"] != "HEARTBEAT":
                pass


class Secrets(ViewTest):
    def test_the_output_of_a_check_is_for_clients_that_may_write(self):
        self.report("passing", SECRET)
        self.assertEqual(self.server.check_named("beat")["last"]["output"], SECRET)
        status, body = self.over_tcp("/v1/agent/checks")
        self.assertEqual(status, 200)
        self.assertIsNone(json.loads(body)[0]["last"]["output"])
        for path in (*VIEWS, "/metrics"):
            self.assertNotIn(SECRET.encode(), self.over_tcp(path)[1], path)

    @needs("users")
    def test_another_user_may_look_but_not_at_that(self):
        self.report("passing", SECRET)
        for folder in (self.folder, self.server.folder):
            folder.chmod(0o755)

        def look():
            return [
                self.server.check_named("beat")["last"]["output"],
                self.server.get("/v1/list/").status,
                self.server.request("POST", "/v1/agent/reload").status,
            ]

        self.assertEqual(as_somebody_else("nobody", "nogroup", [], look), str([None, 200, 403]))


class Monitoring(ViewTest):
    def test_a_report_takes_no_time(self):
        for series in ("berth_check_runs_total", "berth_check_duration_seconds_count"):
            there = f'{series}{{check="beat"' in self.server.get("/metrics").body.decode()
            self.assertEqual(there, series == "berth_check_runs_total", series)

    def test_open_metrics_when_asked_for(self):
        plain = self.server.get("/metrics")
        self.assertTrue(plain.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        answer = self.server.get("/metrics",
            Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        self.assertEqual(answer.headers["Content-Type"],
            "application/openmetrics-text; version=1.0.0; charset=utf-8")
        lines = answer.body.decode().splitlines()
        self.assertEqual(lines[-1], "# EOF")
        kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ")}
        for line in lines:
            if line.startswith("#"):
                continue
            name = line.split("{")[0].split(" ")[0]
            family = next(n for n in (name, name.removesuffix("_total"), name.rsplit("_", 1)[0])
                if n in kinds)
            if kinds[family] == "counter":
                self.assertEqual(name, f"{family}_total", line)

    def test_ready_takes_one_word(self):
        self.assertEqual(self.server.get("/ready?away=ok").status, 200)
        self.assertEqual(self.server.get("/ready?away=maybe").status, 400)


if __name__ == "__main__":
    unittest.main()
