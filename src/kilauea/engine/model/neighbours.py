"""Counts of the pods that a selector matches, by node and by topology domain, kept true within a session.

Inter-pod affinity, anti-affinity and topology spread all ask the same two questions, for predicates and for scores
alike: how many placed pods match this (`matching`), and how many placed pods carry a term that means this pod
(`carriers`). Both are counted once, when first asked, and mended at each placement. In a cluster where no pod selects
pods nothing is counted at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import Selector, matches
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.placements import LabelClass, LabelClasses, Placements
from kilauea.engine.model.task_specs import PodTerm, TaskSpec
from kilauea.engine.model.tasks import Task

NO_LABELS: Mapping[str, str] = {}


class Namespaces:
    """Labels of namespaces, for terms with a namespace selector."""

    def __init__(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = labels

    def meant(self, term: PodTerm, namespace: str, *, must_exist: bool) -> bool:
        """Return True if a term selects pods in this namespace.

        The original resolves the selector of an incoming pod's term among the namespaces that exist (`must_exist`), and
        takes a missing namespace as one without labels when it judges the terms of pods that run already.
        """
        if namespace in term.namespaces:
            return True
        if term.namespace_selector is None:
            return False
        labels = self._labels.get(namespace)
        if labels is None:
            if must_exist:
                return False
            labels = NO_LABELS
        return matches(term.namespace_selector, labels)


class Wanted(NamedTuple):
    """Pods to count: they match every term; pods that are being deleted count or not."""

    terms: tuple[PodTerm, ...]
    terminating_too: bool = True


class MatchCount:
    """Placed pods that match `Wanted`: by node, and by domain of any label that was asked for."""

    def __init__(self, by_node: NDArray[np.int64]) -> None:
        self.by_node = by_node
        """(N,) number of pods."""
        self.version = 0
        """Grows with each change."""
        self._by_domain: dict[str, NDArray[np.int64]] = {}

    def domain(self, nodes: NodeTable, key: str) -> NDArray[np.int64]:
        """(D,) number of pods for each value of a label, in the order of `nodes.label(key).values`."""
        count = self._by_domain.get(key)
        if count is None:
            column = nodes.label(key)
            here = column.ids >= 0
            count = np.zeros(len(column.values), dtype=np.int64)
            np.add.at(count, column.ids[here], self.by_node[here])
            self._by_domain[key] = count
        return count

    def change(self, nodes: NodeTable, node: int, by: int) -> None:
        """Pods came to or left a node."""
        self.by_node[node] += by
        self.version += 1
        for key, count in self._by_domain.items():
            domain = nodes.label(key).ids[node]
            if domain >= 0:
                count[domain] += by


class Carried(NamedTuple):
    """A term of placed pods: weight 0 for required anti-affinity, otherwise that of the preferred term."""

    weight: int
    term: PodTerm


class Neighbours:
    """Counts of placed pods for one session."""

    def __init__(
        self,
        nodes: NodeTable,
        placements: Placements,
        classes: LabelClasses,
        namespaces: Namespaces,
        carriers: Iterable[Task],
        needed: bool,
    ) -> None:
        self._nodes = nodes
        self._placements = placements
        self._classes = classes
        self.namespaces = namespaces
        self.needed = needed
        """True if any pod of the cluster selects others; if not, nothing here is ever asked."""
        self._matching: dict[Wanted, MatchCount] = {}
        self._matching_class: dict[int, list[MatchCount]] = {}
        self._carriers = carriers
        self._counts_of_carried: dict[Carried, MatchCount] | None = None
        self._ending: dict[Carried, MatchCount] = {}
        """Of what is counted above, the pods that were terminating when the session opened."""
        self._index = _TermIndex()
        self._meant: dict[tuple[int, int], list[Carried]] = {}

    # --- questions

    def matching(self, wanted: Wanted) -> MatchCount:
        """Placed pods that match."""
        count = self._matching.get(wanted)
        if count is None:
            mask = self._classes_of(wanted.terms)
            by_node = self._placements.count(mask, len(self._nodes), terminating_too=wanted.terminating_too)
            count = self._matching[wanted] = MatchCount(by_node)
            for wanted_class in np.flatnonzero(mask):
                self._matching_class.setdefault(int(wanted_class), []).append(count)
        return count

    def matches(self, wanted: Wanted, pod: LabelClass) -> bool:
        """Return True if every term selects a pod with this namespace and these labels."""
        return all(self._matches(term, pod) for term in wanted.terms)

    def carriers(self, pod: LabelClass) -> list[tuple[Carried, MatchCount]]:
        """Terms of placed pods that mean this pod, each with the pods that carry it."""
        carried_now = self._carried
        key = (id(pod), len(carried_now))
        meant = self._meant.get(key)
        if meant is None:
            meant = [
                carried
                for carried in self._index.candidates(pod.labels)
                if matches(carried.term.selector, pod.labels)
                and self.namespaces.meant(carried.term, pod.namespace, must_exist=False)
            ]
            self._meant[key] = meant
        return [(carried, carried_now[carried]) for carried in meant]

    def ending(self, carried: Carried) -> MatchCount | None:
        """Of the pods that carry a term, those that were terminating when the session opened; None if none was."""
        return self._ending.get(carried)

    # --- changes

    def placed(self, task: Task, node: int, by: int) -> None:
        """A pod came to a node's view (`by` 1) or left it (-1)."""
        for count in self._matching_class.get(task.label_class, ()):
            count.change(self._nodes, node, by)
        if task.spec.carries_terms and self._counts_of_carried is not None:
            self._carry(self._counts_of_carried, task.spec, node, by)

    @property
    def _carried(self) -> dict[Carried, MatchCount]:
        """Counts of the pods that carry each term, made when first asked for."""
        if self._counts_of_carried is None:
            carried = self._counts_of_carried = {}
            for task in self._carriers:
                row = int(self._placements.node[task.row])
                if row >= 0 and task.spec.carries_terms:
                    self._carry(carried, task.spec, row, 1)
                    if self._placements.terminating[task.row]:
                        self._carry(self._ending, task.spec, row, 1)
        return self._counts_of_carried

    def _carry(self, counts: dict[Carried, MatchCount], spec: TaskSpec, node: int, by: int) -> None:
        for carried in terms_of(spec):
            count = counts.get(carried)
            if count is None:
                count = counts[carried] = MatchCount(np.zeros(len(self._nodes), dtype=np.int64))
                if counts is not self._ending:
                    self._index.add(carried)
            count.change(self._nodes, node, by)

    def _classes_of(self, terms: Iterable[PodTerm]) -> NDArray[np.bool_]:
        """(C + 1,) classes that every term selects; the last one stands for no class."""
        mask = np.ones(len(self._classes) + 1, dtype=bool)
        mask[-1] = False
        for term in terms:
            mask[:-1] &= self._classes.selected(term.selector)
            mask[:-1] &= self._classes.within(self._namespaces_of(term))
        return mask

    def _namespaces_of(self, term: PodTerm) -> Iterable[str]:
        if term.namespace_selector is None:
            return term.namespaces
        return [name for name in self._classes.namespaces if self.namespaces.meant(term, name, must_exist=True)]

    def _matches(self, term: PodTerm, pod: LabelClass) -> bool:
        return matches(term.selector, pod.labels) and self.namespaces.meant(term, pod.namespace, must_exist=True)


def terms_of(spec: TaskSpec) -> Iterator[Carried]:
    """Terms by which a placed pod attracts or repels others. Required affinity is not one: it binds only its owner."""
    for term in spec.anti_affinity:
        yield Carried(0, term)
    for weight, term in spec.preferred_pods:
        yield Carried(weight, term)


class _TermIndex:
    """Finds the terms that may mean a pod by one label of theirs.

    So thousands of gangs that each repel their own pods do not look at one another.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[Carried]] = {}
        self._others: list[Carried] = []

    def add(self, carried: Carried) -> None:
        label = _one_label(carried.term.selector)
        if label is None:
            self._others.append(carried)
        else:
            self._by_label.setdefault(label, []).append(carried)

    def candidates(self, labels: Mapping[str, str]) -> Iterator[Carried]:
        for label in sorted(labels.items()):
            yield from self._by_label.get(label, ())
        yield from self._others


def _one_label(selector: Selector | None) -> tuple[str, str] | None:
    for requirement in selector or ():
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
