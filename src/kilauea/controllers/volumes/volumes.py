"""The controller of volumes: handles volumes whose claim was deleted, and finds claims for free ones."""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.api.kinds import CLAIMS, NODES, STORAGE_CLASSES, VOLUMES
from kilauea.api.ports import Delete, Interest, Key, Obj, Operation, Outcome, View, key_of, no_keys
from kilauea.api.wellknown import SELECTED_NODE
from kilauea.controllers.objects import NOTHING, annotations_of, is_going, own_key, spec_of, status_patch, uid_of
from kilauea.controllers.volumes.binding import PROVISIONED_BY, bound
from kilauea.controllers.volumes.claims import class_index
from kilauea.controllers.volumes.matching import class_of, is_bound, suits

WAITING = "waiting in class"


def waiting_index(claim: Obj) -> str:
    """An index: the class of a claim without a volume."""
    return "" if is_bound(claim) or is_going(claim) else class_index(claim)


def _volume_of(claim: Obj) -> Iterable[Key]:
    name = spec_of(claim).get("volumeName")
    return (Key("", name),) if name else ()


class VolumeController:
    """Updates the phase of volumes, and deletes volumes that were provisioned for deleted claims."""

    name = "persistentvolume-controller"
    interests = (
        Interest(VOLUMES, own_key),
        Interest(CLAIMS, _volume_of, indexes={WAITING: waiting_index}),
        Interest(STORAGE_CLASSES, no_keys),
        Interest(NODES, no_keys),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Reconcile a volume."""
        volume = view.get(VOLUMES, key)
        if volume is None:
            return NOTHING
        reference = spec_of(volume).get("claimRef") or {}
        claim = view.get(CLAIMS, Key(reference["namespace"], reference["name"])) if reference else None
        held = claim is not None and uid_of(claim) == reference.get("uid")
        if is_going(volume):
            return NOTHING
        if held:
            return NOTHING
        if reference.get("uid"):
            return Outcome(_released(volume))
        taker = None if reference else _taker(view, volume)
        if taker is not None:
            return Outcome(bound(taker, volume))
        return Outcome(status_patch(VOLUMES, volume, {"phase": "Available"}))


def _taker(view: View, volume: Obj) -> Obj | None:
    """The claim that has waited longest for such a volume."""
    storage_class = view.get(STORAGE_CLASSES, Key("", class_of(volume)))
    waits = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    found = []
    for claim in view.indexed(CLAIMS, WAITING, class_index(volume)):
        node = view.get(NODES, Key("", annotations_of(claim).get(SELECTED_NODE, "")))
        if (node is not None or not waits) and suits(volume, claim, node):
            found.append(claim)
    return min(found, key=lambda claim: (claim["metadata"]["creationTimestamp"], key_of(claim)), default=None)


def _released(volume: Obj) -> list[Operation]:
    """Release a volume of a deleted claim: delete it if it was provisioned, otherwise keep it for its owner."""
    operations: list[Operation] = [*status_patch(VOLUMES, volume, {"phase": "Released"})]
    if spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete" and PROVISIONED_BY in annotations_of(volume):
        operations.append(Delete(VOLUMES, key_of(volume), uid_of(volume)))
    return operations
