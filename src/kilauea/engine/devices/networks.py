"""Networks that connect NPUs of a node: cards in one network exchange data faster than cards in several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.devices.ledger import NETWORKED, Survey
from kilauea.engine.devices.table import CardTable
from kilauea.engine.model.devices import DeviceWish
from kilauea.engine.model.nodes import NodeRows

MOST = 10.0
"""Score of a node where all cards for a pod are in one network."""


def network_score(table: CardTable, wish: DeviceWish, found: Survey, nodes: NodeRows) -> NDArray[np.float64]:
    """(n,) the fraction of a pod's cards of this kind that one network connects, scaled to `MOST`."""
    kind = table.cards.kind
    if not kind.startswith(NETWORKED):
        return np.zeros(len(nodes))
    chosen = [columns for request, columns in zip(wish.requests, found.chosen, strict=True) if request.kind == kind]
    network = table.cards.network if nodes.rows is None else table.cards.network.take(nodes.rows, axis=0)
    return MOST * _largest_share(network, chosen)


def _largest_share(network: NDArray[np.int64], chosen: Sequence[NDArray[np.intp]]) -> NDArray[np.float64]:
    """(n,) the fraction of the chosen cards in the network that has the most of them; 0 where cards have no network."""
    numbers = np.take_along_axis(network, np.concatenate(chosen, axis=1), axis=1)
    mates = (numbers[:, :, None] == numbers[:, None, :]).sum(axis=2).max(axis=1)
    share: NDArray[np.float64] = np.where((numbers >= 0).all(axis=1), mates / numbers.shape[1], 0.0)
    return share
