"""The rules of dynamic resource allocation: claims, templates of them, classes and slices of devices."""

from __future__ import annotations

import re

from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, count_generation, spec_of
from kilauea.apiserver.strategies.device_claims import (
    MOST_CONFIGURATIONS,
    check_claim,
    check_claim_status,
    check_items,
    check_parameters,
    check_selectors,
)
from kilauea.apiserver.strategies.device_slices import check_slice

IMMUTABLE = "field is immutable"
_EXTENDED = re.compile(
    r"(?!(?:[^/]*\.)?kubernetes\.io/|requests\.)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)


class ResourceClaims(Strategy):
    """Claims: what they ask never changes, and what they got is status."""

    has_generation = False

    def validate(self, obj: Object) -> list[Cause]:
        return check_claim("spec", spec_of(obj))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _unchanged(obj, old)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        return check_claim_status("status", obj, old)


class ClaimTemplates(Strategy):
    """Templates of claims, which never change."""

    has_status = False
    has_generation = False

    def validate(self, obj: Object) -> list[Cause]:
        return check_claim("spec.spec", spec_of(spec_of(obj)))

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
    selectable = ("spec.nodeName", "spec.driver")

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


def _unchanged(obj: Object, old: Object) -> list[Cause]:
    return [] if obj.get("spec") == old.get("spec") else [invalid_value("spec", obj.get("spec"), IMMUTABLE)]
