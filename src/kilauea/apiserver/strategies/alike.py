"""Similar pod specifications, for which results are reused.

The pods of a job differ in their names and in the values of some environment variables, and hardly otherwise. So the
JSON of a specification, with a mask in place of each value, has all that readers and checks need: that a variable has a
value, but not the value.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from kilauea.apiserver.strategies.base import Object

_MASK = "?"
_MOST, _LARGEST = 256, 8 * 1024
"""Maximum number of cached specifications, and bytes of each: at most 2 MiB with their results."""
_PARTS = ("containers", "initContainers")
_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class Masked(NamedTuple):
    """A specification as JSON with masks, and the values of its variables in order."""

    text: bytes
    values: list[str]


def masked(spec: Object) -> Masked | None:
    """Return the masked form of a specification; None if it is too large or cannot be masked."""
    try:
        variables = _variables(spec)
    except (AttributeError, TypeError):  # a value of the wrong type, which is rejected elsewhere
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
    """Return a masked specification with the values of its variables, set in place."""
    unmask(_variables(spec), values)
    return spec


def unmask(variables: list[Object], values: list[str]) -> None:
    """Set the values of variables."""
    for variable, value in zip(variables, values, strict=True):
        variable["value"] = value


def _variables(spec: Object) -> list[Object]:
    """Return the variables that have a value; an empty one does not count, as Go omits it."""
    return [
        variable
        for part in _PARTS
        for container in spec.get(part) or ()
        for variable in container.get("env") or ()
        if variable.get("value") and variable["value"].__class__ is str
    ]


class Remembered(Generic[T]):
    """A cache of facts about specifications, by their masked text."""

    def __init__(self) -> None:
        self._known: dict[bytes, T] = {}

    def get(self, text: bytes) -> T | None:
        """Return the cached fact; None if not cached."""
        return self._known.get(text)

    def put(self, text: bytes, found: T) -> None:
        """Cache a fact; if the cache is full, discard all others."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[text] = found
