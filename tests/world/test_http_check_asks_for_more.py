"""A user's server answers 429 when it is busy, or 200 with a page of a proxy in front of it, or
wants a POST: the check can say neither, and the component goes, or stays, for the wrong reason. A
proxy of the environment gets what was meant for the server.

Source: consul #2294 (statuses that warn); http_proxy of curl(1)
"""

import http.server
import os
import threading
import unittest

from berth import AgentTest, wait_until


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the path says: /STATUS; /echo with the request in the header fields."""

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        status = 200 if self.path == "/echo" else int(self.path[1:])
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("X-Method", self.command)
        self.send_header("X-Body", body.decode())
        self.send_header("X-Twice", "one")
        self.send_header("X-Twice", "two")
        self.end_headers()
        self.wfile.write(b"UP\n")

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


class MoreOfHttp(AgentTest):
    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def results(self, checks, **keywords):
        """The last results of checks, by name: name -> (path, further keys)."""
        port = self.server.server_address[1]
        agent = self.web_agent(check="", extra={f"check {name}": {"type": "http",
            "target": f"http://127.0.0.1:{port}{path}", "interval": "1h", "timeout": "30s", **keys}
            for name, (path, keys) in checks.items()}).start(**keywords)
        wait_until(lambda: all(agent.check_named(name).get("last") for name in checks), "all ran")
        return agent, {name: agent.check_named(name)["last"] for name in checks}

    def verdicts(self, checks):
        _, results = self.results(checks)
        return {name: (last["verdict"], last["detail"]) for name, last in results.items()}

    def test_a_status_warns(self):
        busy = {"warning_status": "429, 500-503"}
        agent, results = self.results({"good": ("/200", busy), "busy": ("/429", busy),
            "ill": ("/503", busy), "gone": ("/404", busy),
            "plain": ("/429", {"initial": "passing"})})
        self.assertEqual({name: last["verdict"] for name, last in results.items()},
            {"good": "passing", "busy": "warning", "ill": "warning", "gone": "failing",
                "plain": "failing"})
        self.assertEqual(results["busy"]["detail"], "status 429, which is a warning")
        self.assertEqual(agent.check_named("busy")["state"], "up")

    def test_a_header_is_expected(self):
        self.assertEqual(self.verdicts({
            "type": ("/200", {"expect_header.content-type": "^application/json"}),
            "second": ("/200", {"expect_header.X-Twice": "^two$"}),
            "empty": ("/200", {"expect_header.X-Body": "^$"}),
            "other": ("/200", {"expect_header.Content-Type": "^text/html$"}),
            "none": ("/200", {"expect_header.X-Served-By": "."}),
            "both": ("/200", {"expect_header.X-Method": "^GET$", "match": "^DOWN$"}),
            "warns": ("/429", {"warning_status": "429", "expect_header.X-Absent": "."}),
        }), {
            "type": ("passing", "status 200"),
            "second": ("passing", "status 200"),
            "empty": ("passing", "status 200"),
            "other": ("failing", "status 200, header Content-Type is application/json; "
                "charset=utf-8, not ^text/html$"),
            "none": ("failing", "status 200, without header X-Served-By"),
            "both": ("failing", "status 200, body does not match: ^DOWN$"),
            "warns": ("failing", "status 429, without header X-Absent"),
        })

    def test_a_body_is_sent(self):
        body = '{"query": "{ ping }"}'
        self.assertEqual(self.verdicts({
            "post": ("/echo", {"body": body, "expect_header.X-Method": "^POST$",
                "expect_header.X-Body": r'^\{"query": "\{ ping \}"\}$'}),
            "put": ("/echo", {"body": "x", "method": "PUT", "expect_header.X-Method": "^PUT$"}),
        }), {"post": ("passing", "status 200"), "put": ("passing", "status 200")})

    def test_no_proxy_of_the_environment_is_asked(self):
        nobody = "http://127.0.0.1:1"
        environment = {**os.environ, "http_proxy": nobody, "HTTP_PROXY": nobody,
            "all_proxy": nobody, "ALL_PROXY": nobody}
        _, results = self.results({"alive": ("/200", {})}, env=environment)
        self.assertEqual(results["alive"]["verdict"], "passing")


if __name__ == "__main__":
    unittest.main()
