"""Events of a cluster, as they are passed to the cluster state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.engine.model.loads import NodeLoad


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is new or has changed."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Advanced:
    """A pod of which only the version, the node and the status have changed.

    It has the same effect as `Changed` at a lower cost, because the other fields of the pod are not read again. The
    sender must know that they are unchanged.
    """

    obj: Pod


@dataclass(frozen=True, slots=True)
class Gone:
    """An object no longer exists. `key` is `namespace/name`, or the name for kinds without namespace."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class Relisted:
    """All objects of a kind, after events may have been lost; others no longer exist."""

    kind: str
    objects: Sequence[Object]


@dataclass(frozen=True, slots=True)
class Listed:
    """An object of a list, after events may have been lost; it applies regardless of the version that was seen before.

    With this event, a long list can be processed one object at a time. With a `Gone` for each object that is not in the
    list, the effect is the same as that of `Relisted`.
    """

    obj: Object


@dataclass(frozen=True, slots=True)
class Measured:
    """The loads of nodes, by name, from a monitoring system. They replace the loads of earlier events."""

    loads: Mapping[str, NodeLoad]


Event = Changed | Advanced | Gone | Relisted | Listed | Measured
