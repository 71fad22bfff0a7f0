"""The rules of storage classes, storage capacities, CSI drivers, and volume attachments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.api.names import qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_word,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import METADATA, Object, spec_of
from kilauea.apiserver.strategies.core import Plain
from kilauea.apiserver.strategies.old_labels import old_keys, old_label
from kilauea.apiserver.strategies.quantities import NEGATIVE, amount
from kilauea.apiserver.strategies.volume_sources import check_driver
from kilauea.apiserver.strategies.volumes import check_inline_volume

IMMUTABLE = "field is immutable"
MOST_PARAMETERS, LARGEST_PARAMETERS = 512, 256 << 10
_LONGEST_TOKEN, _SHORTEST_TOKEN, _SHORTEST_PERIOD = 2**32, 600, 10
_LIFECYCLES = ("Persistent", "Ephemeral")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


class StorageClasses(Plain):
    """Storage classes, of which only some fields may change."""

    always_warns = True
    answers_deleted_object = True

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a class."""
        causes = [*check_provisioner("provisioner", obj.get("provisioner") or "")]
        causes += check_parameters("parameters", obj.get("parameters") or {})
        causes += check_word("reclaimPolicy", obj.get("reclaimPolicy"), ("Delete", "Retain"))
        causes += check_word("volumeBindingMode", obj.get("volumeBindingMode"), ("Immediate", "WaitForFirstConsumer"))
        return [*causes, *_check_topologies("allowedTopologies", obj.get("allowedTopologies") or [])]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return [invalid_value(field, obj.get(field), IMMUTABLE) for field in fields if obj.get(field) != old.get(field)]

    def warnings(self, obj: Object) -> list[str]:
        found: list[str] = []
        for number, term in enumerate(obj.get("allowedTopologies") or []):
            for index, each in enumerate(term.get("matchLabelExpressions") or []):
                path = f"allowedTopologies[{number}].matchLabelExpressions[{index}].key"
                found += old_label(path, each.get("key") or "")
        return found


def check_provisioner(path: str, name: str) -> list[Cause]:
    """Check the name of a provisioner: a qualified name in any case."""
    return check_name(path, name.lower(), qualified_name_problems(name.lower())) if name else [required(path)]


