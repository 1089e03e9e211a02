"""For tests of containers that know nothing of Berth, under a runtime of the test's own."""

from berth import wait_until
from fake_runtime import FakeRuntime
from lifecycle import LifeTest


def labels(name):
    return {"berth.path": f"/services/{name}", "berth.endpoint.http.port": "80"}


class GuestTest(LifeTest):
    """Needs "freezer"."""

    def setUp(self):
        super().setUp()
        self.runtime = FakeRuntime(self.folder / "api.sock")
        self.addCleanup(self.runtime.end)

    def host(self, **sections):
        self.agent_of_host = self.agent("host", **{
            "runtime fake": {"socket": self.runtime.path, "address": "192.0.2.7"},
            "container *": {"allow": "/services/**"}, **sections}).start()
        return self.agent_of_host

    def part(self, name):
        return next((one for one in self.agent_of_host.get("/v1/bridge").json["containers"]
            if one["name"] == f"fake/{name}"), None)

    def state_of(self, name):
        return (self.part(name) or {"state": None})["state"]

    def source(self):
        return self.agent_of_host.get("/v1/bridge").json["runtimes"][0]

    def record(self, name):
        return self.in_registry(f"/services/{name}")

    def await_in(self, *names):
        for name in names:
            wait_until(lambda name=name: self.record(name), f"{name} is registered")

    def await_out(self, name):
        wait_until(lambda: not self.record(name), f"{name} is not registered")

    def helper(self):
        children = f"/proc/{self.agent_of_host.process.pid}/task/" \
            f"{self.agent_of_host.process.pid}/children"
        with open(children, encoding="ascii") as text:
            for pid in text.read().split():
                with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                    if name.read().strip() == "berth-runtime":
                        return int(pid)
        return None

