"""Objects as Python data: from the output of YAML and JSON loaders to the input of the wire types.

Loaders return more than JSON has: PyYAML makes times of text and numbers of keys. Both become text again, as the API
server sees them. The data itself is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from kilauea.api.errors import Path

_SCALARS = frozenset({str, int, float, bool, type(None)})


class NotData(ValueError):
    """A value that neither YAML nor JSON has.

    Attributes:
        path: keys and indices that lead to it.
        message: its type, and what to give instead.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def plain(value: object, path: Path = ()) -> Any:
    """Return a copy of a value, made of dicts, lists, text, numbers, true, false and null.

    Args:
        value: what a loader returned; times become RFC 3339 text, those without a time zone are UTC.
        path: leads to the value.

    Raises:
        NotData: a value inside is of another type.
        RecursionError: it is nested too deep, or contains itself.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        return {(name := _name(key, path)): plain(part, (*path, name)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, (*path, number)) for number, part in enumerate(value)]
    if isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return aware.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    for scalar in (str, int, float):  # an enumeration, a number of numpy
        if isinstance(value, scalar):
            return scalar(value)
    raise NotData(path, _wrong_type(value))


def _name(key: object, path: Path) -> str:
    """The name of a field or label, as YAML's numbers and booleans are written."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise NotData(path, f"field names are text, got {key!r} of type {type(key).__name__}")


def _wrong_type(value: object) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return (
        f"expected a dict, a list, text, a number, True, False or None, got {shown} of type {type(value).__name__}: "
        "give what yaml.safe_load or json.load returns"
    )
