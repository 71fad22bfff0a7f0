"""Table cells of kinds whose rows start with the name; one function for each kind.

Each takes the object and the time, and returns the cells after the name.
"""

from __future__ import annotations

from typing import Any

from kilauea.api.ages import UNKNOWN, age, since
from kilauea.apiserver.tables.columns import NONE, Object, listed, pairs, part, selector_text

_ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE_LABEL, _OLD_ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"
_UNSET = "<unset>"


def only_age(obj: Object, now: int) -> list[Any]:
    """Cells of kinds that have only an age."""
    return [age(obj, now)]


def created(obj: Object, now: int) -> list[Any]:
    """Cells of kinds that have only the creation time."""
    return [obj["metadata"].get("creationTimestamp")]


def config_map(obj: Object, now: int) -> list[Any]:
    """Cells of a ConfigMap: number of keys."""
    return [len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def secret(obj: Object, now: int) -> list[Any]:
    """Cells of a secret: type and number of keys."""
    return [obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)]


def namespace(obj: Object, now: int) -> list[Any]:
    """Cells of a namespace: phase."""
    return [part(obj, "status", "phase") or "", age(obj, now)]


# --- nodes


def node(obj: Object, now: int) -> list[Any]:
    """Cells of a node: readiness, roles, version and addresses."""
    info = part(obj, "status", "nodeInfo") or {}
    kernel, machine = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    wide = [
        info.get("osImage") or UNKNOWN,
        f"{kernel} ({machine})" if machine else kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]
    addresses = [_address(obj, "InternalIP"), _address(obj, "ExternalIP")]
    return [_node_status(obj), _roles(obj), age(obj, now), info.get("kubeletVersion", ""), *addresses, *wide]


def _node_status(obj: Object) -> str:
    """Return `Ready`, `NotReady` or `Unknown`, with `SchedulingDisabled` if cordoned."""
    conditions = {each.get("type"): each.get("status") for each in part(obj, "status", "conditions") or []}
    words = ["Unknown"] if "Ready" not in conditions else ["Ready" if conditions["Ready"] == "True" else "NotReady"]
    if part(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(obj: Object) -> str:
    """Return the roles in the labels of a node."""
    found = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE_LABEL) and key != _ROLE_LABEL:
            found.add(key.removeprefix(_ROLE_LABEL))
        elif key == _OLD_ROLE_LABEL and value:
            found.add(value)
    return listed(sorted(found))


def _address(obj: Object, kind: str) -> str:
    addresses = part(obj, "status", "addresses") or []
    return next((each["address"] for each in addresses if each.get("type") == kind), NONE)


# --- storage


