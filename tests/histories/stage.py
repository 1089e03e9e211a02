"""Agents and writers on real ZooKeeper, and what happens to them."""

import contextlib
import os
import pathlib
import random
import signal
import tempfile
import time

import history
from berth import Agent, wait_until
from clients import LibraryWriter, Lookups, ROOT, ZooKeeperWriter, now
from ensemble import Ensemble
from history import History, Setting, Silence
from wire import DOWN, UP, Wire
from zk_client import ZkClient

SESSION_S = 6
AGENTS = 2
HOLD_MAX_S = 4.0
# An answer of a server that stood still is as old as the standstill. The last second is for the
# servers' own way to see that.
LAG_S = HOLD_MAX_S + 1
KINDS = ("kill", "stop", "cut")


class Stage:
    """Use as a context manager. `servers`: 1 or 3."""

    def __init__(self, servers, seed, note=""):
        self.random = random.Random(seed)
        names = tuple(f"p{number}" for number in range(6))
        self.setting = Setting(
            "/services/h", names, SESSION_S / 3, LAG_S if servers > 1 else 0.0, seed, note)
        self.history = History(self.setting)
        self.seed = seed
        self.servers = servers
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="h-")))
            self.ensemble = stack.enter_context(Ensemble(self.servers))
            with self.connected() as client:
                client.make(ROOT + self.setting.directory)
            self.writer_wires = self.wires(stack)
            self.library_wires = self.wires(stack)
            self.agents = [self.agent(stack, folder, number) for number in range(AGENTS)]
            self.stack = stack.pop_all()
        for agent in self.agents:
            agent.wait_state("registered")
        self.begin_clients()
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.over.set()
        self.mend()
        for client in self.clients:
            client.finish()
        self.stack.close()

    def wires(self, stack):
        return [stack.enter_context(Wire(server.hosts)) for server in self.ensemble.servers]

    @staticmethod
    def url(wires):
        return f"zookeeper://{','.join(wire.hosts for wire in wires)}{ROOT}"

    def agent(self, stack, folder, number):
        wires = self.wires(stack)
        agent = Agent(folder / f"a{number}", self.url(wires), session_timeout=f"{SESSION_S}s")
        agent.write_config({
            **agent.component(None, name=f"w{number}", id=f"container_{number}"),
            "agent": {"log_level": "info"},
        })
        agent.runs, agent.wires, agent.name = 1, wires, f"agent-{number}"
        stack.callback(agent.end)
        return agent.start()

    def begin_clients(self):
        paths, hosts = self.setting.paths, [wire.hosts for wire in self.writer_wires]
        self.library = LibraryWriter("berth", paths, self.seed, self.url(self.library_wires))
        self.writers = [self.library]
        self.writers += [ZooKeeperWriter(f"zk-{n}", paths, self.seed, hosts) for n in range(2)]
        self.lookups = [Lookups(agent.name, self.setting, self.seed, agent)
            for agent in self.agents]
        self.clients = [*self.writers, *self.lookups]
        for client in self.clients:
            client.start()

    @contextlib.contextmanager
    def connected(self):
        client = ZkClient(self.ensemble.leader().hosts)
        try:
            yield client
        finally:
            client.close()

    # ---- faults ----

    def hold(self, longest=HOLD_MAX_S):
        time.sleep(self.random.uniform(0.05, longest))

    @contextlib.contextmanager
    def silence(self, agents):
        """Nobody can answer these agents meanwhile."""
        begin = now()
        yield
        clients = tuple(agent.name for agent in agents)
        self.history.silences.append(Silence(begin, now(), clients))

    def kill_server(self):
        server = self.random.choice(self.ensemble.servers)
        server.kill()
        with self.silence(self.agents if self.servers == 1 else ()):
            self.hold()
        self.ensemble.restart(server)

    def kill_agent(self):
        agent = self.random.choice(self.agents)
        agent.kill()
        agent.runs += 1
        self.hold(1.0)
        agent.start()

    def kill_worker(self):
        worker = self.random.choice(self.agents).worker()
        if worker:
            os.kill(worker, signal.SIGKILL)

    def kill_writer(self):
        self.library.kill()

    def stop_servers(self, servers):
        for server in servers:
            server.stop()
        with self.silence(self.agents if len(servers) == self.servers else ()):
            self.hold()
        for server in servers:
            server.go_on()

    def stop_server(self):
        self.stop_servers([self.random.choice(self.ensemble.servers)])

    def stop_majority(self):
        self.stop_servers(self.random.sample(self.ensemble.servers, self.servers // 2 + 1))

    def stop_process(self, pid):
        if pid:
            os.kill(pid, signal.SIGSTOP)
            self.hold()
            with contextlib.suppress(ProcessLookupError):  # a worker that its agent has replaced
                os.kill(pid, signal.SIGCONT)

    def stop_agent(self):
        self.stop_process(self.random.choice(self.agents).process.pid)

    def stop_worker(self):
        self.stop_process(self.random.choice(self.agents).worker())

    def cut(self, wires, agents):
        """`agents`: those whose wires they are."""
        direction = self.random.choice([None, UP, DOWN])
        for wire in wires:
            wire.cut(direction)
        with self.silence(agents if direction != UP else ()):
            self.hold()
        for wire in wires:
            wire.mend()

    def cut_agent(self):
        agent = self.random.choice(self.agents)
        self.cut(agent.wires, [agent])

    def cut_writers(self):
        self.cut(self.random.choice([self.writer_wires, self.library_wires]), ())

    def lose_replies(self):
        """The servers receive what is sent meanwhile, and all answers are lost."""
        wires = self.random.choice(self.all_wires())
        for wire in wires:
            wire.cut(DOWN)
        self.hold(0.5)
        for wire in wires:
            wire.drop()
            wire.mend()

    def drop(self):
        for wire in self.random.choice(self.all_wires()):
            wire.drop()

    FAULTS = {
        "kill": [kill_server, kill_agent, kill_worker, kill_writer],
        "stop": [stop_server, stop_majority, stop_agent, stop_worker],
        "cut": [cut_agent, cut_writers, lose_replies, lose_replies, drop],
    }

    def break_for(self, seconds, kinds):
        """Faults of these kinds, one after the other, with calm moments in between."""
        until = now() + seconds
        faults = [fault for kind in kinds for fault in self.FAULTS[kind]]
        while now() < until and not self.problems():
            self.hold(1.0)
            fault = self.random.choice(faults)
            self.history.faults.append((now(), fault.__name__))
            fault(self)

    # ---- the end ----

    def problems(self):
        return [client.problem for client in self.clients if client.problem]

    def all_wires(self):
        """Of each client: its ways to the servers."""
        return [self.writer_wires, self.library_wires, *(agent.wires for agent in self.agents)]

    def mend(self):
        for wires in self.all_wires():
            for wire in wires:
                wire.mend()
        for server in self.ensemble.servers:
            if server.stopped:
                server.go_on()

    def read_last(self):
        """What the registry holds when nobody writes any more: {path: value}."""
        reader = ZooKeeperWriter("reader", self.setting.paths, self.seed, ())
        with self.connected() as reader.client:
            for path in self.setting.paths:
                reader.client.sync(ROOT + path)
                reader.read(path, bound=0)
        self.history.calls += reader.calls
        return {call.path: call.value for call in reader.calls}

    def shows(self, lookups, last):
        """Whether all look-ups through an agent are hits with the last values."""
        found = {}
        for path in self.setting.paths:
            call = lookups.look(history.LOOKUP, path)
            found[path] = (call and call.cache, call and call.value)
        listed = lookups.look(history.RECORDS, self.setting.directory)
        wanted = {path: value for path, value in last.items() if value is not None}
        return (listed and listed.cache == "HIT" and listed.value == wanted
                and found == {path: ("HIT", value) for path, value in last.items()})

    def settle(self):
        """Ends the writes, waits until all agents show the last values, and collects the calls."""
        self.mend()
        self.ensemble.wait_serving()
        for writer in self.writers:
            writer.finish()
        last = self.read_last()
        for agent, lookups in zip(self.agents, self.lookups):
            lookups.finish()
            wait_until(lambda: self.shows(lookups, last),
                f"{agent.name} shows {last}")
            agent.wait_state("registered")
            lookups.drop()
        for client in self.clients:
            self.history.calls += client.calls
        return self.history
