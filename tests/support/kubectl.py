"""Debian's kubectl, without a server: it knows the fields of Kubernetes' objects, and builds what a
kustomization names."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import yaml
from berth import PATIENCE

# Younger than the kubectl of Debian 12.
YOUNGER = {"restartPolicy of an initContainer"}

needs_kubectl = unittest.skipUnless(shutil.which("kubectl"), "kubectl is not installed")


def kubectl(*words, stdin=None):
    """Runs kubectl away from any configuration of the user; returns its output."""
    with tempfile.TemporaryDirectory() as home:
        result = subprocess.run(["kubectl", *map(str, words)], input=stdin, capture_output=True,
            text=True, timeout=PATIENCE, check=False,
                                env={"PATH": os.environ["PATH"], "HOME": home})
    if result.returncode != 0:
        raise AssertionError(f"kubectl {words} exited with {result.returncode}:\n{result.stderr}")
    return result.stdout


def strange_fields(deployment):
    """Fields that kubectl does not take over: it reads an object into its own types, which have no
    place for any other field."""
    # A change is needed to have the object printed.
    read = json.loads(kubectl("set", "env", "--local", "--filename=-", "--output=json", "SEEN=yes",
        stdin=json.dumps(deployment)))
    return set(lost(deployment, read, "")) - YOUNGER


def lost(ours, theirs, where):
    if isinstance(ours, dict):
        for name, value in ours.items():
            if not isinstance(theirs, dict) or name not in theirs:
                yield f"{name} of {where}"
            else:
                yield from lost(value, theirs[name], name)
    elif isinstance(ours, list):
        for i, value in enumerate(ours):
            one = "an initContainer" if where == "initContainers" else where
            yield from lost(value, theirs[i], one) if isinstance(theirs,
                list) and i < len(theirs) else [f"{i} of {where}"]
    elif ours != theirs:
        yield f"{where} is {theirs!r}"


def customized(folder):
    """The objects of a kustomization, by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(kubectl("kustomize", folder))}
