"""Ascend 310P chips that are split as pods come: the cores, processors and image units of each chip (MindCluster).

A pod asks for cores (`huawei.com/npu-core`). A multiple of a chip's cores means whole chips; fewer cores mean a
template, by which the device plugin splits one chip. Templates of the same cores differ in processors: where those of a
chip do not suffice, a pod whose labels allow it gets the template with fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.devices import LONGEST, NPU_CORES
from kilauea.engine.model import status
from kilauea.engine.model.devices import DYNAMIC, UNIT, DeviceWish
from kilauea.engine.model.nodes import NodeFacts, NodeRows, NodeTable
from kilauea.engine.model.tasks import Task

CORES, PROCESSORS, IMAGES = 0, 1, 2
SERVER = "servertype"
"""Label of nodes: the kind of chip and its cores, such as `Ascend310P-8`."""
MOST_CHIPS = 128
CHIP_PROCESSORS, CHIP_IMAGES = 7, 8

IntArray = NDArray[np.int64]
NO_CHIPS, NO_TEMPLATE, TOO_FEW = 1, 2, 3
Question = tuple[int, str, str]
"""Cores, level and image units that a pod asks for: all that decides which chips it may have."""


class Split(NamedTuple):
    """A template: the name by which the device plugin knows it, and what it takes of a chip."""

    name: str
    cores: int
    processors: int
    images: int
    """Units that decode and scale images (dvpp); in eighths of the chip's."""


SPLITS = {
    split.name: split
    for split in (
        Split("vir01", 1, 1, 1),
        Split("vir02", 2, 2, 2),
        Split("vir02_1c", 2, 1, 2),
        Split("vir04", 4, 4, 4),
        Split("vir04_3c", 4, 3, 4),
        Split("vir04_3c_ndvpp", 4, 3, 0),
        Split("vir04_4c_dvpp", 4, 4, CHIP_IMAGES),
    )
}


def splits_for(cores: int, level: str, images: str) -> tuple[Split, ...]:
    """Return the templates for so many cores, best first; none if there is none.

    Args:
        cores: number of cores.
        level: label `vnpu-level` of the pod: `high` prefers more processors.
        images: label `vnpu-dvpp`: `yes` for all image units, `no` for none.
    """
    names: tuple[str, ...] = ()
    if cores == 1:
        names = ("vir01",)
    elif cores == 2:
        names = ("vir02", "vir02_1c") if level == "high" else ("vir02_1c",)
    elif cores == 4 and images in ("yes", "no"):
        names = ("vir04_4c_dvpp",) if images == "yes" else ("vir04_3c_ndvpp",)
    elif cores == 4:
        names = ("vir04", "vir04_3c") if level == "high" else ("vir04_3c",)
    return tuple(SPLITS[name] for name in names)


class Chip(NamedTuple):
    """A chip, and what of it is in use."""

    cores: int
    processors: int
    images: int
    used_cores: int
    used_processors: int
    used_images: int

    @property
    def idle(self) -> bool:
        """True if no pod uses it."""
        return not (self.used_cores or self.used_processors or self.used_images)

    def takes(self, split: Split) -> bool:
        """Return True if there is room for a template."""
        return (
            self.used_cores + split.cores <= self.cores
            and self.used_processors + split.processors <= self.processors
            and self.used_images + split.images <= self.images
        )


class Chips(NamedTuple):
    """Chips that a pod has on a node."""

    row: int
    columns: tuple[int, ...]
    split: Split | None
    """None for whole chips."""
    promised: bool = False
    leaving: bool = False

    @property
    def text(self) -> str:
        """The chips as the device plugin reads them: `0,1`, or `0-vir02`."""
        numbers = ",".join(map(str, self.columns))
        return numbers if self.split is None else f"{numbers}-{self.split.name}"


