"""A container was not registered, and its owner read logs for an hour: Registrator ignores in
silence whoever publishes no port. `berth bridge` says why, of each container, in a sentence.

Source: tracker #42, after Registrator's #402: "which IP", and services that are ignored.
"""

import re
import unittest

from berth import berth, wait_until
from guests import GuestTest, labels
from rights import needs


def bridged(ports):
    def describe(one):
        one.more.update({"HostConfig": {"NetworkMode": "bridge"}, "NetworkSettings": {
            "Ports": {"80/tcp": ports}, "Networks": {"bridge": {"IPAddress": "172.17.0.2"}}}})
    return describe


LOCAL = [{"HostIp": "127.0.0.1", "HostPort": "8080"}]
CHECK = {"berth.check.it.type": "tcp", "berth.check.it.port": "9"}

# Each container with its labels, more of it, and the lines that begin with its name.
CONTAINERS = {
    "web": (labels("web"), None, ["served", "/services/web registered"]),
    "plain": ({}, None, ["empty", "it has no label that says its path or name"]),
    "typo": ({"berth.nane": "web"}, None, ["empty", "label berth.nane: there is no such label",
        "it has labels, but none of berth.path, berth.user and berth.name"]),
    "half": ({**labels("half"), "berth.endpoint.http.prot": "http"}, None, ["served",
        "label berth.endpoint.http.prot: there is no such label", "/services/half registered"]),
    "unpublished": (labels("u"), bridged(None), ["served", "/services/u refused",
        "endpoint http: port 80/tcp is not published (`network` of [runtime fake] announces the "
        "container's own address)"]),
    "local": (labels("l"), bridged(LOCAL), ["served", "/services/l refused",
        "endpoint http: port 80/tcp is published at 127.0.0.1 alone, which no other host reaches"]),
    "stranger": ({**labels("x"), "berth.path": "/other/x"}, None, ["served", "/other/x refused",
        "`allow` of [container *] does not have the path"]),
    "ignored": ({**labels("i"), "berth.ignore": "yes"}, None, ["ignored", "a label of it says so"]),
    "second": (labels("web"), None, ["served", "/services/web conflict",
        "another container of this host has /services/web: fake/web"]),
    "checked": ({**labels("c"), **CHECK}, None, ["served", "/services/c withheld",
        re.compile(r"check it: cannot connect: .+")]),
    "sick": (labels("s"), lambda one: setattr(one, "health", "unhealthy"), ["served",
        "/services/s withheld", "its own health check: unhealthy"]),
    "starting": (labels("t"), lambda one: setattr(one, "health", "starting"), ["served",
        "/services/t withheld", "its own health check: starting"]),
    "elsewhere": (labels("e"), lambda one: setattr(one, "pid", 1), ["no pid namespace",
        "process 1, which the runtime names, is in no control group of it: the agent needs the pid "
        "namespace of the runtime", "/services/e withheld"]),
}


@needs("freezer")
class WhyNot(GuestTest):
    def table(self):
        """{container: the lines below it, without times}."""
        rows, name = {}, None
        for line in berth("--socket", self.agent_of_host.socket, "bridge").stdout.splitlines()[1:]:
            words = re.sub(r" +(now|\d+ \w+ ago)$", "", line).split(maxsplit=1)
            if not line.startswith(" "):
                name = words.pop(0)
                rows[name] = []
            rows[name].append(re.sub(" {2,}", " ", " ".join(words)))
        return rows

    def says(self, name, expected):
        said = self.table().get(name, [])
        return len(said) == len(expected) and all(one.fullmatch(text) if isinstance(one, re.Pattern)
            else one == text for one, text in zip(expected, said))

    def await_lines(self, name, expected):
        try:
            wait_until(lambda: self.says(name, expected), f"{name}: {expected}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.table().get(name)}") from None

    def test_each_reason_in_one_command(self):
        for name, (its, describe, _) in CONTAINERS.items():
            self.runtime.run(name, its, describe or (lambda _one: None))
        self.host()
        for name, (_, _, expected) in CONTAINERS.items():
            with self.subTest(name):
                self.await_lines(f"fake/{name}", expected)

    def test_nothing_is_allowed_by_default(self):
        self.runtime.run("web", labels("web"))
        self.agent_of_host = self.agent("host", **{
            "runtime fake": {"socket": self.runtime.path, "address": "192.0.2.7"}}).start()
        self.await_lines("fake/web", ["served", "/services/web refused",
            "no [container] matches web"])

    def test_nobody_is_there_to_ask(self):
        self.runtime.stop_listening()
        self.runtime.path.unlink()
        self.host()
        self.await_lines("[runtime", ["fake] away",
            f"{self.runtime.path}: No such file or directory"])
        self.assertIn("no container is there",
            berth("--socket", self.agent_of_host.socket, "bridge").stdout)


if __name__ == "__main__":
    unittest.main()
