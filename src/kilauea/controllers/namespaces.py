"""The controller of namespaces: deletes the content of a namespace, pods first, then the namespace itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kilauea.api.kinds import NAMESPACES, PODS
from kilauea.api.ports import (
    Empty,
    Interest,
    Key,
    Operation,
    Outcome,
    Patch,
    Remaining,
    Replace,
    Resource,
    View,
)
from kilauea.controllers.kinds import DEFINED_KINDS, stored_kinds
from kilauea.controllers.namespace_conditions import deletion_conditions
from kilauea.controllers.objects import NOTHING, is_going, own_key, spec_of

FINALIZER = "kubernetes"
"""Keeps a namespace, in its `spec.finalizers`, until it is empty."""


AGAIN_SECONDS = 5.0
"""Seconds until the next reconciliation of a namespace if not all kinds are known."""


class Discovered(NamedTuple):
    """The kinds of aggregated API servers.

    Attributes:
        kinds: the known kinds.
        failing: group versions whose server is unavailable, as `GROUP/VERSION`.
    """

    kinds: Sequence[Resource] = ()
    failing: Sequence[str] = ()


class NamespaceController:
    """Completes the deletion of namespaces.

    Args:
        discover: finds the kinds of aggregated API servers.
    """

    name = "namespace-controller"
    interests = (Interest(NAMESPACES, own_key), DEFINED_KINDS)

    def __init__(self, discover: Callable[[], Discovered] = Discovered) -> None:
        self._discover = discover

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Delete everything in a namespace that is being deleted, then remove its finalizer.

        Other kinds are deleted when no pods are left, so that pods do not run without their network policies, secrets
        and so on. Remaining objects are reported in the conditions of the namespace. It also stays while the server of
        some kinds is unavailable, which may have objects of the namespace.
        """
        namespace = view.get(NAMESPACES, key)
        if namespace is None or not is_going(namespace):
            return NOTHING
        finalizers = spec_of(namespace).get("finalizers") or []
        if FINALIZER not in finalizers:
            return NOTHING
        kept = [each for each in finalizers if each != FINALIZER]

        found = self._discover()

        def report(left: Sequence[Remaining], *, last: bool = True) -> Patch | None:
            if not left and not (last and (kept or found.failing)):  # more must be checked, or it is deleted at once
                return None
            conditions = deletion_conditions(namespace, left, now, found.failing)
            change = {"status": {"conditions": conditions}}
            return Patch(NAMESPACES, key, change, subresource="status") if conditions else None

        others = [each for each in (*stored_kinds(view), *found.kinds) if each.namespaced and each != PODS]
        released = {**namespace, "spec": {**spec_of(namespace), "finalizers": kept}}
        pods = Empty([PODS], key.name, report=partial(report, last=False))
        emptied: list[Operation] = [pods, Empty(others, key.name, report=report)]
        if found.failing:
            return Outcome(emptied, again=AGAIN_SECONDS)
        return Outcome([*emptied, Replace(NAMESPACES, released, "finalize")])
