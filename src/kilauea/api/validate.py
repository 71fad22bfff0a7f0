"""Validation beyond types: amounts, ranges of counts, operators, and references.

`check` returns errors as values and never raises, so that one invalid object is skipped and the rest is used. It checks
what the engine relies on, which is less than an API server requires: an object that a cluster has accepted is valid.
Plain pods take a few microseconds, because the results for amounts are cached by content.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from kilauea.api import core, kubernetes_groups, scheduling, storage, topology
from kilauea.api.errors import ObjectError, kind_of, object_label
from kilauea.api.meta import LabelSelector, Object, ResourceMap, SelectorRequirement
from kilauea.api.metrics import NodeMetrics
from kilauea.api.quantity import QuantityError, Scalar, amount, parse_size
from kilauea.api.remembered import remembered_items
from kilauea.api.selectors import LABEL_OPERATORS, NODE_OPERATORS, field_problem, requirement_problem
from kilauea.api.times import parse_time

INT32 = 2**31 - 1
"""Largest value of a 32-bit field of a custom resource."""

Problem = tuple[str, str]
"""The path of a field, and the error in it."""

_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
_VOLUME_MODES = ("Filesystem", "Block")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")


# --- small checks, each adding to `out`


@remembered_items(4096)
def _amount_problems(items: tuple[tuple[str, Scalar], ...]) -> tuple[Problem, ...]:
    """Return the errors in a resource list; cached by content, as clusters repeat the same few lists."""
    found = []
    for name, q in items:
        try:
            negative = amount(name, q) < 0
        except QuantityError as error:
            found.append((f"[{name}]", str(error)))
        else:
            if negative:
                found.append((f"[{name}]", f'"{q}" is negative: use 0 or more'))
    return tuple(found)


def _amounts(out: list[Problem], path: str, resources: ResourceMap | None) -> None:
    """Check that all quantities of a resource list are valid and not negative."""
    if resources:
        out += [(path + key, message) for key, message in _amount_problems(tuple(resources.items()))]


def _size(out: list[Problem], path: str, size: Scalar | None) -> None:
    """Check that the size of a volume, if set, is valid and not negative."""
    if size is not None:
        try:
            parse_size(size)
        except QuantityError as error:
            out.append((path, str(error)))


def _range(out: list[Problem], path: str, number: int | None, least: int, most: int = INT32) -> None:
    """Check that a number, if set, is between two bounds."""
    if number is not None and not least <= number <= most:
        out.append((path, f"{number} is out of range: use {least} to {most}"))


def _one_of(out: list[Problem], path: str, text: str | None, words: Collection[str]) -> None:
    """Check that a text, if set, is one of the words."""
    if text is not None and text not in words:
        out.append((path, f'"{text}" is not known: use {" or ".join(words)}'))


def _present(out: list[Problem], path: str, text: str) -> None:
    """Check that a text is not empty."""
    if not text:
        out.append((path, "missing: give a value"))


def _name(out: list[Problem], path: str, text: str) -> None:
    """Check that a name is safe in lines, paths and terminals. Kubernetes allows less."""
    if not text.isprintable() or " " in text or "/" in text:
        shown = ascii(text)[1:-1]
        out.append((path, f'"{shown}" is not a name: use lower-case letters, digits, "-" and "."'))


def _time(out: list[Problem], path: str, text: str | None) -> None:
    """Check that a time, if set, is RFC 3339."""
    if text is not None:
        try:
            parse_time(text)
        except ValueError as error:
            out.append((path, str(error)))


def _requirements(
    out: list[Problem], path: str, requirements: Iterable[SelectorRequirement] | None, operators: Collection[str]
) -> None:
    """Check that all requirements are valid."""
    for number, requirement in enumerate(requirements or ()):
        problem = requirement_problem(requirement, operators)
        if problem:
            out.append((f"{path}[{number}]", problem))


def _selector(out: list[Problem], path: str, selector: LabelSelector | None) -> None:
    """Check that a label selector, if set, is valid."""
    if selector is not None:
        _requirements(out, f"{path}.matchExpressions", selector.match_expressions, LABEL_OPERATORS)
        for key, value in (selector.match_labels or {}).items():
            wanted = SelectorRequirement(key=key, operator="In", values=[value])
            problem = requirement_problem(wanted, LABEL_OPERATORS)
            if problem:
                out.append((f"{path}.matchLabels[{key}]", problem))


# --- pods


def _container(out: list[Problem], path: str, container: core.Container) -> None:
    """Check requests, limits and host ports of a container."""
    resources = container.resources
    if resources is not None:
        _amounts(out, f"{path}.resources.requests", resources.requests)
        _amounts(out, f"{path}.resources.limits", resources.limits)
    for number, port in enumerate(container.ports or ()):
        _range(out, f"{path}.ports[{number}].hostPort", port.host_port, 0, 65535)


def _node_term(out: list[Problem], path: str, term: core.NodeSelectorTerm) -> None:
    """Check one term of a node selector."""
    _requirements(out, f"{path}.matchExpressions", term.match_expressions, NODE_OPERATORS)
    for number, requirement in enumerate(term.match_fields or ()):
        problem = field_problem(requirement)
        if problem:
            out.append((f"{path}.matchFields[{number}]", problem))


def _node_terms(out: list[Problem], path: str, selector: core.NodeSelector) -> None:
    """Check the terms of a node selector."""
    for number, term in enumerate(selector.node_selector_terms or ()):
        _node_term(out, f"{path}.nodeSelectorTerms[{number}]", term)


def _node_affinity(out: list[Problem], path: str, affinity: core.NodeAffinity) -> None:
    """Check required and preferred node terms."""
    if affinity.required is not None:
        _node_terms(out, f"{path}.requiredDuringSchedulingIgnoredDuringExecution", affinity.required)
    for number, preferred in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{number}]"
        _range(out, f"{where}.weight", preferred.weight, 1, 100)
        if preferred.preference is not None:
            _node_term(out, f"{where}.preference", preferred.preference)


def _pod_term(out: list[Problem], path: str, term: core.PodAffinityTerm) -> None:
    """Check one term of pod affinity."""
    _present(out, f"{path}.topologyKey", term.topology_key)
    _selector(out, f"{path}.labelSelector", term.label_selector)
    _selector(out, f"{path}.namespaceSelector", term.namespace_selector)


def _pod_affinity(out: list[Problem], path: str, affinity: core.PodAffinity | None) -> None:
    """Check required and preferred terms of pod affinity or anti-affinity."""
    if affinity is None:
        return
    for number, term in enumerate(affinity.required or ()):
        _pod_term(out, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{number}]", term)
    for number, preferred in enumerate(affinity.preferred or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{number}]"
        _range(out, f"{where}.weight", preferred.weight, 1, 100)
        _pod_term(out, f"{where}.podAffinityTerm", preferred.pod_affinity_term)


def _spread(out: list[Problem], path: str, constraint: core.TopologySpreadConstraint) -> None:
    """Check one topology spread constraint."""
    _range(out, f"{path}.maxSkew", constraint.max_skew, 1)
    _range(out, f"{path}.minDomains", constraint.min_domains, 1)
    _present(out, f"{path}.topologyKey", constraint.topology_key)
    _one_of(out, f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, _WHEN_UNSATISFIABLE)
    _one_of(out, f"{path}.nodeAffinityPolicy", constraint.node_affinity_policy, _POLICIES)
    _one_of(out, f"{path}.nodeTaintsPolicy", constraint.node_taints_policy, _POLICIES)
    _selector(out, f"{path}.labelSelector", constraint.label_selector)


def _toleration(out: list[Problem], path: str, toleration: core.Toleration) -> None:
    """Check operator and effect of a toleration; empty ones are valid."""
    _one_of(out, f"{path}.operator", toleration.operator or None, _TOLERATION_OPERATORS)
    _one_of(out, f"{path}.effect", toleration.effect or None, _TAINT_EFFECTS)


def _pod_placement(out: list[Problem], spec: core.PodSpec) -> None:
    """Check the fields of a pod that constrain its placement."""
    if spec.affinity is not None:
        if spec.affinity.node_affinity is not None:
            _node_affinity(out, "spec.affinity.nodeAffinity", spec.affinity.node_affinity)
        _pod_affinity(out, "spec.affinity.podAffinity", spec.affinity.pod_affinity)
        _pod_affinity(out, "spec.affinity.podAntiAffinity", spec.affinity.pod_anti_affinity)
    for number, constraint in enumerate(spec.topology_spread_constraints or ()):
        _spread(out, f"spec.topologySpreadConstraints[{number}]", constraint)
    for number, toleration in enumerate(spec.tolerations or ()):
        _toleration(out, f"spec.tolerations[{number}]", toleration)


def _pod(out: list[Problem], pod: core.Pod) -> None:
    """Check a pod."""
    spec = pod.spec
    for number, container in enumerate(spec.containers or ()):
        if container.resources is not None or container.ports is not None:
            _container(out, f"spec.containers[{number}]", container)
    for number, container in enumerate(spec.init_containers or ()):
        _container(out, f"spec.initContainers[{number}]", container)
    _amounts(out, "spec.overhead", spec.overhead)
    if spec.resources is not None:
        _amounts(out, "spec.resources.requests", spec.resources.requests)
        _amounts(out, "spec.resources.limits", spec.resources.limits)
    _range(out, "spec.priority", spec.priority, -INT32 - 1)
    _one_of(out, "spec.preemptionPolicy", spec.preemption_policy, _PREEMPTION_POLICIES)
    for number, volume in enumerate(spec.volumes or ()):
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim.claim_name
            _present(out, f"spec.volumes[{number}].persistentVolumeClaim.claimName", claim)
    _pod_placement(out, spec)


# --- the other kinds


def _node(out: list[Problem], node: core.Node) -> None:
    """Check a node."""
    if node.status is not None:
        _amounts(out, "status.capacity", node.status.capacity)
        _amounts(out, "status.allocatable", node.status.allocatable)
    for number, taint in enumerate((node.spec.taints if node.spec is not None else None) or ()):
        _present(out, f"spec.taints[{number}].key", taint.key)
        _one_of(out, f"spec.taints[{number}].effect", taint.effect, _TAINT_EFFECTS)


def _resource_quota(out: list[Problem], quota: core.ResourceQuota) -> None:
    """Check a resource quota."""
    if quota.spec is not None:
        _amounts(out, "spec.hard", quota.spec.hard)
    if quota.status is not None:
        _amounts(out, "status.hard", quota.status.hard)
        _amounts(out, "status.used", quota.status.used)


def _workload(out: list[Problem], workload: core.Workload) -> None:
    """Check a replica set or stateful set."""
    if workload.spec is not None:
        _selector(out, "spec.selector", workload.spec.selector)


def _pod_group(out: list[Problem], group: scheduling.PodGroup) -> None:
    """Check a pod group."""
    spec = group.spec
    _range(out, "spec.minMember", spec.min_member, 0)
    for role, number in (spec.min_task_member or {}).items():
        _range(out, f"spec.minTaskMember[{role}]", number, 0)
    _amounts(out, "spec.minResources", spec.min_resources)
    for number, policy in enumerate(spec.sub_group_policy or ()):
        path = f"spec.subGroupPolicy[{number}]"
        _range(out, f"{path}.subGroupSize", policy.sub_group_size, 0)
        _range(out, f"{path}.minSubGroups", policy.min_sub_groups, 0)
        _selector(out, f"{path}.labelSelector", policy.label_selector)


def _kubernetes_group(out: list[Problem], group: kubernetes_groups.KubernetesPodGroup) -> None:
    """Check a Kubernetes pod group."""
    policy = group.spec.scheduling_policy
    if (policy.gang is None) == (policy.basic is None):
        out.append(("spec.schedulingPolicy", "must have exactly one policy: set either gang or basic"))
    if policy.gang is not None:
        _range(out, "spec.schedulingPolicy.gang.minCount", policy.gang.min_count, 1)
    _range(out, "spec.priority", group.spec.priority, -INT32 - 1)
    constraints = group.spec.scheduling_constraints
    for number, each in enumerate((constraints and constraints.topology) or ()):
        _present(out, f"spec.schedulingConstraints.topology[{number}].key", each.key)


def _queue(out: list[Problem], queue: scheduling.Queue) -> None:
    """Check a queue."""
    spec = queue.spec
    if spec is None:
        return
    _range(out, "spec.weight", spec.weight, 0, 65535)  # 0 stands for the default, as at admission
    _range(out, "spec.priority", spec.priority, -INT32 - 1)
    _amounts(out, "spec.capability", spec.capability)
    _amounts(out, "spec.deserved", spec.deserved)
    if spec.guarantee is not None:
        _amounts(out, "spec.guarantee.resource", spec.guarantee.resource)


def _priority_class(out: list[Problem], priority_class: scheduling.PriorityClass) -> None:
    """Check a priority class."""
    _range(out, "value", priority_class.value, -INT32 - 1)
    _one_of(out, "preemptionPolicy", priority_class.preemption_policy, _PREEMPTION_POLICIES)


def _hyper_node(out: list[Problem], domain: topology.HyperNode) -> None:
    """Check a HyperNode."""
    if domain.spec is not None:
        _range(out, "spec.tier", domain.spec.tier, 0)


def _disruption_budget(out: list[Problem], budget: scheduling.PodDisruptionBudget) -> None:
    """Check a pod disruption budget."""
    if budget.spec is not None:
        _selector(out, "spec.selector", budget.spec.selector)


def _volume(out: list[Problem], volume: storage.PersistentVolume) -> None:
    """Check a persistent volume."""
    spec = volume.spec
    _size(out, "spec.capacity[storage]", (spec.capacity or {}).get("storage"))
    _one_of(out, "spec.volumeMode", spec.volume_mode or None, _VOLUME_MODES)
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        _node_terms(out, "spec.nodeAffinity.required", spec.node_affinity.required)


def _volume_claim(out: list[Problem], claim: storage.PersistentVolumeClaim) -> None:
    """Check a persistent volume claim."""
    spec = claim.spec
    requests = (spec.resources.requests if spec.resources else None) or {}
    _size(out, "spec.resources.requests[storage]", requests.get("storage"))
    _one_of(out, "spec.volumeMode", spec.volume_mode or None, _VOLUME_MODES)
    _selector(out, "spec.selector", spec.selector)


def _storage_class(out: list[Problem], storage_class: storage.StorageClass) -> None:
    """Check a storage class."""
    _present(out, "provisioner", storage_class.provisioner)
    _one_of(out, "volumeBindingMode", storage_class.volume_binding_mode or None, _BINDING_MODES)
    for number, term in enumerate(storage_class.allowed_topologies or ()):
        for place, requirement in enumerate(term.match_label_expressions or ()):
            _present(out, f"allowedTopologies[{number}].matchLabelExpressions[{place}].key", requirement.key)


def _csi_node(out: list[Problem], node: storage.CSINode) -> None:
    """Check the drivers of a node."""
    for number, driver in enumerate(node.spec.drivers or ()):
        _present(out, f"spec.drivers[{number}].name", driver.name)
        if driver.allocatable is not None:
            _range(out, f"spec.drivers[{number}].allocatable.count", driver.allocatable.count, 0)


def _storage_capacity(out: list[Problem], capacity: storage.CSIStorageCapacity) -> None:
    """Check a storage capacity."""
    _size(out, "capacity", capacity.capacity)
    _size(out, "maximumVolumeSize", capacity.maximum_volume_size)
    _selector(out, "nodeTopology", capacity.node_topology)


def _node_metrics(out: list[Problem], metrics: NodeMetrics) -> None:
    """Check the usage of a node."""
    _time(out, "timestamp", metrics.timestamp)
    _amounts(out, "usage", metrics.usage)


_CHECKS: dict[type[Object], Callable[[list[Problem], Any], None]] = {
    core.Pod: _pod,
    core.Node: _node,
    core.ResourceQuota: _resource_quota,
    core.Workload: _workload,
    scheduling.PodGroup: _pod_group,
    kubernetes_groups.KubernetesPodGroup: _kubernetes_group,
    scheduling.Queue: _queue,
    scheduling.PriorityClass: _priority_class,
    scheduling.PodDisruptionBudget: _disruption_budget,
    topology.HyperNode: _hyper_node,
    storage.PersistentVolume: _volume,
    storage.PersistentVolumeClaim: _volume_claim,
    storage.StorageClass: _storage_class,
    storage.CSINode: _csi_node,
    storage.CSIStorageCapacity: _storage_capacity,
    NodeMetrics: _node_metrics,
}


def problems(obj: Object) -> list[Problem]:
    """Return the errors in an object: field paths, and messages that name the value and the fix."""
    out: list[Problem] = []
    metadata = obj.metadata
    if not metadata.name:
        out.append(("metadata.name", "missing: every object needs a name"))
    _name(out, "metadata.name", metadata.name)
    _name(out, "metadata.namespace", metadata.namespace or "")
    _time(out, "metadata.creationTimestamp", metadata.creation_timestamp)
    _time(out, "metadata.deletionTimestamp", metadata.deletion_timestamp)
    check_kind = _CHECKS.get(type(obj))
    if check_kind is not None:
        check_kind(out, obj)
    return out


def check(obj: Object, *, source: str = "", index: int = 0) -> list[ObjectError]:
    """Return the errors in an object, each naming it. Empty if it is valid; never raises.

    Args:
        obj: any object; for kinds without special rules, only the metadata is checked.
        source: the source, for the messages.
        index: the number of its document in the source, from 0.
    """
    found = problems(obj)
    if not found:
        return []
    label = object_label(obj) if obj.name else ""
    return [ObjectError(source, index, kind_of(obj), label, path, message) for path, message in found]
