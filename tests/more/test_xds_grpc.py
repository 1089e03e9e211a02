"""berth-xds and a real client: gRPC, which follows names by xds:///NAME."""

import json
import os
import pathlib
import queue
import signal
import statistics
import sys
import tempfile
import threading
import time
import unittest
from concurrent import futures

from berth import wait_until
from outputs import FROM, Members, record
from xds import NAME, Xds, XdsTest, dump
from zookeeper import ZooKeeper

BOOTSTRAP = pathlib.Path(tempfile.gettempdir()) / f"berth-xds-{os.getpid()}.json"
# gRPC reads the variable once, the file whenever a process has its first channel of xds.
os.environ["GRPC_XDS_BOOTSTRAP"] = str(BOOTSTRAP)
try:
    import grpc
except ImportError:  # a Python that is not the system's
    sys.path.append("/usr/lib/python3/dist-packages")
    import grpc

CHANGES = int(os.environ.get("BERTH_XDS_CHANGES", "1000"))
CALLS = int(os.environ.get("BERTH_XDS_CALLS", "10000"))


def serve(name):
    """A gRPC server that answers every call with its name; it and its port."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details):
            return grpc.unary_unary_rpc_method_handler(lambda request, context: name)

    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


class Load:
    """Threads that call, one call after the other, until they are stopped."""

    def __init__(self, call, threads=2):
        self.call = call
        self.calls = 0
        self.failed = queue.Queue()
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.over.is_set():
            try:
                self.call(b"", timeout=30)
            except grpc.RpcError as error:
                self.failed.put(f"{error.code()}: {error.details()}")
            with self.lock:
                self.calls += 1

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        return [self.failed.get() for _ in range(self.failed.qsize())]


class GrpcTest(XdsTest):
    def setUp(self):
        super().setUp()
        self.servers = {}
        for name in (b"one", b"two"):
            server, port = serve(name)
            self.servers[name] = port
            self.addCleanup(server.stop, None)

    def channel(self, xds, name=NAME):
        BOOTSTRAP.write_text(json.dumps({
            "xds_servers": [{
                "server_uri": f"unix:{xds.socket}",
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }],
            "node": {"id": "berth-test"},
        }))
        self.addCleanup(BOOTSTRAP.unlink, missing_ok=True)
        channel = grpc.insecure_channel(f"xds:///{name}")
        self.addCleanup(channel.close)
        return channel.unary_unary("/t.T/Who")

    def only(self, name):
        """The one member is the server of that name."""
        self.members.put("c1", self.servers[name])

    def change(self, call, name):
        """Seconds from a change of the registry to the first call that goes by it."""
        self.only(name)
        return self.until_called(call, name)

    def until_called(self, call, name):
        began = time.monotonic()
        while call(b"", timeout=30, wait_for_ready=True) != name:
            self.assertLess(time.monotonic() - began, 60, "calls never went to the new member")
        return time.monotonic() - began

    def expect_none_failed(self, load):
        wait_until(lambda: load.calls >= CALLS, f"{CALLS} calls were made")
        self.assertEqual(load.stop(), [])
        print(f"# 0 of {load.calls} calls failed")

    def calls_go_on(self, load, when):
        before = load.calls
        wait_until(lambda: load.calls > before + 500, f"calls go on {when}")


class Grpc(GrpcTest):
    def test_calls_go_where_the_registry_says(self):
        self.only(b"one")
        xds = self.xds(self.agent().start()).start()
        began = time.monotonic()
        call = self.channel(xds)
        self.assertEqual(call(b"", timeout=30, wait_for_ready=True), b"one")
        print(f"# first answer {1000 * (time.monotonic() - began):.0f} ms after the channel was "
            "made")
        load = Load(call)
        times = sorted(1000 * self.change(call, (b"two", b"one")[number % 2])
            for number in range(CHANGES))
        wait_until(lambda: load.calls >= CALLS, f"{CALLS} calls were made")
        failed = load.stop()
        print(f"# {CHANGES} changes: to calls in {statistics.median(times):.1f} ms (median), "
            f"{times[len(times) * 99 // 100]:.1f} ms (p99), {times[-1]:.1f} ms (worst); "
            f"{len(failed)} of {load.calls} calls failed")
        self.assertEqual(failed, [])

    def test_both_members_are_called_and_none_of_weight_0(self):
        self.members.put("c1", self.servers[b"one"])
        self.members.put("c2", self.servers[b"two"])
        call = self.channel(self.xds(self.agent().start()).start(), f"_http._tcp.{NAME}.berth")
        found = set()
        wait_until(lambda: found.add(call(b"", timeout=30, wait_for_ready=True)) or len(found) == 2,
            "both members were called")
        self.members.put("c1", self.servers[b"one"], weight=0)
        wait_until(lambda: {call(b"", timeout=30) for _ in range(50)} == {b"two"},
            "the one of weight 0 is not called")

    def test_no_member_without_the_attribute_comes_by_its_name(self):
        self.members.put("c1", self.servers[b"one"], track="canary")
        self.members.put("c2", self.servers[b"two"], track="stable")
        self.members.put("c3", self.servers[b"two"])
        call = self.channel(self.xds(self.agent().start()).start(), f"Canary.track._attr.{NAME}")
        for near, far, leaves in ((b"one", b"two", "c1"), (b"two", b"one", "c2")):
            self.until_called(call, near)
            self.assertEqual({call(b"", timeout=30) for _ in range(200)}, {near})
            self.members.put("c1" if leaves == "c2" else "c2", self.servers[far], track="canary")
            self.members.put(leaves, self.servers[near], track="stable")

    def test_calls_go_further_away_while_nobody_is_near_and_come_back(self):
        far = Members(self.registry, f"/far{FROM}")
        self.only(b"one")
        far.put("f1", self.servers[b"two"])
        xds = self.xds(self.agent().start(), "--failover", "/far", "--failover-hold", 100).start()
        call = self.channel(xds)
        self.assertEqual(call(b"", timeout=30, wait_for_ready=True), b"one")
        load = Load(call)
        for _ in range(5):
            self.members.remove("c1")  # its server answers what it is still asked, as in a drain
            self.until_called(call, b"two")
            self.calls_go_on(load, "further away")
            self.change(call, b"one")
            self.calls_go_on(load, "near")
        self.assertEqual(load.stop(), [])
        print(f"# 0 of {load.calls} calls failed")

    def test_a_name_that_is_absent_fails_at_once_and_works_when_it_comes(self):
        call = self.channel(self.xds(self.agent().start()).start())
        began = time.monotonic()
        with self.assertRaises(grpc.RpcError) as caught:
            call(b"", timeout=30)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        # gRPC itself would wait 15 s for a name that no server knows.
        self.assertLess(time.monotonic() - began, 10)
        self.only(b"two")
        self.assertEqual(call(b"", timeout=60, wait_for_ready=True), b"two")

    def test_no_call_fails_while_berth_xds_is_killed_and_the_agent_replaces_itself(self):
        self.only(b"one")
        agent = self.agent().start()
        xds = self.xds(agent).start()
        call = self.channel(xds)
        self.assertEqual(call(b"", timeout=30, wait_for_ready=True), b"one")
        load = Load(call)
        xds.kill()
        self.calls_go_on(load, "without berth-xds")
        xds.start()
        self.change(call, b"two")
        agent.upgrade()
        self.change(call, b"one")
        agent.kill()
        self.calls_go_on(load, "without the agent")
        agent.start()
        self.change(call, b"two")
        self.expect_none_failed(load)

    def test_no_call_fails_while_the_agents_own_berth_xds_is_killed_and_handed_over(self):
        self.only(b"one")
        agent = self.agent(xds={"listen": self.folder / "own.sock"}).start()
        own = Xds(agent, listen=self.folder / "own.sock")
        call = self.channel(own)
        self.assertEqual(call(b"", timeout=30, wait_for_ready=True), b"one")
        load = Load(call)
        pid = agent.status()["xds"]["pid"]
        os.kill(pid, signal.SIGKILL)
        self.change(call, b"two")
        agent.upgrade()
        self.change(call, b"one")
        wait_until(lambda: agent.status()["xds"]["pid"] not in (0, pid), "another one runs")
        self.expect_none_failed(load)


class Outage(GrpcTest):
    """On ZooKeeper, which goes away."""

    def setUp(self):
        super().setUp()
        self.zookeeper = ZooKeeper()
        self.addCleanup(self.zookeeper.stop)
        self.registry = self.zookeeper.url

    def only(self, name):
        self.put(f"{FROM}/c1", record(self.servers[name]))

    def test_no_call_fails_while_the_registry_is_away(self):
        self.only(b"one")
        agent = self.agent().start()
        xds = self.xds(agent).start()
        call = self.channel(xds)
        self.assertEqual(call(b"", timeout=30, wait_for_ready=True), b"one")
        load = Load(call)
        self.zookeeper.kill()
        wait_until(lambda: agent.status()["registry"]["state"] != "connected",
            "the agent knows that the registry is away")
        self.calls_go_on(load, "while the registry is away")
        xds.kill()
        xds.start()
        # It sends the endpoints of the agent's cache, though they are stale.
        self.assertEqual(self.endpoints(agent), [self.servers[b"one"]])
        self.calls_go_on(load, "after berth-xds came back meanwhile")
        self.zookeeper.restart()
        self.change(call, b"two")
        self.expect_none_failed(load)

    def endpoints(self, agent):
        found = json.loads(dump(agent, NAME).stdout)["endpoints"]["endpoints"]
        return [item["endpoint"]["address"]["socket_address"]["port_value"]
            for locality in found for item in locality["lb_endpoints"]]
