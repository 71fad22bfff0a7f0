"""Volumes: the default class, protection of objects in use, and expansion of claims."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.amounts import ZERO, parse
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.view import Metadata, Record, default_of, reader

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_MARKS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_CLASSES = "/storage.k8s.io/storageclasses/"
_PROTECTION = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class _Class(Record, frozen=True):
    """A storage class."""

    metadata: Metadata
    allow_volume_expansion: bool | None = None


_read = reader(_Class)


class DefaultStorageClass(AdmissionStep):
    """Sets the default class in claims without one."""

    name = "DefaultStorageClass"
    kinds = frozenset({("", "persistentvolumeclaims")})

    def mutate(self, attributes: Attributes) -> None:
        """Set the class."""
        obj = attributes.obj
        if attributes.operation != "CREATE" or not _is_claim(attributes) or obj is None:
            return
        spec = obj.setdefault("spec", {})
        if spec.get("storageClassName") is not None or _CLASS_ANNOTATION in (obj["metadata"].get("annotations") or ()):
            return
        found = _default_class(attributes)
        if found:
            spec["storageClassName"] = found


class StorageObjectInUseProtection(AdmissionStep):
    """Adds the finalizer that protects claims, volumes and classes of attributes in use."""

    name = "StorageObjectInUseProtection"
    kinds = frozenset(_PROTECTION)

    def mutate(self, attributes: Attributes) -> None:
        """Add the finalizer to a new object."""
        resource, obj = attributes.resource, attributes.obj
        finalizer = _PROTECTION.get((resource.group, resource.plural))
        if finalizer is None or attributes.operation != "CREATE" or obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, finalizer]


class PersistentVolumeClaimResize(AdmissionStep):
    """Allows only bound claims to grow, and only if their class allows it."""

    name = "PersistentVolumeClaimResize"
    kinds = frozenset({("", "persistentvolumeclaims")})

    def validate(self, attributes: Attributes) -> None:
        """Reject growth that is not supported."""
        obj, old = attributes.obj, attributes.old
        if not _is_claim(attributes) or obj is None or old is None or _size(obj).nanos <= _size(old).nanos:
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise forbidden(attributes, "Only bound persistent volume claims can be expanded")
        name = class_of(obj)
        stored = attributes.backend.store.get(f"{_CLASSES}{name}") if name else None
        if stored is None or name != class_of(old) or not _read(stored.value).allow_volume_expansion:
            message = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize"
            )
            raise forbidden(attributes, message)


def class_of(claim: dict[str, Any]) -> str:
    """Return the storage class of a claim; empty if it has none."""
    named = (claim["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    return str(named if named is not None else (claim.get("spec") or {}).get("storageClassName") or "")


def _is_claim(attributes: Attributes) -> bool:
    resource = attributes.resource
    return resource.plural == "persistentvolumeclaims" and not resource.group and not attributes.subresource


def _size(claim: dict[str, Any]) -> Any:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse(requests["storage"]) if "storage" in requests else ZERO


def _default_class(attributes: Attributes) -> str:
    """Return the name of the default class."""
    classes = [_read(each.value).metadata for each in attributes.backend.store.list(_CLASSES).items]
    return default_of(classes, _MARKS)
