"""The controller of namespaces: one that is being deleted is emptied, then released."""

from __future__ import annotations

from kilauea.api.kinds import DEFINITIONS, NAMESPACES
from kilauea.api.ports import Empty, Interest, Key, Outcome, Replace, View
from kilauea.controllers.objects import NOTHING, is_going, no_keys, own_key, spec_of, stored_kinds

FINALIZER = "kubernetes"
"""Holds a namespace, in its `spec.finalizers`, until it is empty."""


class NamespaceController:
    """Brings the deletion of namespaces to its end."""

    name = "namespace-controller"
    interests = (Interest(NAMESPACES, own_key), Interest(DEFINITIONS, no_keys))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Delete everything in a namespace that is being deleted, then take its finalizer."""
        namespace = view.get(NAMESPACES, key)
        if namespace is None or not is_going(namespace):
            return NOTHING
        finalizers = spec_of(namespace).get("finalizers") or []
        if FINALIZER not in finalizers:
            return NOTHING
        kinds = [each for each in stored_kinds(view) if each.namespaced]
        kept = [each for each in finalizers if each != FINALIZER]
        released = {**namespace, "spec": {**spec_of(namespace), "finalizers": kept}}
        return Outcome([Empty(kinds, key.name), Replace(NAMESPACES, released, "finalize")])