def chips_of(facts: NodeFacts) -> tuple[int, int]:
    """Return the number of chips of a node and the cores of each; zeros if it has none that can be split."""
    parts, cores = facts.labels.get(SERVER, "").split("-"), facts.allocatable.get(NPU_CORES, 0) // UNIT
    each = int(parts[1]) if len(parts) > 1 and parts[1] in ("8", "10") else 0
    return (min(cores // each, MOST_CHIPS), each) if each and parts[0].startswith("Ascend310P") else (0, 0)


class ChipLedger:
    """The chips of a cluster in one cycle."""

    def __init__(self, nodes: NodeTable) -> None:
        """Take the chips from the objects of the nodes."""
        found = [chips_of(facts) for facts in nodes.facts]
        self.count = np.array([count for count, _ in found], dtype=np.int64)
        self.each = np.array([each for _, each in found], dtype=np.int64)
        width = max(int(self.count.max(initial=0)), 1)
        there = np.arange(width)[None, :] < self.count[:, None]
        self.capacity = np.zeros((3, len(found), width), dtype=np.int64)
        self.capacity[CORES] = self.each[:, None] * there
        self.capacity[PROCESSORS] = CHIP_PROCESSORS * there
        self.capacity[IMAGES] = CHIP_IMAGES * there
        self.held = np.zeros_like(self.capacity)
        """By pods that are there."""
        self.later = np.zeros_like(self.capacity)
        """Without what is being freed, with what is promised."""
        self.bookings: dict[str, Chips] = {}
        self._moving = 0
        """Bookings of pods that leave or are nominated; without any, room now is room later."""
        self._numbers: dict[tuple[Chip, ...], int] = {}
        self._kinds: list[tuple[Chip, ...]] = []
        self._number = np.array([self._number_of(row) for row in range(len(found))], dtype=np.intp)
        """(N,) the chips of each node. Pods fill one node after another, so the same come up again and again."""
        self._codes: dict[Question, dict[int, int]] = {}
        """Answers of `fits` for room later, by the number of the chips."""

    def fits(self, wish: DeviceWish, nodes: NodeRows, *, now: bool) -> NDArray[np.int8]:
        """(n,) 0 where a pod finds its chips, or why not."""
        rows = np.arange(len(self.count)) if nodes.rows is None else nodes.rows
        if now and self._moving:
            used = np.maximum(self.held, self.later)
            return np.array([_judged(wish, self._chips(row, used)) for row in rows.tolist()], dtype=np.int8)
        known = self._codes.setdefault(_question(wish), {})
        numbers = self._number.take(rows).tolist()
        for number in numbers:
            if number not in known:
                known[number] = _judged(wish, self._kinds[number])
        return np.array([known[number] for number in numbers], dtype=np.int8)

    def _chips(self, row: int, used: IntArray) -> list[Chip]:
        """The chips of a node, with so much of them in use."""
        columns = [*self.capacity[:, row].tolist(), *used[:, row].tolist()]
        return list(map(Chip._make, zip(*columns, strict=True)))[: self.count.item(row)]

    def downgraded(self, wish: DeviceWish, nodes: NodeRows) -> NDArray[np.bool_]:
        """(n,) nodes where a pod would not get the first of its templates."""
        splits = splits_for(cores_of(wish), wish.level, wish.images)
        if len(splits) < 2:
            return np.zeros(len(nodes), dtype=bool)
        need = np.array(splits[0][1:], dtype=np.int64)[:, None, None]
        fits = _of(self.later, nodes) + need <= _of(self.capacity, nodes)
        first: NDArray[np.bool_] = np.logical_or.reduce(np.logical_and.reduce(fits, axis=0), axis=1)
        return ~first

    def idle_cores(self, nodes: NodeRows) -> IntArray:
        """(n,) cores that no pod has."""
        cores: IntArray = (_of(self.capacity, nodes)[CORES] - _of(self.later, nodes)[CORES]).sum(axis=1)
        return cores

    def _choose(self, wish: DeviceWish, row: int, *, now: bool) -> Chips | None:
        """The chips for a pod on a node; of those with room for a template, the one with the fewest free cores."""
        cores, each = cores_of(wish), int(self.each[row])
        used = np.maximum(self.held, self.later) if now and self._moving else self.later
        chips = self._chips(row, used)
        if each and cores % each == 0:
            idle = [column for column, chip in enumerate(chips) if chip.idle]
            needed = cores // each
            return Chips(row, tuple(idle[:needed]), None) if len(idle) >= needed else None
        for split in splits_for(cores, wish.level, wish.images):
            columns = [column for column, chip in enumerate(chips) if chip.takes(split)]
            if columns:
                fullest = max(columns, key=self.later[CORES, row].tolist().__getitem__)
                return Chips(row, (fullest,), split)
        return None

    # --- pods come and go

    def take_in(self, task: Task, row: int) -> bool:
        """Book what a pod on a node has by its record; return False if that cannot be read."""
        known = self._recorded(dict(task.record).get(DYNAMIC, ""), row)
        if known is not None:
            self._enter(task.key, known._replace(leaving=task.status == status.RELEASING))
        return known is not None

    def guess(self, task: Task, row: int) -> None:
        """Book for a pod on a node without a record what a new one would get."""
        known = self._choose(task.spec.devices, row, now=True) if task.spec.devices is not None else None
        if known is not None:
            self._enter(task.key, known._replace(leaving=task.status == status.RELEASING))

    def _recorded(self, text: str, row: int) -> Chips | None:
        numbers, _, name = text[:LONGEST].partition("-")
        split = SPLITS.get(name)
        parts = numbers.split(",")
        if (name and split is None) or not all(p.isascii() and p.isdigit() and len(p) < 4 for p in parts):
            return None
        columns = tuple(sorted({int(part) for part in parts}))
        return Chips(row, columns, split) if columns[-1] < self.count[row] else None

    def placed(self, task: Task, row: int) -> bool:
        """A task came to a node and gets its chips; return False if it has none left for it."""
        known, wish = self.bookings.get(task.key), task.spec.devices
        if known is not None and known.leaving:
            self._leave(task.key)
            self._enter(task.key, known._replace(leaving=False))
            return True
        promised = task.status == status.PIPELINED
        chosen = self._choose(wish, row, now=not promised) if wish is not None else None
        if chosen is not None:
            self._enter(task.key, chosen._replace(promised=promised))
        return chosen is not None

    def gone(self, task: Task) -> None:
        """A task left its node, or will once it has terminated."""
        if task.key in self.bookings:
            known = self._leave(task.key)
            if task.status == status.RELEASING:
                self._enter(task.key, known._replace(leaving=True))

    def _enter(self, key: str, chips: Chips) -> None:
        self.bookings[key] = chips
        self._count(chips, 1)

    def _leave(self, key: str) -> Chips:
        chips = self.bookings.pop(key)
        self._count(chips, -1)
        return chips

    def _count(self, chips: Chips, by: int) -> None:
        row = chips.row
        for column in chips.columns:
            amounts = self.capacity[:, row, column].tolist() if chips.split is None else chips.split[1:]
            for kind, amount in enumerate(amounts):
                self.held[kind, row, column] += 0 if chips.promised else by * amount
                self.later[kind, row, column] += 0 if chips.leaving else by * amount
        self._moving += by if chips.promised or chips.leaving else 0
        self._number[row] = self._number_of(row)

    def _number_of(self, row: int) -> int:
        """A number for what the chips of a node are and will have free: the same for the same chips in any order."""
        chips = tuple(sorted(self._chips(row, self.later)))
        number = self._numbers.setdefault(chips, len(self._numbers))
        if number == len(self._kinds):
            self._kinds.append(chips)
        return number


def _judged(wish: DeviceWish, chips: Sequence[Chip]) -> int:
    """0 if some chips suffice for a pod, or why not."""
    if not chips:
        return NO_CHIPS
    cores = cores_of(wish)
    if cores % chips[0].cores == 0:
        return 0 if sum(chip.idle for chip in chips) * chips[0].cores >= cores else TOO_FEW
    splits = splits_for(cores, wish.level, wish.images)
    if not splits:
        return NO_TEMPLATE
    return 0 if any(chip.takes(split) for chip in chips for split in splits) else TOO_FEW


def cores_of(wish: DeviceWish) -> int:
    """The cores that a pod asks for: those of the first container that asks for any."""
    return next((request.number for request in wish.requests if request.kind == DYNAMIC), 0)


def _question(wish: DeviceWish) -> Question:
    return cores_of(wish), wish.level, wish.images


def _of(cells: NDArray[Any], nodes: NodeRows) -> NDArray[Any]:
    """The part of an array over nodes and chips (N, C) or (3, N, C) that belongs to some nodes."""
    return cells if nodes.rows is None else cells.take(nodes.rows, axis=-2)
