"""Every lookup of the socket API, as any HTTP client sees it."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import subprocess
import threading
import unittest

from berth import PATIENCE, AgentTest, UnixConnection, berth, wait_until
from ports import reserve_port
from streams import Stream

WEB = "/users/joe/web/one"
COMPONENTS = WEB + "/components"


def record(name, port=8080, **attributes):
    return {
        "type": "JSONServiceRecord",
        "description": name,
        "external": [
            {
                "api": "http://example.org/rest",
                "addressType": "host/port",
                "protocol": "REST",
                "protocolType": "REST",
                "addresses": [{"host": f"{name}.example.org", "port": str(port)}],
            }
        ],
        "internal": [
            {
                "api": "urn:admin",
                "addressType": "uri",
                "protocol": "webui",
                "protocolType": "webui",
                "addresses": [{"uri": f"http://{name}.example.org/admin"}],
            }
        ],
        "yarn:id": f"container_{port}",
        "yarn:persistence": "permanent",
        **attributes,
    }


class LookupTest(AgentTest):
    """An agent on a directory that holds two components below /users/joe/web/one."""

    sections = {}

    def setUp(self):
        super().setUp()
        self.put(f"{COMPONENTS}/a", record("a", 1))
        self.put(f"{COMPONENTS}/b", record("b", 2))
        self.server = self.agent(agent={"log_level": "info", **self.sections}).start()

    def bind(self, path, content):
        file = self.folder / "record.json"
        file.write_text(json.dumps(content))
        return berth("--registry", self.registry, "bind", "-p", path, "--file", file, "--overwrite")

    def put(self, path, content):
        result = self.bind(path, content)
        self.assertEqual(result.returncode, 0, result.stderr)

    def remove(self, path):
        result = berth("--registry", self.registry, "rm", "-r", path)
        self.assertEqual(result.returncode, 0, result.stderr)

    def get(self, target, method="GET", **headers):
        return self.server.request(method, target, headers={key.replace("_", "-"): value
            for key, value in headers.items()})

    def raw(self, request, patience=PATIENCE):
        """Sends bytes as they are; returns all that comes until the server closes, or answered
        once."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(patience)
            connection.connect(str(self.server.socket))
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass
            answer = b""
            # A server that closes with something unread resets the connection, behind its answer.
            with contextlib.suppress(ConnectionResetError):
                while chunk := connection.recv(1 << 16):
                    answer += chunk
            return answer.decode()

    def assert_problem(self, answer, status, title):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
        problem = answer.json
        self.assertEqual((problem["status"], problem["title"]), (status, title))
        self.assertTrue(problem["detail"])


