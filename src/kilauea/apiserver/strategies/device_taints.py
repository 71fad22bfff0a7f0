"""Rules for taints of devices, as the real server checks them: which devices, which taint, and conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.apiserver.fields import check_name, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.device_claims import check_driver, check_key, check_label, check_pool
from kilauea.apiserver.strategies.device_slices import check_taint

Object = Mapping[str, Any]

STATES = ("False", "True", "Unknown")
MOST_REASON = 1024
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_WORDS = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def check_taint_rule(path: str, spec: Object) -> list[Cause]:
    """The specification of a rule."""
    selector, causes = spec.get("deviceSelector") or {}, []
    checks = {"driver": check_driver, "pool": check_pool, "device": check_label}
    for name, check in checks.items():
        if (text := selector.get(name)) is not None:
            causes += check(f"{path}.deviceSelector.{name}", text)
    return causes + check_taint(f"{path}.taint", spec.get("taint") or {})


def check_conditions(path: str, conditions: Sequence[Object]) -> list[Cause]:
    """A list of `metav1.Condition`."""
    return [cause for number, each in enumerate(conditions) for cause in _check_condition(f"{path}[{number}]", each)]


def _check_condition(path: str, condition: Object) -> list[Cause]:
    name, reason = condition.get("type") or "", condition.get("reason") or ""
    causes = check_key(f"{path}.type", name) if name else [required(f"{path}.type")]
    if condition.get("status") not in STATES:
        causes.append(not_supported(f"{path}.status", condition.get("status") or "", STATES))
    if (condition.get("observedGeneration") or 0) < 0:
        words = "must be greater than or equal to zero"
        causes.append(invalid_value(f"{path}.observedGeneration", condition["observedGeneration"], words))
    if not condition.get("lastTransitionTime"):
        causes.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        causes.append(required(f"{path}.reason"))
    elif not _REASON.fullmatch(reason):
        causes += check_name(f"{path}.reason", reason, (_REASON_WORDS,))
    return causes
