"""Validation of device slices, as in the real server: pools, nodes, attributes, capacities, taints and counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.device_selectors import is_version
from kilauea.api.names import label_value_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_name,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.devices.capacity import check_request_policy
from kilauea.apiserver.strategies.devices.claims import (
    EFFECTS,
    check_driver,
    check_items,
    check_key,
    check_label,
    check_pool,
    check_property,
    too_long,
)
from kilauea.apiserver.strategies.placement import check_node_selector

Object = Mapping[str, Any]

MOST_DEVICES, MOST_ADVANCED_DEVICES = 128, 64
MOST_COUNTER_SETS, MOST_CONSUMED_SETS, MOST_TAINTS, MOST_CONDITIONS = 8, 2, 16, 4
MOST_PROPERTIES = 32
MOST_VALUE = 64
_PLACES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_OWN_PLACES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_PLACES = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
_KINDS = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")


def check_slice(path: str, spec: Object) -> list[Cause]:
    """Return the errors in the specification of a slice."""
    pool = spec.get("pool") or {}
    causes = check_driver(f"{path}.driver", spec.get("driver") or "")
    causes += check_pool(f"{path}.pool.name", pool.get("name") or "")
    if pool.get("resourceSliceCount", 0) <= 0:
        message = "must be greater than zero"
        causes.append(invalid_value(f"{path}.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), message))
    if pool.get("generation", 0) < 0:
        message = "must be greater than or equal to zero"
        causes.append(invalid_value(f"{path}.pool.generation", pool["generation"], message))
    places, wrong = _places(path, spec, "must be either unset or set to a non-empty string")
    causes += wrong
    if not places:
        causes.append(required(path, _PLACES))
    elif len(places) > 1:
        causes.append(invalid_value(path, f"{{{', '.join(places)}}}", f"{_PLACES}, but multiple fields are set"))
    return causes + _check_content(path, spec)


def _check_content(path: str, spec: Object) -> list[Cause]:
    """Check devices and counters."""
    causes = []
    devices = spec.get("devices")
    if spec.get("sharedCounters") is not None and devices is not None:
        causes.append(invalid_value(path, "", "only one of `sharedCounters` or `devices` is allowed"))
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices or ())
    own = bool(spec.get("perDeviceNodeSelection"))
    most = MOST_ADVANCED_DEVICES if advanced else MOST_DEVICES
    causes += check_items(f"{path}.devices", devices, most, lambda p, d: _check_device(p, d, own=own), _name)
    return causes + check_items(
        f"{path}.sharedCounters", spec.get("sharedCounters"), MOST_COUNTER_SETS, _check_counters, _name
    )


def _name(item: Object) -> str:
    return str(item.get("name") or "")


def _places(path: str, part: Object, empty: str) -> tuple[list[str], list[Cause]]:
    """Return the fields that place a slice or a device on nodes, and the errors in them."""
    places, causes = [], []
    if (node := part.get("nodeName")) is not None:
        if node:
            places.append("`nodeName`")
            causes += check_name(f"{path}.nodeName", node, subdomain_problems(node))
        else:
            causes.append(invalid_value(f"{path}.nodeName", node, empty))
    if (selector := part.get("nodeSelector")) is not None:
        places.append("`nodeSelector`")
        causes += check_node_selector(f"{path}.nodeSelector", selector)
    for name in ("allNodes", "perDeviceNodeSelection"):
        if part.get(name):
            places.append(f"`{name}`")
        elif part.get(name) is not None:
            causes.append(invalid_value(f"{path}.{name}", part[name], "must be either unset or set to true"))
    return places, causes


def _check_device(path: str, device: Object, *, own: bool) -> list[Cause]:
    causes = check_label(f"{path}.name", _name(device))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacity)) > MOST_PROPERTIES:
        message = f"the total number of attributes and capacities must not exceed {MOST_PROPERTIES}"
        causes.append(invalid_value(path, count, message))
    for name, attribute in sorted(attributes.items()):
        causes += check_property(f"{path}.attributes", name)
        causes += _check_attribute(f"{path}.attributes[{name}]", attribute)
    for name, amount in sorted(capacity.items()):
        causes += check_property(f"{path}.capacity", name)
        if amount.get("requestPolicy") is not None and not device.get("allowMultipleAllocations"):
            place = f"{path}.capacity[{name}].requestPolicy"
            causes.append(forbidden_field(place, "allowMultipleAllocations must be true"))
        elif amount.get("requestPolicy") is not None:
            place = f"{path}.capacity[{name}].requestPolicy"
            causes += check_request_policy(place, amount.get("value") or "0", amount["requestPolicy"])
    causes += check_items(f"{path}.taints", device.get("taints"), MOST_TAINTS, check_taint)
    causes += check_items(
        f"{path}.consumesCounters",
        device.get("consumesCounters"),
        MOST_CONSUMED_SETS,
        lambda p, each: _check_counters(p, each, "counterSet"),
        lambda each: each.get("counterSet"),
    )
    return causes + _check_own_place(path, device, own=own) + _check_conditions(path, device)


def _check_own_place(path: str, device: Object, *, own: bool) -> list[Cause]:
    if not own:
        stated = any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes"))
        return [invalid_value(path, None, _NO_PLACES)] if stated else []
    places, causes = _places(path, device, "must not be empty")
    if not places:
        causes.append(required(path, _OWN_PLACES))
    elif len(places) > 1:
        causes.append(invalid_value(path, f"{{{', '.join(places)}}}", _OWN_PLACES))
    return causes


def _check_attribute(path: str, attribute: Object) -> list[Cause]:
    causes = []
    if len(attribute.get("string") or "") > MOST_VALUE:
        causes.append(too_long(f"{path}.string", MOST_VALUE))
    version = attribute.get("version")
    if version is not None and not is_version(version):
        message = "must be a string compatible with semver.org spec 2.0.0"
        causes.append(invalid_value(f"{path}.version", version, message))
    stated = [name for name in _KINDS if attribute.get(name) is not None]
    if len(stated) != 1:
        shown = dict(attribute) if stated else ""
        causes.append(invalid_value(path, shown, "exactly one value must be specified"))
    return causes


def check_taint(path: str, taint: Object) -> list[Cause]:
    """Check a taint of a device."""
    value, effect = taint.get("value") or "", taint.get("effect") or ""
    causes = check_key(f"{path}.key", taint.get("key") or "")
    causes += check_name(f"{path}.value", value, label_value_problems(value))
    if not effect:
        causes.append(required(f"{path}.effect"))
    elif effect not in EFFECTS:
        causes.append(not_supported(f"{path}.effect", effect, EFFECTS))
    return causes


def _check_counters(path: str, counters: Object, name: str = "name") -> list[Cause]:
    """Check a set of counters, or a device's consumption of one."""
    text = counters.get(name) or ""
    causes = check_label(f"{path}.{name}", text) if text else [required(f"{path}.{name}")]
    if not counters.get("counters"):
        causes.append(required(f"{path}.counters"))
    return causes


def _check_conditions(path: str, device: Object) -> list[Cause]:
    """Check binding conditions and binding failure conditions: both or neither, and none in both."""
    wanted, failed = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    causes = check_items(f"{path}.bindingConditions", wanted, MOST_CONDITIONS, check_key, str)
    causes += check_items(f"{path}.bindingFailureConditions", failed, MOST_CONDITIONS, check_key, str)
    for number, each in enumerate(failed):
        if each in wanted:
            message = "bindingFailureConditions must not overlap with bindingConditions"
            causes.append(invalid_value(f"{path}.bindingFailureConditions[{number}]", each, message))
    if failed and not wanted:
        message = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid_value(f"{path}.bindingConditions", None, message))
    if wanted and not failed:
        message = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid_value(f"{path}.bindingFailureConditions", None, message))
    return causes
