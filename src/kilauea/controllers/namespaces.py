"""The controller of namespaces: one that is being deleted is emptied, pods first, then released."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kilauea.api.kinds import DEFINITIONS, NAMESPACES, PODS
from kilauea.api.ports import Empty, Interest, Key, Outcome, Patch, Remaining, Replace, View, no_keys
from kilauea.controllers.namespace_conditions import deletion_conditions
from kilauea.controllers.objects import NOTHING, is_going, own_key, spec_of, stored_kinds

FINALIZER = "kubernetes"
"""Holds a namespace, in its `spec.finalizers`, until it is empty."""


class NamespaceController:
    """Brings the deletion of namespaces to its end."""

    name = "namespace-controller"
    interests = (Interest(NAMESPACES, own_key), Interest(DEFINITIONS, no_keys))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Delete everything in a namespace that is being deleted, then take its finalizer.

        Other kinds are deleted when no pod is left, so that no pod runs without its network policies, secrets and
        the like. While something is left, the conditions of the namespace say what.
        """
        namespace = view.get(NAMESPACES, key)
        if namespace is None or not is_going(namespace):
            return NOTHING
        finalizers = spec_of(namespace).get("finalizers") or []
        if FINALIZER not in finalizers:
            return NOTHING
        kept = [each for each in finalizers if each != FINALIZER]

        def report(left: Sequence[Remaining], *, last: bool = True) -> Patch | None:
            if not left and not (last and kept):  # more is looked at, or it goes at once
                return None
            conditions = deletion_conditions(namespace, left, now)
            change = {"status": {"conditions": conditions}}
            return Patch(NAMESPACES, key, change, subresource="status") if conditions else None

        others = [each for each in stored_kinds(view) if each.namespaced and each != PODS]
        released = {**namespace, "spec": {**spec_of(namespace), "finalizers": kept}}
        pods = Empty([PODS], key.name, report=partial(report, last=False))
        return Outcome([pods, Empty(others, key.name, report=report), Replace(NAMESPACES, released, "finalize")])
