"""Events of a cluster, as they are passed to the cluster state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.engine.model.loads import NodeLoad


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is there, new or with new content."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Advanced:
    """A pod of which nothing is new but its version, its node and its status.

    It means the same as `Changed`, and is for less: what else there is of the pod is not read again. That it is as it
    was is for the sender to know; the state takes the pod as it took it last.
    """

    obj: Pod


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


@dataclass(frozen=True, slots=True)
class Listed:
    """An object of a list, after events may have been lost: it counts, whatever version of it was seen before.

    A long list can so be told one object at a time, each freed before the next is read; a `Gone` for each object that
    the list lacks then makes it the same as `Relisted`.
    """

    obj: Object


@dataclass(frozen=True, slots=True)
class Measured:
    """The loads of nodes, by name, as a monitoring system reports them. Loads of earlier events are forgotten."""

    loads: Mapping[str, NodeLoad]


Event = Changed | Advanced | Gone | Relisted | Listed | Measured
