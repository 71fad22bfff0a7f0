"""Steps of operators: their costs, and the evaluation of their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kilauea.api.cel.frames import Frame, Step, as_optional, caught, decided
from kilauea.api.cel.functions import weight
from kilauea.api.cel.operators import OPERATORS, add
from kilauea.api.cel.values import CelError, equal, size_of


def operator_step(name: str, *steps: Step) -> Step:
    """Return the step of an operator."""
    if len(steps) == 1:
        (only,), unary = steps, OPERATORS[name]

        def one(frame: Frame) -> Any:
            frame.charge(1)
            return unary(only(frame))

        return one
    left_step, right_step = steps
    if name in ("==", "!="):
        wanted = name == "=="

        def compared(frame: Frame) -> bool:
            left, right = left_step(frame), right_step(frame)
            frame.charge(1 + (weight(frame.left, left) if _is_sized(left) else 0))
            return equal(left, right) is wanted

        return compared
    if name == "in":

        def contained(frame: Frame) -> bool:
            left, right = left_step(frame), right_step(frame)
            if right.__class__ is dict:
                frame.charge(1)
                return bool(left in right)
            if right.__class__ is not list:
                raise CelError("no such overload")
            frame.charge(1 + (weight(frame.left, right) if _is_sized(left) else len(right)))
            return any(equal(left, each) for each in right)

        return contained
    function = OPERATORS[name]
    if name == "+":

        def added(frame: Frame) -> Any:
            left, right = left_step(frame), right_step(frame)
            frame.charge(1 + ((size_of(left) + size_of(right)) // 10 if _is_sized(left) else 0))
            return add(left, right)

        return added

    def two(frame: Frame) -> Any:
        frame.charge(1)
        return function(left_step(frame), right_step(frame))

    return two


_SIZED = frozenset({str, bytes, list, dict})


def _is_sized(value: Any) -> bool:
    return value.__class__ in _SIZED


def _any_of(decisive: bool, *steps: Step) -> Step:
    def run(frame: Frame) -> bool:
        frame.left -= 1
        return decided((caught(step, frame) for step in steps), decisive)

    return run


def _choice(condition: Step, then: Step, otherwise: Step) -> Step:
    def choose(frame: Frame) -> Any:
        frame.charge(1)
        holds = condition(frame)
        if holds is True:
            return then(frame)
        if holds is False:
            return otherwise(frame)
        raise CelError("no such overload")

    return choose


LOGIC: Mapping[str, Callable[..., Step]] = {
    "&&": partial(_any_of, False),
    "||": partial(_any_of, True),
    "?:": _choice,
}


def or_value_step(name: str, target: Step, other: Step) -> Step:
    """Return the step of `a.orValue(b)` or `a.or(b)`, which evaluates `b` only if needed."""

    def run(frame: Frame) -> Any:
        frame.charge(1)
        found = as_optional(target(frame))
        if found.present:
            return found.value if name == "orValue" else found
        return other(frame)

    return run
