"""Parts of cards that pods have, as the annotations of nodes and pods say: for explanations and metrics.

The ledger of a session knows more, as it also counts what the cycle decides; this needs no session.
"""

from __future__ import annotations

from typing import NamedTuple

from kilauea.api.devices import Card, DeviceTextError, mig_instance
from kilauea.engine.model import status
from kilauea.engine.model.devices import SHARE, CardRequest, DeviceWish, slices_in
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState


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


def card_uses(state: ClusterState) -> list[CardUse]:
    """All cards that nodes register, by node."""
    state.settle()
    parts: dict[tuple[str, str, str], list[Part]] = {}
    for key in sorted(state.with_shares):
        task = state.with_shares[key]
        if task.node in state.nodes.row_of and task.status not in status.ENDED:
            for kind, card, part in _parts_of(task):
                parts.setdefault((task.node, kind, card), []).append(part)
    return [
        CardUse(facts.name, found.kind, card, tuple(parts.get((facts.name, found.kind, card.id), ())))
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
            instance = mig_instance(each.card)
            memory, cores = (each.memory, each.cores) if shared is None else (shared.memory, shared.cores)
            out.append((kind, instance[0] if instance is not None else each.card, Part(task.key, memory, cores)))
    return out


def _share(wish: DeviceWish) -> CardRequest | None:
    """The request behind a record that has no amounts."""
    return next((request for request in wish.requests if request.kind == SHARE), None)


def free_cards_text(state: ClusterState, task: Task) -> list[str]:
    """The amounts that a pod asks for, and the card with the most free memory; by kind that it asks for."""
    wish, uses, out = task.spec.devices, card_uses(state), []
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
            f"the pod asks for {amount}{cores} of {several}; the most free memory has card {best.card.id} of node "
            f"{best.node}: {left} of {best.card.memory} MiB, {cores_left}% of the cores, "
            f"{max(best.card.slots - len(best.parts), 0)} of {best.card.slots} slots"
        )
        out.append(text if text not in out else "")
    return list(filter(None, out))
