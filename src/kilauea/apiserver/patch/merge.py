"""Merge patches (RFC 7386), as the real server applies them: keys with null are also dropped within new lists."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.patch.values import json_type
from kilauea.apiserver.status import bad_request


def merge_patch(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Merge a patch into a document in place and return it; it shares parts of the patch.

    Raises:
        ApiFault: 400 if the patch is not an object.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        found = json_type(patch)
        message = (
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
        raise bad_request(message)
    _merge(document, patch)
    return document


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> None:
    """Merge a patch: null deletes, objects are merged, everything else is replaced."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
            continue
        current = document.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            _merge(current, value)
        else:
            document[key] = value if isinstance(current, dict) else without_nulls(value)


def merged(document: Any, patch: Any, *, nulls: bool) -> Any:
    """Return a document with a patch applied, which shares unchanged parts with the document.

    Args:
        document: not changed.
        patch: shared with the result.
        nulls: True if the patch may contain nulls.
    """
    if not isinstance(document, dict) or not isinstance(patch, dict):
        return without_nulls(patch) if nulls and not isinstance(document, dict) else patch
    out = dict(document)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value, nulls=nulls)
    return out


def without_nulls(value: Any) -> Any:
    """Return a copy without keys whose value is null, at all depths; null items of lists stay."""
    if isinstance(value, dict):
        return {
            key: without_nulls(each) if isinstance(each, dict | list) else each
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value
