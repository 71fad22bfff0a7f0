"""Changes that are allowed in an existing job: replicas and minimum of its tasks, and its priority."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.admission.jobs.tasks import check_partitions, check_tiers
from kilauea.admission.review import Denied
from kilauea.api.batch import JobSpec, Task
from kilauea.api.quantity import QuantityError, parse_milli

_FIXED = (
    "job updates may not change fields other than `minAvailable`, "
    "`tasks[*].replicas under spec` and `PriorityClassName`"
)
_ZERO_IS_UNSET = frozenset({"maxRetry", "minPartitions"})
_EMPTY_IS_UNSET = frozenset({"metadata", "resources"})
"""Objects that Go does not tell from empty ones; of others, such as a selector, an empty one says something."""
_AMOUNTS = frozenset({"limits", "requests"})
_MAPS = frozenset("annotations labels matchLabels nodeSelector options plugins volumeAttributes".split()) | _AMOUNTS
"""Objects whose keys are the user's own, so that each of them says something."""


def check_change(name: str, spec: JobSpec, old: JobSpec) -> None:
    """Refuse a change with the first thing that is wrong with it.

    Raises:
        Denied: something is.
    """
    fault = next(filter(None, (_task_fault(name, task) for task in spec.tasks or ())), "") or _job_fault(spec)
    if not fault and len(spec.tasks or ()) != len(old.tasks or ()):
        fault = "job updates may not add or remove tasks"
    if not fault and _fixed_part(spec) != _fixed_part(old):
        fault = _FIXED
    if fault:
        raise Denied(fault)


def _task_fault(job: str, task: Task) -> str:
    name, least = task.name or "", task.min_available
    if task.replicas < 0:
        return f"'replicas' must be >= 0 in task: {name}"
    if least is not None and least < 0:
        return f"'minAvailable' must be >= 0 in task: {name}"
    if least is not None and least > task.replicas:
        return f"'minAvailable' must be <= 'replicas' in task: {name}"
    return check_partitions(job, task)


def _job_fault(spec: JobSpec) -> str:
    least = spec.min_available or 0
    if least > sum(task.replicas for task in spec.tasks or ()):
        return "job 'minAvailable' must not be greater than total replicas"
    if least < 0:
        return "job 'minAvailable' must be >= 0"
    return check_tiers(spec.network_topology)


# --- what may not change


def _fixed_part(spec: JobSpec) -> Any:
    """A job without what may change, in one form for all ways to write it."""
    fields = msgspec.to_builtins(spec)
    for field in ("minAvailable", "priorityClassName"):
        fields.pop(field, None)
    for task in fields.get("tasks") or ():
        for field in ("replicas", "minAvailable"):
            task.pop(field, None)
    for volume in fields.get("volumes") or ():
        if volume.get("volumeClaim") is not None:
            volume.pop("volumeClaimName", None)  # the controller writes down which claim it made
    return _normal(fields)


def _normal(value: Any) -> Any:
    """A value without what is as good as not there, and with amounts as numbers."""
    if isinstance(value, list):
        return [_normal(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _normal_field(key, each) for key, each in value.items()}
    return {key: each for key, each in found.items() if not _says_nothing(key, each)}


def _normal_field(key: str, value: Any) -> Any:
    if key in _AMOUNTS and isinstance(value, dict):
        return {name: _amount(each) for name, each in value.items()}
    return value if key in _MAPS else _normal(value)


def _says_nothing(key: str, value: Any) -> bool:
    if value == {}:
        return key in _EMPTY_IS_UNSET or key in _MAPS
    return value in (None, "", []) or (value == 0 and key in _ZERO_IS_UNSET)


def _amount(amount: Any) -> Any:
    try:
        return parse_milli(amount) if isinstance(amount, (str, int, float)) else amount
    except QuantityError:
        return amount
