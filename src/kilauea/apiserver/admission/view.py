"""Reading other objects in admission: only the fields that are asked for, decoded once while they stay the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import msgspec

T = TypeVar("T")
REMEMBERED = 4096
"""Decoded objects of a kind that are kept; clusters have fewer namespaces, accounts and classes than that."""


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """Base of what is read: unknown fields are passed over."""


class Metadata(Record, frozen=True):
    """The part of metadata that admission asks about."""

    name: str = ""
    creation_timestamp: str | None = None
    annotations: dict[str, str] | None = None


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """A function from the bytes of an object to a record, which must not be changed: equal bytes share one."""
    return lru_cache(REMEMBERED)(msgspec.json.Decoder(kind).decode)
