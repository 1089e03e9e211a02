"""A deployment tool leaves a mark of its template, or the word for nothing of its language, in the
file: the agent announces `__HOST__:8080` or `None:8080`, and nobody has said a word. Values in the
spelling of other tools (True, 1m30s, 1e+06, a no-break space) are taken, or named with what to
write.

Source: files rendered by Jinja, ERB, Go, Helm, Puppet, Octopus and sed
"""

import re
import unittest

from berth import AgentTest

GOOD = """[component]
user = devteam
service_class = web
instance = prod
name = c1
[endpoint http]
api = http://example.org/web
protocol = http
address_type = host/port
address = 10.1.2.3:8080
[check c]
command = /bin/true
"""
# of a host, of a URI's, or of any value
MARKS = ["%(host)s", "%host%", "%ADDRESS%", "@HOST@", "__HOST__", "<HOST>", "$(HOST)", "{{.Host}}",
    "{{ ansible_host }}", "#{host}", "<%= host %>", "[[HOST]]", "<no value>"]
NOTHING = ["None", "null", "undefined", "nil", "CHANGEME"]
# what is written in place of what, and the verdict: taken, or these words
SPELLINGS = [
    ("name = c1", "name = c1\nkeep_last = True\n", None),
    ("name = c1", "name = c1\ndamping = FALSE\n", None),
    (" = ", "\t=\t", None),
    ("\n", "\r\n", None),
    ("/bin/true", "/bin/true\ninterval = 1m30s", "unit"),
    ("/bin/true", "/bin/true\ninterval = 0.5s", "unit"),
    ("/bin/true", "/bin/true\nfall = 1e+06", "whole number"),
    ("instance = prod", "instance =\u00a0prod", "instance"),
    ("instance = prod", "\u00a0instance = prod", "instance"),
    ("instance = prod", "instance = prod\u200b", "instance"),
    ("instance = prod", "instance: prod", "instance"),
    ("\n", "\r", "control character"),
    ("[component]", "[Component]", "nearest is [component]"),
]
# what only looks like a mark
MEANT = [
    ("10.1.2.3:8080", "my_host.example.org:8080"),
    ("api = http://example.org/web", "api = http://example.org/a%20b%2Fc%C3%A9t%C3%A9"),
    ("api = http://example.org/web", "api = urn:a__b__c"),
    ("/bin/true", "/bin/sh -c 'test <a >b; echo %s% __X__'"),
    ("/bin/true", "/bin/true\nmatch = <status>UP</status>"),
    ("name = c1", "name = c1\ndescription = see <site> @ 50% or 60%"),
]


class TemplatesNotFilled(AgentTest):
    def judge(self, text, *options):
        agent = self.agent()
        agent.config.write_text(text, newline="")
        done = agent.verdict(*options)
        return done.returncode, done.stderr + done.stdout

    def refuse_or_warn(self, text, said):
        status, told = self.judge(text, "--strict")
        self.assertEqual(status, 1, f"{text}\n{told}")
        self.assertIn(said, told, text)

    def test_marks_are_named_wherever_a_value_is(self):
        for mark in MARKS:
            for old, new in (("10.1.2.3", mark), ("/bin/true", f"/bin/true\ncwd = /{mark}"),
                    ("host/port\naddress = 10.1.2.3", f"uri\naddress = http://{mark}")):
                self.refuse_or_warn(GOOD.replace(old, new), "")

    def test_the_mark_is_in_the_message(self):
        for mark in ("%(host)s", "%host%", "@HOST@", "__HOST__", "<HOST>", "[[HOST]]"):
            self.refuse_or_warn(GOOD.replace("10.1.2.3", mark),
                f"`{mark}` is a mark of a template")

    def test_nothing_is_named(self):
        for host in NOTHING:
            self.refuse_or_warn(GOOD.replace("10.1.2.3", host), "a template had no value")
        self.refuse_or_warn(GOOD.replace(":8080", ":None"), "1 to 65535")

    def test_spellings_of_other_tools_are_taken_or_named(self):
        for old, new, said in SPELLINGS:
            status, told = self.judge(GOOD.replace(old, new))
            self.assertEqual(status, 0 if said is None else 1, f"{new!r}: {told}")
            if said:
                self.assertIn(said, told, new)
                self.assertRegex(told, re.escape(str(self.folder)) + r"\S*:\d+: ", new)

    def test_text_that_looks_like_a_mark_is_taken(self):
        for old, new in MEANT:
            status, told = self.judge(GOOD.replace(old, new), "--strict")
            self.assertEqual(status, 0, told)


if __name__ == "__main__":
    unittest.main()
