"""The cards of the cluster, and the request of each task for them.

A task is charged for cpu, memory and the cards that its pod names, and nothing else. Without a node, a task that
accepts any of several models is charged under their joined names (`A|B`); on a node, under the first model that the
node has. Spec of capacity-card, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.cards import CARD, EITHER, WITHOUT_CARDS
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.resources import ALWAYS
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task

MOST_KEPT = 100_000
"""Results per task that are kept across cycles."""


class CardFault(ValueError):
    """The card request of a task is invalid."""


class CardBook:
    """The cards of all nodes, and the requests of tasks.

    Attributes:
        total: thousandths of cards in the cluster, by name.
        resource_of: the resource name in Kubernetes, by card name.
        notes: oddities of nodes, by node.
    """

    def __init__(self, nodes: NodeTable, *, unlimited: bool, named: bool) -> None:
        """Read the nodes.

        Args:
            nodes: all nodes.
            unlimited: tasks with cards are not charged for cpu and memory.
            named: a task with accelerators must name its card.
        """
        self._nodes = nodes
        self._unlimited = unlimited
        self._named = named
        self.total: dict[str, int] = {}
        self.resource_of: dict[str, str] = {}
        self.notes: dict[str, tuple[str, ...]] = {}
        self._rows: dict[str, list[int]] = {}
        for row, facts in enumerate(nodes.facts):
            if facts.cards is WITHOUT_CARDS:
                continue
            for name, amount in facts.cards.amounts.items():
                self.total[name] = self.total.get(name, 0) + amount
                self._rows.setdefault(name, []).append(row)
            self.resource_of.update(facts.cards.resources)
            if facts.cards.notes:
                self.notes[facts.name] = facts.cards.notes
        self.resources = frozenset(self.resource_of.values())
        """Resources that count cards."""
        self._owners: dict[str, NDArray[np.bool_]] = {}
        self._alternatives: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._asked: dict[TaskSpec, Mapping[str, int]] = {}
        self._charged: dict[tuple[TaskSpec, int], Mapping[str, int]] = {}

    def forget(self) -> None:
        """Drop the results per task if there are too many."""
        if len(self._asked) + len(self._charged) + len(self._alternatives) > MOST_KEPT:
            self._asked.clear()
            self._charged.clear()
            self._alternatives.clear()

    # --- nodes

    def owners(self, name: str) -> NDArray[np.bool_]:
        """(N,) nodes that have this card."""
        known = self._owners.get(name)
        if known is None:
            known = self._owners[name] = np.zeros(len(self._nodes), dtype=bool)
            known[self._rows.get(name, [])] = True
        return known

    # --- tasks

    def alternatives(self, spec: TaskSpec) -> tuple[str, ...]:
        """The accepted cards, best first; empty if the task does not name one."""
        return () if spec.cards is None else self.kept(spec.cards.names)

    def kept(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names that can apply: a pod requests one resource, that of the first known card."""
        kept = self._alternatives.get(names)
        if kept is None:
            resource = next((self.resource_of[n] for n in names if n in self.resource_of), "")
            kept = tuple(n for n in names if self.resource_of.get(n, resource) == resource)
            self._alternatives[names] = kept
        return kept

    def asked(self, spec: TaskSpec) -> Mapping[str, int]:
        """Return the request of a task without a node: cpu, memory and cards.

        Raises:
            CardFault: the request is invalid.
        """
        known = self._asked.get(spec)
        if known is None:
            known = self._asked[spec] = self._with_room(spec, self._cards(spec))
        return known

    def charged(self, task: Task, row: int) -> Mapping[str, int]:
        """Return the charge of a task on a node; `row` is -1 for an unknown node.

        Raises:
            CardFault: the request is invalid.
        """
        spec = task.spec
        names = self.alternatives(spec)
        if len(names) < 2:
            return self.asked(spec)
        known = self._charged.get((spec, row))
        if known is None:
            if row < 0:
                raise CardFault(f"failed to get node <{task.node}> for task <{task.key}>: it does not exist")
            cards = self._cards_on(spec, names, row)
            if not cards:
                where = f"node <{self._nodes.names[row]}> for task <{task.key}>"
                raise CardFault(f"no valid card found on {where} with multi-card name <{EITHER.join(names)}>")
            known = self._charged[spec, row] = self._with_room(spec, cards)
        return known

    def _cards(self, spec: TaskSpec) -> dict[str, int]:
        if spec.cards is None:
            nameless = [n for n in sorted(spec.requests) if n in self.resources and spec.requests[n] > 0]
            if self._named and nameless:
                raise CardFault(f"no card name set for resource <{nameless[0]}>")
            return {}
        names = self.alternatives(spec)
        first = next((n for n in names if n in self.resource_of), None)
        if first is None:
            raise CardFault(f"no resource name found for card <{spec.cards.names[0]}>")
        resource = self.resource_of[first]
        quantity = _quantity(spec, resource)
        if quantity is None:
            raise CardFault(f"no resource <{resource}> defined in requests/limits for card <{first}>")
        return {EITHER.join(names): quantity}

    def _cards_on(self, spec: TaskSpec, names: tuple[str, ...], row: int) -> dict[str, int]:
        """The first model on the node, even if the node temporarily offers no cards of it."""
        node = self._nodes.facts[row].cards
        there = dict(node.resources)
        if node.product in self.resource_of:
            there.setdefault(node.product, self.resource_of[node.product])
        for name in names:
            quantity = _quantity(spec, there[name]) if name in there else None
            if quantity is not None:
                return {name: quantity}
        return {}

    def _with_room(self, spec: TaskSpec, cards: dict[str, int]) -> Mapping[str, int]:
        """The cards with cpu and memory, if the queue's limits on these apply to the task."""
        if self._unlimited and (cards or self.among(spec.requests)):
            return cards
        return {**{name: spec.requests[name] for name in ALWAYS if name in spec.requests}, **cards}

    def among(self, amounts: Mapping[str, float]) -> bool:
        """Return True if any of the resources is a card."""
        return not self.resources.isdisjoint(amounts)


def _quantity(spec: TaskSpec, resource: str) -> int | None:
    """Thousandths of whole cards: by the pod's limits, else by its requests."""
    limits = dict(spec.cards.limits) if spec.cards is not None else {}
    amount = limits.get(resource, spec.requests.get(resource))
    return None if amount is None else -(-amount // CARD) * CARD
