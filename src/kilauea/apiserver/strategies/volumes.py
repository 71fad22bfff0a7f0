"""The rules of persistent volumes and claims."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kilauea.api.names import subdomain_problems
from kilauea.api.wellknown import BETA_STORAGE_CLASS
from kilauea.apiserver.fields import (
    check_annotations,
    check_label_selector,
    check_labels,
    check_name,
    check_word,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.old_labels import old_keys
from kilauea.apiserver.strategies.placement import check_node_selector
from kilauea.apiserver.strategies.quantities import amount, claim_warnings
from kilauea.apiserver.strategies.volume_sources import VOLUME_KINDS, check_source, volume_source_warnings

_ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM, _MODES = ("Delete", "Recycle", "Retain"), ("Block", "Filesystem")
_RECYCLED = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach "
    "is to use dynamic provisioning."
)
_UNTOLD = ("flocker", "quobyte")
"""Kinds of volumes that are deprecated, and warned of only in pods."""
_OLD_CLASS, _OLD_OPTIONS = "volume.beta.kubernetes.io/storage-class", "volume.beta.kubernetes.io/mount-options"
_WITH_OPTIONS = frozenset(
    "awsElasticBlockStore azureDisk azureFile cephfs cinder gcePersistentDisk glusterfs iscsi nfs photonPersistentDisk "
    "quobyte rbd vsphereVolume".split()
)
"""Kinds of volumes for which the older annotation may set mount options."""
_INSTEAD = {
    _OLD_CLASS: 'deprecated since v1.8; use "storageClassName" attribute instead',
    _OLD_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_CLAIM = "PersistentVolumeClaim"
_EMPTY = {"apiGroup": None, "kind": "", "name": ""}
"""The fields of a data source of a claim, and their values when omitted."""
_NOT_IN_TEMPLATES = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
_SHARED_PARTS = frozenset(
    "capacity accessModes claimRef persistentVolumeReclaimPolicy storageClassName mountOptions volumeMode nodeAffinity "
    "volumeAttributesClassName".split()
)


class Volumes(Strategy):
    """Persistent volumes, whose source is immutable."""

    always_warns = True
    has_generation = False
    answers_deleted_object = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"]}

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a volume."""
        spec = spec_of(obj)
        causes = [*_check_access("spec.accessModes", spec.get("accessModes") or []), *_check_capacity(spec)]
        reclaim, affinity = spec.get("persistentVolumeReclaimPolicy"), spec.get("nodeAffinity")
        causes += check_word("spec.persistentVolumeReclaimPolicy", reclaim, _RECLAIM)
        if affinity is not None:
            needed = affinity.get("required")
            where = "spec.nodeAffinity.required"
            if needed is None:
                causes.append(required(where, "must specify required node constraints"))
            else:
                causes += check_node_selector(where, needed)
        causes += _check_volume_source(spec)
        if (spec.get("hostPath") or {}).get("path") == "/" and reclaim == "Recycle":
            message = "may not be 'recycle' for a hostPath mount of '/'"
            causes.append(forbidden_field("spec.persistentVolumeReclaimPolicy", message))
        causes += _check_class("spec.storageClassName", spec.get("storageClassName"))
        causes += check_word("spec.volumeMode", spec.get("volumeMode"), _MODES)
        attributes = spec.get("volumeAttributesClassName")
        if attributes == "":
            causes.append(required("spec.volumeAttributesClassName", "an empty string is disallowed"))
        elif attributes is not None:
            causes += check_name("spec.volumeAttributesClassName", attributes, subdomain_problems(attributes))
        if attributes and spec.get("csi") is None:
            message = "has to be specified when using volumeAttributesClassName"
            causes.append(required("spec.csi", message))
        given = obj["metadata"].get("annotations") or {}
        if _OLD_OPTIONS in given and _WITH_OPTIONS.isdisjoint(spec):
            message = "may not specify mount options for this volume type"
            causes.append(forbidden_field(f"metadata.annotations.{_OLD_OPTIONS}", message))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = []
        if _source(obj) != _source(old):
            message = "spec.persistentvolumesource is immutable after creation"
            causes.append(forbidden_field("spec.persistentvolumesource", message))
        spec, before = spec_of(obj), spec_of(old)
        if spec.get("volumeMode") != before.get("volumeMode"):
            causes.append(invalid_value("volumeMode", spec.get("volumeMode"), "field is immutable"))
        if before.get("nodeAffinity") is not None and spec.get("nodeAffinity") != before["nodeAffinity"]:
            message = "field is immutable, except for updating from beta label to GA"
            causes.append(invalid_value("nodeAffinity", spec.get("nodeAffinity"), message))
        return causes

    def warnings(self, obj: Object) -> list[str]:
        spec = spec_of(obj)
        found = _annotation_warnings(obj, _OLD_CLASS, _OLD_OPTIONS)
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            found.append(_RECYCLED)
        required_nodes = (spec.get("nodeAffinity") or {}).get("required") or {}
        for number, term in enumerate(required_nodes.get("nodeSelectorTerms") or []):
            found += old_keys(f"spec.nodeAffinity.required.nodeSelectorTerms[{number}]", term)
        return found + volume_source_warnings("spec", {name: spec[name] for name in spec if name not in _UNTOLD})


