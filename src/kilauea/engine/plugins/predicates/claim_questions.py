"""The demands of one pod's claims, prepared so that checking a changed node is cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kilauea.engine.model.claims.facts import Ask, Demand
from kilauea.engine.model.claims.inventory import Inventory, Mask, Rows
from kilauea.engine.model.claims.search import MOST_DEVICES, Choice

MOST_KNOWN = 4096
"""Maximum number of node states that are cached for a question."""


class Needed(NamedTuple):
    """Devices that a node must have."""

    mask: Mask
    """(D,) acceptable devices."""
    number: int
    free: bool
    """True if they must not be in use."""


class Found(NamedTuple):
    """The result of a search on a node."""

    choices: tuple[Choice, ...]
    """Devices, counted from the first one on the node."""
    rank: int
    """Rank of the alternatives; -1 if there are not enough devices."""


NOTHING = Found((), -1)


@dataclass(slots=True)
class Question:
    """The demands of one pod.

    Attributes:
        demands: the requests of its claims.
        masks: (D,) devices that match, by ask.
        requests: the needs of each alternative, for each request with alternatives, all devices or admin access.
        together: the needs of the other requests, added up for the same devices.
        simple: counting devices is enough, so a search is not needed.
        possible: (N,) nodes that have enough devices, including those in use.
        known: results of searches, by the state of a node's devices.
    """

    demands: tuple[Demand, ...]
    masks: Mapping[Ask, Mask]
    requests: list[list[Needed]]
    together: list[Needed]
    simple: bool
    possible: Mask
    known: dict[tuple[int, bytes], Found] = field(default_factory=dict)

    def may(self, inventory: Inventory, free: Mask | None, rows: Rows | None = None) -> Mask:
        """(n,) nodes with enough devices for each request by itself; without `free`, devices in use count as well."""
        out = np.ones(len(inventory.nodes) if rows is None else len(rows), dtype=bool)
        for ways in self.requests:
            enough = np.zeros(len(out), dtype=bool)
            for need in ways:
                enough |= inventory.count(need.mask, rows, free if need.free else None) >= need.number
            out &= enough
        for need in self.together:
            out &= inventory.count(need.mask, rows, free) >= need.number
        return out


def question_of(demands: Sequence[Demand], masks: Mapping[Ask, Mask], inventory: Inventory) -> Question:
    """Prepare demands."""
    requests: list[list[Needed]] = []
    together: dict[bytes, Needed] = {}
    for request in (request for demand in demands for request in demand.requests):
        ways = [(way, masks[way]) for way in request.ways if way in masks]
        way, mask = ways[0] if ways else (None, None)
        if len(request.ways) == 1 and way is not None and mask is not None and _is_counted(way, mask, inventory):
            key = mask.tobytes()
            before = together[key].number if key in together else 0
            together[key] = Needed(mask, before + way.number, free=True)
        else:
            requests.append([_needed(way, mask, inventory) for way, mask in ways])
    simple = not requests and _is_simple(demands, list(together.values()), inventory)
    nowhere: Mask = np.zeros(len(inventory.nodes), dtype=bool)
    question = Question(tuple(demands), masks, requests, list(together.values()), simple, nowhere)
    question.possible = question.may(inventory, None)
    return question


def _is_counted(way: Ask, mask: Mask, inventory: Inventory) -> bool:
    """Return True if a request takes a number of devices, each of which no other request can take then."""
    return not (way.admin or way.all or (mask & inventory.multiple).any())


def _needed(way: Ask, mask: Mask, inventory: Inventory) -> Needed:
    several = bool((mask & inventory.multiple).any())
    return Needed(mask, 1 if way.all or several else way.number, free=not (way.admin or way.all))


def _is_simple(demands: Sequence[Demand], together: Sequence[Needed], inventory: Inventory) -> bool:
    """Return True if counting is enough: requests want either the same devices or entirely different ones."""
    for demand in demands:
        if demand.constraints or sum(way.number for r in demand.requests for way in r.ways) > MOST_DEVICES:
            return False
    if any((need.mask & inventory.counted).any() for need in together):
        return False
    overlapping = sum(need.mask.astype(np.int32) for need in together) if len(together) > 1 else 0
    return bool(np.all(np.asarray(overlapping) <= 1))
