"""The nodes that run the pods of a daemon set, and the pod for one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.core import NodeSelector, Taint, Toleration
from kilauea.api.kinds import DAEMON_SETS
from kilauea.api.ports import Obj
from kilauea.api.selectors import (
    matches,
    node_term_matches,
    node_terms_of,
    selector_of_labels,
    taint_of,
    toleration_of,
    untolerated,
)
from kilauea.controllers.objects import annotations_of, labels_of, name_of, spec_of
from kilauea.controllers.pods import from_template, generate_name
from kilauea.controllers.revisions import REVISION_LABEL

_STANDS = [
    *(("not-ready", "NoExecute"), ("unreachable", "NoExecute")),
    *((key, "NoSchedule") for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")),
]
TOLERATIONS = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in _STANDS]
"""Tolerations that every pod of a daemon set has."""
_NETWORK = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}


def tolerations(template: Mapping[str, Any]) -> list[Any]:
    """Return the tolerations of the pods."""
    spec = template.get("spec") or {}
    own = spec.get("tolerations") or []
    added = [*TOLERATIONS, _NETWORK] if spec.get("hostNetwork") else TOLERATIONS
    return [*own, *(each for each in added if each not in own)]


def _required(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found: Mapping[str, Any] | None = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return found


class NodeFit:
    """Requirements of a template on nodes."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        spec = template.get("spec") or {}
        self._selector = selector_of_labels(spec.get("nodeSelector") or {})
        required = _required(spec)
        self._terms = node_terms_of(msgspec.convert(required, NodeSelector)) if required else None
        stood = msgspec.convert(tolerations(template), list[Toleration])
        self._tolerations = [toleration_of(each) for each in stood]

    def may_stay(self, node: Obj, effects: Sequence[str] = ("NoExecute",)) -> bool:
        """Return True if a pod that already runs on a node may stay."""
        labels = labels_of(node)
        if not matches(self._selector, labels):
            return False
        terms = self._terms
        if terms is not None and not any(node_term_matches(term, labels, name_of(node)) for term in terms):
            return False
        taints = msgspec.convert(spec_of(node).get("taints") or [], list[Taint])
        return not taints or untolerated(map(taint_of, taints), self._tolerations, effects) is None

    def should_run(self, node: Obj) -> bool:
        """Return True if a node should run a pod."""
        return self.may_stay(node, ("NoSchedule", "NoExecute"))


def pod_for(daemon_set: Obj, node: str, name: str, digest: str) -> dict[str, Any]:
    """Build the pod for a node; a scheduler can only bind it to this node."""
    template = spec_of(daemon_set)["template"]
    pod = from_template(template, DAEMON_SETS, daemon_set, name)
    generation = annotations_of(daemon_set).get("deprecated.daemonset.template.generation", "1")
    own = {REVISION_LABEL: digest, "pod-template-generation": generation}
    pod["metadata"]["labels"] = {**labels_of(pod), **own}
    pod["metadata"]["generateName"] = generate_name(name_of(daemon_set))
    spec = {**pod["spec"], "tolerations": tolerations(template)}
    only = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = (_required(spec) or {}).get("nodeSelectorTerms") or [{}]
    affinity = spec.get("affinity") or {}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{**term, "matchFields": only} for term in terms]
        },
    }
    pod["spec"] = {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}
    return pod


def node_for(pod: Obj) -> str:
    """The node that a pod is on, or is intended for; empty if unknown."""
    name = spec_of(pod).get("nodeName")
    if name:
        return str(name)
    for term in (_required(spec_of(pod)) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""
