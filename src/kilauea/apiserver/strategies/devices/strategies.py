"""The rules of dynamic resource allocation: claims, claim templates, device classes and slices."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause
from kilauea.apiserver.stored_forms.devices import BETA_DEVICES
from kilauea.apiserver.strategies.base import METADATA, Object, Strategy, count_generation, spec_of
from kilauea.apiserver.strategies.conditions import check_conditions
from kilauea.apiserver.strategies.devices.claims import (
    MOST_CONFIGURATIONS,
    check_claim,
    check_claim_status,
    check_items,
    check_parameters,
    check_selectors,
)
from kilauea.apiserver.strategies.devices.slices import check_slice
from kilauea.apiserver.strategies.devices.taints import check_taint_rule
from kilauea.apiserver.strategies.volumes import check_claim_metadata

IMMUTABLE = "field is immutable"
_EXTENDED = re.compile(
    r"(?!(?:[^/]*\.)?kubernetes\.io/|requests\.)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)


class ResourceClaims(Strategy):
    """Claims: their specification never changes, and their status has the allocation."""

    kept_in_status = METADATA
    has_generation = False
    answers_deleted_object = True

    def validate(self, obj: Object) -> list[Cause]:
        return check_claim("spec", spec_of(obj))

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        return []  # the specification is unchanged, or rejected as a whole

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _unchanged(obj, old)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        return check_claim_status("status", obj, old)


class ClaimTemplates(Strategy):
    """Claim templates, which never change."""

    has_status = False
    has_generation = False
    answers_deleted_object = True

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        return [
            *check_claim_metadata("spec.metadata", spec.get("metadata") or {}),
            *check_claim("spec.spec", spec_of(spec)),
        ]

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        return []

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _unchanged(obj, old)


class DeviceClasses(Strategy):
    """Classes of devices."""

    has_status = False
    answers_deleted_object = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_update(self, obj: Object, old: Object) -> None:
        count_generation(obj, old)

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = check_selectors("spec.selectors", spec.get("selectors"))
        causes += check_items("spec.config", spec.get("config"), MOST_CONFIGURATIONS, check_parameters)
        name = spec.get("extendedResourceName")
        if name is not None and not _EXTENDED.fullmatch(name):
            causes.append(invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name"))
        return causes


class ResourceSlices(Strategy):
    """Devices that a driver offers."""

    has_status = False
    answers_deleted_object = True
    selectable = ("spec.nodeName", "spec.driver")

    def note_times(self, obj: Object, old: Object | None, now: str) -> None:
        for device in spec_of(obj).get("devices") or ():
            _note_times((device.get("basic") or device).get("taints") or (), now)

    def prepare_update(self, obj: Object, old: Object) -> None:
        count_generation(obj, old)

    def validate(self, obj: Object) -> list[Cause]:
        return check_slice("spec", spec_of(obj))

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


class OlderClaims(ResourceClaims):
    """Claims of a beta version: checked in their stored form, whose field names are in error messages."""

    def validate(self, obj: Object) -> list[Cause]:
        return super().validate(BETA_DEVICES.stored(obj))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return super().validate_update(BETA_DEVICES.stored(obj), BETA_DEVICES.stored(old))


class OlderTemplates(ClaimTemplates):
    """Claim templates of a beta version, checked likewise."""

    def validate(self, obj: Object) -> list[Cause]:
        return super().validate(BETA_DEVICES.stored(obj))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return super().validate_update(BETA_DEVICES.stored(obj), BETA_DEVICES.stored(old))


class OlderSlices(ResourceSlices):
    """Slices of a beta version, checked likewise."""

    def default(self, obj: Object) -> None:
        for device in spec_of(obj).get("devices") or ():
            device.setdefault("basic", {})

    def validate(self, obj: Object) -> list[Cause]:
        return super().validate(BETA_DEVICES.stored(obj))


class TaintRules(Strategy):
    """Taints that administrators set on devices."""

    kept_in_status = METADATA
    answers_deleted_object = True

    def note_times(self, obj: Object, old: Object | None, now: str) -> None:
        taint, before = _taint_of(obj), _taint_of(old or {})
        kept = taint.get("timeAdded") == before.get("timeAdded")
        if before and kept and taint.get("effect") != before.get("effect"):
            taint["timeAdded"] = now
        _note_times([taint] if taint else (), now)

    def validate(self, obj: Object) -> list[Cause]:
        return check_taint_rule("spec", spec_of(obj))

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        return [*check_conditions("status.conditions", (obj.get("status") or {}).get("conditions") or ())]


def _taint_of(rule: Object) -> Object:
    taint = spec_of(rule).get("taint")
    return taint if isinstance(taint, dict) else {}


def _note_times(taints: Iterable[dict[str, Any]], now: str) -> None:
    """Set the time of the write in taints without a time."""
    for taint in taints:
        if not taint.get("timeAdded"):
            taint["timeAdded"] = now


def _unchanged(obj: Object, old: Object) -> list[Cause]:
    return [] if obj.get("spec") == old.get("spec") else [invalid_value("spec", obj.get("spec"), IMMUTABLE)]
