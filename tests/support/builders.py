"""Objects of a cluster in few words, and the plan that the engine makes of them.

Builders write the manifest that a user would, as plain data, and convert it to the wire types; what they do not know
by name is given as manifests spell it: `pod("p", nodeSelector={"disk": "ssd"})`. Objects are in namespace `ns`, pods
belong to group `g`, groups to queue `q`, and a cluster without any queue gets that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api import core, scheduling
from kilauea.api.meta import Object
from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import SchedulerConf, parse_conf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed
from kilauea.engine.plan import Bind, Nomination, Pending, Plan
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.state import ClusterState

NAMESPACE = "ns"
NOW = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z in microseconds."""
GI = 1 << 30
GPU = "nvidia.com/gpu"
HOSTNAME = "kubernetes.io/hostname"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK_ROLE = "volcano.sh/task-spec"

KINDS: dict[str, type[Object]] = {
    "Node": core.Node,
    "Pod": core.Pod,
    "Namespace": core.Namespace,
    "Service": core.Service,
    "ReplicaSet": core.Workload,
    "PodGroup": scheduling.PodGroup,
    "Queue": scheduling.Queue,
    "PriorityClass": scheduling.PriorityClass,
    "ConfigMap": core.ConfigMap,
}

Data = dict[str, Any]
Entry = str | tuple[str, Mapping[str, Any]] | Mapping[str, Any]
"""A plugin in a tier: its name, its name and arguments, or what `plugin` returns."""
Objects = Object | Iterable["Objects"]


def build(data: Data) -> Object:
    """The object that a manifest describes."""
    return msgspec.convert(data, KINDS[data["kind"]])


def manifest(obj: Object) -> Data:
    """The manifest of an object, as plain data."""
    data: Data = msgspec.to_builtins(obj)
    return data


def key_of(obj: Object) -> str:
    """The key by which events name an object."""
    return obj.name if obj.kind in ("Node", "Queue", "PriorityClass", "Namespace") else obj.key


def at(second: int) -> str:
    """A creation time, so many seconds after midnight."""
    return f"2026-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"


def _some(**fields: Any) -> Data:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [], ())}


# --- nodes