def claim(obj: Object, now: int) -> list[Any]:
    """Cells of a claim: phase, volume, size and class."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else state.get("phase", "")
    bound = bool(spec.get("volumeName"))
    size = (state.get("capacity") or {}).get("storage", "") if bound else ""
    access = _access(state.get("accessModes")) if bound else ""
    classes = [spec.get("storageClassName") or "", spec.get("volumeAttributesClassName") or _UNSET]
    return [phase, spec.get("volumeName", ""), size, access, *classes, age(obj, now), spec.get("volumeMode") or _UNSET]


def volume(obj: Object, now: int) -> list[Any]:
    """Cells of a volume: size, phase and claim."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    reference = spec.get("claimRef") or {}
    claimed = f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else state.get("phase", "")
    return [
        (spec.get("capacity") or {}).get("storage", ""),
        _access(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        claimed,
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        state.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _access(modes: list[str] | None) -> str:
    given = modes or []
    return ",".join(short for mode, short in _ACCESS.items() if mode in given)


def storage_class(obj: Object, now: int) -> list[Any]:
    """Cells of a storage class: provisioner and policies."""
    policies = [obj.get("reclaimPolicy", "Delete"), obj.get("volumeBindingMode", "Immediate")]
    return [obj.get("provisioner", ""), *policies, bool(obj.get("allowVolumeExpansion")), age(obj, now)]


def driver(obj: Object, now: int) -> list[Any]:
    """Cells of a storage driver: its capabilities."""
    spec = obj.get("spec") or {}
    can = [spec.get(key, key == "attachRequired") for key in ("attachRequired", "podInfoOnMount", "storageCapacity")]
    tokens = ",".join(each.get("audience", "") for each in spec.get("tokenRequests") or []) or _UNSET
    modes = ",".join(spec.get("volumeLifecycleModes") or []) or NONE
    return [*can, tokens, bool(spec.get("requiresRepublish")), modes, age(obj, now)]


def node_drivers(obj: Object, now: int) -> list[Any]:
    """Cells of a node's storage drivers: their number."""
    return [len(part(obj, "spec", "drivers") or []), age(obj, now)]


def resource_claim(obj: Object, now: int) -> list[Any]:
    """Cells of a device claim: `allocated` or `pending`, with `deleted` and `reserved` if so."""
    states = []
    if obj["metadata"].get("deletionTimestamp"):
        states.append("deleted")
    states.append("allocated" if part(obj, "status", "allocation") else "pending")
    if part(obj, "status", "reservedFor"):
        states.append("reserved")
    return [",".join(states), age(obj, now)]


def pod_group(obj: Object, now: int) -> list[Any]:
    """Cells of a Kubernetes PodGroup: policy, workload and state."""
    policy = "Gang" if part(obj, "spec", "schedulingPolicy", "gang") is not None else "Basic"
    workload = part(obj, "spec", "podGroupTemplateRef", "workload", "workloadName") or NONE
    known = {each.get("type"): each for each in part(obj, "status", "conditions") or ()}
    state, scheduled = "Pending", known.get("PodGroupScheduled")
    if scheduled is not None:
        state = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if "DisruptionTarget" in known:
        state = known["DisruptionTarget"].get("reason", "")
    return [policy, workload, state, age(obj, now)]


def taint_rule(obj: Object, now: int) -> list[Any]:
    """Cells of a device taint rule: the taint and its time."""
    taint = part(obj, "spec", "taint") or {}
    added = taint.get("timeAdded")
    cells = [taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")]
    return [*cells, since(added, now) if added else "", age(obj, now)]


def resource_slice(obj: Object, now: int) -> list[Any]:
    """Cells of a slice: node, driver and pool."""
    spec = obj.get("spec") or {}
    return [spec.get("nodeName", ""), spec.get("driver", ""), part(spec, "pool", "name") or "", age(obj, now)]


def attachment(obj: Object, now: int) -> list[Any]:
    """Cells of an attachment: volume and node."""
    spec = obj.get("spec") or {}
    name = part(spec, "source", "persistentVolumeName") or ""
    attached = bool(part(obj, "status", "attached"))
    return [spec.get("attacher", ""), name, spec.get("nodeName", ""), attached, age(obj, now)]


# --- network


def service(obj: Object, now: int) -> list[Any]:
    """Cells of a service: type, addresses and ports."""
    spec = obj.get("spec") or {}
    address = spec.get("clusterIP") or NONE
    return [spec.get("type", ""), address, _external(obj), _ports(spec), age(obj, now), pairs(spec.get("selector"))]


def _external(obj: Object) -> str:
    """Return the external addresses."""
    spec = obj.get("spec") or {}
    addresses = list(spec.get("externalIPs") or [])
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("type") == "LoadBalancer":
        ingress = part(obj, "status", "loadBalancer", "ingress") or []
        addresses = [each.get("ip") or each.get("hostname", "") for each in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return listed(addresses)


def _ports(spec: Object) -> str:
    """Return ports with their node ports."""
    found = []
    for port in spec.get("ports") or []:
        at_node = f":{port['nodePort']}" if port.get("nodePort") else ""
        found.append(f"{port.get('port')}{at_node}/{port.get('protocol', 'TCP')}")
    return listed(found)


def network_policy(obj: Object, now: int) -> list[Any]:
    """Cells of a network policy: the pod selector."""
    return [selector_text(part(obj, "spec", "podSelector")), age(obj, now)]


# --- policy and the rest


def quota(obj: Object, now: int) -> list[Any]:
    """Cells of a quota: used and hard requests and counts, and limits."""
    hard, used = part(obj, "status", "hard") or {}, part(obj, "status", "used") or {}
    texts: dict[bool, list[str]] = {True: [], False: []}
    for name in sorted(hard):
        texts[name.startswith("limits")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [", ".join(texts[False]), ", ".join(texts[True]), age(obj, now)]


def budget(obj: Object, now: int) -> list[Any]:
    """Cells of a disruption budget: its bounds."""
    spec = obj.get("spec") or {}
    bounds = [_text_or(spec.get(key), "N/A") for key in ("minAvailable", "maxUnavailable")]
    return [*bounds, part(obj, "status", "disruptionsAllowed") or 0, age(obj, now)]


def _text_or(value: Any, otherwise: str) -> str:
    return otherwise if value is None else str(value)


def priority_class(obj: Object, now: int) -> list[Any]:
    """Cells of a priority class: value and policy."""
    policy = obj.get("preemptionPolicy", "PreemptLowerPriority")
    return [obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]


def lease(obj: Object, now: int) -> list[Any]:
    """Cells of a lease: its holder."""
    return [part(obj, "spec", "holderIdentity") or "", age(obj, now)]


def role_binding(obj: Object, now: int) -> list[Any]:
    """Cells of a role binding: role and subjects."""
    role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or []
    users = [each.get("name", "") for each in subjects if each.get("kind") == "User"]
    groups = [each.get("name", "") for each in subjects if each.get("kind") == "Group"]
    accounts = [
        f"{each.get('namespace', '')}/{each.get('name', '')}"
        for each in subjects
        if each.get("kind") == "ServiceAccount"
    ]
    named = [", ".join(each) for each in (users, groups, accounts)]
    return [f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), *named]


def webhooks(obj: Object, now: int) -> list[Any]:
    """Cells of a webhook configuration: number of webhooks."""
    return [len(obj.get("webhooks") or []), age(obj, now)]


def revision(obj: Object, now: int) -> list[Any]:
    """Cells of a revision: its controller, and its number."""
    owners = obj["metadata"].get("ownerReferences") or []
    owner = next((each for each in owners if each.get("controller")), None)
    if owner is None:
        return [NONE, obj.get("revision", 0), age(obj, now)]
    group, slash, _ = owner.get("apiVersion", "").partition("/")
    kind = owner.get("kind", "").lower() + (f".{group}" if slash else "")
    text = f"{kind}/{owner.get('name', '')}"
    return [text, obj.get("revision", 0), age(obj, now)]


def event(obj: Object, now: int) -> list[Any]:
    """Cells of an event of either group; all of them, as the name comes last."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    count = obj.get("count") or obj.get("deprecatedCount") or part(obj, "series", "count") or 1
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = part(obj, "series", "lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    where = source.get("host") or obj.get("reportingInstance") or ""
    return [
        since(last or first, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(each for each in (component, where) if each),
        (obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        count,
        obj["metadata"].get("name", ""),
    ]
