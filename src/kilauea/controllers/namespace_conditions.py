"""The conditions of a namespace that is being deleted, in the words of Kubernetes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kilauea.api.ports import Obj, Remaining
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.controllers.objects import condition_of

DISCOVERY, PARSING = "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"
FAILURE, CONTENT, FINALIZERS = (
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
_FINE = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    CONTENT: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


def deletion_conditions(
    namespace: Obj, left: Sequence[Remaining], now: int, failing: Sequence[str] = ()
) -> list[dict[str, Any]] | None:
    """The conditions of a namespace with this remaining content; None if they are already set.

    Args:
        namespace: the namespace, which is being deleted.
        left: remaining objects of each kind.
        now: microseconds since 1970.
        failing: group versions with unknown kinds, as `GROUP/VERSION`.
    """
    found = {
        DISCOVERY: _discovery(failing),
        FAILURE: _failure(namespace, left, now),
        CONTENT: _content(left),
        FINALIZERS: _finalizers(left),
    }
    conditions, changed = [], False
    for type, (reason, message) in _FINE.items():
        fault = found.get(type)
        stated = ("True", *fault) if fault else ("False", reason, message)
        before = condition_of(namespace, type) or {}
        changed |= stated != tuple(before.get(each) for each in ("status", "reason", "message"))
        same = before.get("status") == stated[0]
        since = before["lastTransitionTime"] if same else format_time(now)
        fields = zip(("status", "reason", "message"), stated, strict=True)
        conditions.append({"type": type, "lastTransitionTime": since, **dict(fields)})
    others = [each for each in (namespace.get("status") or {}).get("conditions") or () if each["type"] not in _FINE]
    return [*others, *conditions] if changed else None


def _discovery(failing: Sequence[str]) -> tuple[str, str] | None:
    """The group versions whose server is unavailable."""
    if not failing:
        return None
    each = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in sorted(failing))
    message = f"{len(failing)} failing: unable to retrieve the complete list of server APIs: {each}"
    return "DiscoveryFailed", f"Discovery failed for some groups, {message}"


def _failure(namespace: Obj, left: Sequence[Remaining], now: int) -> tuple[str, str] | None:
    """The kinds that could not be deleted, and objects that stay without a finalizer or grace period."""
    name = namespace["metadata"]["name"]
    waited = (now - parse_time(namespace["metadata"]["deletionTimestamp"])) / SECOND
    faults = [each.fault for each in left if each.fault]
    for each in left:
        if each.count and not each.finalizers and waited >= each.grace:
            kind = f"{each.resource.api_version if each.resource.group else '/v1'}, Resource={each.resource.plural}"
            faults.append(f"unexpected items still remain in namespace: {name} for gvr: {kind}")
    if not faults:
        return None
    message = f"Failed to delete all resource types, {len(faults)} remaining: {', '.join(sorted(faults))}"
    return "ContentDeletionFailed", message


def _content(left: Sequence[Remaining]) -> tuple[str, str] | None:
    kinds = sorted(
        f"{each.resource.plural}.{each.resource.group} has {each.count} resource instances"
        for each in left
        if each.count
    )
    return ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(kinds)}") if kinds else None


def _finalizers(left: Sequence[Remaining]) -> tuple[str, str] | None:
    total: Counter[str] = Counter()
    for each in left:
        total.update(each.finalizers)
    holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(total.items()))
    message = f"Some content in the namespace has finalizers remaining: {holding}"
    return ("SomeFinalizersRemain", message) if holding else None
