"""Evaluations of CEL: variables, remaining cost, and errors as results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kilauea.api.cel.values import CelCostError, CelError, Optional


class Frame:
    """Variables of an evaluation, and the remaining cost; `for_checks` is reserved for authorizer checks."""

    __slots__ = ("for_checks", "left", "values")

    def __init__(self, values: dict[str, Any], left: int, for_checks: int = 0) -> None:
        self.values = values
        self.left = left
        self.for_checks = for_checks

    def charge(self, cost: int) -> None:
        """Subtract a cost from the remaining one.

        Raises:
            CelCostError: less is left.
        """
        self.left -= cost
        if self.left < 0:
            raise CelCostError("operation cancelled: actual cost limit exceeded")

    def charge_check(self, cost: int) -> None:
        """Subtract the cost of an authorizer check from the reserved cost, or from the rest."""
        if self.for_checks >= cost:
            self.for_checks -= cost
        else:
            self.charge(cost)


Step = Callable[[Frame], Any]
"""A part of a program."""
FAILURES = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
"""All errors of functions in expressions; CelError is a ValueError."""


def failure_of(error: Exception) -> CelError:
    """Convert an error to a CelError."""
    if isinstance(error, CelError):
        return error
    if isinstance(error, OverflowError):
        return CelError("integer overflow")
    if isinstance(error, RecursionError):
        return CelError("expression nests too deep")
    return CelError(str(error) if error.__class__ is ValueError else "no such overload")


def caught(step: Step, frame: Frame) -> Any:
    """Return a bool, or the error in its place; exceeding the cost ends the evaluation."""
    try:
        value = step(frame)
    except CelCostError:
        raise
    except FAILURES as error:
        return failure_of(error)
    return value if value is True or value is False else CelError("no such overload")


def decided(answers: Iterable[Any], decisive: bool) -> bool:
    """Return `decisive` if any answer is, despite errors; otherwise raise the first error, if any."""
    failed: Any = None
    for answer in answers:
        if answer is decisive:
            return bool(decisive)
        if failed is None and answer.__class__ is not bool:
            failed = answer
    if failed is not None:
        try:
            raise failed
        finally:
            del failed, answer  # its traceback refers to this frame
    return decisive is False


def as_optional(value: Any) -> Optional:
    """Return the value as an optional.

    Raises:
        CelError: it is not an optional.
    """
    if value.__class__ is not Optional:
        raise CelError("no such overload")
    return value


_UNSET = object()


def with_variables(frame: Frame, more: Mapping[str, Any], body: Step) -> Any:
    """Return the value of the body with additional variables, which hide those with the same names."""
    values = frame.values
    before = {name: values.get(name, _UNSET) for name in more}
    values.update(more)
    try:
        return body(frame)
    finally:
        for name, value in before.items():
            if value is _UNSET:
                values.pop(name, None)
            else:
                values[name] = value
