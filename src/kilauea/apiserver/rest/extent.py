"""Limits on the size and depth of objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kilauea.apiserver import status

LARGEST = 1536 * 1024
"""Bytes of one object; the default limit of etcd, and so of the real server."""
DEEPEST = 200
"""Levels of nested lists and objects. Code that reads objects recurses once per level."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OTHER = bytes(each for each in range(256) if each not in b"[]{}")


def check_size(value: bytes, kind: str, metadata: Mapping[str, Any]) -> None:
    """Reject an object, in JSON, that is too large to be stored.

    Raises:
        ApiFault: 413.
    """
    if len(value) > LARGEST:
        name = metadata.get("name", "")
        raise status.ApiFault(
            413,
            "RequestEntityTooLarge",
            f'{kind} "{name}" is too large: it would take {len(value)} bytes, the limit is {LARGEST}: '
            "split it, or keep large data elsewhere",
        )


def is_deep(value: bytes) -> bool:
    """Return True if JSON has too many levels; most has too few brackets to need a closer look."""
    if value.count(b"{") + value.count(b"[") <= DEEPEST:
        return False
    brackets = _TEXT.sub(b"", value).translate(None, _OTHER)
    for _ in range(DEEPEST):
        inner = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(inner) == len(brackets):
            break
        brackets = inner
    return bool(brackets)


def too_deep() -> status.ApiFault:
    """Return the error for an object that is nested too deeply."""
    return status.bad_request(f"the object is nested too deep: use at most {DEEPEST} levels")
