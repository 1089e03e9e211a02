"""Characters that change what a terminal shows leave in no answer, whatever its form."""

import json
import unittest

from berth import berth
from outputs import FROM, Members, OutputTest, record

HIDDEN = "\x7f\x9b\u061c\u200e\u2028\u202e\u2066"
CONTROLS = "\x1b\x07" + HIDDEN
FORBIDDEN = {*map(chr, range(32)), *HIDDEN, *map(chr, range(0x80, 0xa0))} - {"\n"}


class Hidden(OutputTest):
    def setUp(self):
        super().setUp()
        members = Members(self.registry)
        content = record(8001, protocol=f"http{CONTROLS}", description=f"d{CONTROLS}",
            **{"yarn:id": f"id{CONTROLS}", "yarn:component": f"c{CONTROLS}", f"a{CONTROLS}":
                f"v{CONTROLS}"})
        content["external"][0]["api"] = f"urn:x{CONTROLS}"
        content["external"] += [
            {"api": "x", "addressType": "uri", "protocol": "",
                "addresses": [{"uri": f"http://h:1/{CONTROLS}"}]},
            {"api": "x", "addressType": f"x-{CONTROLS}", "protocol": "",
                "addresses": [{"address": CONTROLS, CONTROLS: "v"}]},
        ]
        members.put_content("c1", content)
        self.server = self.agent().start()

    def check(self, text, what, holds=None):
        found = sorted(map(ascii, FORBIDDEN & set(text)))
        self.assertEqual(found, [], what)
        if holds:
            self.assertIn(holds, text, what)

    def test_requests(self):
        for target, holds in ((f"/v1/resolve{FROM}/c1", "\\u202e"),
                (f"/v1/endpoints{FROM}", "\\u202e"), (f"/v1/records{FROM}", "\\u202e"),
                (f"/v1/targets{FROM}", "\\u202e"), ("/v1/find?under=/users/joe", "\\u202e"),
                ("/v1/names/c1.prod.web.joe.berth", "\\u202e")):
            answer = self.server.get(target)
            self.assertEqual(answer.status, 200, target)
            text = answer.body.decode()
            self.check(text, target, holds)
            self.assertIn(CONTROLS, self.strings(json.loads(text)), target)
        for target in (f"/v1/endpoints{FROM}", "/v1/names/c1.prod.web.joe.berth"):
            answer = self.server.get(target, Accept="text/plain")
            self.assertEqual(answer.status, 200, target)
            self.check(answer.body.decode(), target)

    def strings(self, value):
        """All strings of a JSON value in one text."""
        if isinstance(value, dict):
            return "".join(self.strings(item) for pair in value.items() for item in pair)
        if isinstance(value, list):
            return "".join(map(self.strings, value))
        return value if isinstance(value, str) else ""

    def test_commands(self):
        for arguments in (("resolve", f"{FROM}/c1"), ("endpoints", FROM),
                ("find", "--under", "/users/joe"), ("host", "c1.prod.web.joe.berth"),
                ("ls", FROM)):
            for options in ((), ("--json",)):
                result = berth("--socket", self.server.socket, *arguments, *options)
                self.assertEqual(result.returncode, 0, (arguments, options, result.stderr))
                self.check(result.stdout, (arguments, options))
                if options and arguments[0] != "ls":
                    self.assertIn(CONTROLS, self.strings(json.loads(result.stdout)), arguments)
        for name in ("lines", "json", "prometheus", "envoy", "haproxy", "nginx", "hosts", "env"):
            result = berth("--socket", self.server.socket, "render", "--format", name, FROM)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.check(result.stdout.replace("\t", ""), name)
            self.check(result.stderr, name)


if __name__ == "__main__":
    unittest.main()
