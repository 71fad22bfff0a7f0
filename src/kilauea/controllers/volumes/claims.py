"""The controller of claims: binds each to a volume."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kilauea.api.kinds import CLAIMS, CSI_CAPACITIES, NODES, PODS, STORAGE_CLASSES, VOLUMES
from kilauea.api.ports import Interest, Key, Obj, Outcome, Patch, Record, View, key_of, no_keys
from kilauea.api.wellknown import BETA_STORAGE_CLASS, BIND_COMPLETED, NO_PROVISIONER, SELECTED_NODE
from kilauea.controllers.objects import NOTHING, annotations_of, is_going, own_key, spec_of
from kilauea.controllers.volumes.binding import announced, bound, lost, provisioned
from kilauea.controllers.volumes.classes import default_class
from kilauea.controllers.volumes.matching import best, class_of, is_bound, refers_to, segment_of

FREE, RESERVED = "free in class", "spec.claimRef"
"""Indexes of volumes, so that a claim does not look at those of all others."""
CLAIMS_OF = (
    "spec.volumes[].name",
    "spec.volumes[].persistentVolumeClaim.claimName",
    "spec.volumes[].ephemeral",
)
"""Fields of a pod that contain its claims."""
RETRY_SECONDS = 15.0
"""Seconds until a claim checks again for a missing object."""


def claims_of(pod: Obj) -> Iterator[Key]:
    """The claims that a pod uses."""
    namespace = pod["metadata"]["namespace"]
    for volume in spec_of(pod).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield Key(namespace, volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            yield Key(namespace, f"{pod['metadata']['name']}-{volume['name']}")


def _claim_of(volume: Obj) -> Iterable[Key]:
    reference = spec_of(volume).get("claimRef")
    return (Key(reference["namespace"], reference["name"]),) if reference else ()


def _free_index(volume: Obj) -> str:
    """An index: the class of a volume that no claim has."""
    return "" if spec_of(volume).get("claimRef") else class_index(volume)


def _reserved_index(volume: Obj) -> str:
    """An index: the claim of a volume, `namespace/name`."""
    return next(map(str, _claim_of(volume)), "")


def class_index(obj: Obj) -> str:
    """An index: the class of a volume or a claim; a space if it has none."""
    return class_of(obj) or " "


class ClaimController:
    """Binds claims.

    Args:
        provisioners: provisioners whose volumes are created here; None for all.
    """

    name = "persistentvolume-binder-controller"
    interests = (
        Interest(CLAIMS, own_key),
        Interest(VOLUMES, _claim_of, indexes={FREE: _free_index, RESERVED: _reserved_index}),
        Interest(PODS, claims_of, delay=0.1),
        Interest(STORAGE_CLASSES, no_keys),
        Interest(NODES, no_keys),
        Interest(CSI_CAPACITIES, no_keys),
    )

    def __init__(self, provisioners: Collection[str] | None = None) -> None:
        self._provisioners = provisioners

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Bind a claim, or report the reason why it waits."""
        claim = view.get(CLAIMS, key)
        if claim is None:
            return NOTHING
        if is_going(claim):
            return NOTHING
        if is_bound(claim):
            volume = view.get(VOLUMES, Key("", spec_of(claim)["volumeName"]))
            if volume is not None and (refers_to(volume, claim) or not spec_of(volume).get("claimRef")):
                return Outcome(bound(claim, volume))
            return Outcome(lost(claim)) if BIND_COMPLETED in annotations_of(claim) else Outcome((), RETRY_SECONDS)
        return self._find(view, claim)

    def _find(self, view: View, claim: Obj) -> Outcome:
        """Bind a claim to an existing volume, or provision one."""
        name = class_of(claim)
        storage_class = view.get(STORAGE_CLASSES, Key("", name)) if name else None
        node = view.get(NODES, Key("", annotations_of(claim).get(SELECTED_NODE, "")))
        waits = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        reserved = view.indexed(VOLUMES, RESERVED, str(key_of(claim)))
        free = () if waits and node is None else view.indexed(VOLUMES, FREE, class_index(claim))
        volume = best([*reserved, *free], claim, node)
        if volume is not None:
            return Outcome(bound(claim, volume))
        if waits and node is None:
            return _told(
                claim, "Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
            )
        return self._make(view, claim, storage_class, node)

    def _make(self, view: View, claim: Obj, storage_class: Any, node: Obj | None) -> Outcome:
        if not class_of(claim):
            return _classless(view, claim)
        if storage_class is None:
            message = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
            return _told(claim, "Warning", "ProvisioningFailed", message, RETRY_SECONDS)
        provisioner = str(storage_class.get("provisioner", ""))
        if provisioner == NO_PROVISIONER:
            return _told(claim, "Normal", "FailedBinding", "no persistent volumes available for this claim")
        if self._provisioners is None or provisioner in self._provisioners:
            segment = segment_of(view.list(CSI_CAPACITIES), claim, node)
            return Outcome(provisioned(claim, storage_class, segment))
        message = f"Waiting for a volume to be created by the external provisioner '{provisioner}'"
        return Outcome([*announced(claim, provisioner), Record(claim, "Normal", "ExternalProvisioning", message)])


def _classless(view: View, claim: Obj) -> Outcome:
    """Assign the default class, which may be created later, to a claim without a class; an empty class name waits."""
    names_none = spec_of(claim).get("storageClassName") is None and BETA_STORAGE_CLASS not in annotations_of(claim)
    default = default_class(view) if names_none else ""
    if default:
        return Outcome([Patch(CLAIMS, key_of(claim), {"spec": {"storageClassName": default}})])
    message = "no persistent volumes available for this claim and no storage class is set"
    return _told(claim, "Normal", "FailedBinding", message, RETRY_SECONDS if names_none else None)


def _told(claim: Obj, type: Any, reason: str, words: str, again: float | None = None) -> Outcome:
    return Outcome([Record(claim, type, reason, words)], again)
