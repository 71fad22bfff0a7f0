"""Request policies for a device's capacity: the valid values, or steps in a range."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.apiserver.fields import forbidden_field, invalid_value, required
from kilauea.apiserver.schema.scalars import amount_of, exact_text, quantity
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.devices.claims import check_items

Object = Mapping[str, Any]
MOST_OPTIONS = 10


def check_request_policy(path: str, capacity: str, policy: Object) -> Iterator[Cause]:
    """Yield the errors in a policy.

    Args:
        path: the path of the policy.
        capacity: the total capacity of the device.
        policy: the policy in the slice, with canonical quantities.
    """
    values, limits, usual = policy.get("validValues") or (), policy.get("validRange"), policy.get("default")
    if values and limits is not None:
        message = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield forbidden_field(path, message)
        return
    if not values and limits is None:
        return
    field = "validValues" if values else "validRange"
    if usual is None:
        yield required(f"{path}.default", f"required when {field} is defined")
    elif limits is None:
        yield from _check_values(f"{path}.{field}", capacity, usual, values)
    else:
        yield from _check_range(f"{path}.{field}", capacity, usual, limits)


def _check_values(path: str, capacity: str, usual: str, values: Sequence[str]) -> Iterator[Cause]:
    for number, (one, other) in enumerate(itertools.pairwise(values), 1):
        if amount_of(one) > amount_of(other):
            yield invalid_value(f"{path}[{number}]", other, "values must be sorted in ascending order")

    def check(where: str, value: str) -> list[Cause]:
        if amount_of(value) <= amount_of(capacity):
            return []
        return [invalid_value(where, value, f"option is larger than capacity value: {capacity}")]

    yield from check_items(path, values, MOST_OPTIONS, check, lambda each: each)
    # If there are too many values, none is checked.
    known = values if len(values) <= MOST_OPTIONS else ()
    if all(amount_of(value) != amount_of(usual) for value in known):
        yield invalid_value(path, usual, "default value is not valid according to the requestPolicy")


def _check_range(path: str, capacity: str, usual: str, limits: Object) -> Iterator[Cause]:
    least, most, step = (limits.get(field) for field in ("min", "max", "step"))
    if least is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    whole, first, chosen = amount_of(capacity), amount_of(least), amount_of(usual)
    if first > whole:
        yield invalid_value(f"{path}.min", least, f"min is larger than capacity value: {capacity}")
    if chosen < first:
        yield invalid_value(f"{path}.min", usual, f"default is less than min: {least}")
    if most is not None:
        if first > amount_of(most):
            yield invalid_value(f"{path}.max", least, f"min is larger than max: {most}")
        if amount_of(most) > whole:
            yield invalid_value(f"{path}.max", most, f"max is larger than capacity value: {capacity}")
        if chosen > amount_of(most):
            yield invalid_value(f"{path}.max", usual, f"default is more than max: {most}")
    if step is None:
        return
    if first + amount_of(step) > whole:
        message = f"one step {_sum(least, step)} is larger than capacity value: {capacity}"
        yield invalid_value(f"{path}.step", step, message)
    for value in (usual,) if most is None else (usual, most):
        if not _is_on_step(value, least, step):
            message = f"value is not a multiple of a given step ({step}) from ({least})"
            yield invalid_value(f"{path}.step", value, message)


def _is_on_step(value: str, least: str, step: str) -> bool:
    """Return True if the value is the minimum plus a whole number of steps; a step of zero allows only the minimum."""
    there, first, each = (math.ceil(amount_of(text)) for text in (value, least, step))
    return (there - first) % each == 0 if each else there == first


def _sum(one: str, other: str) -> str:
    """Return the sum of two quantities, in the format of the first."""
    total = amount_of(one) + amount_of(other)
    is_binary = one.endswith("i") and total % 1024 == 0
    return quantity(f"{total // 1024}Ki") if is_binary else exact_text(total)
