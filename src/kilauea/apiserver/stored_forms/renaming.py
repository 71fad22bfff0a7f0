"""Kinds that two groups serve: one form is stored, the other is derived from it by renaming fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec


@dataclass(frozen=True)
class Renaming:
    """Stores objects of a kind as those of another version.

    Attributes:
        api_version: the version of the stored form.
        names: the stored names of fields, by their served names.
    """

    api_version: str
    names: Mapping[str, str]

    @cached_property
    def _back(self) -> Mapping[str, str]:
        return {stored: served for served, stored in self.names.items()}

    def stored(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the stored form of an object; an object in that form is unchanged."""
        return {**_renamed(obj, self.names), "apiVersion": self.api_version}

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return the served form of stored bytes, with kind, apiVersion and metadata first."""
        obj = msgspec.json.decode(value)
        head = {"kind": obj["kind"], "apiVersion": api_version, "metadata": obj["metadata"]}
        return msgspec.json.encode({**head, **_renamed(obj, self._back), "apiVersion": api_version})


def _renamed(obj: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in obj.items()}


EVENTS = Renaming(
    "v1",
    {
        "regarding": "involvedObject",
        "note": "message",
        "reportingController": "reportingComponent",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
    },
)
"""Events of `events.k8s.io`, stored as those of the core group."""
