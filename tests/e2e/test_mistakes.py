"""What berthd -t says of the mistakes that people make and of the files that deployment tools
write: a table of each, with the exit status, the line that is named and the words of the message.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from berth import BUILD

# The configuration for every mistake; -t finds it good and has no doubt of it.
GOOD = """\
[registry]
url = zookeeper://zk1:2181,zk2:2181/registry
session_timeout = 30s

[component]
user = devteam
service_class = web
instance = test1
name = n1

[endpoint http]
scope = external
api = http://example.org/api/v1
protocol = http
address_type = uri
address = http://192.0.2.7:8080/

[check http]
type = http
target = http://127.0.0.1:8080/health
interval = 10s
timeout = 5s

[output peers]
from = /users/devteam/web/test1/components
format = lines
path = /tmp/peers
"""
FOUND = ("good: 1 component, 1 endpoint, 1 check, 1 output, "
    "registry zookeeper://zk1:2181,zk2:2181/registry; at /users/devteam/web/test1/components/n1")
BAD, DOUBT = 1, 0

# The old text, the new text, whether it is then bad or doubtful, and words of the message, which
# names the line where the new text begins (+N: N lines below it).
MISTAKES = [
    # of the spelling
    ("[component]", "[components]", BAD, "the nearest is [component]"),
    ("session_timeout", "sesion_timeout", BAD, "the nearest is `session_timeout`"),
    ("service_class", "serviceclass", BAD, "the nearest is `service_class`"),
    ("[component]\n", "[component]\ninstance = test1\n", BAD, "a second time", +4),
    ("[check http]", "[check http]\n[check http]", BAD, "a second time", +1),
    ("[endpoint http]", "[endpoint]", BAD, "write [endpoint NAME]"),
    ("[check http]", "[cache main]\n[check http]", BAD, "no name behind it"),
    ("[registry]", "[registry main]", DOUBT, "there is no [registry] without a name"),
    ("[registry]", "[registry Main]", BAD, "DNS label"),
    ("[check http]", "[check http", BAD, "[kind]"),
    ("name = n1", "interval = 5s", BAD, "it belongs to [check NAME]"),
    ("name = n1", "tags = blue", BAD, "write `attribute.NAME`"),
    ("timeout = 5s", "retries = 3", BAD, "write `fall`"),
    ("name = n1", "retries = 3", BAD, "for [check NAME] write `fall`"),
    ("scope = external", "port = 80", BAD, "in `address`, as host:port"),
    ("name = n1", "name n1", BAD, "key = value"),
    ("name = n1", "name: n1", BAD, "key = value"),
    ("name = n1", "= n1", BAD, "no key"),
    ("[check http]", "[check my http]", BAD, "one word"),
    # of values
    ("interval = 10s", "interval = 10", BAD, "30s"),
    ("interval = 10s", "interval = 10 s", BAD, "30s"),
    ("interval = 10s", "interval = 10sec", BAD, "30s"),
    ("interval = 10s", "interval = -10s", BAD, "30s"),
    ("interval = 10s", 'interval = "10s"', BAD, "the quotes are part of the value"),
    ("interval = 10s", "interval = 10s ; often", BAD, "`; often` is part of the value"),
    ("user = devteam", "user = devteam ; the owner", DOUBT, "a comment has a line of its own"),
    ("user = devteam", 'user = "devteam"', DOUBT, "the quotes are part of the value"),
    ("user = devteam", "user = “devteam”", DOUBT, "the quotes are part of the value"),
    ("user = devteam", "user = {{ user }}", DOUBT, "template that has not been filled in"),
    ("name = n1", "name = n1\ndescription = our #1 ; of two", None, ""),
    ("type = http\ntarget = http://127.0.0.1:8080/health", "command = true “x”", DOUBT,
        "quotes nothing"),
    ("interval = 10s", "interval = 8d", BAD, "7d"),
    ("timeout = 5s", "timeout = 5s\nfall = three", BAD, "fall", +1),
    ("timeout = 5s", "timeout = 5s\nrise = 0", BAD, "1", +1),
    ("scope = external", "scope = public", BAD, "internal or external"),
    ("instance = test1", "instance = Test1", BAD, "DNS label"),
    ("instance = test1", "instance = Prod_1", BAD, "write prod-1, for example"),
    ("name = n1", "name = n1.example.org", BAD, "DNS label"),
    ("name = n1", "name = " + 64 * "n", BAD, "63 bytes"),
    ("path = /tmp/peers", "path = peers", BAD, "absolute"),
    ("format = lines", "format = text", BAD, "lines, json"),
    ("from = /users", "from = users", BAD, "from"),
    ("from = /users/devteam", "from = /users/devteam/", BAD, "//"),
    # of the registry's URL
    ("url = zookeeper:", "url = zk:", BAD, "zookeeper://"),
    ("url = zookeeper://zk1", "url = zk1", BAD, "zookeeper://"),
    ("zk2:2181", "zk2:21810000", BAD, "url"),
    ("session_timeout = 30s", "auth = digest", BAD, "auth_file"),
    ("session_timeout = 30s", "auth_file = /nowhere/zk", BAD, "No such file"),
    ("[component]", "[bridge]\nlinger = 1s\n[component]", DOUBT, "without `containers`"),
    # of endpoints
    ("address_type = uri", "address_type = url", BAD, "uri, hostname"),
    ("address_type = uri", "address_type = host/port", BAD, "host:port", +1),
    ("http://192.0.2.7:8080/", "192.0.2.7:8080", BAD, "begins with its scheme"),
    ("http://192.0.2.7:8080/", "web.example.org:8080/api", BAD, "address_type = host/port"),
    ("http://192.0.2.7:8080/", "www.example.org", BAD, "http://www.example.org"),
    ("http://192.0.2.7:8080/", "", BAD, "needs `address`", -5),
    ("api = http://example.org/api/v1\n", "", BAD, "needs `api`", -2),
    ("http://192.0.2.7:8080/", "http://192.0.2.7:80800/", DOUBT, "65535"),
    ("http://192.0.2.7:8080/", "http://localhost:8080/", DOUBT, "every client's own machine"),
    ("http://192.0.2.7:8080/", "http://127.0.1.1:8080/", DOUBT, "every client's own machine"),
    ("http://192.0.2.7:8080/", "http://[::1]:8080/", DOUBT, "every client's own machine"),
    ("http://192.0.2.7:8080/", "http://0.0.0.0:8080/", DOUBT, "address to listen at"),
    ("http://192.0.2.7:8080/", "http://[::]/", DOUBT, "address to listen at"),
    ("address_type = uri\naddress = http://192.0.2.7:8080/",
        "address_type = host/port\naddress = localhost:8080", DOUBT, "every client's own", +1),
    ("http://192.0.2.7:8080/", "http://$HOST:8080/", DOUBT, "write ${HOST}"),
    ("http://192.0.2.7:8080/", "http://$(hostname):8080/", DOUBT, "no command is run"),
    ("http://192.0.2.7:8080/", "http://${HOST_OF_NOBODY}/", BAD, "HOST_OF_NOBODY is not set"),
    ("http://192.0.2.7:8080/", "http://${berth.adress}/", BAD, "berth.adress"),
    ("http://192.0.2.7:8080/", "http://${HOSTNAME/", BAD, "closing brace"),
    # of checks
    ("type = http", "type = https", BAD, "write `type = http`"),
    ("type = http", "type = script", BAD, "command, tcp, http, ttl or grpc"),
    ("target = http:", "target = https://unix:", BAD, "write http://unix:"),
    ("http://127.0.0.1:8080/health", "127.0.0.1:8080", BAD, "http://host:port/path"),
    ("type = http\ntarget = http://127.0.0.1:8080/health", "type = tcp\ntarget = 127.0.0.1", BAD,
        "host:port", +1),
    ("type = http\ntarget = http://127.0.0.1:8080/health",
        "type = tcp\ntarget = http://127.0.0.1:8080", BAD, "host:port alone", +1),
    ("target = http://127.0.0.1:8080/health\n", "", BAD, "needs `target`", -2),
    ("type = http\ntarget = http://127.0.0.1:8080/health", "interval = 1s", BAD, "needs", -1),
    ("type = http\n", "type = tcp\n", BAD, "host:port alone", +1),
    ("type = http\ntarget = http://127.0.0.1:8080/health", "command = /no/check --now", DOUBT,
        "no program /no/check"),
    ("type = http\ntarget = http://127.0.0.1:8080/health", "command = true | false", DOUBT,
        "shell = yes"),
    ("type = http\ntarget = http://127.0.0.1:8080/health", "command = sh -c 'true", BAD, "quot"),
    ("name = n1", "name = n1\nattribute.weight = 0", None, ""),
    ("name = n1", "name = n1\nattribute.weight = high", DOUBT, "0 to 65535", +1),
    ("name = n1", "name = n1\nattribute.weight = 65536", DOUBT, "0 to 65535", +1),
    ("timeout = 5s", "timeout = 30s", DOUBT, "longer than `interval`"),
    ("timeout = 5s", "fast_interval = 20s", DOUBT, "longer than `interval`"),
    ("timeout = 5s", "window = 20s", BAD, "can never hold"),
    ("timeout = 5s", "endpoints = https", BAD, "no [endpoint https]"),
    ("timeout = 5s", "component = web", BAD, "no [component web]"),
    ("timeout = 5s", "status = 200", BAD, "nearest"),
    # of outputs
    ("test1/components", "test1", DOUBT, "write /users/devteam/web/test1/components"),
    ("/users/devteam/web/test1/components", "/users/devteam/services/web/test1", DOUBT,
        "write /users/devteam/services/web/test1/components"),
    ("path = /tmp/peers", "path = /no/such/place/peers", DOUBT,
        "there is no directory /no/such/place here"),
    ("path = /tmp/peers", "socket = /run/haproxy.sock", BAD, "haproxy-runtime"),
    ("path = /tmp/peers", "path = /tmp/peers\ncheck = true", DOUBT, "{}", +1),
]


def line_of(old, step):
    return GOOD[:GOOD.index(old)].count("\n") + 1 + step


# Files as they come out of editors and tools: how they are named, what is in them, whether they are
# bad, doubtful or (None) good, the line that is named (0: the file), the words.
CRLF = GOOD.replace("\n", "\r\n")
ENDPOINT = "[endpoint e]\napi = a\nprotocol = p\naddress_type = uri\naddress = "
COMPONENT = GOOD[:GOOD.index("[endpoint")]
CHECK = "[check c]\ntype = ttl\n"
ODD = [
    ("nothing", "", DOUBT, 0, "nothing to do"),
    ("an end of line", "\n", DOUBT, 0, "nothing to do"),
    ("comments alone", "; url = dir:/x\n# [component]\n", DOUBT, 0, "nothing to do"),
    ("an empty section", "[agent]\n", DOUBT, 0, "nothing to do"),
    ("look-ups alone", "[registry]\nurl = dir:/r\n", None, 0, ""),
    ("ends of line of DOS", CRLF, None, 0, ""),
    ("ends of line of old Macintoshes", GOOD.replace("\n", "\r"), BAD, 1, "control character"),
    ("no end of line at the end", GOOD.rstrip(), None, 0, ""),
    ("a byte order mark", "\ufeff" + GOOD, None, 0, ""),
    ("a byte order mark after a comment", "; x\n\ufeff" + GOOD, BAD, 2, ""),
    ("UTF-16, as a Windows editor saves it", GOOD.encode("utf-16"), BAD, 1, "NUL"),
    ("Latin-1", COMPONENT.replace("name = n1", "description = café").encode("latin-1"), BAD, 9,
        "UTF-8"),
    ("a NUL byte", GOOD.replace("web", "w\0b"), BAD, 7, "NUL"),
    ("a terminal's colours", GOOD.replace("web", "\x1b[1mweb\x1b[0m"), BAD, 7, "control"),
    ("a blank that does not break", GOOD.replace("name = n1", "name =\u00a0n1"), BAD, 9, "label"),
    ("quotation marks of a word processor", GOOD.replace("10s", "“10s”"), BAD, 21, "30s"),
    ("a file indented as a whole", "".join(f"    {line}\n" for line in GOOD.splitlines()), None, 0,
        ""),
    ("tabs of a here-document", "".join(f"\t{line}\n" for line in GOOD.splitlines()), None, 0, ""),
    ("blanks at the ends of lines", GOOD.replace("\n", "  \t\n"), None, 0, ""),
    ("a line that goes on below", GOOD.replace("zk1:2181,zk2", "zk1:2181,\\\n  zk2"), BAD, 3,
        "key = value"),
    ("a program", b"\x7fELF\x02\x01\x01\0\0", BAD, 1, ""),
    ("a packed file", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", BAD, 1, ""),
    ("a shell script", "#!/bin/sh\nexport BERTH_USER=joe\n", BAD, 2, "below a [section]"),
    ("a file of variables", "BERTH_REGISTRY=dir:/r\n", BAD, 1, "below a [section]"),
    ("YAML", "registry:\n  url: dir:/r\n", BAD, 1, "key = value"),
    ("JSON", '{"registry": {"url": "dir:/r"}}\n', BAD, 1, "key = value"),
    ("XML", "<registry url='dir:/r'/>\n", BAD, 1, "below a [section]"),
    ("TOML", '[registry]\nurl = "dir:/r"\n', BAD, 2, "url"),
    ("TOML's tables", "[[component]]\npath = /a\n", BAD, 1, ""),
    ("a mark of cloud-init", "#cloud-config\n" + GOOD, None, 0, ""),
    ("Ansible's block", "# BEGIN ANSIBLE MANAGED BLOCK\n" + GOOD, None, 0, ""),
    ("a conflict of git", "<<<<<<< HEAD\n" + GOOD, BAD, 1, "key = value"),
    ("the rest of a conflict", GOOD + "=======\n", BAD, 28, "no key"),
    ("Jinja2 that nobody rendered", COMPONENT + CHECK + ENDPOINT + "http://{{ ip }}:80/\n", BAD,
        17, "without spaces"),
    ("mustache that nobody rendered", COMPONENT + CHECK + ENDPOINT + "http://{{ip}}:80/\n", DOUBT,
        17, "template that has not been filled in"),
    ("a loop of Jinja2", "{% for c in checks %}\n" + GOOD, BAD, 1, "key = value"),
    ("ERB that nobody rendered", COMPONENT + CHECK + ENDPOINT + "http://<%=@ip%>:80/\n", BAD,
        17, "URI"),
    ("Go's word for what is not there", COMPONENT + CHECK + ENDPOINT + "http://<no value>:80/\n",
        BAD, 17, "without spaces"),
    ("Hiera's mark", COMPONENT + CHECK + ENDPOINT + "http://%{::ipaddress}:80/\n", DOUBT, 17,
        "template that has not been filled in"),
    ("a dollar that the template doubled", COMPONENT + CHECK + ENDPOINT +
        "http://$${berth.ip}:80/\n", DOUBT, 17, "`${berth.ip}` as it is"),
    ("a variable whose dollar is doubled", COMPONENT + CHECK + ENDPOINT + "http://$$POD_IP/\n",
        DOUBT, 17, "`$POD_IP` as it is"),
    ("Python's None", COMPONENT + CHECK + ENDPOINT + "http://None:80/\n", DOUBT, 17, '"None"'),
    ("JavaScript's undefined", COMPONENT + CHECK + ENDPOINT + "http://undefined:80/\n", DOUBT, 17,
        '"undefined"'),
    ("a variable that envsubst did not have", COMPONENT + CHECK + ENDPOINT + "http://:80/\n", DOUBT,
        17, 'the host is ""'),
    ("a port that compose did not have", COMPONENT + CHECK + ENDPOINT + "http://192.0.2.7:/\n",
        DOUBT, 17, 'port ""'),
    ("empty values", COMPONENT.replace("web", "").replace("test1", ""), BAD, 7,
        "needs `service_class`"),
    ("a list of YAML in a value", GOOD.replace("zk1:2181,zk2:2181", "['zk1:2181']"), BAD, 2, "url"),
    ("a component without a check", COMPONENT + ENDPOINT + "http://192.0.2.7/\n", DOUBT, 5,
        "has no [check]"),
    ("a component without an endpoint", COMPONENT + CHECK, DOUBT, 5, "has no [endpoint]"),
    ("an endpoint that comes later", COMPONENT + ENDPOINT.replace("address = ", "dynamic = yes\n"),
        None, 0, ""),
    ("a check without a component", CHECK, BAD, 1, "has no [component]"),
    ("a very long line", GOOD + "; " + 300000 * "x" + "\n", BAD, 28, "bytes"),
]


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mistakes-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.file = self.folder / "berth.ini"
        self.environment = {name: value for name, value in os.environ.items()
            if name not in ("HOST_OF_NOBODY",)}

    def examine(self, content, *options, path=None):
        self.file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return subprocess.run([BUILD / "berthd", "-t", *options, "-c", path or self.file],
            capture_output=True, text=True, env=self.environment, check=False)

    def expect(self, content, outcome, line, words):
        """The one message of `content`, or the first of those with this line."""
        result = self.examine(content)
        lines = result.stderr.splitlines()
        self.assertEqual(result.returncode, outcome or 0, result.stderr)
        if outcome is None:
            self.assertEqual(result.stderr, "")
            self.assertRegex(result.stdout, ": good: .*, registry [^;]*(; at /[^;]*)?\n$")
            return
        start = f"{self.file}:{line}: " if line else f"{self.file}: "
        named = [one for one in lines if one.startswith(start)]
        self.assertTrue([one for one in named if words in one],
            f"{start}… {words}\n{result.stderr}")
        if outcome == DOUBT:
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertIn(": warning: ", lines[0])
            self.assertRegex(result.stdout, ": good: .*; 1 warning\n$")
            strict = self.examine(content, "--strict")
            self.assertEqual(strict.returncode, 1)
            self.assertRegex(strict.stdout, ": bad: .*; 1 warning\n$")
        else:
            self.assertTrue([one for one in named if " warning: " not in one], result.stderr)
            self.assertEqual(result.stdout, "")

    def test_the_configuration_without_a_mistake_is_good(self):
        result = self.examine(GOOD, "--strict")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, f"{self.file}: {FOUND}\n")

    def test_each_mistake_is_named_with_its_line(self):
        for old, new, outcome, words, *step in MISTAKES:
            with self.subTest(mistake=new or f"no {old}"):
                self.assertIn(old, GOOD)
                self.expect(GOOD.replace(old, new, 1), outcome, line_of(old, *(step or [0])), words)

    def test_each_odd_file_is_good_or_named_with_its_line(self):
        for name, content, outcome, line, words in ODD:
            with self.subTest(file=name):
                self.expect(content, outcome, line, words)

    def test_two_doubts_about_one_section_are_both_named(self):
        result = self.examine(COMPONENT)
        first, second = result.stderr.splitlines()
        self.assertIn("has no [endpoint]", first)
        self.assertIn("has no [check]", second)
        self.assertRegex(result.stdout, ": good: .*; 2 warnings\n$")


if __name__ == "__main__":
    unittest.main()
