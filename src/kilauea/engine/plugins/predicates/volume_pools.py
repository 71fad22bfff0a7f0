"""The free volumes of one storage class, and those that the claims of a pod would get on each node.

Volumes that the same nodes reach form a pool. Nodes that reach the same pools are of one kind, so a pod is evaluated
once for each kind instead of once for each node: zonal volumes make a few kinds, local disks one for each node, and a
placement changes one of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import natural
from kilauea.engine.model.volumes import Volume, Wish
from kilauea.engine.plugins.predicates.volume_reach import FEW, Reach, Rows

Order = tuple[int, tuple[tuple[int, int, str], ...]]


def order_of(volume: Volume) -> Order:
    """Sort the smallest volume first; equal ones by name."""
    return volume.size, natural(volume.name)


class Pools:
    """Free volumes, by the nodes that reach them.

    Attributes:
        kinds: (N,) the kind of each node.
    """

    def __init__(self, volumes: Iterable[Volume], reach: Reach, nodes: int) -> None:
        self._free: list[list[tuple[Order, Volume]]] = []
        """By pool, in order."""
        self._pool_of: dict[str, int] = {}
        self._changed: list[int] = []
        """Pools that lost or regained a volume, in order."""
        self._found: dict[tuple[Wish, ...], tuple[int, NDArray[np.bool_]]] = {}
        rows = self._pool(volumes, reach)
        self.kinds: NDArray[np.intp] = _kinds(rows, nodes)
        self._kinds_of = [
            np.unique(self.kinds if reached is None else self.kinds[reached]).tolist() for reached in rows
        ]
        self._pools_at: list[list[int]] = [[] for _ in range(int(self.kinds.max(initial=-1)) + 1)]
        for pool, kinds in enumerate(self._kinds_of):
            for kind in kinds:
                self._pools_at[kind].append(pool)

    def _pool(self, volumes: Iterable[Volume], reach: Reach) -> list[Rows | None]:
        """Put volumes into pools; returns the rows that reach each pool."""
        numbers: dict[object, int] = {}
        rows: list[Rows | None] = []
        for volume in volumes:
            reached = reach.rows_of(volume)
            key = None if reached is None else reached.tobytes()
            pool = numbers.setdefault(key, len(rows))
            if pool == len(rows):
                rows.append(reached)
                self._free.append([])
            self._pool_of[volume.name] = pool
            self._free[pool].append((order_of(volume), volume))
        for free in self._free:
            free.sort(key=_order)
        return rows

    # --- assignment

    def take(self, volume: Volume) -> bool:
        """Take a volume out; returns False if it is not in a pool."""
        pool = self._pool_of.get(volume.name, -1)
        if pool < 0:
            return False
        entry, free = (order_of(volume), volume), self._free[pool]
        at = bisect_left(free, entry[0], key=_order)
        if at == len(free) or free[at][1] is not volume:
            return False
        del free[at]
        self._changed.append(pool)
        return True

    def give_back(self, volume: Volume) -> None:
        """Put back a volume that was taken."""
        pool = self._pool_of[volume.name]
        insort(self._free[pool], (order_of(volume), volume), key=_order)
        self._changed.append(pool)

    # --- matching

    def found(self, wishes: tuple[Wish, ...]) -> NDArray[np.bool_]:
        """(W, K) True where each of the wishes (ascending by size) of one pod finds a volume, by kind of node."""
        known = self._found.get(wishes)
        if known is None:
            out = np.zeros((len(wishes), len(self._pools_at)), dtype=bool)
            kinds: Iterable[int] = range(len(self._pools_at))
        elif known[0] == len(self._changed):
            return known[1]
        else:
            out = known[1]
            kinds = {kind for pool in set(self._changed[known[0] :]) for kind in self._kinds_of[pool]}
        for kind in kinds:
            out[:, kind] = [volume is not None for volume in self._assign(kind, wishes)]
        self._found[wishes] = (len(self._changed), out)
        return out

    def sizes(self, wishes: Sequence[Wish]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(K,) bytes that wishes with a matching volume request, by kind of node, and the bytes of these volumes."""
        asked, held = np.zeros(len(self._pools_at)), np.zeros(len(self._pools_at))
        for kind in range(len(self._pools_at)):
            for wish, volume in zip(wishes, self._assign(kind, wishes), strict=True):
                if volume is not None:
                    asked[kind] += wish.size
                    held[kind] += volume.size
        return asked, held

    def assign(self, row: int, wishes: Sequence[Wish]) -> list[Volume | None]:
        """Return the volume that each of the wishes (ascending by size) of one pod gets on a node."""
        return self._assign(int(self.kinds[row]), wishes)

    def _assign(self, kind: int, wishes: Sequence[Wish]) -> list[Volume | None]:
        out: list[Volume | None] = []
        chosen: set[str] = set()
        for wish in wishes:
            best = min(
                (c for p in self._pools_at[kind] for c in self._first(p, wish, chosen)), key=_order, default=None
            )
            out.append(best[1] if best else None)
            if best:
                chosen.add(best[1].name)
        return out

    def _first(self, pool: int, wish: Wish, chosen: set[str]) -> Iterator[tuple[Order, Volume]]:
        """The first volume of a pool that satisfies a wish, if any."""
        free = self._free[pool]
        start: Order = (wish.size, ())
        for at in range(bisect_left(free, start, key=_order), len(free)):
            if free[at][1].name not in chosen and wish.accepts(free[at][1]):
                yield free[at]
                return


def _order(entry: tuple[Order, Volume]) -> Order:
    return entry[0]


def _kinds(rows: Sequence[Rows | None], nodes: int) -> NDArray[np.intp]:
    """(N,) numbers of kinds: two nodes have the same number if they are in the same sets of rows."""
    kinds = np.zeros(nodes, dtype=np.intp)
    few: dict[int, list[int]] = {}
    for number, reached in enumerate(rows):
        if reached is None:
            continue
        if len(reached) <= FEW:
            for row in reached.tolist():
                few.setdefault(row, []).append(number)
        else:
            finer = 2 * kinds
            finer[reached] += 1
            kinds = np.unique(finer, return_inverse=True)[1].astype(np.intp)
    known: dict[tuple[int, ...], int] = {}
    first = int(kinds.max(initial=-1)) + 1
    for row, numbers in few.items():
        kinds[row] = known.setdefault((int(kinds[row]), *numbers), first + len(known))
    return np.unique(kinds, return_inverse=True)[1].astype(np.intp)
