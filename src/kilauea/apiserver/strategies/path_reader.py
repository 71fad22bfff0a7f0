"""A reader of some values of a stored object, which skips the rest and is much faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

import msgspec

_Part = dict[str, Any]
_whole = msgspec.json.Decoder(_Part).decode


def reader_of(paths: Iterable[str]) -> Callable[[bytes], _Part]:
    """Return a decoder that keeps only the values at some paths; it keeps everything in an object of unexpected types.

    Args:
        paths: field names separated by dots.
    """
    tree: _Part = {}
    for path in paths:
        *above, last = path.split(".")
        part: Any = tree
        for step in above:
            part = part.setdefault(step, {})
            if part is Any:  # another path ends here, so everything below is read
                break
        else:
            part[last] = Any
    read = msgspec.json.Decoder(_form(tree)).decode

    def decode(value: bytes) -> _Part:
        try:
            found: _Part = read(value)
        except msgspec.ValidationError:  # for example a string in place of an object, which schemas may allow
            return _whole(value)
        return found

    return decode


def _form(part: _Part) -> Any:
    """Return the type of an object in which each part may be missing or null."""
    fields = {step: below if below is Any else _form(below) | None for step, below in part.items()}
    return TypedDict("Part", fields, total=False)  # type: ignore[operator]