class Answers(LookupTest):
    def test_resolve_gives_the_record_as_stored(self):
        answer = self.get(f"/v1/resolve{COMPONENTS}/a")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        self.assertEqual(answer.json, record("a", 1))

    def test_a_miss_then_hits_with_the_same_tag(self):
        answers = [self.get(f"/v1/resolve{COMPONENTS}/a") for _ in range(3)]
        self.assertEqual([answer.headers["X-Cache"] for answer in answers], ["MISS", "HIT", "HIT"])
        self.assertEqual(len({answer.headers["ETag"] for answer in answers}), 1)
        self.assertEqual({answer.headers["Age"] for answer in answers}, {"0"})

    def test_list_gives_full_paths_in_order(self):
        self.assertEqual(self.get(f"/v1/list{COMPONENTS}").json,
            [f"{COMPONENTS}/a", f"{COMPONENTS}/b"])
        self.assertEqual(self.get("/v1/list/").json, ["/users"])

    def test_records_leaves_out_children_without_record(self):
        berth("--registry", self.registry, "mknode", f"{COMPONENTS}/empty").check_returncode()
        answer = self.get(f"/v1/records{COMPONENTS}")
        self.assertEqual(answer.json, {f"{COMPONENTS}/a": record("a", 1),
            f"{COMPONENTS}/b": record("b", 2)})

    def test_endpoints_are_those_of_the_record_and_of_its_children(self):
        self.put(COMPONENTS, record("own", 9))
        found = self.get(f"/v1/endpoints{COMPONENTS}?scope=external").json
        self.assertEqual([item["path"] for item in found], [COMPONENTS, f"{COMPONENTS}/a",
            f"{COMPONENTS}/b"])
        self.assertEqual(
            found[1],
            {
                "path": f"{COMPONENTS}/a",
                "scope": "external",
                "api": "http://example.org/rest",
                "protocol": "REST",
                "addressType": "host/port",
                "address": {"host": "a.example.org", "port": "1"},
            },
        )

    def test_endpoints_by_filter(self):
        for query, count in [
            ("", 4),
            ("?api=urn%3Aadmin", 2),
            ("?protocol=rest", 2),
            ("?scope=internal", 2),
            ("?api=urn:admin&scope=external", 0),
            ("?api=&protocol=&scope=", 4),
            ("?nonsense=1", 4),
        ]:
            self.assertEqual(len(self.get(f"/v1/endpoints{COMPONENTS}{query}").json), count, query)

    def test_endpoints_as_text_are_an_address_a_line(self):
        answer = self.get(f"/v1/endpoints{COMPONENTS}?scope=external", Accept="text/plain")
        self.assertTrue(answer.headers["Content-Type"].startswith("text/plain"))
        self.assertEqual(answer.body.decode(), "a.example.org:1\nb.example.org:2\n")
        answer = self.get(f"/v1/endpoints{COMPONENTS}?protocol=webui", Accept="text/plain;q=0.5")
        self.assertEqual(answer.body.decode(),
            "http://a.example.org/admin\nhttp://b.example.org/admin\n")

    def test_stat(self):
        answer = self.get(f"/v1/stat{COMPONENTS}").json
        self.assertEqual((answer["path"], answer["children"]), (COMPONENTS, 2))
        leaf = self.get(f"/v1/stat{COMPONENTS}/a").json
        self.assertGreater(leaf["size"], 100)
        self.assertGreater(leaf["time"], 1_500_000_000_000)

    def test_data_too_large_for_a_record_has_a_stat_all_the_same(self):
        for name, text, status, title in [
            ("blob", "x" * 200000, 404, "NoRecord"),
            ("grown", "x" * 150000 + "JSONServiceRecord" + "x" * (50000 - 17), 502,
                "InvalidRecord"),
            ("huge", "x" * (3 << 20), 404, "NoRecord"),
        ]:
            folder = self.folder / "registry" / "large" / name
            folder.mkdir(parents=True)
            (folder / "_record").write_text(text)
            self.assert_problem(self.get(f"/v1/resolve/large/{name}"), status, title)
            answer = self.get(f"/v1/stat/large/{name}")
            self.assertEqual((answer.status, answer.json["size"], answer.json["children"]),
                (200, len(text), 0))
            self.assertEqual(self.get(f"/v1/list/large/{name}").json, [])
        self.assertEqual(self.get("/v1/records/large").json, {})
        self.assertEqual(self.get("/v1/find?under=/large").json, {})

    def test_a_record_over_a_limit_is_no_record_and_hides_no_sibling(self):
        """Each of these once ended the agent: the reader took it that somebody wanted to know
        why."""
        marker = '{"type":"JSONServiceRecord"'
        for name, text in [
            ("deep", marker + ',"a":' + "[" * 40 + "]" * 40 + "}"),
            ("grown", marker + ',"a":"' + "x" * (128 << 10) + '"}'),
        ]:
            folder = self.folder / "registry" / COMPONENTS[1:] / name
            folder.mkdir(parents=True)
            (folder / "_record").write_text(text)
            self.assert_problem(self.get(f"/v1/resolve{COMPONENTS}/{name}"), 502, "InvalidRecord")
            self.assertEqual(self.get(f"/v1/endpoints{COMPONENTS}/{name}").json, [])
            self.assertEqual(list(self.get(f"/v1/records{COMPONENTS}").json),
                [f"{COMPONENTS}/a", f"{COMPONENTS}/b"])
            self.assertEqual(len(self.get(f"/v1/endpoints{COMPONENTS}").json), 4)
            self.assertEqual(list(self.get(f"/v1/find?under={COMPONENTS}").json),
                [f"{COMPONENTS}/a", f"{COMPONENTS}/b"])
            for path, query in [(f"{COMPONENTS}/{name}", ""), (COMPONENTS, "?recursive=yes")]:
                with Stream(self.server.socket, f"/v1/watch{path}{query}") as stream:
                    snapshot = stream.next()["snapshot"]
                    self.assertIn(f"{COMPONENTS}/{name}", snapshot)
                    self.assertIsNone(snapshot[f"{COMPONENTS}/{name}"])

    def test_records_of_other_writers_are_read_as_hadoop_reads_them(self):
        """A number or a boolean where a string belongs once made the whole record unreadable."""
        text = (
            '{"external":[{"api":"a","addressType":"host/port","protocolType":"REST",'
            '"addresses":[{"host":"h1","port":8080},null,{"host":"h2","port":null}]},'
            '{"api":"b","addressType":"zktriple","protocolType":"zk","addresses":[{"host":"z",'
            '"port":2181,"path":"/x"}]},'
            '{"api":"c","addressType":"uri","protocolType":"http","addresses":[{"uri":""},'
            '["http://h3/"]]}],'
            '"internal":null,"yarn:id":"first","x":"\\u0000\\ud800","yarn:id":7,'
            '"type":"JSONServiceRecord"}\n'
            ',"z":{\0\0'
        )
        folder = self.folder / "registry" / COMPONENTS[1:] / "c"
        folder.mkdir(parents=True)
        (folder / "_record").write_text(text)
        answer = self.get(f"/v1/endpoints{COMPONENTS}/c", Accept="text/plain")
        self.assertEqual(answer.body.decode(), "h1:8080\nz:2181/x\nhttp://h3/\n")
        self.assertEqual(sorted(self.get(f"/v1/records{COMPONENTS}").json),
            [f"{COMPONENTS}/{name}" for name in "abc"])
        # The answer as a whole is what every reader of JSON takes.
        self.assertIn('"x":"\\ufffd\\ufffd"', self.get(f"/v1/records{COMPONENTS}").body.decode())
        self.assertEqual(list(self.get("/v1/find?id=7").json), [f"{COMPONENTS}/c"])

    def test_children_that_no_path_can_name(self):
        folder = self.folder / "registry" / COMPONENTS[1:]
        self.assertNotIn("foreign", self.get(f"/v1/stat{COMPONENTS}").json)
        (folder / "My Service").mkdir()
        (folder / "notes").touch()
        foreign = [f"{COMPONENTS}/My%20Service", f"{COMPONENTS}/notes"]
        wait_until(lambda: self.get(f"/v1/stat{COMPONENTS}").json.get("foreign") == foreign,
            "the foreign names")
        self.assertEqual(self.get(f"/v1/stat{COMPONENTS}").json["children"], 2)
        self.assertEqual(self.get(f"/v1/list{COMPONENTS}").json,
            [f"{COMPONENTS}/a", f"{COMPONENTS}/b"])
        for where in (["--socket", self.server.socket],
                ["--registry", f"dir:{self.folder}/registry"]):
            shown = berth(*where, "ls", COMPONENTS)
            self.assertEqual(shown.stdout.split("\n")[2:4],
                [f"{path} (foreign)" for path in foreign], shown)
            self.assertEqual(json.loads(berth(*where, "--json", "stat",
                COMPONENTS).stdout)["foreign"], 2)
        removed = berth("--registry", f"dir:{self.folder}/registry", "rm", "-r", "/users")
        self.assertEqual(removed.returncode, 1, removed)
        self.assertIn("My%20Service", removed.stderr)
        self.assertEqual(self.get(f"/v1/list{COMPONENTS}").json,
            [f"{COMPONENTS}/a", f"{COMPONENTS}/b"])
        removed = berth("--registry", f"dir:{self.folder}/registry", "rm", "-r", "--force",
            "/users")
        self.assertEqual(removed.returncode, 0, removed)
        self.assertFalse((self.folder / "registry" / "users").exists())

    def test_find(self):
        for query, names in [
            ("under=/users", "ab"),
            ("under=/users&id=container_1", "a"),
            ("api=urn%3aadmin&persistence=permanent", "ab"),
            ("protocol=WEBUI", "ab"),
            ("persistence=container", ""),
        ]:
            answer = self.get(f"/v1/find?{query}")
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(sorted(answer.json), [f"{COMPONENTS}/{name}" for name in names], query)
            self.assertEqual(self.get(f"/v1/find?{query}",
                If_None_Match=answer.headers["ETag"]).status, 304)

    def test_the_index_names_every_request(self):
        index = self.get("/").json
        paths = {item["path"] for item in index["resources"]}
        for path in ("/v1/resolve/{path}", "/v1/watch/{path}", "/v1/find",
                "/v1/agent/checks/{name}/run", "/metrics"):
            self.assertIn(path, paths)
        self.assertTrue(all(item["help"] and item["methods"] for item in index["resources"]))

    def test_head_is_get_without_body(self):
        self.get(f"/v1/resolve{COMPONENTS}/a")
        for target in (f"/v1/resolve{COMPONENTS}/a", f"/v1/list{COMPONENTS}", "/v1/find",
                "/v1/agent", "/live", "/metrics", "/"):
            head, get = self.get(target, method="HEAD"), self.get(target)
            self.assertEqual(head.status, get.status, target)
            self.assertEqual(head.body, b"")
            if "ETag" in get.headers:
                self.assertEqual(head.headers["ETag"], get.headers["ETag"])
                if target != "/v1/agent":  # whose uptime goes on
                    self.assertEqual(head.headers["Content-Length"], get.headers["Content-Length"])

    def test_connections_are_kept_alive(self):
        connection = UnixConnection(self.server.socket)
        self.addCleanup(connection.close)
        sockets = set()
        for target in (f"/v1/resolve{COMPONENTS}/a", "/v1/resolve/nowhere", "/v1/agent",
                "/nothing/there") * 3:
            connection.request("GET", target)
            answer = connection.getresponse()
            answer.read()
            self.assertIsNone(answer.headers["Connection"], target)
            sockets.add(connection.sock)
        self.assertEqual(len(sockets), 1)
        self.assertNotIn(None, sockets)

    def test_a_unix_client_that_ends_its_half_gets_an_answer(self):
        answer = self.raw(
            f"GET /v1/resolve{COMPONENTS}/b HTTP/1.1\r\n"
            "Host: x\r\nConnection: close\r\n\r\n".encode()
        )
        self.assertIn("X-Cache: MISS", answer)

    def test_a_target_may_name_the_host(self):
        for host in ("http://berth", "HTTP://berth:80"):
            answer = self.raw(f"GET {host}/live HTTP/1.1\r\nHost: berth\r\n\r\n".encode())
            self.assertTrue(answer.startswith("HTTP/1.1 200 "), answer)
        answer = self.raw(b"GET http://berth HTTP/1.1\r\nHost: berth\r\n\r\n")
        self.assertIn("/v1/resolve/{path}", answer)
        self.assertTrue(self.raw(
            b"GET ftp://berth/live HTTP/1.1\r\nHost: berth\r\n\r\n").startswith("HTTP/1.1 404 "))

    def test_requests_in_a_row_without_waiting(self):
        request = f"GET /v1/list{COMPONENTS} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answer = self.raw(request * 20 + request.replace(b"Host", b"Connection: close\r\nHost"))
        self.assertEqual(answer.count("HTTP/1.1 200"), 21)