def _annotation_warnings(obj: Object, *annotations: str) -> list[str]:
    """Warn about annotations that are deprecated in favour of fields."""
    given = obj["metadata"].get("annotations") or {}
    return [f"metadata.annotations[{name}]: {_INSTEAD[name]}" for name in annotations if name in given]


def _check_capacity(spec: Object) -> Iterator[Cause]:
    """Check that the capacity has only the size of the volume."""
    capacity, path = spec.get("capacity") or {}, "spec.capacity"
    if not capacity:
        yield required(path)
    if "storage" not in capacity or len(capacity) > 1:
        told = None if spec.get("capacity") is None else dict(sorted(capacity.items()))
        yield not_supported(path, told, ["storage"])
    for name, text in capacity.items():
        size = amount(str(text))
        if size is not None and size < 0:
            yield invalid_value(f"{path}[{name}]", int(size), "must be a valid resource quantity")
        if size is not None and size <= 0:
            yield invalid_value(f"{path}[{name}]", text, "must be greater than zero")


_NOT_INLINE = "may not be specified in the context of inline volumes"


def check_inline_volume(path: str, spec: Object) -> Iterator[Cause]:
    """Check the inline volume of an attachment, which must be a CSI volume."""
    for field in ("capacity", "claimRef"):
        if spec.get(field) is not None:
            yield forbidden_field(f"{path}.{field}", _NOT_INLINE)
    if spec.get("csi") is None:
        yield required(f"{path}.csi", "has to be specified in the context of inline volumes")
    yield from _check_access(f"{path}.accessModes", spec.get("accessModes") or [])
    if (spec.get("persistentVolumeReclaimPolicy") or "Retain") != "Retain":
        where = f"{path}.persistentVolumeReclaimPolicy"
        yield forbidden_field(where, "may only be Retain in the context of inline volumes")
    if spec.get("nodeAffinity") is not None:
        yield forbidden_field(f"{path}.nodeAffinity", _NOT_INLINE)
    kinds = [key for key in VOLUME_KINDS if spec.get(key) is not None]
    if "csi" in kinds:
        yield from check_source("csi", spec["csi"], f"{path}.csi")
    if spec.get("storageClassName"):
        yield forbidden_field(f"{path}.storageClassName", _NOT_INLINE)
    if (spec.get("volumeMode") or "Filesystem") != "Filesystem":
        message = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield forbidden_field(f"{path}.volumeMode", message)


def _check_volume_source(spec: Object) -> Iterator[Cause]:
    """Check that a volume has exactly one source."""
    kinds = [key for key in VOLUME_KINDS if spec.get(key) is not None]
    if not kinds:
        if not [key for key in spec if key not in _SHARED_PARTS]:
            yield required("spec", "must specify a volume type")
        return
    yield from check_source(kinds[0], spec[kinds[0]], f"spec.{kinds[0]}")
    for kind in kinds[1:]:
        if kind == "flexVolume":  # the real server does not count it
            yield from check_source(kind, spec[kind], f"spec.{kind}")
            continue
        yield forbidden_field(f"spec.{kind}", "may not specify more than 1 volume type")
    if "local" in kinds and spec.get("nodeAffinity") is None:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")


def _check_class(path: str, name: str | None) -> list[Cause]:
    """Check the name of a class, if set."""
    return check_name(path, name, subdomain_problems(name)) if name else []


def _fill_data_sources(spec: Object) -> None:
    """Set the older field for the source of a claim from the newer one, and the reverse."""
    source, newer = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not newer:
        spec["dataSourceRef"] = {part: source.get(part, _EMPTY[part]) for part in _EMPTY}
    elif newer and not source and not newer.get("namespace"):
        spec["dataSource"] = {part: newer.get(part, _EMPTY[part]) for part in _EMPTY}


def _source(obj: Object) -> Object:
    return {key: value for key, value in spec_of(obj).items() if key not in _SHARED_PARTS}


