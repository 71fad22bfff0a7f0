"""Accelerator cards by model: those of a node, those that a pod requests, and counts in queues and pod groups.

Kubernetes sees one resource for several models (an H200 and an RTX-4090 are both `nvidia.com/gpu`). The model of a
node's cards is in its labels. A card has one of three names: `NVIDIA-H200` for a whole card, `NVIDIA-A100/mps-80g*1/8`
for a share of one by MPS, `NVIDIA-H200/mig-1g.18gb-mixed` for a MIG slice. Amounts are in thousandths, as for all such
resources. Objects are parsed once, when they arrive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from kilauea.api.cards import parse_card_counts

CARD = 1000
"""One card in thousandths."""

EITHER = "|"
"""Separates the names of several acceptable models."""

SHARED = "nvidia.com/gpu.shared"
REPLICAS = "nvidia.com/gpu.replicas"
SLICES = "nvidia.com/mig-"

_PRODUCT = re.compile(r"((.+?)/(\w+))\.product", re.ASCII)
_MOST_DIGITS = 15

NOTHING: Mapping[str, int] = MappingProxyType({})
NO_NAMES: Mapping[str, str] = MappingProxyType({})


class CardCounts(NamedTuple):
    """Thousandths of cards by model, from an annotation; empty if it is invalid, with the error."""

    amounts: Mapping[str, int] = NOTHING
    fault: str = ""


NO_CARDS = CardCounts()


def card_counts(annotations: Mapping[str, str], key: str, of: str) -> CardCounts:
    """Parse the card counts of an annotation; `of` names the object in the message."""
    text = annotations.get(key)
    if not text:
        return NO_CARDS
    try:
        counts = parse_card_counts(text)
    except ValueError as error:
        shown = text if len(text) <= 200 else text[:200] + "..."
        return CardCounts(NOTHING, f"failed to unmarshal card json: {shown}, key: {key}, name: {of}, {error}")
    return CardCounts({name: count * CARD for name, count in counts.items()})


class CardWish(NamedTuple):
    """The card that a pod names."""

    names: tuple[str, ...]
    """Acceptable models, best first, without repeats."""
    limits: tuple[tuple[str, int], ...]
    """The pod's limits, except cpu and memory."""


def card_names(text: str | None) -> tuple[str, ...]:
    """Return the names in `A|B`, stripped, without empty ones and repeats."""
    if not text:
        return ()
    return tuple(dict.fromkeys(name for part in text.split(EITHER) if (name := part.strip())))


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of a node."""

    amounts: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Thousandths by card name."""
    resources: Mapping[str, str] = field(default_factory=lambda: NO_NAMES)
    """Resource names in Kubernetes, by card name."""
    notes: tuple[str, ...] = ()
    """Oddities in the node's labels."""
    product: str = ""
    """The model that the labels name, even if no card is free now."""


WITHOUT_CARDS = NodeCards()


def cards_of_node(node: str, labels: Mapping[str, str], allocatable: Mapping[str, int]) -> NodeCards:
    """The cards of a node, from its labels and its allocatable resources (in the engine's units)."""
    keys = [key for key in labels if key.endswith(".product")]
    products = [found for key in sorted(keys) if (found := _PRODUCT.fullmatch(key)) and _usable(labels, found)]
    if not products:
        return WITHOUT_CARDS
    base, prefix, _ = products[0].groups()
    product = labels[products[0][0]]
    notes = []
    if len(products) > 1:
        others = ", ".join(found[0] for found in products[1:])
        notes.append(f"Node <{node}> has several card labels: {products[0][0]} is used, not {others}.")
    offered = {name: amount for name, amount in sorted(allocatable.items()) if amount > 0}
    amounts: dict[str, int] = {}
    resources: dict[str, str] = {}

    def found_card(card: str, resource: str) -> None:
        amounts[card] = offered[resource]
        resources[card] = resource

    if SHARED in offered:
        replicas = _number(labels.get(REPLICAS, ""))
        if replicas > 0:
            gib = (_number(labels[base + ".memory"]) + 512) // 1024
            found_card(f"{product}/mps-{gib}g*1/{replicas}", SHARED)
        else:
            notes.append(f"Node <{node}> shares cards, but its label {REPLICAS} is not a number above 0.")
    for name in offered:
        if name.startswith(SLICES):
            found_card(f"{product}/mig-{name.removeprefix(SLICES)}-mixed", name)
    whole = [n for n in offered if n.startswith(prefix + "/") and n != SHARED and not n.startswith(SLICES)]
    if base in whole:
        found_card(product, base)
    elif whole:
        found_card(product, whole[0])
        if len(whole) > 1:
            notes.append(f"Node <{node}> has several resources for card <{product}>: {whole[0]} is used.")
    if not amounts:
        notes.append(f"Node <{node}> has card <{product}> but no card resource found.")
    return NodeCards(amounts, resources, tuple(notes), product)


def _usable(labels: Mapping[str, str], product: re.Match[str]) -> bool:
    """A product label counts only together with a number of cards and their memory, whatever their values."""
    if SLICES in product[0]:
        return False
    return all(labels.get(key) for key in (product[0], product[1] + ".count", product[1] + ".memory"))


def _number(text: str) -> int:
    """The number in a label; 0 if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
