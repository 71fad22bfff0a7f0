"""The rules of dynamic resource allocation: claims, templates of them, classes and slices of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.cel import CelError, CelUnsupportedError
from kilauea.api.device_selectors import device_matcher
from kilauea.api.dynamic import ALL, EXACT_COUNT
from kilauea.apiserver.fields import forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, count_generation, spec_of

IMMUTABLE = "field is immutable"


class ResourceClaims(Strategy):
    """Claims: what they ask never changes, and what they got is status."""

    has_generation = False

    def validate(self, obj: Object) -> list[Cause]:
        return _check_claim("spec", spec_of(obj))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _unchanged(obj, old)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        status, before = obj.get("status") or {}, old.get("status") or {}
        had, has = before.get("allocation"), status.get("allocation")
        if had is not None and has is not None and had != has:
            return [invalid_value("status.allocation", has, IMMUTABLE)]
        if status.get("reservedFor") and has is None:
            return [forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set")]
        return []


class ClaimTemplates(Strategy):
    """Templates of claims, which never change."""

    has_status = False
    has_generation = False

    def validate(self, obj: Object) -> list[Cause]:
        return _check_claim("spec.spec", spec_of(spec_of(obj)))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _unchanged(obj, old)


class DeviceClasses(Strategy):
    """Classes of devices."""

    has_status = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_update(self, obj: Object, old: Object) -> None:
        count_generation(obj, old)

    def validate(self, obj: Object) -> list[Cause]:
        return _check_selectors("spec.selectors", spec_of(obj).get("selectors"))


class ResourceSlices(Strategy):
    """Devices that a driver offers."""

    has_status = False
    selectable = ("spec.nodeName", "spec.driver")

    def prepare_update(self, obj: Object, old: Object) -> None:
        count_generation(obj, old)

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = [required(f"spec.{name}") for name in ("driver",) if not spec.get(name)]
        if not (spec.get("pool") or {}).get("name"):
            causes.append(required("spec.pool.name"))
        places = [name for name in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(name)]
        if not places and spec.get("devices"):
            words = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
            causes.append(required("spec", words))
        if len(places) > 1:
            words = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, "
            causes.append(invalid_value("spec", places, words + "but multiple fields are set"))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        fixed = {"nodeName": "nodeName", "driver": "driver"}
        causes = [
            invalid_value(f"spec.{name}", spec.get(name), IMMUTABLE)
            for name in fixed
            if spec.get(name) != before.get(name)
        ]
        if (spec.get("pool") or {}).get("name") != (before.get("pool") or {}).get("name"):
            causes.append(invalid_value("spec.pool.name", (spec.get("pool") or {}).get("name"), IMMUTABLE))
        return causes


def _unchanged(obj: Object, old: Object) -> list[Cause]:
    return [] if obj.get("spec") == old.get("spec") else [invalid_value("spec", obj.get("spec"), IMMUTABLE)]


def _check_claim(path: str, spec: Mapping[str, Any]) -> list[Cause]:
    """The specification of a claim."""
    causes: list[Cause] = []
    for number, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        place = f"{path}.devices.requests[{number}]"
        ways = [(f"{place}.exactly", request["exactly"])] if request.get("exactly") else []
        first = request.get("firstAvailable") or ()
        if bool(ways) == bool(first):
            causes.append(required(place, "exactly one of `exactly` or `firstAvailable` is required"))
        ways += [(f"{place}.firstAvailable[{i}]", way) for i, way in enumerate(first)]
        for where, way in ways:
            causes += _check_way(where, way)
    return causes


def _check_way(path: str, way: Mapping[str, Any]) -> list[Cause]:
    causes = [] if way.get("deviceClassName") else [required(f"{path}.deviceClassName")]
    mode, count = way.get("allocationMode", EXACT_COUNT), way.get("count")
    if mode not in (EXACT_COUNT, ALL):
        causes.append(not_supported(f"{path}.allocationMode", mode, (ALL, EXACT_COUNT)))
    elif mode == ALL and count:
        causes.append(invalid_value(f"{path}.count", count, f"must not be specified when allocationMode is '{ALL}'"))
    elif count is not None and count <= 0:
        causes.append(invalid_value(f"{path}.count", count, "must be greater than zero"))
    return causes + _check_selectors(f"{path}.selectors", way.get("selectors"))


def _check_selectors(path: str, selectors: Any) -> list[Cause]:
    causes = []
    for number, each in enumerate(selectors or ()):
        place = f"{path}[{number}].cel"
        if not each.get("cel"):
            causes.append(required(place))
            continue
        expression = each["cel"].get("expression", "")
        try:
            device_matcher(expression)
        except CelUnsupportedError:
            continue  # another scheduler may understand it
        except CelError as error:
            causes.append(invalid_value(f"{place}.expression", expression, str(error)))
    return causes
