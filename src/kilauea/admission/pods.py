"""Pods: the settings of their resource group, the gate for the quota of their queue, and disruption budgets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.admission.reading import add, read
from kilauea.admission.resource_groups import ResourceGroup, group_of
from kilauea.admission.review import Denied, JsonPatch, Review, Settings
from kilauea.api.core import SchedulingGate
from kilauea.api.meta import Object, Wire
from kilauea.api.ports import View
from kilauea.api.wellknown import MAX_UNAVAILABLE, MIN_AVAILABLE, QUEUE_ALLOCATION_GATE

_BUDGETS = (MIN_AVAILABLE, MAX_UNAVAILABLE)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class _PodSpec(Wire):
    """The fields of a pod that are read here; the rest may have any form."""

    scheduler_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Any = None
    tolerations: list[dict[str, Any]] | None = None
    scheduling_gates: list[SchedulingGate] | None = None


class Pod(Object):
    """A pod as admission reads it."""

    spec: _PodSpec | None = None


# --- mutate


def mutate(review: Review, _view: View, settings: Settings) -> JsonPatch:
    """The gate that a pod asks for, and what the first resource group that takes it gives.

    Raises:
        Denied: the pod cannot be read.
    """
    if not settings.resource_groups and not settings.queue_allocation_gate:
        return []  # as on most clusters, for every pod
    pod = read(review.obj, Pod)
    if pod.spec is None:
        return []
    group = group_of(settings.resource_groups, review.namespace or pod.namespace, pod.annotations)
    asks = settings.queue_allocation_gate and pod.annotations.get(QUEUE_ALLOCATION_GATE) == "true"
    return [*(_gate(pod.spec) if asks else ()), *_from_group(pod.spec, group)]


def _gate(spec: _PodSpec) -> Iterator[dict[str, Any]]:
    gates = spec.scheduling_gates or []
    if all(gate.name != QUEUE_ALLOCATION_GATE for gate in gates):
        yield from _append("schedulingGates", [{"name": QUEUE_ALLOCATION_GATE}], gates)


def _from_group(spec: _PodSpec, group: ResourceGroup) -> Iterator[dict[str, Any]]:
    """Fields that a pod takes from its group; the group's labels win over the pod's own selector."""
    yield from _merge("nodeSelector", group.labels or {}, spec.node_selector)
    affinity = group.affinity_of_pods()
    if affinity is not None and spec.affinity is None:
        yield add(affinity, "spec", "affinity")
    had = spec.tolerations or []
    yield from _append("tolerations", [each for each in group.tolerations_of_pods() if each not in had], had)
    if group.scheduler_name and group.scheduler_name != spec.scheduler_name:
        yield add(group.scheduler_name, "spec", "schedulerName")


def _append(field: str, items: Sequence[Mapping[str, Any]], had: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Put items behind those of a list of the specification, which may not be there."""
    if not had and items:
        yield add(list(items), "spec", field)
        return
    for item in items:
        yield add(item, "spec", field, "-")


def _merge(field: str, entries: Mapping[str, str], had: Mapping[str, str] | None) -> Iterator[dict[str, Any]]:
    """Set entries of a map of the specification, which may not be there."""
    if had is None and entries:
        yield add(dict(entries), "spec", field)
        return
    for key, value in entries.items():
        if had is not None and had.get(key) != value:
            yield add(value, "spec", field, key)


# --- validate


def validate(review: Review, _view: View, settings: Settings) -> list[str]:
    """No warnings; pods of other schedulers are not looked at.

    Raises:
        Denied: a disruption budget in the annotations is invalid.
    """
    pod = read(review.obj, Pod)
    if pod.spec is None or pod.spec.scheduler_name not in settings.scheduler_names:
        return []
    given = [key for key in _BUDGETS if key in pod.annotations]
    for key in given:
        _check_budget(key, pod.annotations[key])
    if len(given) > 1:
        raise Denied(f"not allow configure multiple annotations <[{' '.join(_BUDGETS)}]> at same time")
    return []


def _check_budget(key: str, value: str) -> None:
    """A budget is a number of pods above 0, or 1% to 99%."""
    shown = json.dumps(value, ensure_ascii=False)
    if _INTEGER.fullmatch(value):
        if int(value) <= 0:
            raise Denied(f"invalid value <{shown}> for {key}, it must be a positive integer")
        return
    number = value.removesuffix("%")
    if not _INTEGER.fullmatch(number):
        raise Denied(f"invalid value {value} for {key}")
    if not 1 <= int(number) <= 99:
        message = "it must be a valid percentage which between 1% ~ 99%"
        raise Denied(f"invalid value <{shown}> for {key}, {message}")
