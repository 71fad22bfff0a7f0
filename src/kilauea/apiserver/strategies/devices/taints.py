"""Validation of device taint rules, as in the real server: the devices and the taint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.devices.claims import check_driver, check_label, check_pool
from kilauea.apiserver.strategies.devices.slices import check_taint

Object = Mapping[str, Any]


def check_taint_rule(path: str, spec: Object) -> list[Cause]:
    """Return the errors in the specification of a rule."""
    selector, causes = spec.get("deviceSelector") or {}, []
    checks = {"driver": check_driver, "pool": check_pool, "device": check_label}
    for name, check in checks.items():
        if (text := selector.get(name)) is not None:
            causes += check(f"{path}.deviceSelector.{name}", text)
    return causes + check_taint(f"{path}.taint", spec.get("taint") or {})