def node(
    name: str,
    cpu: int | str | None = 4,
    memory: int | str | None = "16Gi",
    pods: int | str | None = 110,
    gpu: int = 0,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str | Data] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    resources: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A node with the hostname label; taints may be written `key=value:Effect`."""
    offers = _some(cpu=cpu, memory=memory, pods=pods) | ({GPU: gpu} if gpu else {}) | dict(resources or {})
    held = [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()]
    metadata = {"name": name, "labels": {HOSTNAME: name, **(labels or {})}} | _some(annotations=annotations)
    spec = _some(taints=[taint(t) for t in taints]) | ({"unschedulable": True} if unschedulable else {})
    return build({"kind": "Node", "metadata": metadata, "spec": spec, "status": _some(allocatable=offers, images=held)})


def taint(text: str | Data) -> Data:
    """A taint from `key=value:Effect` or `key:Effect`."""
    if not isinstance(text, str):
        return text
    what, _, effect = text.rpartition(":")
    key, _, value = what.partition("=")
    return {"key": key, "value": value, "effect": effect}


# --- pods


def pod(
    name: str,
    group: str = "g",
    cpu: int | str | None = "1",
    memory: int | str | None = "1Gi",
    gpu: int = 0,
    *,
    node: str | None = None,
    phase: str | None = None,
    namespace: str = NAMESPACE,
    role: str = "",
    priority: int | None = None,
    created: int | None = None,
    deleting: bool = False,
    uid: str | None = None,
    version: int | None = None,
    nominated: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, Any] | None = None,
    ports: Sequence[Data] = (),
    image: str | None = None,
    **spec: Any,
) -> Object:
    """A pod; with a node it runs there. Further keywords are fields of its spec."""
    marks = ({GROUP_NAME: group} if group else {}) | ({TASK_ROLE: role} if role else {}) | dict(annotations or {})
    metadata = {"name": name, "namespace": namespace} | _some(
        uid=uid,
        labels=labels,
        annotations=marks,
        creationTimestamp=None if created is None else at(created),
        deletionTimestamp=at(0) if deleting else None,
        resourceVersion=None if version is None else str(version),
    )
    asked = dict(requests) if requests is not None else _some(cpu=cpu, memory=memory) | ({GPU: gpu} if gpu else {})
    container = {"name": "c"} | _some(image=image, ports=list(ports), resources=_some(requests=asked))
    body = {"schedulerName": "volcano", "containers": [container]} | _some(nodeName=node, priority=priority)
    stands = _some(phase=phase or ("Running" if node else "Pending"), nominatedNodeName=nominated)
    return build({"kind": "Pod", "metadata": metadata, "spec": body | spec, "status": stands})


def best_effort(name: str, group: str = "g", **more: Any) -> Object:
    """A pod that asks for nothing."""
    return pod(name, group, cpu=None, memory=None, **more)


# --- groups, queues and the rest


def group(
    name: str = "g",
    queue: str = "q",
    minimum: int = 1,
    phase: str | None = "Inqueue",
    *,
    namespace: str = NAMESPACE,
    resources: Mapping[str, Any] | None = None,
    roles: Mapping[str, int] | None = None,
    priority: str | None = None,
    created: int | None = None,
    version: int | None = None,
) -> Object:
    """A pod group; `resources` are its minResources, `roles` its minTaskMember, `priority` the name of its class."""
    metadata = {"name": name, "namespace": namespace} | _some(
        creationTimestamp=None if created is None else at(created),
        resourceVersion=None if version is None else str(version),
    )
    spec = {"minMember": minimum, "queue": queue} | _some(minTaskMember=roles, priorityClassName=priority)
    if resources is not None:
        spec["minResources"] = dict(resources)
    return build({"kind": "PodGroup", "metadata": metadata, "spec": spec, "status": _some(phase=phase)})


def gang(name: str, size: int, minimum: int | None = None, **more: Any) -> list[Object]:
    """A group of equal pods `name-w-0`, `name-w-1`, ...; without a minimum it is all of them."""
    of_group = {k: more.pop(k) for k in ("queue", "phase", "resources", "created") if k in more}
    pods = [pod(f"{name}-w-{i}", name, **more) for i in range(size)]
    return [group(name, minimum=size if minimum is None else minimum, **of_group), *pods]


def queue(
    name: str = "q",
    weight: int | None = 1,
    *,
    capability: Mapping[str, Any] | None = None,
    guarantee: Mapping[str, Any] | None = None,
    state: str = "Open",
    created: int | None = None,
    **spec: Any,
) -> Object:
    """A queue."""
    metadata = {"name": name} | _some(creationTimestamp=None if created is None else at(created))
    wishes = _some(weight=weight, capability=capability, guarantee=_some(resource=guarantee)) | spec
    return build({"kind": "Queue", "metadata": metadata, "spec": wishes, "status": {"state": state}})


def priority_class(name: str, value: int, *, default: bool = False) -> Object:
    """A priority class."""
    data = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    return build(data | ({"globalDefault": True} if default else {}))


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Object:
    """A namespace."""
    return build({"kind": "Namespace", "metadata": {"name": name} | _some(labels=labels)})


def service(name: str, selector: Mapping[str, str]) -> Object:
    """A service that selects pods."""
    spec = {"selector": dict(selector)}
    return build({"kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


# --- parts of a pod's spec


def need(key: str, operator: str, *values: str) -> Data:
    """A requirement of a selector."""
    return {"key": key, "operator": operator} | _some(values=list(values))


def labels_of(labels: Mapping[str, str]) -> Data:
    """A label selector for pods that carry all these labels."""
    return {"matchLabels": dict(labels)}


def node_affinity(*terms: Sequence[Data], fields: Sequence[Sequence[Data]] = ()) -> Data:
    """Required node affinity: terms of expressions, and terms of fields."""
    listed = [{"matchExpressions": list(t)} for t in terms] + [{"matchFields": list(t)} for t in fields]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}


def preferred_nodes(*weighted: tuple[int, Data]) -> Data:
    """Preferred node affinity: weights, each with an expression."""
    terms = [{"weight": w, "preference": {"matchExpressions": [e]}} for w, e in weighted]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def near(selector: Data | None, key: str = HOSTNAME, *, away: bool = False, **more: Any) -> Data:
    """Required pod affinity with one term, or anti-affinity."""
    term = {"topologyKey": key} | ({} if selector is None else {"labelSelector": selector}) | more
    return {
        "podAntiAffinity" if away else "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    }


def away(selector: Data | None, key: str = HOSTNAME, **more: Any) -> Data:
    """Required pod anti-affinity with one term."""
    return near(selector, key, away=True, **more)


def rather(weight: int, selector: Data, key: str = HOSTNAME, *, away: bool = False) -> Data:
    """Preferred pod affinity with one term, or anti-affinity."""
    term = {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": selector}}
    return {
        "podAntiAffinity" if away else "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]},
    }


def spread(key: str, selector: Data | None, skew: int = 1, *, soft: bool = False, **more: Any) -> list[Data]:
    """One topology spread constraint, as the list that a pod's spec holds."""
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **more}
    return [constraint if selector is None else constraint | {"labelSelector": selector}]


