"""Manifests for the fuzz tests: small valid clusters that use every kind and most fields, and ways to spoil them.

Nothing here knows the engine. A manifest is plain data, so that it can be spoiled in ways that no wire type allows.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

Data = dict[str, Any]
Step = str | int
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


# --- a valid cluster


def _node(name: str, zone: str, **more: Any) -> Data:
    metadata = {
        "name": name,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {HOSTNAME: name, ZONE: zone, "disk": "ssd", "cores": "16"},
        "annotations": {"volcano.sh/oversubscription-cpu": "500"},
    }
    offers = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": 2, "ephemeral-storage": "100Gi"}
    images = [{"names": ["registry.example/tools:2"], "sizeBytes": 300_000_000}]
    status = {"allocatable": offers, "capacity": dict(offers), "images": images}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": []} | more, "status": status}


def _pod(name: str, group: str, spec: Data, **metadata: Any) -> Data:
    annotations = {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": "worker"}
    head: Data = {"name": name, "namespace": "ns", "uid": name, "labels": {"app": group, "rank": name[-1]}}
    head |= {"annotations": annotations, "creationTimestamp": "2026-01-01T00:00:01Z", "resourceVersion": "3"}
    asked = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    containers = [{"name": "main", "image": "registry.example/tools:2", "resources": asked}]
    body = {"schedulerName": "volcano", "containers": containers, "priorityClassName": "high"}
    status = {"phase": "Running" if "nodeName" in spec else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head | metadata, "spec": body | spec, "status": status}


def _group(name: str, minimum: int, queue: str = "q", **spec: Any) -> Data:
    annotations = {"sla-waiting-time": "1h", "volcano.sh/preemptable": "true"}
    metadata = {
        "name": name,
        "namespace": "ns",
        "annotations": annotations,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    body = {"minMember": minimum, "queue": queue, "minResources": {"cpu": "1"}, "priorityClassName": "high"} | spec
    status = {"phase": "Inqueue", "conditions": [{"type": "Scheduled", "status": "True"}]}
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": body, "status": status}


def _queue(name: str, **spec: Any) -> Data:
    annotations = {"volcano.sh/hierarchy": f"root/eng/{name}", "volcano.sh/hierarchy-weights": "1/2/4"}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z"}
    body = {"weight": 2, "reclaimable": True, "priority": 1, "parent": "root", "capability": {"cpu": "12"}} | spec
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "Queue", "metadata": metadata, "spec": body, "status": {"state": "Open"}}


def _hypernode(name: str, tier: int, *members: Data) -> Data:
    spec = {"tier": tier, "tierName": f"tier-{tier}", "members": list(members)}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def _selects(**labels: str) -> Data:
    return {"matchLabels": labels, "matchExpressions": [{"key": "app", "operator": "Exists"}]}


def _expression(key: str, operator: str, *values: str) -> Data:
    return {"key": key, "operator": operator, "values": list(values)}


def _term(app: str, key: str = ZONE) -> Data:
    return {"labelSelector": _selects(app=app), "topologyKey": key, "namespaces": ["ns"], "matchLabelKeys": ["rank"]}


def _cautious() -> Data:
    """A spec with a wish about everything."""
    nodes = {
        REQUIRED: {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [_expression("disk", "In", "ssd"), _expression("cores", "Gt", "8")],
                    "matchFields": [_expression("metadata.name", "NotIn", "n9")],
                }
            ]
        },
        PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [_expression(ZONE, "In", "x")]}}],
    }
    near = {REQUIRED: [_term("careful")], PREFERRED: [{"weight": 3, "podAffinityTerm": _term("runs")}]}
    away = {REQUIRED: [_term("other", HOSTNAME) | {"namespaceSelector": _selects(team="red")}], PREFERRED: []}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1}
    spread |= {"labelSelector": _selects(app="careful"), "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}
    soft = {"maxSkew": 2, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": _selects()}
    port = {"hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}
    return {
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": nodes, "podAffinity": near, "podAntiAffinity": away},
        "topologySpreadConstraints": [spread, soft],
        "tolerations": [{"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"}],
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "ports": [port], "resources": {"requests": {"cpu": "100m"}}}
        ],
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"memory": "2Gi"}},
        "priority": 7,
        "preemptionPolicy": "Never",
    }


def _with_volumes() -> Data:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}
    own = {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}}
    return {"volumes": [claim, own, {"name": "tools", "image": {"reference": "registry.example/tools:2"}}]}


def _storage() -> list[Data]:
    version = {"apiVersion": "storage.k8s.io/v1"}
    on_node = {"required": {"nodeSelectorTerms": [{"matchExpressions": [_expression(ZONE, "In", "x")]}]}}
    volume = {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}
    volume |= {
        "nodeAffinity": on_node,
        "csi": {"driver": "csi.example", "volumeHandle": "v"},
        "volumeMode": "Filesystem",
    }
    asks = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "5Gi"}}}
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["x", "y"]}]}]
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume"}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "claim", "namespace": "ns"},
            "spec": asks,
        },
        {
            "kind": "StorageClass",
            "metadata": {"name": "disk", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "csi.example",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": zones,
        }
        | version,
        {
            "kind": "CSINode",
            "metadata": {"name": "n1"},
            "spec": {"drivers": [{"name": "csi.example", "allocatable": {"count": 4}}]},
        }
        | version,
        {"kind": "CSIDriver", "metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}} | version,
        {
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "room", "namespace": "ns"},
            "storageClassName": "disk",
            "capacity": "100Gi",
            "maximumVolumeSize": "50Gi",
            "nodeTopology": {"matchLabels": {ZONE: "x"}},
        }
        | version,
        {
            "kind": "VolumeAttachment",
            "metadata": {"name": "attached"},
            "spec": {"attacher": "csi.example", "nodeName": "n1", "source": {"persistentVolumeName": "volume"}},
        }
        | version,
    ]


def _others() -> list[Data]:
    selects = {"selector": _selects(app="runs")}
    budget = {"minAvailable": 1, "maxUnavailable": "50%"} | selects
    limits = {"requests.cpu": "100", "count/pods": "50", "memory": "1Ti"}
    of_class = {"value": 1000, "globalDefault": True, "preemptionPolicy": "PreemptLowerPriority"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": {"team": "red"}}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}} | of_class,
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "quota", "namespace": "ns"},
            "spec": {"hard": limits},
            "status": {"hard": dict(limits), "used": {"requests.cpu": "1"}},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget", "namespace": "ns"},
            "spec": budget,
            "status": {"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "service", "namespace": "ns"},
            "spec": {"selector": {"app": "free"}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "set", "namespace": "ns"},
            "spec": selects,
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "passed-over"}, "stringData": {"a": "b"}},
    ]


def _network() -> list[Data]:
    def member(kind: str, how: str, what: Data) -> Data:
        return {"type": kind, "selector": {how: what}}

    return [
        _hypernode("s1", 1, member("Node", "exactMatch", {"name": "n1"}), member("Node", "exactMatch", {"name": "n2"})),
        _hypernode("s2", 1, member("Node", "regexMatch", {"pattern": "^n(3|4)$"})),
        _hypernode("s3", 1, member("Node", "labelMatch", {"matchLabels": {ZONE: "z"}})),
        _hypernode("top", 2, *(member("HyperNode", "exactMatch", {"name": name}) for name in ("s1", "s2", "s3"))),
    ]


def _close_gang() -> list[Data]:
    wish = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"name": "pairs", "subGroupSize": 2, "minSubGroups": 1, "labelSelector": _selects(app="close")}
    policy |= {"matchLabelKeys": ["rank"], "networkTopology": {"mode": "soft", "highestTierName": "tier-1"}}
    pods = [_pod(f"close-w-{i}", "close", {}) for i in range(3)]
    return [_group("close", 2, networkTopology=wish, subGroupPolicy=[policy]), *pods]


def cluster() -> list[Data]:
    """A valid cluster, with every kind in it."""
    taint = {"taints": [{"key": "a", "value": "1", "effect": "NoSchedule"}], "unschedulable": False}
    return [
        _node("n1", "x"),
        _node("n2", "x", **taint),
        _node("n3", "y"),
        _node("n10", "z"),
        _queue("q", guarantee={"resource": {"cpu": "1"}}, deserved={"cpu": "8", "memory": "32Gi"}),
        _queue("r", capability={"cpu": "1"}),
        *_others(),
        *_storage(),
        *_network(),
        _group("runs", 1, minTaskMember={"worker": 1}),
        _pod("runs-w-0", "runs", {"nodeName": "n1"}),
        _pod("runs-w-1", "runs", {"nodeName": "n3"}, deletionTimestamp="2026-01-01T00:00:02Z"),
        _group("careful", 2),
        _pod("careful-w-0", "careful", _cautious()),
        _pod("careful-w-1", "careful", {"schedulingGates": []}),
        *_close_gang(),
        _group("free", 1),
        _pod("free-w-0", "free", {"containers": [{"name": "main"}]}),
        _pod("free-w-1", "free", _with_volumes()),
        _group("waits", 2, "r"),
        _pod("waits-w-0", "waits", {}),
        _pod("waits-w-1", "waits", {"resourceClaims": [{"name": "card"}]}),
        _pod("alone", "", {}),
    ]


# --- ways to spoil it


def nested(depth: int) -> Any:
    """Lists and maps in each other, so deep."""
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "+5",
    "1.5",
    ".5",
    "1e3",
    "1e400",
    "1e-400",
    "NaN",
    "inf",
    "0x10",
    "1Ei",
    "9007199254740992",
    "9007199254740993",
    "9" * 18,
    "9" * 40,
    "9" * 5000,
    "\u00b2",
    "\u0663",
    "\x00",
    "\x1b[31mred\x1b[0m",
    "two\nlines",
    "tab\there",
    "\u202egnol",
    "\u2028",
    "\ud7ff\uffff",
    "\U0001f30b",
    "a\u0301" * 20,
    "x" * 300,
    "x" * 20_000,
    "a/b/c",
    "../..",
    "ns/runs",
    "%s%n{0}{}",
    "true",
    "null",
    "root",
    "default",
    "n1",
    "Gt",
    "Always",
    "DoNotSchedule",
    "1h",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "a-" * 126 + "9",
    "(a+)+$",
    "kilauea-what-if",
)
NUMBERS: tuple[int | float, ...] = (
    0,
    1,
    -1,
    2,
    100,
    65536,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53,
    2**53 + 1,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**30,
    0.5,
    -0.0,
    1e15,
    1e308,
    -1e308,
    5e-324,
)
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    *TEXTS,
    *NUMBERS,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"": ""},
    {"a": None},
    {"cpu": "1"},
    nested(40),
    nested(400),
)

INTEGERS = st.sampled_from([n for n in NUMBERS if isinstance(n, int)]) | st.integers()
QUANTITIES = st.builds(
    "{}{}".format,
    st.sampled_from(("0", "1", "3", "0.1", "1.5", "1000", "9007199254740", "9007199254740992", "-1", "1e3")),
    st.sampled_from(("", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")),
)
TEXT = st.sampled_from(TEXTS) | st.text(max_size=8)
VALUES = st.sampled_from(ODD) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
HOW = st.sampled_from(("alike",) * 8 + ("odd", "odd", "gone", "null", "twice", "moved", "key", "deeper"))


def paths(value: Any, at: tuple[Step, ...] = ()) -> list[tuple[Step, ...]]:
    """Paths to every part of a manifest, outer ones first."""
    out = [at] if at else []
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in parts:
        out += paths(part, (*at, step))
    return out


def find(value: Any, path: tuple[Step, ...]) -> Any:
    """The part at a path."""
    for step in path:
        value = value[step]
    return value


PATHS = [paths(manifest) for manifest in cluster()]


def spoil(draw: st.DrawFn, objects: list[Data], number: int) -> None:
    """Spoil one part of one manifest, in place."""
    places = paths(objects[number])
    if not places:
        return
    path = places[draw(st.integers(0, len(places) - 1))]
    parent, last = find(objects[number], path[:-1]), path[-1]
    how = draw(HOW)
    if how == "gone":
        del parent[last]
    elif how == "null":
        parent[last] = None
    elif how == "twice" and isinstance(parent[last], list):
        parent[last] = parent[last] * draw(st.integers(2, 40))
    elif how == "moved":
        other = objects[draw(st.integers(0, len(objects) - 1))]
        parent[last] = copy.deepcopy(find(other, draw(st.sampled_from(paths(other) or [()]))))
    elif how == "key" and isinstance(parent, dict):
        parent[draw(TEXT)] = parent.pop(last)
    elif how == "deeper":
        parent[last] = {"a": parent[last]} if draw(st.booleans()) else [parent[last]]
    else:
        parent[last] = copy.deepcopy(draw(alike(parent[last]) if how == "alike" else VALUES))


def alike(value: Any) -> st.SearchStrategy[Any]:
    """Odd values of the type that a field has, so that the types let them pass."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return INTEGERS
    if isinstance(value, str):
        return TEXT | QUANTITIES if any(c.isdigit() for c in value) else TEXT
    return st.sampled_from([[], [{}], nested(40)] if isinstance(value, list) else [{}, {"": ""}, {"a": "b"}])


