"""Provisioning on demand: the topologies of the storage class, and the capacity that its driver reports."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.volumes import Claim, Storage
from kilauea.engine.plugins.predicates.volume_reach import Reach
from kilauea.engine.plugins.predicates.volume_rooms import Rooms

FITS, ELSEWHERE, NO_ROOM = 0, 1, 2
"""A volume can be provisioned; not on this node; allowed here, but without enough capacity."""


class Provision:
    """Filters nodes by whether a volume can be provisioned for a claim, and reserves capacity for new volumes."""

    def __init__(self, storage: Storage, nodes: NodeTable, reach: Reach) -> None:
        self._storage = storage
        self._size = len(nodes)
        self._reach = reach
        self._allowed: dict[str, NDArray[np.int8]] = {}
        self._rooms: dict[str, Rooms | None] = {}

    def verdict(self, claim: Claim) -> NDArray[np.int8]:
        """(N,) FITS, ELSEWHERE or NO_ROOM."""
        out, rooms = self._where(claim.class_name), self._rooms_for(claim)
        if rooms is None:
            return out
        return np.where((out == FITS) & ~rooms.fits(claim.wish.size), NO_ROOM, out).astype(np.int8)

    def crowded(self, claims: Mapping[str, tuple[Claim, NDArray[np.bool_]]]) -> NDArray[np.bool_] | None:
        """(N,) nodes without room for all new volumes of a pod together; None if each fits where it fits alone.

        Args:
            claims: claims of one pod by key, with (N,) the nodes where a volume must be provisioned for each.
        """
        by_class: dict[str, list[tuple[Claim, NDArray[np.bool_]]]] = {}
        for claim, wanted in claims.values():
            if self._rooms_for(claim) is not None:
                by_class.setdefault(claim.class_name, []).append((claim, wanted))
        out = None
        for several in by_class.values():
            rooms = self._rooms_for(several[0][0])
            if len(several) < 2 or rooms is None:
                continue
            several.sort(key=lambda each: -each[0].wish.size)
            sizes = [claim.wish.size for claim, _ in several]
            full = ~rooms.fit_together(sizes, np.array([wanted for _, wanted in several]))
            out = full if out is None else out | full
        return out

    def left(self, claim: Claim) -> NDArray[np.float64] | None:
        """(N,) bytes left for volumes of the class of a claim; None if capacity is not counted."""
        rooms = self._rooms_for(claim)
        return None if rooms is None else rooms.left()

    def book(self, claim: Claim, row: int) -> int:
        """Reserve capacity on a node for a claim; returns the argument for `give_back`, -1 without counted capacity."""
        rooms = self._rooms_for(claim)
        return -1 if rooms is None else rooms.book(claim.wish.size, row)

    def give_back(self, claim: Claim, segment: int) -> None:
        """Undo a reservation of `book`."""
        rooms = self._rooms_for(claim)
        if rooms is not None and segment >= 0:
            rooms.change(segment, -claim.wish.size)

    def _where(self, class_name: str) -> NDArray[np.int8]:
        """(N,) FITS where the class allows volumes, else ELSEWHERE."""
        if class_name not in self._allowed:
            of = self._storage.classes.get(class_name)
            out = np.full(self._size, ELSEWHERE, dtype=np.int8)
            if of is not None and of.provisions:
                mask = self._reach.mask(of.topologies)
                out[slice(None) if mask is None else mask] = FITS
            self._allowed[class_name] = out
        return self._allowed[class_name]

    def _rooms_for(self, claim: Claim) -> Rooms | None:
        """The capacity for a claim; None if it requests no size, or its driver does not report any."""
        if not claim.wish.size:
            return None
        name = claim.class_name
        if name not in self._rooms:
            of = self._storage.classes.get(name)
            told = of is not None and bool(self._storage.tracking.get(of.provisioner))
            reported = [(key, c) for key, c in self._storage.capacities.items() if c.class_name == name]
            self._rooms[name] = Rooms(reported, self._reach, self._size) if told else None
        return self._rooms[name]
