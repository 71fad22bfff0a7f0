"""Parts of cards that pods use, according to the annotations of nodes and pods: for explanations and metrics.

The ledger of a session knows more, as it also counts the decisions of the cycle; this needs no session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kilauea.api.device_config import DEFAULT, DeviceConfig
from kilauea.api.devices import CONFIG_NAME, CONFIG_NAMESPACE, MIG, Card, DeviceTextError, mig_instance
from kilauea.api.numbers import plural
from kilauea.engine.devices.adapting import Adapter
from kilauea.engine.model import status
from kilauea.engine.model.devices import SHARE, CardRequest, DeviceWish, GivenCard, slices_in
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState

_SPLIT = "; it is split into MIG instances, and one of them must be large enough"
MOST_SLOTS = 1 << 20
"""Cards with more slots count as unlimited."""


class Given(NamedTuple):
    """The parts of cards that a plan assigns to a pod."""

    pod: str
    node: str
    cards: Iterable[GivenCard]


class Part(NamedTuple):
    """A part of a card that a pod uses."""

    pod: str
    memory: int
    cores: int


class CardUse(NamedTuple):
    """A card, and the parts of it that pods use."""

    node: str
    kind: str
    card: Card
    parts: tuple[Part, ...]
    mode: str = ""
    """The mode in which its device plugin registers it."""

    @property
    def memory(self) -> int:
        """MiB in use."""
        return sum(part.memory for part in self.parts)

    @property
    def cores(self) -> int:
        """Hundredths of cores in use."""
        return sum(part.cores for part in self.parts)

    def by_pod(self) -> dict[str, list[Part]]:
        """The parts of each pod, one for each container."""
        out: dict[str, list[Part]] = {}
        for part in self.parts:
            out.setdefault(part.pod.rpartition("/")[2], []).append(part)
        return out


def card_uses(state: ClusterState, given: Iterable[Given] = ()) -> list[CardUse]:
    """All cards that nodes register, by node; `given` is assigned to pods in addition to their records."""
    state.settle()
    had = ((key, state.with_shares[key]) for key in sorted(state.with_shares))
    pods = {key: Given(key, task.node, _recorded(task)) for key, task in had if task.status not in status.ENDED}
    pods |= {each.pod: each for each in given}
    parts: dict[tuple[str, str, str], list[tuple[Task, GivenCard]]] = {}
    for pod in pods.values():
        if pod.node in state.nodes.row_of and pod.pod in state.tasks:
            for each in pod.cards:
                instance = mig_instance(each.card)
                card = instance[0] if instance is not None else each.card
                parts.setdefault((pod.node, each.kind, card), []).append((state.tasks[pod.pod], each))
    return [
        CardUse(facts.name, found.kind, card, tuple(_part(card, *each) for each in taken), found.mode)
        for facts in state.nodes.facts
        for found in facts.devices
        for card in found.cards
        for taken in (parts.get((facts.name, found.kind, card.id), ()),)
    ]


def _recorded(task: Task) -> list[GivenCard]:
    """The parts of cards in the record of a pod; empty if the record is invalid."""
    out: list[GivenCard] = []
    for kind, text in task.record:
        try:
            containers = slices_in(kind, text)
        except DeviceTextError:
            continue
        out += [GivenCard(kind, number, *each) for number, slices in enumerate(containers) for each in slices]
    return out


def _part(card: Card, task: Task, given: GivenCard) -> Part:
    """A part of a card; if the record has no amounts, those that the pod requests."""
    shared = _share(task.spec.devices) if given.kind == SHARE and task.spec.devices is not None else None
    if shared is None:
        return Part(task.key, given.memory, given.cores)
    return Part(task.key, shared.memory or card.memory * shared.percent // 100, shared.cores)


def _share(wish: DeviceWish) -> CardRequest | None:
    """The request behind a record without amounts."""
    return next((request for request in wish.requests if request.kind == SHARE), None)


def _config_of(state: ClusterState) -> DeviceConfig:
    """The configuration of the devices: the only one, otherwise the one with the usual name."""
    known = state.device_configs
    usual = known.get(f"{CONFIG_NAMESPACE}/{CONFIG_NAME}", DEFAULT)
    return next(iter(known.values())) if len(known) == 1 else usual


def free_cards_text(state: ClusterState, task: Task, given: Iterable[Given] = ()) -> list[str]:
    """The amounts that a pod requests, and the card with the most free memory, for each kind that it requests.

    Args:
        state: the cluster.
        task: the pod.
        given: parts assigned to other pods in addition to their records.
    """
    if task.spec.devices is None:
        return []
    wish, uses, out = Adapter(_config_of(state)).adapt(task.spec.devices), card_uses(state, given), []
    for request in wish.requests:
        of_kind = [use for use in uses if use.kind == request.kind and use.card.healthy]
        if not of_kind:
            continue
        best = max(of_kind, key=lambda use: use.card.memory - use.memory)
        out.append(f"the pod asks for {_asked(request)}; {_free(best)}")
    return list(dict.fromkeys(out))


def _asked(request: CardRequest) -> str:
    amount = f"{request.memory} MiB" if request.memory else f"{request.percent}% of the memory"
    cores = f" and {request.cores}% of the cores" if request.cores else ""
    several = f"{request.number} cards of one node" if request.number > 1 else "a card"
    return f"{amount}{cores} of {several}"


def _free(use: CardUse) -> str:
    card = use.card
    text = (
        f"card {card.id} of node {use.node} has the most free memory: "
        f"{card.memory - use.memory} of {card.memory} MiB, {card.cores - use.cores}% of the cores"
    )
    slots = f", {max(card.slots - len(use.parts), 0)} of {plural(card.slots, 'slot')}"
    return text + (slots if card.slots <= MOST_SLOTS else "") + (_SPLIT if use.mode == MIG else "")
