"""The order in which a pod uses the cards of a node, as a plugin determines it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.table import CardTable, IntArray
from kilauea.engine.model.devices import CardRequest
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape


class CardChoice(NamedTuple):
    """A request for cards on some nodes (n)."""

    table: CardTable
    request: CardRequest
    shape: TaskShape
    nodes: NodeRows
    used: IntArray
    """(3, n, C) the usage of each card."""
    placed: bool
    """True if the figures of the nodes already include the pod."""


OrderState = Callable[[int], Hashable]
"""All that the order of the cards of a node (by row) depends on, other than the cards and their usage."""
Order = Callable[[CardChoice], NDArray[np.float64]]
"""(n, C) sort keys of the cards, lowest first; (C,) if they are the same for all nodes."""
OrderAt = Callable[[CardTable, CardRequest, int], Sequence[float]]
"""The same for the cards of one node (by row) on which the pod is already placed without other cards."""


class CardOrder(NamedTuple):
    """The order of a plugin, for `session.card_order`."""

    order: Order
    at: OrderAt
    state: OrderState


def nodes_of(columns: IntArray, nodes: NodeRows) -> IntArray:
    """The part (3, n, C) of an array over cards (3, N, C) that belongs to some nodes."""
    return columns if nodes.rows is None else columns.take(nodes.rows, axis=1)
