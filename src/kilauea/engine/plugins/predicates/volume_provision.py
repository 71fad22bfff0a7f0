"""Provisioning on demand: the topologies of the storage class, and the room that its driver reports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import matches
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.volumes import Claim, Storage, StorageClass
from kilauea.engine.plugins.predicates.volume_reach import Reach

FITS, ELSEWHERE, NO_ROOM = 0, 1, 2
"""A volume can be made; not here; here, but there is no room."""


class Provision:
    """Judges nodes by whether a volume can be made for a claim."""

    def __init__(self, storage: Storage, nodes: NodeTable, reach: Reach) -> None:
        self._storage = storage
        self._nodes = nodes
        self._reach = reach
        self._known: dict[tuple[str, int], NDArray[np.int8]] = {}

    def verdict(self, claim: Claim) -> NDArray[np.int8]:
        """(N,) FITS, ELSEWHERE or NO_ROOM."""
        key = (claim.class_name, claim.wish.size)
        if key not in self._known:
            self._known[key] = self._judge(self._storage.classes.get(claim.class_name), claim.wish.size)
        return self._known[key]

    def _judge(self, of: StorageClass | None, size: int) -> NDArray[np.int8]:
        out = np.full(len(self._nodes), ELSEWHERE, dtype=np.int8)
        if of is None or not of.provisions:
            return out
        mask = self._reach.mask(of.topologies)
        here = np.ones(len(self._nodes), dtype=bool) if mask is None else mask
        out[here] = FITS
        if size and self._storage.tracking.get(of.provisioner):
            out[here & ~self._room(of.name, size)] = NO_ROOM
        return out

    def _room(self, class_name: str, size: int) -> NDArray[np.bool_]:
        """(N,) nodes that reach room for a volume of this size."""
        capacities = self._storage.capacities.values()
        selectors = {c.nodes for c in capacities if c.class_name == class_name and c.largest >= size}
        return np.array([any(matches(s, f.labels) for s in selectors) for f in self._nodes.facts], dtype=bool)
