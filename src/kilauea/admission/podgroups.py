"""Pod groups: the queue of their namespace, and whether their queue accepts them."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.admission.lookups import queue_of
from kilauea.admission.review import Denied, JsonPatch, Review, Settings
from kilauea.admission.wording import not_found
from kilauea.api.kinds import NAMESPACES, QUEUES, VC_JOBS
from kilauea.api.ports import Key, Obj, View
from kilauea.api.wellknown import DEFAULT_QUEUE

QUEUE_OF_NAMESPACE = "scheduling.volcano.sh/queue-name"
BOTH_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."


def mutate(review: Review, view: View, settings: Settings) -> JsonPatch:
    """A group that would go to the default queue goes to that of its namespace, if it has one."""
    if review.obj is None or queue_of(review.obj) != DEFAULT_QUEUE:
        return []
    namespace = view.get(NAMESPACES, Key("", review.namespace)) or {"metadata": {}}
    queue = (namespace["metadata"].get("annotations") or {}).get(QUEUE_OF_NAMESPACE)
    return [{"op": "add", "path": "/spec/queue", "value": queue}] if queue else []


def validate(review: Review, view: View, settings: Settings) -> list[str]:
    """A new group needs a queue that is there and open, and one highest tier at most.

    Raises:
        Denied: with all that is wrong.
    """
    group = review.obj or {}
    faults = [fault for fault in (_queue_fault(group, review.namespace, view), " ".join(_tier_faults(group))) if fault]
    if faults:
        raise Denied("; ".join(faults))
    return []


def _queue_fault(group: Obj, namespace: str, view: View) -> str:
    name = queue_of(group)
    if not name:
        return ""
    queue = view.get(QUEUES, Key("", name))
    if queue is None:
        return f"unable to find queue: {not_found(QUEUES, name)}"
    # A queue that its controller has not seen yet has no state: it is about to be open.
    state = (queue.get("status") or {}).get("state") or "Open"
    if state == "Open" or (state == "Closing" and _is_of_job(group, namespace, view)):
        return ""
    return f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{state}`."


def _is_of_job(group: Obj, namespace: str, view: View) -> bool:
    """Return True if a group belongs to a job that was admitted before: a job may restart while its queue closes."""
    owners = group["metadata"].get("ownerReferences") or ()
    names = [each["name"] for each in owners if each.get("kind") == VC_JOBS.kind and _group(each) == VC_JOBS.group]
    return any(view.get(VC_JOBS, Key(namespace, name)) is not None for name in names)


def _group(owner: Obj) -> str:
    return str(owner.get("apiVersion", "")).partition("/")[0]


def _tier_faults(group: Obj) -> Iterator[str]:
    """At most one way to say the highest tier; of sub groups, the first that is wrong."""
    spec = group.get("spec") or {}
    if _has_both(spec.get("networkTopology")):
        yield BOTH_TIERS
    for each in spec.get("subGroupPolicy") or ():
        if _has_both(each.get("networkTopology")):
            yield f"in subGroupPolicy '{each.get('name', '')}': {BOTH_TIERS}"
            return


def _has_both(topology: Obj | None) -> bool:
    return bool(topology and topology.get("highestTierAllowed") is not None and topology.get("highestTierName"))
