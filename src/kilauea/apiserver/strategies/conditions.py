"""Validation of `metav1.Condition` lists in the status of objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.names import qualified_name_problems
from kilauea.apiserver.fields import check_name, duplicate, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause

STATES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_WORDS = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)


def check_conditions(path: str, conditions: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """Yield the errors in conditions, whose types must be unique."""
    seen: set[str] = set()
    for number, condition in enumerate(conditions):
        where, name = f"{path}[{number}]", condition.get("type") or ""
        if name in seen:
            yield duplicate(f"{where}.type", name)
        seen.add(name)
        yield from check_name(f"{where}.type", name, qualified_name_problems(name))
        yield from _check_rest(where, condition)


def _check_rest(path: str, condition: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the errors in all fields but the type."""
    reason = condition.get("reason") or ""
    if condition.get("status") not in STATES:
        yield not_supported(f"{path}.status", condition.get("status") or "", STATES)
    if (condition.get("observedGeneration") or 0) < 0:
        message = "must be greater than or equal to zero"
        yield invalid_value(f"{path}.observedGeneration", condition["observedGeneration"], message)
    if not condition.get("lastTransitionTime"):
        yield required(f"{path}.lastTransitionTime")
    if not reason:
        yield required(f"{path}.reason")
    elif not _REASON.fullmatch(reason):
        yield from check_name(f"{path}.reason", reason, (_REASON_WORDS,))