class Refusals(LookupTest):
    def test_absent_resources(self):
        self.assert_problem(self.get("/v1/resolve/users/nobody"), 404, "PathNotFound")
        self.assert_problem(self.get(f"/v1/resolve{COMPONENTS}"), 404, "NoRecord")
        answer = self.get("/v1/find?under=/nowhere")
        self.assert_problem(answer, 404, "PathNotFound")
        self.assertEqual((answer.headers["X-Cache"], answer.headers["Age"]), ("MISS", "0"))
        self.assert_problem(self.get("/v1/nothing"), 404, "Not Found")

    def test_an_invalid_record_is_a_bad_gateway(self):
        file = self.folder / f"registry{COMPONENTS}/a/_record"
        file.write_text('{"type":"JSONServiceRecord", broken')
        self.assert_problem(self.get(f"/v1/resolve{COMPONENTS}/a"), 502, "InvalidRecord")

    def test_odd_paths_are_refused_not_normalised(self):
        for path in ("/../etc", "/a//b", "/a/", "/A", "/a%2fb", "/%2e%2e", "/a_b", "/-a",
                "/" + "a" * 64, "/a/./b"):
            for request in ("resolve", "list", "records", "endpoints", "stat", "watch"):
                self.assert_problem(self.get(f"/v1/{request}{path}"), 400, "InvalidPathname")
        self.assertIn("400",
            self.raw(b"GET /v1/resolve/a\0b HTTP/1.1\r\nHost: x\r\n\r\n").splitlines()[0])

    def test_methods(self):
        answer = self.get(f"/v1/resolve{COMPONENTS}/a", method="DELETE")
        self.assert_problem(answer, 405, "Method Not Allowed")
        self.assertEqual(answer.headers["Allow"], "GET, HEAD, OPTIONS")
        answer = self.get("/v1/agent/drain")
        self.assert_problem(answer, 405, "Method Not Allowed")
        self.assertEqual(answer.headers["Allow"], "POST, DELETE, OPTIONS")
        self.assert_problem(self.get("/v1/list/", method="PATCH"), 405, "Method Not Allowed")
        self.assert_problem(self.get("/v1/list/", method="BREW"), 501, "Not Implemented")

    def test_media_types(self):
        for request in (f"resolve{COMPONENTS}/a", f"list{COMPONENTS}", "find"):
            self.assert_problem(self.get(f"/v1/{request}", Accept="image/png"), 406,
                "Not Acceptable")
        self.assert_problem(self.get(f"/v1/endpoints{COMPONENTS}", Accept="text/html"), 406,
            "Not Acceptable")
        self.assert_problem(self.get(f"/v1/watch{COMPONENTS}", Accept="application/json"), 406,
            "Not Acceptable")
        for accept in ("*/*", "application/*", "text/html, application/json;q=0.1",
                "APPLICATION/JSON"):
            self.assertEqual(self.get(f"/v1/resolve{COMPONENTS}/a", Accept=accept).status, 200,
                accept)

    def test_parameters(self):
        for query in ("endpoints/a?scope=sideways", "watch/a?recursive=perhaps",
                "endpoints/a?api=%zz", "endpoints/a?api=%00",
                      "endpoints/a?api=" + "x" * 600, "endpoints/a?protocol=" + "x" * 65):
            self.assert_problem(self.get(f"/v1/{query}"), 400, "Bad Request")
        self.assert_problem(self.get("/v1/find?under=/a//b"), 400, "InvalidPathname")

    def test_requests_that_are_too_large(self):
        answer = self.raw(b"GET /v1/resolve/" + b"a" * 4200 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertIn(" 414 ", answer.splitlines()[0])
        answer = self.raw(b"GET /live HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 9000 + b"\r\n\r\n")
        self.assertIn(" 431 ", answer.splitlines()[0])
        body = b'{"reason":"' + b"x" * 70000 + b'"}'
        head = (
            "POST /v1/agent/drain HTTP/1.1\r\nHost: x\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
        answer = self.raw(head + body)
        self.assertIn(" 413 ", answer.splitlines()[0])
        self.assertIn("application/problem+json", answer)
        answer = self.raw(
            b"POST /v1/agent/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        self.assertIn(" 413 ", answer.splitlines()[0])

    def test_bytes_that_are_no_http_harm_nobody(self):
        for request in (b"\r\n\r\n", b"\0" * 100, b"GET\r\n\r\n", b"hello\r\n\r\n",
                b"GET / HTTP/9.9\r\n\r\n", b"GET /live HTTP/1.1\r\nHost"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(str(self.server.socket))
                connection.sendall(request)
        wait_until(lambda: "berth_clients 1\n" in self.get("/metrics").body.decode(),
            "their connections are gone")

    def test_bodies_must_be_json_objects(self):
        for body in (b"[]", b"{", b'{"reason": 1}', b'{"for": "soon"}', b'{"a":1,"a":2}',
                b'{"reson": "x"}', b"\xff"):
            head = (
                "POST /v1/agent/drain HTTP/1.1\r\nHost: x\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
            self.assertIn(" 400 ", self.raw(head + body).splitlines()[0], body)
        self.assertFalse(self.server.status()["drain"]["active"])


class Freshness(LookupTest):
    def test_changes_show_at_once(self):
        target = f"/v1/resolve{COMPONENTS}/a"
        tag = self.get(target).headers["ETag"]
        self.put(f"{COMPONENTS}/a", record("changed"))
        wait_until(lambda: self.get(target).json["description"] == "changed",
            "the lookup shows the change")
        self.assertNotEqual(self.get(target).headers["ETag"], tag)
        self.remove(f"{COMPONENTS}/a")
        wait_until(lambda: self.get(target).status == 404, "the lookup shows the deletion")
        self.put(f"{COMPONENTS}/a", record("again"))
        wait_until(lambda: self.get(target).status == 200, "the lookup shows the creation")

    def test_conditional_get(self):
        target = f"/v1/list{COMPONENTS}"
        tag = self.get(target).headers["ETag"]
        for header in (tag, f'"x", {tag}', f"W/{tag}", "*"):
            answer = self.get(target, If_None_Match=header)
            self.assertEqual((answer.status, answer.body), (304, b""))
            self.assertEqual(answer.headers["ETag"], tag)
        self.assertEqual(self.get(target, If_None_Match='"other"').status, 200)

    def poll(self, target, tag, seconds=30):
        """A long poll in a thread; join() gives its answer."""
        outcome = []
        headers = {"If-None-Match": tag, "Prefer": f"wait={seconds}"}
        thread = threading.Thread(target=lambda: outcome.append(self.server.request("GET", target,
            headers=headers)))
        thread.start()
        return thread, outcome

    def wait_watchers(self, count):
        wait_until(lambda: f"berth_watchers {count}\n" in self.get("/metrics").body.decode(),
            f"{count} watchers")

    def test_a_long_poll_ends_with_the_change(self):
        for target, change in [
            (f"/v1/resolve{COMPONENTS}/a", lambda: self.put(f"{COMPONENTS}/a", record("new"))),
            (f"/v1/list{COMPONENTS}", lambda: self.put(f"{COMPONENTS}/c", record("c"))),
            (f"/v1/records{COMPONENTS}", lambda: self.put(f"{COMPONENTS}/b", record("b-new"))),
            (f"/v1/endpoints{COMPONENTS}", lambda: self.remove(f"{COMPONENTS}/b")),
            (f"/v1/stat{COMPONENTS}/c", lambda: self.remove(f"{COMPONENTS}/c")),
            ("/v1/find?under=/users", lambda: self.put(f"{COMPONENTS}/d", record("d"))),
            ("/v1/find?api=urn%3aadmin", lambda: self.remove(f"{COMPONENTS}/d")),
        ]:
            tag = self.get(target).headers["ETag"]
            thread, outcome = self.poll(target, tag)
            self.wait_watchers(1)
            change()
            thread.join(60)
            self.assertIn(outcome[0].status, (200, 404), target)
            self.assertNotEqual(outcome[0].headers["ETag"], tag)
            self.assertEqual(outcome[0].headers["Preference-Applied"], "wait=30")
        self.wait_watchers(0)

    def test_a_search_hits_while_somebody_waits_for_its_change(self):
        target = "/v1/find?under=/users"
        answer = self.get(target)
        self.assertEqual((answer.headers["X-Cache"], answer.headers["Age"]), ("MISS", "0"))
        thread, outcome = self.poll(target, answer.headers["ETag"])
        self.wait_watchers(1)
        wait_until(lambda: self.get(target).headers["X-Cache"] == "HIT", "the walk still holds")
        self.put(f"{COMPONENTS}/c", record("c"))
        thread.join(60)
        self.assertIn(f"{COMPONENTS}/c", outcome[0].json)
        self.wait_watchers(0)

    def test_a_long_poll_waits_for_a_creation(self):
        target = "/v1/resolve/users/joe/new"
        absent = self.get(target)
        self.assertEqual(absent.status, 404)
        thread, outcome = self.poll(target, absent.headers["ETag"])
        self.wait_watchers(1)
        self.put("/users/joe/new", record("new"))
        thread.join(60)
        self.assertEqual(outcome[0].status, 200)
        self.assertEqual(outcome[0].json["description"], "new")

    def test_a_long_poll_that_runs_out_is_not_modified(self):
        target = f"/v1/resolve{COMPONENTS}/a"
        tag = self.get(target).headers["ETag"]

        def worked():
            metrics = self.get("/metrics").body.decode()
            return float(re.search(r"^berth_lookup_duration_seconds_sum (\S+)$", metrics, re.M)[1])

        def work_of_a_poll(prefer="wait=1"):
            before = worked()
            answer = self.get(target, If_None_Match=tag, Prefer=prefer)
            self.assertEqual((answer.status, answer.headers["ETag"]), (304, tag))
            self.assertEqual(answer.headers["Preference-Applied"], "wait=1")
            return worked() - before

        work_of_a_poll('foo; bar, wait = "1"')
        # An agent that is stopped meanwhile may seem to work, but not each time.
        wait_until(lambda: work_of_a_poll() < 0.9, "waiting takes no work")
        self.assertEqual(self.get(target, If_None_Match=tag, Prefer="wait=0").status, 304)
        self.assertEqual(self.get(target, If_None_Match='"old"', Prefer="wait=600").status, 200)

    def test_a_poller_that_leaves_is_forgotten(self):
        target = f"/v1/resolve{COMPONENTS}/a"
        tag = self.get(target).headers["ETag"]
        connection = UnixConnection(self.server.socket)
        connection.request("GET", target, headers={"If-None-Match": tag, "Prefer": "wait=600"})
        self.wait_watchers(1)
        connection.close()
        self.wait_watchers(0)

    def test_no_cache_reads_again(self):
        for target in (f"/v1/resolve{COMPONENTS}/a", f"/v1/records{COMPONENTS}",
                f"/v1/endpoints{COMPONENTS}"):
            self.get(target)
            self.assertEqual(self.get(target).headers["X-Cache"], "HIT")
            answer = self.get(target, Cache_Control="no-cache")
            self.assertEqual((answer.status, answer.headers["X-Cache"]), (200, "MISS"))
            self.assertEqual(self.get(target).headers["X-Cache"], "HIT")


class SameForEveryClient(LookupTest):
    """curl, Node, Java, h2load and Python are HTTP implementations that share nothing."""

    TARGETS = (
        f"/v1/resolve{COMPONENTS}/a",
        "/v1/resolve/nowhere",
        f"/v1/list{COMPONENTS}",
        f"/v1/records{COMPONENTS}",
        f"/v1/endpoints{COMPONENTS}?scope=internal",
        f"/v1/stat{COMPONENTS}",
        "/v1/find?under=/users",
    )
    NODE = """
const http = require('http');
const [socketPath, path] = process.argv.slice(1);
http.get({ socketPath, path }, (answer) => {
  let body = '';
  answer.on('data', (chunk) => { body += chunk; });
  answer.on('end', () => console.log(
    JSON.stringify([answer.statusCode, answer.headers.etag, body])));
});
"""

    def by_curl(self, target):
        output = subprocess.run(
            ["curl", "-sS", "--unix-socket", self.server.socket, "-w",
                r"\n%{http_code} %header{etag}", f"http://berth{target}"],
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        body, _, last = output.rpartition("\n")
        status, _, tag = last.partition(" ")
        return [int(status), tag, body]

    def by_node(self, target):
        output = subprocess.run(
            ["node", "-e", self.NODE, self.server.socket, target], capture_output=True, text=True,
            check=True, timeout=60
        ).stdout
        return json.loads(output)

    def by_python(self, target):
        answer = self.get(target)
        return [answer.status, answer.headers["ETag"], answer.body.decode()]

    JAVA = """
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

class Ask {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (String target : arguments) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(target)).build();
            HttpResponse<String> answer =
                client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + "\\t"
                + answer.headers().firstValue("ETag").get() + "\\t" + answer.body().strip());
        }
    }
}
"""

    def setUp(self):
        self.port = reserve_port(self)
        self.sections = {"listen": f"127.0.0.1:{self.port}"}
        super().setUp()

    def compare(self, ask):
        for target in self.TARGETS:
            self.assertEqual(ask(target), self.by_python(target), target)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        self.compare(self.by_curl)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_node(self):
        self.compare(self.by_node)


    @unittest.skipUnless(shutil.which("javac"), "no JDK is installed")
    def test_java(self):
        """Java asks for HTTP/2 first; it is to be content with HTTP/1.1."""
        source = self.folder / "Ask.java"
        source.write_text(self.JAVA)
        targets = [f"http://127.0.0.1:{self.port}{target}" for target in self.TARGETS]
        output = subprocess.run(["java", source, *targets], capture_output=True, text=True,
            check=True, timeout=120).stdout
        for target, line in zip(self.TARGETS, output.splitlines(), strict=True):
            status, tag, body = line.split("\t")
            self.assertEqual([int(status), tag, body], [*self.by_python(target)[:2],
                self.by_python(target)[2].strip()], target)

    @unittest.skipUnless(shutil.which("h2load"), "h2load is not installed")
    def test_h2load(self):
        """Many requests at once on few connections, in a row without waiting."""
        target = f"/v1/resolve{COMPONENTS}/a"
        for options in (
            [f"http://127.0.0.1:{self.port}{target}"],
            [f"--base-uri=unix:{self.server.socket}", f"http://berth{target}"],
        ):
            command = ["h2load", "--h1", "-n", "5000", "-c", "10", "-m", "10", *options]
            output = subprocess.run(command, capture_output=True, text=True, check=True,
                timeout=120).stdout
            self.assertIn(
                "5000 total, 5000 started, 5000 done, 5000 succeeded, 0 failed, 0 errored, 0 "
                "timeout", output)
            self.assertIn("5000 2xx", output)


class OverTcp(LookupTest):
    def setUp(self):
        self.port = reserve_port(self)
        self.sections = {"listen": f"127.0.0.1:{self.port}", "max_watchers": "9",
            "listen_hosts": "a"}
        super().setUp()

    def ask(self, method, target):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def test_reading_is_the_same(self):
        for target in SameForEveryClient.TARGETS:
            status, body, headers = self.ask("GET", target)
            local = self.get(target)
            self.assertEqual((status, body, headers["ETag"]),
                (local.status, local.body, local.headers["ETag"]), target)
        for target in ("/live", "/ready", "/metrics", "/v1/agent", "/v1/agent/checks",
                "/v1/agent/history"):
            self.assertEqual(self.ask("GET", target)[0], self.get(target).status, target)

    def test_fields_for_a_cache_between(self):
        target = f"/v1/endpoints{COMPONENTS}"
        for source in ("MISS", "HIT", "HIT"):
            _, _, headers = self.ask("GET", target)
            self.assertEqual(headers["X-Cache"], source)
            self.assertEqual((headers["Cache-Control"], headers["Vary"]), ("no-cache", "Accept"))
            self.assertIsNotNone(headers["Date"])
            self.assertEqual(self.get(target).headers["X-Cache"], "HIT")

    def test_nothing_can_be_changed(self):
        for method, target in [
            ("POST", "/v1/agent/drain"),
            ("DELETE", "/v1/agent/drain"),
            ("POST", "/v1/agent/reload"),
            ("POST", "/v1/agent/checks/x/run"),
            ("PUT", "/v1/agent/checks/x"),
            ("PUT", "/v1/agent/endpoints/x"),
            ("DELETE", "/v1/agent/endpoints/x"),
        ]:
            status, _, _ = self.ask(method, target)
            self.assertEqual(status, 404, target)
        listed = json.loads(self.ask("GET", "/")[1])["resources"]
        self.assertEqual({item["methods"] for item in listed}, {"GET, HEAD"})

    def open(self, target, **headers):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(connection.close)
        fields = "".join(f"{name.replace('_', '-')}: {value}\r\n"
            for name, value in headers.items())
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode())
        return connection

    def status(self, connection):
        return int(connection.makefile("rb").readline().split()[1])

    def test_a_client_that_ends_its_half_gets_the_answer(self):
        for number in range(20):
            connection = self.open(f"/v1/resolve/users/unknown{number}")
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(self.status(connection), 404)
        connection = self.open("/v1/find?under=/users")
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(self.status(connection), 200)

    def test_a_watcher_that_leaves_is_forgotten(self):
        target = f"/v1/resolve{COMPONENTS}/a"
        waiting = {"If_None_Match": self.get(target).headers["ETag"], "Prefer": "wait=600"}
        for asked in ((f"/v1/watch{COMPONENTS}", {}), (target, waiting)):
            connection = self.open(asked[0], **asked[1])
            wait_until(lambda: self.watchers() == 1, "it watches")
            connection.close()
            wait_until(lambda: self.watchers() == 0, "it has gone")

    def watchers(self):
        return int(re.search(r"^berth_watchers (\d+)$", self.get("/metrics").body.decode(),
            re.M)[1])

    def test_watchers_are_a_quarter_at_most(self):
        watch = f"/v1/watch{COMPONENTS}"
        for _ in range(2):
            self.assertEqual(self.status(self.open(watch)), 200)
        self.assertEqual(self.status(self.open(watch)), 503)
        local = [UnixConnection(self.server.socket) for _ in range(6)]
        for connection in local:
            self.addCleanup(connection.close)
            connection.request("GET", watch)
            self.assertEqual(connection.getresponse().status, 200)


class DynamicEndpoints(AgentTest):
    def start(self, **options):
        agent = self.web_agent(
            extra={"endpoint port": {"api": "urn:port", "protocol": "REST",
                "address_type": "host/port", "dynamic": "yes", **options}}
        )
        agent.start()
        agent.wait_state("registered")
        return agent

    def addresses(self):
        found = [item for item in self.in_registry()["external"] if item["api"] == "urn:port"]
        return found[0]["addresses"] if found else None

    def test_supplied_and_withdrawn(self):
        agent = self.start()
        self.assertFalse(self.addresses())
        answer = agent.request("PUT", "/v1/agent/endpoints/port", {"addresses": ["127.0.0.1:4711"]})
        self.assertEqual(answer.status, 204, answer.body)
        wait_until(lambda: self.addresses() == [{"host": "127.0.0.1", "port": "4711"}],
            "the address is published")
        self.assertEqual(agent.request("DELETE", "/v1/agent/endpoints/port").status, 204)
        wait_until(lambda: not self.addresses(), "the address is withdrawn")

    def test_wrong_requests_are_refused(self):
        agent = self.start()
        for body, status in [({}, 400), ({"addresses": "x"}, 400), ({"addresses": [{"uri": 1}]},
            422), ({"addresses": [7]}, 422)]:
            answer = agent.request("PUT", "/v1/agent/endpoints/port", body)
            self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(agent.request("PUT", "/v1/agent/endpoints/none", {"addresses": []}).status,
            404)

    def test_held_by_a_connection(self):
        agent = self.start(hold="connection")
        connection = UnixConnection(agent.socket)
        body = json.dumps({"addresses": [{"host": "127.0.0.1", "port": "4712"}]})
        connection.request("PUT", "/v1/agent/endpoints/port", body=body)
        answer = connection.getresponse()
        self.assertEqual(answer.status, 204, answer.read())
        answer.read()
        wait_until(self.addresses, "the address is published")
        connection.close()
        wait_until(lambda: not self.addresses(), "the address goes with the connection")


if __name__ == "__main__":
    unittest.main()
