"""The controller of namespaces: the content of a deleted one is removed, pods first, then the namespace."""

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
"""Holds a namespace, in its `spec.finalizers`, until it is empty."""


AGAIN_SECONDS = 5.0
"""Seconds after which a namespace is looked at again whose kinds are not all known."""


class Discovered(NamedTuple):
    """The kinds of aggregated API servers.

    Attributes:
        kinds: that are known.
        failing: versions of groups whose server is away, as `GROUP/VERSION`.
    """

    kinds: Sequence[Resource] = ()
    failing: Sequence[str] = ()


class NamespaceController:
    """Brings the deletion of namespaces to its end.

    Args:
        discover: finds the kinds of aggregated API servers.
    """

    name = "namespace-controller"
    interests = (Interest(NAMESPACES, own_key), DEFINED_KINDS)

    def __init__(self, discover: Callable[[], Discovered] = Discovered) -> None:
        self._discover = discover

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Delete everything in a namespace that is being deleted, then take its finalizer.

        Other kinds are deleted when no pod is left, so that no pod runs without its network policies, secrets and
        the like. While something is left, the conditions of the namespace say what. It also stays as long as the server
        of some kinds is away, which may have objects of the namespace.
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
            if not left and not (last and (kept or found.failing)):  # more is looked at, or it goes at once
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