def spoil_alike(draw: st.DrawFn, objects: list[Data]) -> None:
    """Spoil the same field of all objects of a kind, so that no sound one hides what the odd ones do."""
    number = draw(st.integers(0, len(objects) - 1))
    kind, path = objects[number].get("kind"), draw(st.sampled_from(paths(objects[number]) or [()]))
    value = draw(VALUES)
    for other in objects:
        if other.get("kind") == kind and path:
            try:
                find(other, path[:-1])[path[-1]] = copy.deepcopy(value)
            except (LookupError, TypeError):
                continue


class Manifests(list[Data]):
    """Manifests that show only how they differ from those of the valid cluster."""

    def __repr__(self) -> str:
        sound = cluster()
        odd = [f"{i}: {json.dumps(m)[:2000]}" for i, m in enumerate(self) if i >= len(sound) or m != sound[i]]
        return f"<{len(self)} manifests, of which odd {', '.join(odd)[:20_000]}>"


@st.composite
def spoiled(draw: st.DrawFn, most: int = 6) -> Manifests:
    """The cluster with some parts spoiled, and now and then some manifests given twice, left out or alone."""
    objects = cluster()
    how = draw(st.integers(0, 9))
    if how == 9:
        objects = [objects[i] for i in draw(st.lists(st.integers(0, len(objects) - 1), min_size=1, max_size=8))]
        objects = copy.deepcopy(objects)
    elif how == 8:
        spoil_alike(draw, objects)
    elif how == 7:
        objects += copy.deepcopy([objects[i] for i in draw(st.lists(st.integers(0, len(objects) - 1), max_size=4))])
    for _ in range(draw(st.integers(1, most))):
        spoil(draw, objects, draw(st.integers(0, len(objects) - 1)))
    return Manifests(objects)
