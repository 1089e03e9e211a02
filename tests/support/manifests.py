"""Checks Kubernetes manifests as far as that goes without a server: which fields an object may have, of which kind, and which it
must have; and that what they name (volumes, ports, config maps) is there.
"""

import re

import yaml

NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
STRINGS = {"*": str}
LABELS = {"name!": str, "labels": STRINGS, "annotations": STRINGS}
HTTP_GET = {"path!": str, "port!": (str, int), "scheme": str}
PROBE = {"httpGet!": HTTP_GET, "periodSeconds": int, "failureThreshold": int, "timeoutSeconds": int, "initialDelaySeconds": int}
CONTAINER = {
    "name!": str, "image!": str, "restartPolicy": str, "command": [str], "args": [str],
    "env": [{"name!": str, "value": str, "valueFrom": {"fieldRef!": {"fieldPath!": str}}}],
    "ports": [{"name": str, "containerPort!": int, "protocol": str}],
    "livenessProbe": PROBE, "readinessProbe": PROBE, "startupProbe": PROBE,
    "lifecycle": {"preStop!": {"exec!": {"command!": [str]}}},
    "resources": {"requests": STRINGS, "limits": STRINGS},
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int, "allowPrivilegeEscalation": bool,
                        "readOnlyRootFilesystem": bool, "capabilities": {"drop": [str], "add": [str]}},
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool, "subPath": str}],
}
VOLUME = {
    "name!": str, "configMap": {"name!": str}, "secret": {"secretName!": str, "optional": bool, "defaultMode": int},
    "emptyDir": {"medium": str, "sizeLimit": str},
}
POD = {
    "initContainers": [CONTAINER], "containers!": [CONTAINER], "volumes": [VOLUME], "terminationGracePeriodSeconds": int,
    "securityContext": {"fsGroup": int, "runAsNonRoot": bool, "seccompProfile": {"type!": str}},
}
HEAD = {"apiVersion!": str, "kind!": str}
KINDS = {
    ("v1", "ConfigMap"): {**HEAD, "metadata!": LABELS, "data!": STRINGS},
    ("v1", "Secret"): {**HEAD, "metadata!": LABELS, "type": str, "stringData!": STRINGS},
    ("apps/v1", "Deployment"): {**HEAD, "metadata!": LABELS, "spec!": {
        "replicas": int, "selector!": {"matchLabels!": STRINGS},
        "template!": {"metadata!": {"labels!": STRINGS}, "spec!": POD}}},
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): {
        **HEAD, "resources!": [str], "images": [{"name!": str, "newName": str, "newTag": str}]},
}


def mismatches(value, wanted, where):
    """Lines about what does not fit."""
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no object"]
        known = {key.rstrip("!"): kind for key, kind in wanted.items()}
        found = [f"{where}: there is no {key[:-1]}" for key in wanted if key.endswith("!") and key[:-1] not in value]
        for key, member in value.items():
            if key not in known and "*" not in known:
                found.append(f"{where}: nobody knows {key}")
            else:
                found += mismatches(member, known.get(key, known.get("*")), f"{where}.{key}")
        return found
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [line for number, one in enumerate(value) for line in mismatches(one, wanted[0], f"{where}[{number}]")]
    good = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
    return [] if good else [f"{where}: {value!r} is of another kind"]


def containers_of(manifest):
    pod = manifest["spec"]["template"]["spec"]
    return {one["name"]: one for one in pod.get("initContainers", []) + pod["containers"]}


def dangling(manifest):
    """Lines about what a Deployment names and does not have."""
    pod = manifest["spec"]["template"]["spec"]
    found = []
    volumes = {volume["name"] for volume in pod["volumes"]}
    ports = {port.get("name"): port["containerPort"] for one in containers_of(manifest).values() for port in one.get("ports", ())}
    used = set()
    for name, container in containers_of(manifest).items():
        used |= {mount["name"] for mount in container["volumeMounts"]}
        own = {port.get("name") for port in container.get("ports", ())}
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            port = container.get(probe, {}).get("httpGet", {}).get("port")
            if isinstance(port, str) and port not in own or isinstance(port, int) and port not in ports.values():
                found.append(f"{name}: {probe} asks port {port}")
    if volumes != used:
        found.append(f"volumes {volumes} are not those that are mounted, {used}")
    if manifest["spec"]["selector"]["matchLabels"].items() - manifest["spec"]["template"]["metadata"]["labels"].items():
        found.append("the selector does not select its own pods")
    return found


def load(text):
    """The documents of a YAML text, checked; raises AssertionError with all that is wrong."""
    documents = [document for document in yaml.safe_load_all(text) if document is not None]
    for document in documents:
        kind = (document.get("apiVersion"), document.get("kind"))
        if kind not in KINDS:
            raise AssertionError(f"nothing is known of {kind}")
        found = mismatches(document, KINDS[kind], document["kind"])
        name = document.get("metadata", {}).get("name", "x")
        if not NAME.match(name):
            found.append(f"{name!r} is no name")
        if kind[1] == "Deployment":
            found += dangling(document)
        if found:
            raise AssertionError("\n".join(found))
    return documents