class Claims(Strategy):
    """Persistent volume claims, which after creation can only be bound and grow."""

    always_warns = True
    has_generation = False
    answers_deleted_object = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        spec = spec_of(obj)
        if (spec.get("dataSourceRef") or {}).get("namespace"):
            del spec["dataSourceRef"]  # behind a feature gate that is off by default in the real server
        if spec.get("dataSource") and not spec.get("dataSourceRef") and not _is_usual(spec["dataSource"]):
            del spec["dataSource"]  # only the newer field can name others
        _fill_data_sources(spec)

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        _fill_data_sources(spec_of(obj))

    def warnings(self, obj: Object) -> list[str]:
        fractions = claim_warnings("spec.resources", spec_of(obj).get("resources") or {})
        return [*_annotation_warnings(obj, _OLD_CLASS), *fractions]

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        causes = []
        for name, text in ((obj.get("status") or {}).get("capacity") or {}).items():
            number = amount(str(text))
            if number is not None and number < 0:
                message = "must be a valid resource quantity"
                causes.append(invalid_value(f"status.capacity[{name}]", math.ceil(number), message))
        return causes

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a claim."""
        return [*check_claim("spec", spec_of(obj))]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        is_bound = (old.get("status") or {}).get("phase") == "Bound"
        free = set() if before.get("volumeName") else {"volumeName"}
        if is_bound:
            free.add("volumeAttributesClassName")
            spec, before = _without_size(spec), _without_size(before)
        if before.get("storageClassName") is None and not (_names_class(obj) or _names_class(old)):
            free.add("storageClassName")  # the default class may be set later than the claim
        fixed = {key: value for key, value in spec.items() if key not in free}
        shrunk = _check_size(spec_of(obj), spec_of(old), old.get("status") or {})
        if fixed == {key: value for key, value in before.items() if key not in free}:
            return shrunk
        message = "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        return [forbidden_field("spec", message + "bound claims"), *shrunk]


def _without_size(spec: Object) -> Object:
    """Return the specification of a claim without the requested size."""
    resources = spec.get("resources") or {}
    requests = {name: text for name, text in (resources.get("requests") or {}).items() if name != "storage"}
    return {**spec, "resources": {**resources, "requests": requests}}


def _check_size(spec: Object, before: Object, state: Object) -> list[Cause]:
    """Check that a claim does not shrink below its current size."""
    new, old = (
        amount(((each.get("resources") or {}).get("requests") or {}).get("storage") or "0") or 0
        for each in (spec, before)
    )
    has = amount((state.get("capacity") or {}).get("storage") or "0") or 0
    if new < old and new <= has:
        return [forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")]
    return []


def _is_usual(source: Object) -> bool:
    """Return True if a source is a claim or a snapshot."""
    named = (source.get("apiGroup") or "", source.get("kind"))
    return named in (("", _CLAIM), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _names_class(claim: Object) -> bool:
    """Return True if a claim names its class in the annotation that preceded the field."""
    return BETA_STORAGE_CLASS in (claim["metadata"].get("annotations") or {})


def check_claim_metadata(path: str, metadata: Object) -> Iterator[Cause]:
    """Yield the errors in the metadata of a template for claims, which may only have annotations and labels."""
    yield from check_annotations(f"{path}.annotations", metadata.get("annotations") or {})
    yield from check_labels(f"{path}.labels", metadata.get("labels") or {})
    for field in _NOT_IN_TEMPLATES:
        if metadata.get(field):
            yield forbidden_field(f"{path}.{field}", "cannot be set")


def check_claim(path: str, spec: Object) -> Iterator[Cause]:
    """Yield the errors in the specification of a claim or claim template."""
    if spec.get("selector") is not None:
        yield from check_label_selector(f"{path}.selector", spec["selector"])
    modes = spec.get("accessModes") or []
    if modes:
        yield from _check_access(f"{path}.accessModes", modes)
    else:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    size = None if text is None else amount(str(text))
    if text is None:
        yield required(f"{path}.resources[storage]")
    elif size is not None and size <= 0:
        yield invalid_value(f"{path}.resources[storage]", text, "must be greater than zero")
    yield from _check_class(f"{path}.storageClassName", spec.get("storageClassName"))
    yield from check_word(f"{path}.volumeMode", spec.get("volumeMode"), _MODES)
    yield from _check_data_sources(path, spec)
    yield from _check_class(f"{path}.volumeAttributesClassName", spec.get("volumeAttributesClassName"))


def _check_data_sources(path: str, spec: Object) -> Iterator[Cause]:
    """Check the data source of a claim: the older field, and the newer one, which must match."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, source in (("dataSource", old), ("dataSourceRef", new)):
        if source is None:
            continue
        where, group = f"{path}.{field}", source.get("apiGroup") or ""
        yield from (required(f"{where}.{part}") for part in ("name", "kind") if not source.get(part))
        if not group and source.get("kind") != _CLAIM:
            message = f"must be '{_CLAIM}' when referencing the default apiGroup"
            yield invalid_value(where, source.get("kind", ""), message)
        elif group:
            yield from check_name(f"{where}.apiGroup", group, subdomain_problems(group))
    if new is not None and not new.get("namespace") and old is not None and not _same_source(old, new):
        yield invalid_value(path, {}, "must match dataSourceRef")


def _same_source(old: Object, new: Object) -> bool:
    return all((old.get(part) or "") == (new.get(part) or "") for part in ("apiGroup", "kind", "name"))


def _check_access(path: str, modes: list[str]) -> Iterator[Cause]:
    if not modes:
        yield required(path)
    yield from (not_supported(path, mode, _ACCESS) for mode in modes if mode not in _ACCESS)
    if "ReadWriteOncePod" in modes and {*modes} & {*_ACCESS} > {"ReadWriteOncePod"}:
        yield forbidden_field(path, "may not use ReadWriteOncePod with other access modes")
