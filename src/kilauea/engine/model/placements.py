"""Locations of pods as columns, so that the pods that match a selector can be counted by node in one operation.

`LabelClasses` gives pods with the same namespace and labels one number; `Placements` holds, for every pod, its class
and the row of its node. Both belong to the cluster state; `neighbours.py` counts with them in a session.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import Requirement, Selector

_NUMBERS = "I"
"""Type of the numbers in arrays: unsigned, 32 bits."""


class LabelClass(NamedTuple):
    """Namespace and labels of some pods."""

    namespace: str
    labels: Mapping[str, str]


class LabelClasses:
    """Numbers for (namespace, labels).

    Pods often have a unique label, such as their index, so there may be as many classes as pods. A class is therefore
    stored as the numbers of its namespace and labels, and its mapping is built when needed.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        """Of labels (key, value), and of namespaces (name,)."""
        self._texts: list[tuple[str, ...]] = []
        """Labels and namespaces by number."""
        self._with: list[array[int]] = []
        """Classes by the number of a label or namespace."""
        self._of_key: dict[str, array[int]] = {}
        """Numbers of the labels with a key."""
        self._having: dict[str, NDArray[np.bool_]] = {}
        """(C,) classes that have a label with a key, cached until there is a new class."""
        self.namespaces: list[str] = []
        """Namespaces of all classes."""
        self._ids: dict[bytes, int] = {}
        self._classes: list[bytes] = []
        """By class, the number of its namespace and those of its labels in order."""

    def __len__(self) -> int:
        return len(self._classes)

    def id_of(self, namespace: str, labels: Mapping[str, str]) -> int:
        """The number of the class; a new class gets the next number."""
        numbers = array(_NUMBERS, (self._number((namespace,)), *sorted(map(self._number, labels.items()))))
        key = numbers.tobytes()
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._classes)
            self._classes.append(key)
            self._having.clear()
            for number in numbers:
                self._with[number].append(known)
        return known

    def _number(self, text: tuple[str, ...]) -> int:
        """The number of a label or namespace; a new one gets the next number."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
            self._with.append(array(_NUMBERS))
            if len(text) == 1:
                self.namespaces.append(text[0])
            else:
                self._of_key.setdefault(text[0], array(_NUMBERS)).append(number)
        return number

    def get(self, number: int) -> LabelClass:
        """The class with this number."""
        namespace, *labels = array(_NUMBERS, self._classes[number])
        mapping: dict[str, str] = {}
        for each in labels:
            key, value = self._texts[each]
            mapping[key] = value
        return LabelClass(self._texts[namespace][0], mapping)

    def selected(self, selector: Selector | None) -> NDArray[np.bool_]:
        """(C,) classes whose labels a selector of labels matches; None matches nothing."""
        out = np.full(len(self), selector is not None)
        for requirement in selector or ():
            out &= self._satisfying(requirement)
        return out

    def within(self, namespaces: Iterable[str]) -> NDArray[np.bool_]:
        """(C,) classes of these namespaces."""
        return self._with_any((name,) for name in namespaces)

    def _satisfying(self, requirement: Requirement) -> NDArray[np.bool_]:
        """(C,) classes for which a condition holds."""
        key, operator, values = requirement
        if operator in ("In", "NotIn"):
            found = self._with_any((key, value) for value in values)
            return found if operator == "In" else ~found & bool(values)
        if operator in ("Exists", "DoesNotExist") and not values:
            return self._with_key(key) if operator == "Exists" else ~self._with_key(key)
        return np.zeros(len(self), dtype=bool)

    def _with_key(self, key: str) -> NDArray[np.bool_]:
        having = self._having.get(key)
        if having is None:
            having = self._having[key] = self._with_any(self._texts[each] for each in self._of_key.get(key, ()))
        return having

    def _with_any(self, texts: Iterable[tuple[str, ...]]) -> NDArray[np.bool_]:
        """(C,) classes with any of these labels or namespaces."""
        out = np.zeros(len(self), dtype=bool)
        for text in texts:
            number = self._numbers.get(text)
            if number is not None:
                out[np.asarray(self._with[number])] = True
        return out


class Placements:
    """Rows of tasks: the label class, the node that it counts on (-1 for none), whether it runs, and its start time.

    Rows of deleted tasks are reused.
    """

    def __init__(self) -> None:
        self.label_class: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self.node: NDArray[np.int32] = np.full(64, -1, dtype=np.int32)
        self.terminating: NDArray[np.bool_] = np.zeros(64, dtype=bool)
        self.started: NDArray[np.int64] = np.zeros(64, dtype=np.int64)
        """Start time of a running pod, in microseconds since 1970; 0 if it does not run or the time is unknown."""
        self.running: NDArray[np.bool_] = np.zeros(64, dtype=bool)
        """Pods that run according to their objects; a session does not change it."""
        self._free: list[int] = []
        self._size = 0

    def admit(self, label_class: int) -> int:
        """Return a new row for a task without a node."""
        if self._free:
            row = self._free.pop()
        else:
            row = self._size
            self._size += 1
            if row == len(self.node):
                self.label_class = np.concatenate([self.label_class, np.zeros_like(self.label_class)])
                self.node = np.concatenate([self.node, np.full_like(self.node, -1)])
                self.terminating = np.concatenate([self.terminating, np.zeros_like(self.terminating)])
                self.started = np.concatenate([self.started, np.zeros_like(self.started)])
                self.running = np.concatenate([self.running, np.zeros_like(self.running)])
        self.label_class[row] = label_class
        return row

    def put(self, row: int, node: int, terminating: bool) -> None:
        """Set the node of a task, by row."""
        self.node[row] = node
        self.terminating[row] = terminating

    def run(self, row: int, started: int, *, running: bool) -> None:
        """Set whether the pod of a task runs, and since when."""
        self.started[row] = started
        self.running[row] = running

    def release(self, row: int) -> None:
        """Release a task's row."""
        self.node[row] = -1
        self.label_class[row] = 0
        self.running[row] = False
        self._free.append(row)

    def count(self, wanted: NDArray[np.bool_], nodes: int, *, terminating_too: bool) -> NDArray[np.int64]:
        """(N,) pods on each node whose class is wanted (a mask over class numbers)."""
        rows = (self.node >= 0) & wanted[self.label_class]
        if not terminating_too:
            rows &= ~self.terminating
        return np.bincount(self.node[rows], minlength=nodes)


def selected_keys(selectors: Iterable[Selector | None]) -> set[str]:
    """Label keys that occur in the selectors."""
    return {requirement.key for selector in selectors if selector for requirement in selector}
