"""Keys that stand twice in one object of a JSON text: decoders keep the last, `fieldValidation` wants to know."""

from __future__ import annotations

import json
from typing import Any


class _Repeating(dict[str, Any]):
    """An object in which keys were there more than once."""

    repeated: list[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    noted = _Repeating(plain)
    keys = [key for key, _ in pairs]
    noted.repeated = sorted({key for key in keys if keys.count(key) > 1}, key=keys.index)
    return noted


def repeated_fields(text: str | bytes) -> list[str]:
    """Paths of the fields that a JSON text sets more than once, such as `spec.containers[0].image`.

    Raises:
        ValueError: the text is not JSON.
    """
    found: list[str] = []
    _collect(json.loads(text, object_pairs_hook=_object), "", found)
    return found


def _collect(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _collect(item, f"{path}[{index}]", found)
    elif isinstance(value, dict):
        repeated = value.repeated if isinstance(value, _Repeating) else ()
        for key, each in value.items():
            below = f"{path}.{key}" if path else key
            if key in repeated:
                found.append(below)
            _collect(each, below, found)
