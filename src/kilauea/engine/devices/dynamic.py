"""Ascend 310P chips that are split on demand: the cores, processors and image units of each chip (MindCluster).

A pod requests cores (`huawei.com/npu-core`). A multiple of a chip's cores means whole chips; fewer cores mean a
template, by which the device plugin splits one chip. Templates with the same number of cores differ in processors: if a
chip does not have enough, a pod whose labels allow it gets the template with fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.devices import NPU_CORES
from kilauea.api.npus import CHIP_IMAGES, CHIP_PROCESSORS, SERVER, SPLITS, Split, chip_count, read_given
from kilauea.engine.model import status
from kilauea.engine.model.devices import DYNAMIC, UNIT, DeviceWish
from kilauea.engine.model.nodes import NodeFacts, NodeRows, NodeTable
from kilauea.engine.model.tasks import Task

MOST_KNOWN = 65536
"""Maximum number of cached choices and changes."""

IntArray = NDArray[np.int64]
NO_CHIPS, NO_TEMPLATE, TOO_FEW = 1, 2, 3
Question = tuple[int, str, str]
"""Cores, level and image units that a pod requests: all that determines which chips it can get."""


def splits_for(cores: int, level: str, images: str) -> tuple[Split, ...]:
    """Return the templates for this many cores, best first; empty if there are none.

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
    """A chip, and its usage."""

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
    """Return the number of chips of a node and the cores of each; zeros without chips that can be split."""
    return chip_count(facts.labels.get(SERVER, ""), facts.allocatable.get(NPU_CORES, 0) // UNIT)


class NodeChips(NamedTuple):
    """The chips of a node, in their order."""

    held: tuple[Chip, ...]
    """With the usage of pods that are present."""
    later: tuple[Chip, ...]
    """Without resources that are being released, with nominations."""

    @property
    def at_once(self) -> tuple[Chip, ...]:
        """With the larger of both usages: the state for a pod that starts now."""
        pairs = zip(self.held, self.later, strict=True)
        return tuple(Chip(*held[:3], *map(max, held[3:], later[3:])) for held, later in pairs)

    def with_pod(self, columns: Sequence[int], split: Split | None, held: int, later: int) -> NodeChips:
        """Return the chips with one more pod on some of them (1), one less (-1), or unchanged (0)."""
        return NodeChips(_used(self.held, columns, split, held), _used(self.later, columns, split, later))


class ChipLedger:
    """The chips of a cluster in one cycle.

    As pods fill up nodes, the same chips with the same usage recur. Each such state of a node has a number, and results
    are computed once for each state.
    """

    def __init__(self, nodes: NodeTable) -> None:
        """Read the chips from the node objects."""
        found = [chips_of(facts) for facts in nodes.facts]
        self.count = [count for count, _ in found]
        """By node: the number of its chips."""
        self.bookings: dict[str, Chips] = {}
        self._moving = 0
        """Bookings of pods that terminate or are nominated; without any, the room now and later is the same."""
        self._states: list[NodeChips] = []
        self._numbers: dict[NodeChips, int] = {}
        self._kinds: dict[tuple[Chip, ...], int] = {}
        self._kind: list[int] = []
        """By state: a number that is equal for the same chips in any order, after terminating pods have ended."""
        self._moves: dict[tuple[int, tuple[int, ...], Split | None, int, int], int] = {}
        """The resulting state, by state and change."""
        self._codes: dict[tuple[Question, bool], dict[int, int]] = {}
        """Results of `fits`: for room later by the kind of the state, for room now by the state."""
        self._chosen: dict[tuple[Question, bool, int], tuple[tuple[int, ...], Split | None] | None] = {}
        """The chips that a pod gets, by its request, whether it starts now, and the state."""
        states = {each: self._number_of(_unused(*each)) for each in dict.fromkeys(found)}
        self._at = [states[each] for each in found]
        """By node: the number of its state."""

    def fits(self, wish: DeviceWish, nodes: NodeRows, *, now: bool) -> NDArray[np.int8]:
        """(n,) 0 where a pod finds its chips, otherwise the reason."""
        at = self._at if nodes.rows is None else list(map(self._at.__getitem__, nodes.rows.tolist()))
        at_once = now and self._moving > 0
        known = self._codes.setdefault((_question(wish), at_once), {})
        keys = at if at_once else list(map(self._kind.__getitem__, at))
        for key, number in zip(keys, at, strict=True):
            if key not in known:
                chips = self._states[number].at_once if at_once else self._states[number].later
                known[key] = _judged(wish, chips)
        return np.array(list(map(known.__getitem__, keys)), dtype=np.int8)

    def downgraded(self, wish: DeviceWish, nodes: NodeRows) -> NDArray[np.bool_]:
        """(n,) True for nodes where a pod would not get the first of its templates."""
        splits = splits_for(cores_of(wish), wish.level, wish.images)
        if len(splits) < 2:
            return np.zeros(len(nodes), dtype=bool)
        return self._by_state(nodes, lambda chips: not any(chip.takes(splits[0]) for chip in chips)).astype(bool)

    def idle_cores(self, nodes: NodeRows) -> IntArray:
        """(n,) cores that no pod uses."""
        return self._by_state(nodes, lambda chips: sum(chip.cores - chip.used_cores for chip in chips))

    def _by_state(self, nodes: NodeRows, find: Callable[[tuple[Chip, ...]], int]) -> IntArray:
        """(n,) figures of nodes that depend on their chips after terminating pods have ended."""
        at = self._at if nodes.rows is None else list(map(self._at.__getitem__, nodes.rows.tolist()))
        known = {number: find(self._states[number].later) for number in dict.fromkeys(at)}
        return np.array(list(map(known.__getitem__, at)), dtype=np.int64)

    def _choose(self, wish: DeviceWish, row: int, *, now: bool) -> Chips | None:
        """The chips for a pod on a node; of those with room for a template, the chip with the fewest free cores."""
        state, at_once = self._at[row], now and self._moving > 0
        key = _question(wish), at_once, state
        if key not in self._chosen:
            if len(self._chosen) >= MOST_KNOWN:
                self._chosen.clear()
            self._chosen[key] = _best(wish, self._states[state], at_once=at_once)
        found = self._chosen[key]
        return None if found is None else Chips(row, *found)

    # --- placements

    def take_in(self, task: Task, row: int) -> bool:
        """Book the chips in the record of a pod on a node; return False if the record is invalid."""
        known = self._recorded(dict(task.record).get(DYNAMIC, ""), row)
        if known is not None:
            self._enter(task.key, known._replace(leaving=task.status == status.RELEASING))
        return known is not None

    def guess(self, task: Task, row: int) -> None:
        """Book the chips that a new pod would get, for a pod on a node without a record."""
        known = self._choose(task.spec.devices, row, now=True) if task.spec.devices is not None else None
        if known is not None:
            self._enter(task.key, known._replace(leaving=task.status == status.RELEASING))

    def _recorded(self, text: str, row: int) -> Chips | None:
        known = read_given(text, self.count[row])
        return None if known is None else Chips(row, *known)

    def placed(self, task: Task, row: int) -> bool:
        """Book chips for a task that was placed on a node; return False if too few are left."""
        known, wish = self.bookings.get(task.key), task.spec.devices
        if known is not None and known.leaving:
            self._leave(task.key)
            self._enter(task.key, known._replace(leaving=False))
            return True
        promised = task.status == status.PIPELINED
        chosen = self._choose(wish, row, now=not promised) if wish is not None else None
        if chosen is not None:
            self._enter(task.key, chosen._replace(promised=True) if promised else chosen)
        return chosen is not None

    def gone(self, task: Task) -> None:
        """Release the chips of a task that left its node, or will once it has terminated."""
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
        row, columns, split, promised, leaving = chips
        move = self._at[row], columns, split, 0 if promised else by, 0 if leaving else by
        number = self._moves.get(move)
        if number is None:
            if len(self._moves) >= MOST_KNOWN:
                self._moves.clear()
            number = self._moves[move] = self._number_of(self._states[move[0]].with_pod(*move[1:]))
        self._at[row] = number
        if promised or leaving:
            self._moving += by

    def _number_of(self, chips: NodeChips) -> int:
        """The number of a state; a new state gets the next number."""
        number = self._numbers.setdefault(chips, len(self._states))
        if number == len(self._states):
            self._states.append(chips)
            self._kind.append(self._kinds.setdefault(tuple(sorted(chips.later)), len(self._kinds)))
        return number


def _unused(count: int, cores: int) -> NodeChips:
    """This many unused chips with this many cores."""
    chips = (Chip(cores, CHIP_PROCESSORS, CHIP_IMAGES, 0, 0, 0),) * count
    return NodeChips(chips, chips)


def _used(chips: tuple[Chip, ...], columns: Sequence[int], split: Split | None, by: int) -> tuple[Chip, ...]:
    """Return chips with more (1) or less (-1) usage of some of them: a template of each, or all of it."""
    if not by:
        return chips
    out = list(chips)
    for column in columns:
        chip = out[column]
        used = zip(chip[3:], chip[:3] if split is None else split[1:], strict=True)
        out[column] = Chip(*chip[:3], *(before + by * amount for before, amount in used))
    return tuple(out)


def _best(wish: DeviceWish, state: NodeChips, *, at_once: bool) -> tuple[tuple[int, ...], Split | None] | None:
    """The columns of the chips for a pod, and its template; None if there are too few."""
    cores, chips = cores_of(wish), state.at_once if at_once else state.later
    each = chips[0].cores if chips else 0
    if each and cores % each == 0:
        idle = [column for column, chip in enumerate(chips) if chip.idle]
        needed = cores // each
        return (tuple(idle[:needed]), None) if len(idle) >= needed else None
    for split in splits_for(cores, wish.level, wish.images):
        columns = [column for column, chip in enumerate(chips) if chip.takes(split)]
        if columns:
            return (max(columns, key=lambda column: state.later[column].used_cores),), split
    return None


def _judged(wish: DeviceWish, chips: Sequence[Chip]) -> int:
    """0 if the chips suffice for a pod, otherwise the reason."""
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
    """The cores that a pod requests: those of the first container that requests any."""
    return next((request.number for request in wish.requests if request.kind == DYNAMIC), 0)


def _question(wish: DeviceWish) -> Question:
    return cores_of(wish), wish.level, wish.images