# --- configurations


def plugin(name: str, arguments: Mapping[str, Any] | None = None, /, **flags: bool) -> Data:
    """A plugin in a tier, with arguments and enable flags."""
    return {"name": name, **flags} | _some(arguments=dict(arguments or {}))


def conf(actions: str, *tiers: Sequence[Entry], **action_arguments: Mapping[str, Any]) -> Data:
    """A scheduler configuration, as its YAML file gives it."""
    arguments = [{"name": name, "arguments": dict(given)} for name, given in action_arguments.items()]
    return {"actions": actions, "tiers": [{"plugins": [_entry(e) for e in tier]} for tier in tiers]} | _some(
        configurations=arguments
    )


def _entry(entry: Entry) -> Data:
    if isinstance(entry, str):
        return {"name": entry}
    return plugin(entry[0], entry[1]) if isinstance(entry, tuple) else dict(entry)


PLAIN = conf("allocate, backfill", ["gang"], ["predicates"])
"""Gangs, and nodes that fit them."""


def parsed(
    document: Data, plugins: Sequence[type[Plugin]] = (), actions: Sequence[type[Action]] = ()
) -> tuple[SchedulerConf, dict[str, type[Plugin]], dict[str, type[Action]]]:
    """A configuration that can be used, with all plugins and actions: the built-in ones and those given."""
    all_plugins = {**PLUGINS, **{p.name: p for p in plugins}}
    all_actions = {**ACTIONS, **{a.name: a for a in actions}}
    return parse_conf(document, all_plugins, all_actions), all_plugins, all_actions


# --- states and plans


def flat(objects: Objects) -> list[Object]:
    """Objects out of lists in lists."""
    if isinstance(objects, Object):
        return [objects]
    return [each for one in objects for each in flat(one)]


def with_queue(objects: Iterable[Objects]) -> list[Object]:
    """The objects, and queue `q` if there is no queue among them."""
    listed = flat(objects)
    return listed if any(o.kind == "Queue" for o in listed) else [queue("q"), *listed]


def state_of(*objects: Objects) -> ClusterState:
    """The state of a cluster with these objects."""
    state = ClusterState()
    for obj in with_queue(objects):
        state.apply(Changed(obj))
    return state


def plan_in(
    state: ClusterState,
    conf: Data = PLAIN,
    seed: int | None = None,
    plugins: Sequence[type[Plugin]] = (),
    actions: Sequence[type[Action]] = (),
) -> Plan:
    """The plan of one cycle over a state."""
    usable, all_plugins, all_actions = parsed(conf, plugins, actions)
    return cycle(state, usable, NOW, seed, plugins=all_plugins, actions=all_actions)


def plan_of(
    *objects: Objects,
    conf: Data = PLAIN,
    seed: int | None = None,
    plugins: Sequence[type[Plugin]] = (),
    actions: Sequence[type[Action]] = (),
) -> Plan:
    """The plan of one cycle over a cluster with these objects."""
    return plan_in(state_of(*objects), conf, seed, plugins, actions)


def short(key: str) -> str:
    """A key without the usual namespace."""
    return key.removeprefix(NAMESPACE + "/")


def binds(plan: Plan) -> dict[str, str]:
    """Node by pod."""
    return {short(b.pod): b.node for b in plan.binds}


def placements(plan: Plan) -> list[Bind | Nomination]:
    """Binds and nominations."""
    return [*plan.binds, *plan.nominations]


def nominations(plan: Plan) -> dict[str, str]:
    """Node that is promised, by pod."""
    return {short(n.pod): n.node for n in plan.nominations}


def pending(plan: Plan) -> dict[str, Pending]:
    """Why a pod waits, by pod."""
    return {short(p.pod): p for p in plan.pending}


def codes(plan: Plan) -> dict[str, str]:
    """Code of the reason why a pod waits, by pod."""
    return {short(p.pod): p.code for p in plan.pending}


def phases(plan: Plan) -> dict[str, str]:
    """Phase by pod group, of those that the plan speaks of."""
    return {short(key): outcome.phase for key, outcome in plan.groups.items()}