def check_parameters(path: str, parameters: Object) -> Iterator[Cause]:
    """Check the parameters of a class: their number, their names, and their size."""
    if len(parameters) > MOST_PARAMETERS:
        yield too_long(path, MOST_PARAMETERS)
        return
    for key in parameters:
        if not key:
            yield invalid_value(path, key, "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > LARGEST_PARAMETERS:
        yield too_long(path, LARGEST_PARAMETERS)


def _check_topologies(path: str, topologies: Sequence[Object]) -> Iterator[Cause]:
    seen: list[dict[str, frozenset[str]]] = []
    for number, term in enumerate(topologies):
        where, found = f"{path}[{number}].matchLabelExpressions", dict[str, frozenset[str]]()
        for index, each in enumerate(term.get("matchLabelExpressions") or []):
            yield from _check_topology(each, f"{where}[{index}]", found)
        if found in seen or not found:
            yield duplicate(where, "")
        seen.append(found)


def _check_topology(each: Object, path: str, found: dict[str, frozenset[str]]) -> Iterator[Cause]:
    """Check one label with its values, and add it to those found."""
    key, values = each.get("key") or "", each.get("values") or []
    if not values:
        yield required(f"{path}.values")
    for number, value in enumerate(values):
        if value in values[:number]:
            yield duplicate(f"{path}.values[{number}]", value)
    yield from check_name(f"{path}.key", key, qualified_name_problems(key))
    if key in found:
        yield duplicate(f"{path}.key", key)
    found[key] = frozenset(values)


class Capacities(Plain):
    """Storage capacities: the amount of storage of a class in a part of the cluster."""

    always_warns = True
    unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a capacity."""
        name = obj.get("storageClassName") or ""
        causes = check_label_selector("nodeTopology", obj.get("nodeTopology") or {})
        causes += check_name("storageClassName", name, subdomain_problems(name))
        size = None if obj.get("capacity") is None else amount(str(obj["capacity"]))
        if size is not None and size < 0:
            causes.append(invalid_value("capacity", obj["capacity"], NEGATIVE))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        changed = [field for field in ("nodeTopology", "storageClassName") if obj.get(field) != old.get(field)]
        return [invalid_value(field, obj.get(field), IMMUTABLE) for field in changed]

    def warnings(self, obj: Object) -> list[str]:
        topology = obj.get("nodeTopology") or {}
        found = [*old_keys("nodeTopology", topology)]
        for key in topology.get("matchLabels") or {}:
            found += old_label(f"nodeTopology.matchLabels.{key}", key)
        return found


class StorageObjects(Plain):
    """Kinds whose deletion returns the object."""

    answers_deleted_object = True


class Drivers(StorageObjects):
    """CSI drivers."""

    unconditional_update = False

    def prepare_create(self, obj: Object) -> None:
        """Remove fields that the real server has behind a feature gate that is off by default."""
        super().prepare_create(obj)
        spec_of(obj).pop("preventPodSchedulingIfMissing", None)

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a driver."""
        spec = spec_of(obj)
        causes = check_word("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), _GROUP_POLICIES)
        causes += _check_tokens("spec.tokenRequests", spec.get("tokenRequests") or [])
        for mode in spec.get("volumeLifecycleModes") or []:
            causes += check_word("spec.volumeLifecycleModes", mode, _LIFECYCLES)
        if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
            message = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            told = spec["serviceAccountTokenInSecrets"]
            causes.append(invalid_value("spec.serviceAccountTokenInSecrets", told, message))
        seconds = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if seconds is not None and seconds < _SHORTEST_PERIOD:
            message = f"must be greater than or equal to {_SHORTEST_PERIOD} seconds"
            causes.append(invalid_value("spec.nodeAllocatableUpdatePeriodSeconds", seconds, message))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        fields = (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes"))
        changed = [(field, told) for field, told in fields if spec.get(field) != before.get(field)]
        return [invalid_value(f"spec.{told}", spec.get(field), IMMUTABLE) for field, told in changed]

    def warnings(self, obj: Object) -> list[str]:
        if spec_of(obj).get("tokenRequests") and spec_of(obj).get("serviceAccountTokenInSecrets") is None:
            return [_TOKENS_IN_ATTRIBUTES]
        return []


def _check_tokens(path: str, requests: Sequence[Object]) -> Iterator[Cause]:
    audiences = [each.get("audience") or "" for each in requests]
    for number, each in enumerate(requests):
        if audiences[number] in audiences[:number]:
            yield duplicate(f"{path}[{number}].audience", audiences[number])
            continue
        seconds, where = each.get("expirationSeconds"), f"{path}[{number}].expirationSeconds"
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            yield invalid_value(where, seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > _LONGEST_TOKEN:
            yield invalid_value(where, seconds, "may not specify a duration larger than 2^32 seconds")


class NodeDrivers(StorageObjects):
    """The CSI drivers of a node."""

    unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in the drivers of a node."""
        return [*_check_node_drivers("spec.drivers", spec_of(obj).get("drivers") or [])]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        before = {driver.get("name"): _told_driver(driver) for driver in spec_of(old).get("drivers") or []}
        drivers = [_told_driver(each) for each in spec_of(obj).get("drivers") or []]
        fixed = ("NodeID", "TopologyKeys")
        changed = [
            each for each in drivers if any(before.get(each["Name"], each)[field] != each[field] for field in fixed)
        ]
        return [invalid_value("spec.drivers", each, IMMUTABLE) for each in changed]


def _told_driver(driver: Object) -> Object:
    """Return a driver of a node as the real server shows it in errors."""
    parts = (("Name", "name"), ("NodeID", "nodeID"), ("TopologyKeys", "topologyKeys"), ("Allocatable", "allocatable"))
    return {name: driver.get(field) for name, field in parts}


def _check_node_drivers(path: str, drivers: Sequence[Object]) -> Iterator[Cause]:
    names: set[str] = set()
    for number, driver in enumerate(drivers):
        where, name = f"{path}[{number}]", driver.get("name") or ""
        yield from check_driver(f"{where}.name", name)
        if not driver.get("nodeID"):
            yield required(f"{where}.nodeID")
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            yield invalid_value(f"{where}.allocatable.count", count, NEGATIVE)
        yield from _check_keys(where, driver.get("topologyKeys") or [])
        if name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)


def _check_keys(path: str, keys: Sequence[str]) -> Iterator[Cause]:
    """Check the topology keys of a driver; errors have the path of the driver."""
    for number, key in enumerate(keys):
        if not key:
            yield required(path)
        elif key in keys[:number]:
            yield duplicate(path, key)
        yield from check_name(path, key, qualified_name_problems(key))


class Attachments(StorageObjects):
    """Volume attachments."""

    kept_in_status = METADATA
    unconditional_update = False
    has_status = True

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in an attachment."""
        spec = spec_of(obj)
        source, node = spec.get("source") or {}, spec.get("nodeName") or ""
        name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        causes = [*check_driver("spec.attacher", spec.get("attacher") or "")]
        message = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        if name is None and inline is None:
            causes.append(required("spec.source", message))
        elif name is not None and inline is not None:
            causes.append(forbidden_field("spec.source", message))
        causes += check_name("spec.nodeName", node, subdomain_problems(node))
        if name == "" and inline is None:
            causes.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
        if name is not None:
            causes += check_name("spec.source.persistentVolumeName", name, subdomain_problems(name))
        if inline is not None and name is None:
            causes += check_inline_volume("spec.source.inlineVolumeSpec", inline)
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if spec_of(obj) != spec_of(old):
            spec = spec_of(obj)
            source = spec.get("source") or {}
            parts = (("PersistentVolumeName", "persistentVolumeName"), ("InlineVolumeSpec", "inlineVolumeSpec"))
            told = {"Attacher": spec.get("attacher"), "Source": {name: source.get(field) for name, field in parts}}
            return [invalid_value("spec", {**told, "NodeName": spec.get("nodeName")}, IMMUTABLE)]
        return []


class VolumeAttributes(Plain):
    """Volume attributes classes, whose driver and parameters are immutable."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a class."""
        causes = check_provisioner("driverName", obj.get("driverName") or "")
        parameters = obj.get("parameters") or {}
        if not parameters:
            causes.append(required("parameters", "must contain at least one key/value pair"))
        return [*causes, *check_parameters("parameters", parameters)]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        changed = [field for field in ("driverName", "parameters") if obj.get(field) != old.get(field)]
        return [forbidden_field(field, f"updates to {field} are forbidden.") for field in changed]
