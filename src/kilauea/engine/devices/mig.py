"""MIG instances of cards: the possible ones, those in use, and the one that a request gets.

A card in mode mig is split into instances of fixed sizes, in one of the ways (groups) that its model supports. An
unused card can be split in any of them; the first pod on it decides. Instances are counted like cards: `held` by pods
that are present, `later` without resources that are being released and with nominations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.api.device_config import Geometry, Instance

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class MigShapes:
    """The geometries of the cards of all nodes; they change only with the nodes and the configuration.

    Attributes:
        geometry: (N, C) number of a card's geometry, -1 for cards that are not split.
        instances: by geometry, the possible instances of its cards.
        width: largest number of instances of a geometry.
    """

    def __init__(self, geometries: Sequence[Geometry], numbers: Sequence[Sequence[int]], width: int) -> None:
        """Set the geometries, and by node the number of the geometry of each card."""
        self.geometry: NDArray[np.int64] = np.full((len(numbers), max(width, 1)), -1, dtype=np.int64)
        for row, of_node in enumerate(numbers):
            self.geometry[row, : len(of_node)] = of_node
        self.instances = tuple(each.instances for each in geometries)
        self.width = max(map(len, self.instances), default=0)
        # The first group with an instance that is large enough; in it the smallest one, the first of equal ones.
        keys = [[(each.group, each.memory, i) for i, each in enumerate(listed)] for listed in self.instances]
        self._orders = tuple(np.array([key[-1] for key in sorted(listed)], dtype=np.intp) for listed in keys)

    def name(self, row: int, column: int, instance: int) -> str:
        """The suffix of the id of an instance, after that of its card: `[group-position]`."""
        found = self.instances[int(self.geometry[row, column])][instance]
        return f"[{found.group}-{found.position}]"

    def find(self, row: int, column: int, group: int, position: int) -> int:
        """The number of an instance of a card; -1 if the card cannot have it."""
        number = int(self.geometry[row, column])
        listed = self.instances[number] if number >= 0 else ()
        return next((i for i, each in enumerate(listed) if (each.group, each.position) == (group, position)), -1)

    def memory(self, row: int, column: int, instance: int) -> int:
        """MiB of an instance."""
        return self.instances[int(self.geometry[row, column])][instance].memory

    def choose(self, need: IntArray | int, rows: NDArray[np.intp] | None, *uses: IntArray) -> NDArray[np.int64]:
        """(n, C) the instance that each card would give for this much memory with the usages (n, C, P), -1 for none."""
        geometry = self.geometry if rows is None else self.geometry.take(rows, axis=0)
        out = np.full(geometry.shape, -1, dtype=np.int64)
        used = np.logical_or.reduce([use > 0 for use in uses])
        needs = np.broadcast_to(np.asarray(need, dtype=np.int64), geometry.shape)
        for number, instances in enumerate(self.instances):
            at = np.nonzero(geometry == number)
            if len(at[0]):
                out[at] = self._choose(number, instances, needs[at], used[at])
        return out

    def _choose(self, number: int, instances: Sequence[Instance], need: IntArray, used: BoolArray) -> NDArray[np.int64]:
        """(m,) the instances for m cards of one geometry."""
        order = self._orders[number]
        used = used[:, order]
        group = np.array([instances[i].group for i in order])
        memory = np.array([instances[i].memory for i in order])
        # A card that is split in one way cannot give instances of another.
        in_groups = [used[:, group == each].any(axis=1) for each in range(int(group.max()) + 1)]
        split = np.stack(in_groups, axis=1)
        elsewhere = split.sum(axis=1)[:, None] - split[:, group] > 0
        fits = ~used & ~elsewhere & (memory[None, :] >= need[:, None])
        first = fits.argmax(axis=1)
        found: NDArray[np.int64] = np.where(fits.any(axis=1), order[first], -1)
        return found
