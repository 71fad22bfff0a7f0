"""Duplicate keys in JSON objects: decoders keep the last one, `fieldValidation` reports them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class _Pairs(list[tuple[str, Any]]):
    """An object with all keys, in the order of the text."""


def fields_in_order(text: str | bytes) -> Iterator[tuple[str, bool]]:
    """Yield the path of each key in JSON text, such as `spec.containers[0].image`, and True if it is a duplicate.

    Raises:
        ValueError: the text is not JSON.
    """
    return _walk(json.loads(text, object_pairs_hook=_Pairs), "")


def repeated_fields(text: str | bytes) -> list[str]:
    """Return the paths of the fields that JSON text sets more than once.

    Raises:
        ValueError: the text is not JSON.
    """
    return list(dict.fromkeys(path for path, again in fields_in_order(text) if again))


def _walk(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    if isinstance(value, _Pairs):
        seen = set()
        for key, each in value:
            below = f"{path}.{key}" if path else key
            yield below, key in seen
            seen.add(key)
            yield from _walk(each, below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
