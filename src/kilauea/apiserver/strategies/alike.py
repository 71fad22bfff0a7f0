"""Similar pod specifications: results for one of them are reused for the next.

The pods of a job differ in their names and in the values of some variables, and hardly in anything else. So the JSON of
a specification, with a mask in the place of each value, says all that its readers and checks look at: whether a
variable has a value, not which.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from kilauea.apiserver.strategies.base import Object

_MASK = "?"
_MOST, _LARGEST = 256, 8 * 1024
"""Specifications that are remembered, and the bytes of one of them: 2 MiB at most, with what is known of them."""
_PARTS = ("containers", "initContainers")
_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class Masked(NamedTuple):
    """A specification as JSON with masks, and the values of its variables in order."""

    text: bytes
    values: list[str]


def masked(spec: Object) -> Masked | None:
    """Return the masked form of a specification; None if it is too large, or of no form that has one."""
    try:
        variables = _variables(spec)
    except (AttributeError, TypeError):  # a value of the wrong type, which is refused elsewhere
        return None
    values: list[str] = [each["value"] for each in variables]
    for each in variables:
        each["value"] = _MASK
    try:
        text = _encode(spec)
    except OverflowError:  # a number of more than 64 bits
        return None
    finally:
        unmask(variables, values)
    return Masked(text, values) if len(text) <= _LARGEST else None


def unmasked(spec: Object, values: list[str]) -> Object:
    """A masked specification with the values of its variables, which are set in place."""
    unmask(_variables(spec), values)
    return spec


def unmask(variables: list[Object], values: list[str]) -> None:
    """Give variables their values."""
    for variable, value in zip(variables, values, strict=True):
        variable["value"] = value


def _variables(spec: Object) -> list[Object]:
    """The variables that have a value. An empty one is none: Go leaves it out."""
    return [
        variable
        for part in _PARTS
        for container in spec.get(part) or ()
        for variable in container.get("env") or ()
        if variable.get("value") and variable["value"].__class__ is str
    ]


class Remembered(Generic[T]):
    """Facts about specifications, by their masked text."""

    def __init__(self) -> None:
        self._known: dict[bytes, T] = {}

    def get(self, text: bytes) -> T | None:
        """Return the fact that is known; None if none is."""
        return self._known.get(text)

    def put(self, text: bytes, found: T) -> None:
        """Remember it; where there is no more room, all others are forgotten."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[text] = found
