"""Parts of cards that pods have, as the annotations of nodes and pods say: for explanations and metrics.

The ledger of a session knows more, as it also counts what the cycle decides; this needs no session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kilauea.api.devices import MIG, Card, DeviceTextError, mig_instance
from kilauea.engine.model import status
from kilauea.engine.model.devices import SHARE, CardRequest, DeviceWish, cards_in, slices_in
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState

_SPLIT = "; it is split into MIG instances, and one of them must be large enough"


Binds = Iterable[tuple[str, str, Iterable[tuple[str, str]]]]
"""Pods that start: the pod, its node, and the annotations that it gets."""


class Part(NamedTuple):
    """A part of a card that a pod has."""

    pod: str
    memory: int
    cores: int


class CardUse(NamedTuple):
    """A card and what pods have of it."""

    node: str
    kind: str
    card: Card
    parts: tuple[Part, ...]
    mode: str = ""
    """The mode in which its device plugin registers it."""

    @property
    def memory(self) -> int:
        """MiB that pods have."""
        return sum(part.memory for part in self.parts)

    @property
    def cores(self) -> int:
        """Hundredths of cores that pods have."""
        return sum(part.cores for part in self.parts)

    def by_pod(self) -> dict[str, list[Part]]:
        """The parts of each pod, one for each container."""
        out: dict[str, list[Part]] = {}
        for part in self.parts:
            out.setdefault(part.pod.rpartition("/")[2], []).append(part)
        return out


def card_uses(state: ClusterState, binds: Binds = ()) -> list[CardUse]:
    """All cards that nodes register, by node.

    Args:
        state: the cluster.
        binds: pods that start; they have their parts, too.
    """
    state.settle()
    parts: dict[tuple[str, str, str], list[Part]] = {}
    for key in sorted(state.with_shares):
        task = state.with_shares[key]
        if task.node in state.nodes.row_of and task.status not in status.ENDED:
            for kind, card, part in _parts_of(task):
                parts.setdefault((task.node, kind, card), []).append(part)
    for pod, node, written in binds:
        for given in cards_in(written):
            part = Part(pod, given.memory, given.cores)
            parts.setdefault((node, given.kind, _card_of(given.card)), []).append(part)
    return [
        CardUse(facts.name, found.kind, card, tuple(parts.get((facts.name, found.kind, card.id), ())), found.mode)
        for facts in state.nodes.facts
        for found in facts.devices
        for card in found.cards
    ]


def _parts_of(task: Task) -> list[tuple[str, str, Part]]:
    """Kind, card and part of each card that a pod has; records that cannot be read say nothing."""
    out, wish = [], task.spec.devices
    for kind, text in task.record:
        try:
            containers = slices_in(kind, text)
        except DeviceTextError:
            continue
        shared = _share(wish) if kind == SHARE and wish is not None else None
        for each in (part for slices in containers for part in slices):
            memory, cores = (each.memory, each.cores) if shared is None else (shared.memory, shared.cores)
            out.append((kind, _card_of(each.card), Part(task.key, memory, cores)))
    return out


def _card_of(given: str) -> str:
    """The card that a pod has, or of which it has a MIG instance."""
    instance = mig_instance(given)
    return given if instance is None else instance[0]


def _share(wish: DeviceWish) -> CardRequest | None:
    """The request behind a record that has no amounts."""
    return next((request for request in wish.requests if request.kind == SHARE), None)


def free_cards_text(state: ClusterState, task: Task, binds: Binds = ()) -> list[str]:
    """The amounts that a pod asks for, and the card with the most free memory; by kind that it asks for.

    Args:
        state: the cluster.
        task: the pod.
        binds: pods that start, and the parts of cards that they get.
    """
    wish, uses, out = task.spec.devices, card_uses(state, binds), []
    for request in wish.requests if wish is not None else ():
        of_kind = [use for use in uses if use.kind == request.kind and use.card.healthy]
        if not of_kind:
            continue
        best = max(of_kind, key=lambda use: use.card.memory - use.memory)
        amount = f"{request.memory} MiB" if request.memory else f"{request.percent}% of the memory"
        cores = f" and {request.cores}% of the cores" if request.cores else ""
        several = f"{request.number} cards of one node" if request.number > 1 else "a card"
        left, cores_left = best.card.memory - best.memory, best.card.cores - best.cores
        text = (
            f"the pod asks for {amount}{cores} of {several}; card {best.card.id} of node {best.node} has the most free "
            f"memory: {left} of {best.card.memory} MiB, {cores_left}% of the cores, "
            f"{max(best.card.slots - len(best.parts), 0)} of {best.card.slots} slots"
            f"{_SPLIT if best.mode == MIG else ''}"
        )
        out.append(text if text not in out else "")
    return list(filter(None, out))
