"""Queues: defaults, own amounts, the place in the tree, amounts in the tree, and deletion."""

from __future__ import annotations

from typing import Any

from kilauea.admission.lookups import parent_of
from kilauea.admission.queues.hierarchy import annotation, hierarchy_faults, is_rooted
from kilauea.admission.queues.place import check_deletion, check_place
from kilauea.admission.queues.sums import check_sums
from kilauea.admission.queues.values import own_faults, quantities
from kilauea.admission.review import Denied, JsonPatch, Review, Settings
from kilauea.admission.wording import all_of
from kilauea.api.ports import Obj, View
from kilauea.api.wellknown import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE

_AMOUNTS = ("capability", "deserved", "guarantee")


def mutate(review: Review, view: View, settings: Settings) -> JsonPatch:
    """Set defaults of a new queue: a path from the root, whether it is reclaimable, a weight."""
    queue = review.obj or {}
    path, weights = annotation(queue, HIERARCHY), annotation(queue, HIERARCHY_WEIGHTS)
    patch: JsonPatch = []
    if path and weights and not is_rooted(path):
        patch += [_set(_pointer(HIERARCHY), f"{ROOT_QUEUE}/{path}"), _set(_pointer(HIERARCHY_WEIGHTS), f"1/{weights}")]
    spec = queue.get("spec")
    if spec is None:
        return [*patch, _set("/spec", {"reclaimable": True, "weight": 1})]
    if spec.get("reclaimable") is None:
        patch.append(_set("/spec/reclaimable", True))
    if not spec.get("weight"):
        patch.append(_set("/spec/weight", 1))
    return patch


def _set(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _pointer(name: str) -> str:
    return f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}"


def validate(review: Review, view: View, settings: Settings) -> list[str]:
    """Check a queue that is created, changed or deleted; nothing causes a warning.

    Raises:
        Denied: with the reason.
    """
    if review.obj is None:
        check_deletion(review.name, review.old, view, check_pods=settings.check_allocated_pods)
        return []
    queue, old = review.obj, review.old
    faults = [*own_faults(queue), *hierarchy_faults(queue, view)]
    if faults:
        raise Denied(all_of(faults))
    if old is None or parent_of(queue) != parent_of(old):
        check_place(queue, view, settings.max_queue_depth)
    resized = old is None or _is_resized(queue, old)
    if queue["metadata"]["name"] == ROOT_QUEUE:
        if old is not None and resized and settings.protect_root:
            message = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
            raise Denied(message)
        return []
    if old is None or resized or parent_of(queue) != parent_of(old):
        check_sums(queue, view)
    return []


def _is_resized(queue: Obj, old: Obj) -> bool:
    """Return True if a change touches amounts."""
    return any(quantities(queue, kind) != quantities(old, kind) for kind in _AMOUNTS)
