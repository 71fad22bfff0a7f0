"""The settings of a process as plain data, for its `/configz` page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kilauea.api.ports import Key

SECRETS = ("password", "token", "secret")
"""Suffixes of names of fields with a secret, which is replaced by `REDACTED`."""
REDACTED = "REDACTED"
LEFT_OUT = ("environment", "findings", "path")
"""Fields that are not settings: variables of the process, and positions in a file."""


def plain(value: object) -> Any:
    """Convert a value to data for JSON: dataclasses as objects without their secrets; functions as null."""
    if isinstance(value, Path | Key):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dict(_fields(value))
    if isinstance(value, Mapping):
        return {str(name): _value(str(name), each) for name, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, str):
        return _without_user(value)
    return value if isinstance(value, bool | int | float) else None


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        if field.name not in LEFT_OUT:
            yield field.name, _value(field.name, getattr(value, field.name))


def _value(name: str, value: object) -> Any:
    return REDACTED if value and name.lower().endswith(SECRETS) else plain(value)


def _without_user(text: str) -> str:
    """Return a URL without the user and password in it; any other text as it is."""
    try:
        at = urlsplit(text)
    except ValueError:
        return text
    if not at.scheme or "@" not in at.netloc:
        return text
    return at._replace(netloc=f"{REDACTED}@{at.netloc.rpartition('@')[2]}").geturl()
