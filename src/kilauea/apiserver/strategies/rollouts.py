"""Checks of update strategies of workloads: unavailable and surplus pods, and retention of claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kilauea.api.numbers import whole_number
from kilauea.apiserver.fields import (
    check_not_negative,
    check_word,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object

_PERCENTAGE_WORDS = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_ROLLING = "RollingUpdate"


def share_of(value: Any) -> int | None:
    """Return the number before `%`; None if a value is not a percentage."""
    return whole_number(value[:-1]) if isinstance(value, str) and value.endswith("%") else None


def check_amount(path: str, value: Any) -> list[Cause]:
    """Check a number or percentage of pods, if set."""
    if isinstance(value, str):
        return [] if share_of(value) is not None else [invalid_value(path, value, _PERCENTAGE_WORDS)]
    return check_not_negative(path, value)


def check_share(path: str, value: Any) -> list[Cause]:
    """Check that a percentage is at most 100."""
    share = share_of(value)
    return [invalid_value(path, value, "must not be greater than 100%")] if share is not None and share > 100 else []


def _is_none(value: Any) -> bool:
    """Return True for zero pods; the real server takes a string that is not a percentage as zero."""
    return value == 0 or value is None or (isinstance(value, str) and not share_of(value))


def _is_number(value: Any) -> bool:
    """Return True for a string with a number of pods above zero, which is invalid."""
    return isinstance(value, str) and value.isascii() and value.isdecimal() and value.strip("0") != ""


def check_deployment_strategy(path: str, strategy: Object) -> Iterator[Cause]:
    """Yield the errors in the strategy of a deployment."""
    kind, rolling, where = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden_field(where, "may not be specified when strategy `type` is 'Recreate'")
    elif kind != _ROLLING:
        told = None if rolling is None else _capital(rolling, "maxUnavailable", "maxSurge")
        yield not_supported(path, {"Type": kind, "RollingUpdate": told}, ("Recreate", _ROLLING))
    elif rolling is None:
        yield required(where, "this should be defaulted and never be nil")
    else:
        missing, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from check_amount(f"{where}.maxUnavailable", missing)
        yield from check_amount(f"{where}.maxSurge", more)
        if _is_none(missing) and _is_none(more):
            yield invalid_value(f"{where}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0")
        yield from check_share(f"{where}.maxUnavailable", missing)


def _capital(obj: Object, *fields: str) -> Object:
    """Return fields as the real server shows them in errors."""
    return {field[0].upper() + field[1:]: obj.get(field) for field in fields}


def check_daemon_update(path: str, strategy: Object) -> Iterator[Cause]:
    """Yield the errors in the update strategy of a daemon set."""
    kind, rolling, where = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if kind not in (_ROLLING, "OnDelete"):
        told = None if rolling is None else _capital(rolling, "maxUnavailable", "maxSurge")
        yield not_supported(path, {"Type": kind, "RollingUpdate": told}, (_ROLLING, "OnDelete"))
    elif rolling is None:
        if kind == _ROLLING:
            yield required(where)
    elif kind == _ROLLING:
        missing, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        for field, value in (("maxUnavailable", missing), ("maxSurge", more)):
            yield from check_amount(f"{where}.{field}", value)
            yield from check_share(f"{where}.{field}", value)
        has_missing, has_more = (not _is_none(value) or _is_number(value) for value in (missing, more))
        if has_missing and has_more:
            yield invalid_value(f"{where}.maxSurge", more, "may not be set when maxUnavailable is non-zero")
        elif not has_missing and not has_more:
            yield required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def check_stateful_set(path: str, spec: Object) -> Iterator[Cause]:
    """Yield the errors in a stateful set's pod management policy, update strategy and claim retention policy."""
    policy = spec.get("podManagementPolicy", "OrderedReady")
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid_value(f"{path}.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    strategy, where = spec.get("updateStrategy") or {}, f"{path}.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    told = None if rolling is None else {"Partition": rolling.get("partition"), "MaxUnavailable": None}
    if not kind:
        yield required(where)
    elif kind not in (_ROLLING, "OnDelete"):
        told = {"Type": kind, "RollingUpdate": told}
        yield invalid_value(where, told, "must be 'RollingUpdate' or 'OnDelete'")
    elif kind == "OnDelete" and rolling is not None:
        yield invalid_value(f"{where}.rollingUpdate", told, "only allowed for updateStrategy 'RollingUpdate'")
    elif rolling is not None:
        yield from check_not_negative(f"{where}.rollingUpdate.partition", rolling.get("partition"))
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        where = f"{path}.persistentVolumeClaimRetentionPolicy.{field}"
        yield from check_word(where, kept.get(field), ("Retain", "Delete"))
