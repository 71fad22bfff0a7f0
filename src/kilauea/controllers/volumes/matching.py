"""Matching of claims and volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kilauea.api.core import NodeSelector
from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, parse_size
from kilauea.api.selectors import node_term_matches, node_terms_of
from kilauea.api.wellknown import BETA_STORAGE_CLASS
from kilauea.controllers.objects import (
    annotations_of,
    is_going,
    labels_of,
    matcher,
    name_of,
    spec_of,
    status_of,
    uid_of,
)

TAKEN_PHASES = frozenset({"Released", "Failed"})


def class_of(obj: Obj) -> str:
    """The storage class of a claim or a volume; empty for none."""
    return str(annotations_of(obj).get(BETA_STORAGE_CLASS) or spec_of(obj).get("storageClassName") or "")


def is_bound(claim: Obj) -> bool:
    """Return True if a claim has a volume."""
    return bool(spec_of(claim).get("volumeName"))


def size_of(resources: Mapping[str, Any] | None) -> int:
    """Bytes of storage; 0 if invalid."""
    try:
        return parse_size((resources or {}).get("storage", 0))
    except QuantityError:
        return 0


def refers_to(volume: Obj, claim: Obj) -> bool:
    """Return True if a volume is reserved for a claim: by its name, and by its UID if given."""
    reference = spec_of(volume).get("claimRef") or {}
    named = (reference.get("namespace"), reference.get("name")) == (claim["metadata"]["namespace"], name_of(claim))
    return named and reference.get("uid") in (None, "", uid_of(claim))


def suits(volume: Obj, claim: Obj, node: Obj | None) -> bool:
    """Return True if a claim can be bound to a volume.

    Args:
        volume: the volume, which may already be bound.
        claim: the claim.
        node: the node where it will be used, if known.
    """
    has, wants = spec_of(volume), spec_of(claim)
    if is_going(volume) or status_of(volume).get("phase") in TAKEN_PHASES:
        return False
    if has.get("claimRef") and not refers_to(volume, claim):
        return False
    if class_of(volume) != class_of(claim) or not set(wants.get("accessModes") or ()) <= set(
        has.get("accessModes") or ()
    ):
        return False
    if has.get("volumeMode", "Filesystem") != wants.get("volumeMode", "Filesystem"):
        return False
    if size_of(has.get("capacity")) < size_of((wants.get("resources") or {}).get("requests")):
        return False
    if wants.get("selector") is not None and not matcher(wants["selector"])(labels_of(volume)):
        return False
    return node is None or _reaches(volume, node)


def _reaches(volume: Obj, node: Obj) -> bool:
    """Return True if a volume can be used on a node."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required")
    terms = node_terms_of(msgspec.convert(required, NodeSelector)) if required else None
    return terms is None or any(node_term_matches(term, labels_of(node), name_of(node)) for term in terms)


def segment_of(capacities: Iterable[Obj], claim: Obj, node: Obj | None) -> list[dict[str, Any]]:
    """The segment, as requirements, where a new volume of a claim's class for a node can be used.

    Args:
        capacities: objects with the capacities that drivers report, and their nodes.
        claim: the claim.
        node: the node where the claim will be used, if known.
    """
    for each in capacities:
        topology = each.get("nodeTopology")
        if node is None or not topology or each.get("storageClassName") != class_of(claim):
            continue
        if matcher(topology)(labels_of(node)):
            labels = sorted((topology.get("matchLabels") or {}).items())
            wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in labels]
            return [*wanted, *(topology.get("matchExpressions") or ())]
    return []


def best(volumes: Iterable[Obj], claim: Obj, node: Obj | None) -> Obj | None:
    """The volume for a claim: a reserved one, else the smallest that matches."""
    found = [each for each in volumes if suits(each, claim, node)]
    return min(found, key=_rank, default=None)


def _rank(volume: Obj) -> tuple[bool, int, str]:
    return not spec_of(volume).get("claimRef"), size_of(spec_of(volume).get("capacity")), name_of(volume)
