"""Protection: a finalizer keeps deleted claims, volumes and classes of attributes as long as they are in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kilauea.api.kinds import ATTRIBUTES_CLASSES, CLAIMS, PODS, VOLUMES
from kilauea.api.ports import Interest, Key, Obj, Outcome, View
from kilauea.controllers.objects import NOTHING, is_going, own_key, spec_of, status_of, uid_of, without_finalizer
from kilauea.controllers.pods import is_finished
from kilauea.controllers.volumes.claims import CLAIMS_OF, claims_of

PODS_IN_USE = ("spec.nodeName", "status.phase", *CLAIMS_OF)
"""Fields of pods that determine the claims in use: most pods have no claims, and whole ones take much memory."""
SIGNS = ("spec.volumes[].persistentVolumeClaim", "spec.volumes[].ephemeral")
"""Fields that the volumes of pods with claims have."""
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
CLASS_PROTECTION = "kubernetes.io/vac-protection"
OF_CLAIM, OF_CLASS = "claim", "spec.volumeAttributesClassName"
"""Indexes of pods by their claims, and of claims and volumes by their classes of attributes."""


def _claim_index(pod: Obj) -> tuple[str, ...]:
    return tuple(map(str, dict.fromkeys(claims_of(pod))))


class ClaimProtectionController:
    """Releases claims that are being deleted, once no pod on a node uses them."""

    name = "persistentvolumeclaim-protection-controller"
    interests = (
        Interest(CLAIMS, own_key),
        Interest(PODS, claims_of, indexes={OF_CLAIM: _claim_index}, delay=0.1, fields=PODS_IN_USE, signs=SIGNS),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Remove the finalizer from a claim that is not in use."""
        claim = view.get(CLAIMS, key)
        if claim is None or not is_going(claim):
            return NOTHING
        if any(_is_on_node(pod) for pod in view.indexed(PODS, OF_CLAIM, str(key))):
            return NOTHING
        return Outcome(without_finalizer(CLAIMS, claim, CLAIM_PROTECTION))


def _is_on_node(pod: Obj) -> bool:
    """Return True if a pod uses its claims. One without a node is not started while its claim is deleted."""
    return bool(spec_of(pod).get("nodeName")) and not is_finished(pod)


def _volume_of(claim: Obj) -> Iterable[Key]:
    name = spec_of(claim).get("volumeName")
    return (Key("", name),) if name else ()


class VolumeProtectionController:
    """Releases volumes that are being deleted, once they are not bound."""

    name = "persistentvolume-protection-controller"
    interests = (Interest(VOLUMES, own_key), Interest(CLAIMS, _volume_of))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Remove the finalizer from a volume that is not in use."""
        volume = view.get(VOLUMES, key)
        if volume is None or not is_going(volume) or _is_held(view, volume):
            return NOTHING
        return Outcome(without_finalizer(VOLUMES, volume, VOLUME_PROTECTION))


def _is_held(view: View, volume: Obj) -> bool:
    """Return True if a volume is bound and its claim still exists."""
    reference = spec_of(volume).get("claimRef")
    if not reference:
        return status_of(volume).get("phase") == "Bound"
    claim = view.get(CLAIMS, Key(reference["namespace"], reference["name"]))
    return claim is not None and uid_of(claim) == reference.get("uid")


def _class_of_volume(volume: Obj) -> Iterable[Key]:
    name = spec_of(volume).get("volumeAttributesClassName")
    return (Key("", name),) if name else ()


def _classes_of_claim(claim: Obj) -> Iterable[Key]:
    """The classes that a claim requests, has, and changes to."""
    status = status_of(claim)
    changing = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (
        spec_of(claim).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        changing,
    )
    return [Key("", name) for name in dict.fromkeys(names) if name]


def _names(keys: Callable[[Obj], Iterable[Key]]) -> Callable[[Obj], tuple[str, ...]]:
    """An index by the names of keys."""
    return lambda obj: tuple(key.name for key in keys(obj))


class AttributesClassProtectionController:
    """Releases classes of volume attributes that are being deleted, once no claim and no volume uses them."""

    name = "volumeattributesclass-protection-controller"
    interests = (
        Interest(ATTRIBUTES_CLASSES, own_key),
        Interest(VOLUMES, _class_of_volume, indexes={OF_CLASS: _names(_class_of_volume)}),
        Interest(CLAIMS, _classes_of_claim, indexes={OF_CLASS: _names(_classes_of_claim)}),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Remove the finalizer from a class that is not in use."""
        found = view.get(ATTRIBUTES_CLASSES, key)
        if found is None or not is_going(found):
            return NOTHING
        if any(len(view.indexed(kind, OF_CLASS, key.name)) for kind in (VOLUMES, CLAIMS)):
            return NOTHING
        return Outcome(without_finalizer(ATTRIBUTES_CLASSES, found, CLASS_PROTECTION))
