"""The rules of volumes, claims and storage classes."""

from __future__ import annotations

from kilauea.api.wellknown import BETA_STORAGE_CLASS
from kilauea.apiserver.fields import forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.core import Plain
from kilauea.apiserver.strategies.placement import check_node_selector
from kilauea.apiserver.strategies.pod_warnings import volume_source_warnings
from kilauea.apiserver.strategies.quantities import amount, check_amounts

_ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHARED_PARTS = frozenset(
    "capacity accessModes claimRef persistentVolumeReclaimPolicy storageClassName mountOptions volumeMode nodeAffinity "
    "volumeAttributesClassName".split()
)


class Volumes(Strategy):
    """Persistent volumes: what is behind them never changes."""

    has_generation = False
    answers_deleted_object = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"]}

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = _check_access("spec.accessModes", spec)
        if not spec.get("capacity"):
            causes.append(required("spec.capacity"))
        elif "storage" not in spec["capacity"]:
            causes.append(not_supported("spec.capacity", list(spec["capacity"]), ["storage"]))
        causes += check_amounts("spec.capacity", spec.get("capacity") or {})
        if not [key for key in spec if key not in _SHARED_PARTS]:
            causes.append(required("spec", "must specify a volume type"))
        needed = (spec.get("nodeAffinity") or {}).get("required")
        return causes + (check_node_selector("spec.nodeAffinity.required", needed) if needed else [])

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if _source(obj) != _source(old):
            return [
                forbidden_field(
                    "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
                )
            ]
        return []

    def warnings(self, obj: Object) -> list[str]:
        return volume_source_warnings("spec", spec_of(obj))


def _source(obj: Object) -> Object:
    return {key: value for key, value in spec_of(obj).items() if key not in _SHARED_PARTS}


class Claims(Strategy):
    """Persistent volume claims: once made they can only be bound and grow."""

    has_generation = False
    answers_deleted_object = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        spec = spec_of(obj)
        source = spec.get("dataSource")
        if source and not spec.get("dataSourceRef"):
            spec["dataSourceRef"] = {"apiGroup": source.get("apiGroup"), "kind": source["kind"], "name": source["name"]}

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        requests = (spec.get("resources") or {}).get("requests") or {}
        causes = _check_access("spec.accessModes", spec)
        if "storage" not in requests:
            causes.append(required("spec.resources[storage]"))
        else:
            size = amount(str(requests["storage"]))
            if size is not None and size <= 0:
                message = "must be greater than zero"
                causes.append(invalid_value("spec.resources[storage]", requests["storage"], message))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        free = {"resources", "volumeAttributesClassName"} | (set() if before.get("volumeName") else {"volumeName"})
        if before.get("storageClassName") is None and not (_names_class(obj) or _names_class(old)):
            free.add("storageClassName")  # the default class may come later than the claim
        fixed = {key: value for key, value in spec.items() if key not in free}
        if fixed == {key: value for key, value in before.items() if key not in free}:
            return []
        message = "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        return [forbidden_field("spec", message + "bound claims")]


def _names_class(claim: Object) -> bool:
    """Return True if a claim names its class by the annotation that came before the field."""
    return BETA_STORAGE_CLASS in (claim["metadata"].get("annotations") or {})


def _check_access(path: str, spec: Object) -> list[Cause]:
    modes = spec.get("accessModes") or []
    if not modes:
        return [required(path, "at least 1 access mode is required")]
    return [not_supported(path, mode, _ACCESS) for mode in modes if mode not in _ACCESS]


class StorageClasses(Plain):
    """Storage classes: only what they allow may change."""

    answers_deleted_object = True

    def validate(self, obj: Object) -> list[Cause]:
        return [] if obj.get("provisioner") else [required("provisioner")]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = []
        if obj.get("parameters") != old.get("parameters"):
            causes.append(forbidden_field("parameters", "updates to parameters are forbidden."))
        if obj.get("provisioner") != old.get("provisioner"):
            causes.append(forbidden_field("provisioner", "updates to provisioner are forbidden."))
        for field in ("reclaimPolicy", "volumeBindingMode"):
            if obj.get(field) != old.get(field):
                causes.append(invalid_value(field, obj.get(field), "field is immutable"))
        return causes


class StorageObjects(Plain):
    """Nodes and drivers of container storage."""

    answers_deleted_object = True


class Drivers(StorageObjects):
    """Drivers of container storage."""

    def warnings(self, obj: Object) -> list[str]:
        if spec_of(obj).get("tokenRequests") and spec_of(obj).get("serviceAccountTokenInSecrets") is None:
            return [_TOKENS_IN_ATTRIBUTES]
        return []


_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
