"""Conversion of the output of YAML and JSON loaders to the input of the wire types.

Loaders return more types than JSON has: PyYAML converts text to times and keys to numbers. Both are converted back to
text, as for the API server. The data itself is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from kilauea.api.errors import Path

_SCALARS = frozenset({str, int, float, bool, type(None)})


class NotData(ValueError):
    """A value that neither YAML nor JSON can represent.

    Attributes:
        path: the keys and indices of its path.
        message: its type, and the fix.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def plain(value: object, path: Path = ()) -> Any:
    """Return a copy of a value that consists of dicts, lists, strings, numbers, booleans and null.

    Args:
        value: the output of a loader; times become RFC 3339 text, and UTC without a time zone.
        path: the path of the value.

    Raises:
        NotData: a value inside is of another type.
        RecursionError: it is nested too deeply, or contains itself.
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
    for scalar in (str, int, float):  # for example an enum member or a numpy number
        if isinstance(value, scalar):
            return scalar(value)
    raise NotData(path, _wrong_type(value))


def _name(key: object, path: Path) -> str:
    """Return a key as text, formatting numbers and booleans as in YAML."""
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
