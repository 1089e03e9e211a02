"""Checks Kubernetes manifests as far as that goes without a server: which fields an object may
have, of which kind and form, and which it must have; that names are there once, and that what they
name (volumes, ports) is there. A kind is a type, a pattern for the whole of a text, a range of
numbers, or a tuple of such; a "!" marks a required field.
"""

import re

import yaml

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?")
ABSOLUTE = re.compile(r"/[^:]*")
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
FIELD = re.compile(
    r"metadata\.(name|namespace|uid|labels\['.+'\]|annotations\['.+'\])|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)")
NATURAL = range(0, 2**31)
PORT = range(1, 65536)
STRINGS = {"*": str}
LABELS = {"name!": NAME, "labels": {"*": LABEL}, "annotations": STRINGS}
HTTP_GET = {"path!": ABSOLUTE, "port!": (PORT, PORT_NAME), "scheme": re.compile("HTTPS?")}
PROBE = {"httpGet!": HTTP_GET, "periodSeconds": range(1, 2**31), "failureThreshold": range(1,
    2**31), "timeoutSeconds": range(1, 2**31),
         "initialDelaySeconds": NATURAL}
CONTAINER = {
    "name!": NAME, "image!": re.compile(r"[a-z0-9][-a-z0-9._/:@]*"),
    "restartPolicy": re.compile("Always"), "command": [str], "args": [str],
    "env": [{"name!": VARIABLE, "value": str, "valueFrom": {"fieldRef!": {"fieldPath!": FIELD}}}],
    "ports": [{"name": PORT_NAME, "containerPort!": PORT, "protocol": re.compile("TCP|UDP|SCTP")}],
    "livenessProbe": PROBE, "readinessProbe": PROBE, "startupProbe": PROBE,
    "lifecycle": {"preStop!": {"exec!": {"command!": [str]}}},
    "resources": {"requests": {"*": QUANTITY}, "limits": {"*": QUANTITY}},
    "securityContext": {"runAsNonRoot": bool, "runAsUser": NATURAL, "runAsGroup": NATURAL,
        "allowPrivilegeEscalation": bool,
                        "readOnlyRootFilesystem": bool, "capabilities": {"drop": [str],
                            "add": [str]}},
    "volumeMounts": [{"name!": NAME, "mountPath!": ABSOLUTE, "readOnly": bool,
        "subPath": re.compile(r"[^/].*"), "subPathExpr": re.compile(r"[^/].*"),
        "mountPropagation": re.compile("None|HostToContainer|Bidirectional")}],
}
VOLUME = {
    "name!": NAME, "configMap": {"name!": NAME}, "secret": {"secretName!": NAME, "optional": bool,
        "defaultMode": range(0o1000)},
    "emptyDir": {"medium": re.compile("|Memory"), "sizeLimit": QUANTITY},
    "hostPath": {"path!": ABSOLUTE, "type": re.compile("|Directory|DirectoryOrCreate|Socket")},
}
POD = {
    "initContainers": [CONTAINER], "containers!": [CONTAINER], "volumes": [VOLUME],
    "terminationGracePeriodSeconds": NATURAL,
    "securityContext": {"fsGroup": NATURAL, "runAsNonRoot": bool,
        "seccompProfile": {"type!": re.compile("RuntimeDefault|Unconfined")}},
    "tolerations": [{"operator": re.compile("Exists|Equal"), "key": str, "value": str,
        "effect": re.compile("NoSchedule|PreferNoSchedule|NoExecute")}],
    "priorityClassName": NAME,
}
TEMPLATE = {"metadata!": {"labels!": {"*": LABEL}, "annotations": STRINGS}, "spec!": POD}
HEAD = {"apiVersion!": str, "kind!": str}
KINDS = {
    ("v1", "ConfigMap"): {**HEAD, "metadata!": LABELS, "data!": STRINGS},
    ("v1", "Secret"): {**HEAD, "metadata!": LABELS, "type": str, "stringData!": STRINGS},
    ("apps/v1", "Deployment"): {**HEAD, "metadata!": LABELS, "spec!": {
        "replicas": NATURAL, "selector!": {"matchLabels!": {"*": LABEL}},
        "template!": TEMPLATE}},
    ("apps/v1", "DaemonSet"): {**HEAD, "metadata!": LABELS, "spec!": {
        "selector!": {"matchLabels!": {"*": LABEL}}, "template!": TEMPLATE,
        "updateStrategy": {"type!": re.compile("RollingUpdate|OnDelete"),
            "rollingUpdate": {"maxUnavailable": NATURAL}}}},
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): {
        **HEAD, "resources!": [str], "images": [{"name!": str, "newName": str, "newTag": str}]},
}


