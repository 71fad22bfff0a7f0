"""What happens to a cluster, as the cluster state hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilauea.api.meta import Object


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is there, new or with new content."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Gone:
    """An object is there no more. `key` is `namespace/name`, or the name for kinds without namespace."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class Relisted:
    """All objects of a kind, after events may have been lost; what is not among them is gone."""

    kind: str
    objects: Sequence[Object]


Event = Changed | Gone | Relisted
