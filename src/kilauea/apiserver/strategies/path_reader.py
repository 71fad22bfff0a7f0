"""Reads some values of a stored object and skips the rest, which is much faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

import msgspec

_Part = dict[str, Any]
_whole = msgspec.json.Decoder(_Part).decode


def reader_of(paths: Iterable[str]) -> Callable[[bytes], _Part]:
    """Return a decoder of objects that keeps the values at some paths; it keeps all where they have no such form.

    Args:
        paths: steps with dots between them.
    """
    tree: _Part = {}
    for path in paths:
        *above, last = path.split(".")
        part: Any = tree
        for step in above:
            part = part.setdefault(step, {})
            if part is Any:  # another path ends here, so all below is read
                break
        else:
            part[last] = Any
    read = msgspec.json.Decoder(_form(tree)).decode

    def decode(value: bytes) -> _Part:
        try:
            found: _Part = read(value)
        except msgspec.ValidationError:  # a text on the way to a value, say: schemas can leave this open
            return _whole(value)
        return found

    return decode


def _form(part: _Part) -> Any:
    """The type of an object in which each part may be missing or null."""
    fields = {step: below if below is Any else _form(below) | None for step, below in part.items()}
    return TypedDict("Part", fields, total=False)  # type: ignore[operator]