def is_a(value, kind):
    if isinstance(kind, re.Pattern):
        return isinstance(value, str) and kind.fullmatch(value) is not None
    if isinstance(kind, range):
        return type(value) is int and value in kind
    return type(value) is kind


def repeated(names):
    names = list(names)
    return {name for name in names if names.count(name) > 1}


def mismatches(value, wanted, where):
    """Lines about what does not fit."""
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is not an object"]
        known = {key.rstrip("!"): kind for key, kind in wanted.items()}
        found = [f"{where}: there is no {key[:-1]}" for key in wanted if key.endswith("!")
            and key[:-1] not in value]
        for key, member in value.items():
            if key not in known and "*" not in known:
                found.append(f"{where}: nobody knows {key}")
            else:
                found += mismatches(member, known.get(key, known.get("*")), f"{where}.{key}")
        return found
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is not a list"]
        return [line for number, one in enumerate(value) for line in mismatches(one, wanted[0],
            f"{where}[{number}]")]
    good = any(is_a(value, kind) for kind in (wanted if isinstance(wanted, tuple) else (wanted,)))
    return [] if good else [f"{where}: {value!r} is of another kind"]


def containers_of(manifest):
    pod = manifest["spec"]["template"]["spec"]
    return {one["name"]: one for one in pod.get("initContainers", []) + pod["containers"]}


def dangling(manifest):
    """Lines about what a Deployment or a DaemonSet names and does not have."""
    pod = manifest["spec"]["template"]["spec"]
    found = []
    volumes = {volume["name"] for volume in pod["volumes"]}
    ports = {port.get("name"): port["containerPort"] for one in containers_of(manifest).values()
        for port in one.get("ports", ())}
    used = set()
    for name, container in containers_of(manifest).items():
        used |= {mount["name"] for mount in container["volumeMounts"]}
        own = {port.get("name") for port in container.get("ports", ())}
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            port = container.get(probe, {}).get("httpGet", {}).get("port")
            if isinstance(port, str) and port not in own or isinstance(port,
                    int) and port not in ports.values():
                found.append(f"{name}: {probe} asks port {port}")
    pods = pod.get("initContainers", []) + pod["containers"]
    for what, names in (
        ("container", [one["name"] for one in pods]),
        ("volume", [one["name"] for one in pod["volumes"]]),
        ("port", [port["containerPort"] for one in pods for port in one.get("ports", ())]),
        *(("mount", [mount["mountPath"] for mount in one.get("volumeMounts", ())]) for one in pods),
        *(("variable", [variable["name"] for variable in one.get("env", ())]) for one in pods),
    ):
        found += [f"{what} {name} is there twice" for name in repeated(names)]
    found += [f"{one['name']}: nobody sets {variable}" for one in pods
        for mount in one.get("volumeMounts", ())
        for variable in re.findall(r"\$\((.*?)\)", mount.get("subPathExpr", ""))
        if variable not in [set_one["name"] for set_one in one.get("env", ())]]
    found += [f"volume {volume['name']} has {len(volume) - 1} sources" for volume in pod["volumes"]
        if len(volume) != 2]
    found += [f"{one['name']}: {variable['name']} has both or neither of value and valueFrom"
        for one in pods
              for variable in one.get("env", ()) if ("value" in variable)
              == ("valueFrom" in variable)]
    if any("restartPolicy" in one for one in pod["containers"]):
        found.append("only an init container may have a restartPolicy")
    if volumes != used:
        found.append(f"volumes {volumes} are not those that are mounted, {used}")
    if manifest["spec"]["selector"]["matchLabels"].items() - manifest["spec"]["template"][
            "metadata"]["labels"].items():
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
        if not found and kind[1] in ("Deployment", "DaemonSet"):
            found += dangling(document)
        if found:
            raise AssertionError("\n".join(found))
    return documents
