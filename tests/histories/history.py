"""
A history of a registry: what its clients asked, what they heard, and when; kept as JSON lines.

The first line is the Setting. Each other line is a Call, a Silence, or a note of a fault for the
reader. All times are seconds of one monotonic clock.
"""

import dataclasses
import json

# Kinds of calls that change the registry when they succeed, and of those that do not.
CREATE, SET, DELETE = "create", "set", "delete"  # of ZooKeeper's protocol; create: and of `bind`
PUT, REMOVE = "put", "remove"  # whatever was there: `bind --overwrite`, `rm`
READ = "read"  # by a client of the registry's own
LOOKUP, RECORDS = "lookup", "records"  # through an agent: a path; all children of a directory
MUTATIONS = (CREATE, SET, DELETE, PUT, REMOVE)

# Results. A call without an answer is UNKNOWN: it may take effect at any later time, or never.
OK, UNKNOWN = "ok", "unknown"
EXISTS, ABSENT, VERSION = "exists", "absent", "version"  # why a mutation was refused
NOTHING = "nothing"  # it was not sent, or the agent does not know


@dataclasses.dataclass(frozen=True)
class Setting:
    """What holds for all of a history. Each path is absent at its begin."""

    directory: str
    names: tuple  # of the children of the directory that clients write
    confirm: float  # a HIT was true so many seconds before the look-up, or later
    lag: float = 0.0  # so far may a server of an ensemble be behind the others
    seed: int = 0
    note: str = ""

    @property
    def paths(self):
        return [f"{self.directory}/{name}" for name in self.names]


@dataclasses.dataclass(frozen=True)
class Call:
    """
    `value`: what it writes, or what it read; None for an absent node; for RECORDS a dict of paths.
    No value is written twice. `version`: the one that it wants to replace. `made`: the one that it
    made, or read. Of a look-up: `cache` and `age` as the answer says. `bound`: how old the client
    lets an answer be; of a READ 0 behind a sync, None where the server may be behind.
    """

    client: str
    kind: str
    path: str
    invoked: float
    answered: float | None = None
    result: str = UNKNOWN
    value: str | dict | None = None
    version: int | None = None
    made: int | None = None
    cache: str | None = None
    age: int = 0
    bound: float | None = None
    again: bool = False  # it may have happened twice, as libberth repeats it after a lost answer


@dataclasses.dataclass(frozen=True)
class Silence:
    """From `begin` to `end` no server could answer the agents in `clients`."""

    begin: float
    end: float
    clients: tuple


@dataclasses.dataclass
class History:
    setting: Setting
    calls: list = dataclasses.field(default_factory=list)
    silences: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)  # (when, what)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:

            def write(kind, fields):
                lean = {name: value for name, value in fields.items() if value is not None}
                file.write(json.dumps({"is": kind, **lean}) + "\n")

            write("setting", dataclasses.asdict(self.setting))
            for when, what in self.faults:
                write("fault", {"when": when, "what": what})
            for silence in self.silences:
                write("silence", dataclasses.asdict(silence))
            for call in sorted(self.calls, key=lambda call: call.invoked):
                write("call", dataclasses.asdict(call))


def load(path):
    history = None
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = json.loads(line)
            kind = fields.pop("is")
            if kind == "setting":
                history = History(Setting(**{**fields, "names": tuple(fields["names"])}))
            elif kind == "fault":
                history.faults.append((fields["when"], fields["what"]))
            elif kind == "silence":
                fields["clients"] = tuple(fields["clients"])
                history.silences.append(Silence(**fields))
            else:
                history.calls.append(Call(**fields))
    return history
