"""The storage class of a cluster that has none, so that claims without a class can be bound."""

from __future__ import annotations

from kilauea.api.kinds import STORAGE_CLASSES
from kilauea.api.ports import Create, Interest, Key, Outcome, View, no_keys
from kilauea.api.wellknown import DEFAULT_STORAGE_CLASS
from kilauea.controllers.objects import NOTHING

STANDARD = {
    "apiVersion": STORAGE_CLASSES.api_version,
    "kind": STORAGE_CLASSES.kind,
    "metadata": {"name": "standard", "annotations": {DEFAULT_STORAGE_CLASS: "true"}},
    "provisioner": "kilauea.dev/simulated",
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""The class that is created; `ClaimController` provisions its volumes."""

_MARKS = (DEFAULT_STORAGE_CLASS, "storageclass.beta.kubernetes.io/is-default-class")


def default_class(view: View) -> str:
    """The name of the default class: the newest of those marked as default, then the first by name."""
    metas = [each["metadata"] for each in view.list(STORAGE_CLASSES)]
    marked = [each for each in metas if any((each.get("annotations") or {}).get(key) == "true" for key in _MARKS)]
    marked.sort(key=lambda each: str(each["name"]))
    return str(max(marked, key=lambda each: each.get("creationTimestamp") or "")["name"]) if marked else ""


class DefaultClassController:
    """Creates a default class at the start, if there is no class at all."""

    name = "default-storage-class-controller"
    interests = (Interest(STORAGE_CLASSES, no_keys, always=(Key("", "standard"),)),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create the class if there is none."""
        return NOTHING if view.list(STORAGE_CLASSES) else Outcome([Create(STORAGE_CLASSES, STANDARD)])
