"""Quadlets of podman, by the table in podman-systemd.unit(5) of podman 4.5: which keys there are,
and what its generator makes of them. Debian 12's podman has no generator.
"""

import configparser
import shlex

# Of [Container]: the option of `podman run`; None: in podman_run().
OPTIONS = {
    "AddCapability": "--cap-add", "AddDevice": "--device", "Annotation": "--annotation",
    "ContainerName": "--name", "DropCapability": "--cap-drop", "Environment": "--env",
    "EnvironmentFile": "--env-file", "ExposeHostPort": "--expose", "Image": None,
    "Label": "--label", "LogDriver": "--log-driver", "Mount": "--mount", "Network": "--network",
    "NoNewPrivileges": None, "PodmanArgs": None, "PublishPort": "--publish", "ReadOnly": None,
    "Secret": "--secret", "Timezone": "--tz", "Tmpfs": "--tmpfs", "User": "--user",
    "UserNS": "--userns", "Volume": "--volume",
}


class Words(dict):
    """A key that is there several times has all its values, one a line."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            value = self[key] + value
        super().__setitem__(key, value)


def read_container(path):
    """{key: its values} of [Container]."""
    unit = configparser.RawConfigParser(strict=False, interpolation=None, dict_type=Words)
    unit.optionxform = str
    with open(path, encoding="ascii") as file:
        unit.read_file(file)
    return {key: value.split("\n") for key, value in unit["Container"].items()}


def podman_run(container):
    """The words behind `podman`."""
    words = ["run", "--replace", "--detach"]
    for key, values in container.items():
        for value in values:
            if key == "PodmanArgs":
                words += shlex.split(value)
            elif key == "NoNewPrivileges" and value == "true":
                words.append("--security-opt=no-new-privileges")
            elif key == "ReadOnly" and value == "true":
                words += ["--read-only", "--read-only-tmpfs=false"]
            elif OPTIONS[key]:
                words += [OPTIONS[key], value]
    return [*words, *container["Image"]]
