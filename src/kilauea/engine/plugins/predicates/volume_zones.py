"""Zones: a volume with labels of a zone or region can only be used on nodes with the same labels.

A value may name several zones, joined by two underscores. Nodes without any such label take every volume, as in
clusters of a single zone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation import matching
from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import ClaimUse
from kilauea.engine.model.volumes import Volume
from kilauea.engine.session import Session

ZONE = Rejection("VolumeZone", "node(s) had no available volume zone", hopeless=True)

GENERAL = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of zones and regions, each with the label to use if a node does not have it."""
BETWEEN = "__"

Constraint = tuple[str, frozenset[str]]
"""A label and the values that a volume allows."""


class VolumeZoneFilter:
    """Filters nodes by the zones of the volumes that a pod's claims are bound to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._storage = session.state.storage

    def register(self, plugin: str) -> None:
        """Register with the session."""
        self._session.add_predicate(plugin, self._zone, [ZONE], scope=Scope.STATIC, applies=self._applies)

    def _constraints(self, uses: Iterable[ClaimUse]) -> tuple[Constraint, ...]:
        claims = [self._storage.claims.get(use.key) for use in uses]
        volumes = [self._storage.volumes.get(claim.volume) for claim in claims if claim is not None]
        return tuple(sorted({c for v in volumes if v is not None for c in constraints_of(v)}, key=_in_order))

    def _applies(self, shape: TaskShape) -> bool:
        return bool(self._constraints(shape.spec.claims))

    def _zone(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        wanted = self._constraints(shape.spec.claims)
        return nodes.take(matching.kept(nodes.table, ("zones", wanted), lambda: _mask(nodes.table, wanted)))


def constraints_of(volume: Volume) -> list[Constraint]:
    """Return the zones of a volume, by its labels; a label with an empty part is ignored."""
    out = []
    for key in GENERAL:
        if key in volume.labels:
            values = [value.strip() for value in volume.labels[key].split(BETWEEN)]
            if all(values):
                out.append((key, frozenset(values)))
    return out


def _in_order(constraint: Constraint) -> tuple[str, list[str]]:
    return constraint[0], sorted(constraint[1])


def _mask(table: NodeTable, wanted: tuple[Constraint, ...]) -> NDArray[np.bool_]:
    """(N,) nodes in all the zones, or without any such label."""
    fit = np.ones(len(table), dtype=bool)
    for key, values in wanted:
        own, general = table.label(key), table.label(GENERAL[key])
        here = _has(table, key, values)
        fit &= np.where(own.ids >= 0, here, here if own is general else _has(table, GENERAL[key], values))
    somewhere = np.zeros(len(table), dtype=bool)
    for key in GENERAL:
        somewhere |= table.label(key).ids >= 0
    return fit | ~somewhere


def _has(table: NodeTable, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    column = table.label(key)
    return np.array([*(value in values for value in column.values), False], dtype=bool)[column.ids]
