"""Terms by which placed pods attract or repel others, and their combined effect on a pod.

A thousand pods may each carry a term that matches all the others. So the terms that match a label class are kept as
sums by topology domain, updated with later placements (`moves.py`), and terms are matched with all classes at once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import Selector, matches
from kilauea.engine.model.moves import FEW, Moves
from kilauea.engine.model.namespaces import Namespaces
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.placements import LabelClass, LabelClasses
from kilauea.engine.model.task_specs import PodTerm, TaskSpec

FEW_TERMS = 8
"""Up to this many terms are compared with a pod's labels one by one, which is faster than with all classes."""

MOST_NUMBERS = 4_000_000
"""Maximum number of sums for label classes: those of this many domains."""


class Carried(NamedTuple):
    """A term of placed pods: weight 0 for required anti-affinity, otherwise that of the preferred term."""

    weight: int
    term: PodTerm


class Around:
    """The sums of all terms of placed pods that match the pods of one label class."""

    __slots__ = ("ending", "means", "repelling", "seen", "wishes")

    def __init__(self) -> None:
        self.repelling: dict[str, NDArray[np.int64]] = {}
        """(D,) by topology key: number of terms in each domain that repel the pods, one per pod that carries it."""
        self.ending: dict[str, NDArray[np.int64]] = {}
        """(D,) of these, the terms of pods that were terminating when the session opened."""
        self.wishes: dict[str, NDArray[np.int64]] = {}
        """(D,) by topology key: the sum of the weights of preferred terms."""
        self.means: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        """(T,) by number of a term: True if it matches the pods."""
        self.seen = 0
        """Number of moves that are counted."""


class PlacedTerms:
    """The terms that placed pods carry, for one session."""

    def __init__(self, nodes: NodeTable, classes: LabelClasses, namespaces: Namespaces) -> None:
        self._nodes = nodes
        self._classes = classes
        self._namespaces = namespaces
        self._numbers: dict[Carried, int] = {}
        self._carried: list[Carried] = []
        self._kinds: dict[tuple[str, bool], int] = {}
        """Numbers for topology keys of terms, and True for preferred ones."""
        self._kind_of = array("i")
        self._amounts = array("i")
        """By number of a term: its kind, and its contribution to the sums, for a preferred term its weight."""
        self._of_spec: dict[TaskSpec, tuple[int, ...]] = {}
        """Numbers of the terms of a specification."""
        self._by_label: dict[tuple[str, str], _TermGroup] = {}
        """Terms by one label of the pods that they match: thousands of gangs that each repel their own pods are not
        compared with each other."""
        self._others = _TermGroup()
        self._moves, self._ending = Moves(), Moves()
        self._around: dict[int, Around] = {}
        self.most_classes = max(16, MOST_NUMBERS // max(1, len(nodes)))
        """Maximum number of label classes; beyond it, all are forgotten, and counted again when needed."""

    # --- changes

    def placed(self, spec: TaskSpec, node: int, by: int, *, ending: bool = False) -> None:
        """Record that a pod was added to a node's view (`by` 1) or removed (-1); `ending` if it terminates."""
        numbers = self._of_spec.get(spec)
        if numbers is None:
            numbers = self._of_spec[spec] = tuple(self._number(each) for each in _terms_of(spec))
        for number in numbers:
            self._moves.add(number, node, by)
            if ending:
                self._ending.add(number, node, by)

    def _number(self, carried: Carried) -> int:
        """The number of a term; a new term gets the next number."""
        number = self._numbers.get(carried)
        if number is None:
            number = self._numbers[carried] = len(self._carried)
            self._carried.append(carried)
            kind = carried.term.topology_key, bool(carried.weight)
            self._kind_of.append(self._kinds.setdefault(kind, len(self._kinds)))
            self._amounts.append(carried.weight or 1)
            label = _one_label(carried.term.selector)
            group = self._others if label is None else self._by_label.setdefault(label, _TermGroup())
            group.numbers.append(number)
        return number

    # --- queries

    def around(self, pod: LabelClass) -> Around:
        """Return the current sums for a pod."""
        around = self._around.get(id(pod))
        if around is None:
            if len(self._around) >= self.most_classes:
                self._around.clear()
            around = self._around[id(pod)] = Around()
            self._learn(around, pod)
            if len(self._ending):
                self._count(around, self._ending, 0, around.ending, {})
        elif around.seen == len(self._moves):
            return around
        else:
            self._learn(around, pod)
        self._count(around, self._moves, around.seen, around.repelling, around.wishes)
        around.seen = len(self._moves)
        return around

    def _learn(self, around: Around, pod: LabelClass) -> None:
        """Match the terms that are new to these sums with a pod."""
        before, now = len(around.means), len(self._carried)
        if before == now:
            return
        around.means = np.concatenate([around.means, np.zeros(now - before, dtype=bool)])
        groups = [self._by_label.get(label) for label in pod.labels.items()]
        for group in (*groups, self._others):
            if group is not None and group.numbers:
                start = bisect_left(group.numbers, before)
                if len(group.numbers) - start <= FEW_TERMS:
                    for number in group.numbers[start:]:
                        term = self._carried[number].term
                        around.means[number] = matches(term.selector, pod.labels) and self._means(term, pod.namespace)
                else:
                    around.means[np.array(group.numbers[start:])] = self._column(group, pod)[start:]

    def _column(self, group: _TermGroup, pod: LabelClass) -> NDArray[np.bool_]:
        """(k,) True for terms of a group that match a pod, computed for all label classes at once."""
        for number in group.numbers[len(group.masks) :]:
            group.masks.append(self._mask(self._carried[number].term))
        place, bit = divmod(self._classes.id_of(*pod), 8)
        width = len(group.masks[0])
        found: NDArray[np.bool_] = (np.frombuffer(b"".join(group.masks), np.uint8)[place::width] & (128 >> bit)) != 0
        return found

    def _mask(self, term: PodTerm) -> bytes:
        """A bit for each label class: set if the term matches it."""
        names = term.namespaces
        if term.namespace_selector is not None:
            names = tuple(name for name in self._classes.namespaces if self._means(term, name))
        return np.packbits(self._classes.selected(term.selector) & self._classes.within(names)).tobytes()

    def _means(self, term: PodTerm, namespace: str) -> bool:
        return self._namespaces.meant(term, namespace, must_exist=False)

    def _count(
        self,
        around: Around,
        moves: Moves,
        seen: int,
        repelling: dict[str, NDArray[np.int64]],
        wishes: dict[str, NDArray[np.int64]],
    ) -> None:
        """Add the moves after the first `seen` of terms that match the pods."""
        if not around.means.any():
            return
        if len(moves) - seen <= FEW:
            for number, node, by in moves.few_since(seen):
                if around.means[number]:
                    weight, (*_, key) = self._carried[number]
                    sums = self._sums(wishes if weight else repelling, key)
                    domain = self._nodes.label(key).ids[node]
                    if domain >= 0:
                        sums[domain] += self._amounts[number] * by
            return
        numbers, rows, moved = moves.since(seen)
        meant = around.means[numbers]
        numbers, rows, moved = numbers[meant], rows[meant], moved[meant]
        kind_of, amounts = np.array(self._kind_of)[numbers], moved * np.array(self._amounts)[numbers]
        for (key, wish), kind in self._kinds.items():
            some = kind_of == kind
            if some.any():
                domains = self._nodes.label(key).ids[rows[some]]
                here = domains >= 0
                np.add.at(self._sums(wishes if wish else repelling, key), domains[here], amounts[some][here])

    def _sums(self, of_kind: dict[str, NDArray[np.int64]], key: str) -> NDArray[np.int64]:
        """(D,) the sums for a topology key."""
        sums = of_kind.get(key)
        if sums is None:
            sums = of_kind[key] = np.zeros(len(self._nodes.label(key).values), dtype=np.int64)
        return sums


class _TermGroup:
    """Numbers of terms, ascending, and a bit for each label class that they match, as far as needed."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.masks: list[bytes] = []


def _terms_of(spec: TaskSpec) -> Iterator[Carried]:
    """Terms by which a placed pod attracts or repels others. Required affinity is excluded: it binds only its owner."""
    for term in spec.anti_affinity:
        yield Carried(0, term)
    for weight, term in spec.preferred_pods:
        if weight:
            yield Carried(weight, term)


def _one_label(selector: Selector | None) -> tuple[str, str] | None:
    for requirement in selector or ():
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
