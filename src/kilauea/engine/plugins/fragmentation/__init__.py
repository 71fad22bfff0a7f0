"""Place pods where the least free card capacity becomes unusable for the pods that are typical in the cluster.

What:
    A pod can use free cards on a node only if the node also has the cores and the memory for it, if enough cards are
    free, and if the free part of a card is large enough. The free cards that the average pod cannot use are the
    fragments of the node. A node scores -100 for each card by which a pod would increase its fragments, times the
    weight. Among the cards of a node, a pod also gets the one that increases them least. The average includes all pods
    with cards in the cluster: those that wait, run, or have ended and are not deleted. The increase is rounded to
    twentieths of a card; nodes that differ by less are filled one after another, in their order.

Why:
    In a full cluster, fragments stay unused. Bin packing fills nodes, but not with pods that fit together: the cores
    run out while cards are free, or a part of each card is left that is too small for any pod. This is the method of
    Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent, USENIX
    ATC 2023.

Arguments:
    fragmentation.weight (number, 1): weight of the score; 0 disables the plugin.
    fragmentation.resources (text, "nvidia.com/gpu"): resources that count whole cards, separated by commas. Parts of
    cards count where the plugin deviceshare assigns them.

Example:
    tiers:
    - plugins:
      - name: predicates
      - name: deviceshare
        arguments:
          deviceshare.VGPUEnable: true
      - name: fragmentation
        arguments:
          fragmentation.weight: 10

Difference from the original:
    Volcano does not have this plugin.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import argument
from kilauea.engine.devices.order import CardChoice, CardOrder
from kilauea.engine.devices.table import CardTable
from kilauea.engine.model.devices import CardRequest
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.fragmentation.families import FEW, Family, Scale, SharedCards, WholeCards
from kilauea.engine.plugins.fragmentation.mix import as_written, mix_of
from kilauea.engine.session import Session

CARD_SCORE = 100.0
"""Points for each card that becomes unusable."""
STEPS = 20
"""Steps per card to which growth is rounded."""


@dataclass(frozen=True)
class FragmentationArguments:
    """Arguments of fragmentation."""

    weight: float = argument("fragmentation.weight", 1.0, "Weight of the score; 0 disables the plugin.", minimum=0)
    resources: str = argument("fragmentation.resources", "nvidia.com/gpu", "Resources that count whole cards.")


class Fragmentation(Plugin):
    """See the module."""

    name = "fragmentation"
    depends_on_time = False
    Arguments = FragmentationArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._scale = Scale(STEPS, -CARD_SCORE / STEPS * self.arguments.weight)
        self._families: list[Family] | None = None
        self._shared: dict[str, SharedCards] = {}
        if not self.arguments.weight or not self._has_cards(session):
            return
        session.add_node_score(self.name, self._score, applies=lambda shape: bool(self._opened()))
        session.add_event_handler(self.name, self._changed, self._changed)
        session.card_order = CardOrder(self._order, self._order_at, self._order_state)

    def _names(self) -> list[str]:
        return [name.strip() for name in self.arguments.resources.split(",") if name.strip()]

    def _has_cards(self, session: Session) -> bool:
        """Return True if the cluster has cards that pods can fragment."""
        rows = [session.axis.rows[name] for name in self._names() if name in session.axis.rows]
        return bool(session.state.with_shares) or bool(session.nodes.allocatable[rows].any())

    def _opened(self) -> list[Family]:
        """Kinds of cards with the pods that want them; built at the first use, once all plugins have registered."""
        if self._families is None:
            session, nodes = self._session, self._session.nodes
            ledger = session.card_ledger
            adapt = as_written if ledger is None else ledger.adapt
            mixes = mix_of(session.state.tasks.values(), self._names(), nodes, adapt)
            self._families = [
                WholeCards(mix, nodes, session.axis.rows[name], self._scale)
                for name, mix in mixes.whole.items()
                if name in session.axis.rows
            ]
            for kind, mix in mixes.shared.items():
                if ledger is not None and kind in ledger.tables:
                    self._shared[kind] = SharedCards(mix, nodes, kind, ledger, self._scale)
            self._families += self._shared.values()
        return self._families

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
        families = self._opened()
        if nodes.rows is not None and len(nodes.rows) <= FEW and len(families) == 1:
            return np.array(families[0].scores_each(shape, nodes.rows))
        growth: NDArray[np.float64] | None = None
        for family in families:
            more = family.growth(shape, nodes) * family.part
            growth = more if growth is None else growth + more
        if growth is None:
            return None
        return self._scale.of(growth)

    def _order_at(self, table: CardTable, request: CardRequest, row: int) -> list[float]:
        """As `_order`, for one node."""
        self._opened()
        family = self._shared.get(request.kind)
        return [0.0] * table.cards.there.shape[1] if family is None else family.losses_at(request, row)

    def _order_state(self, row: int) -> Hashable:
        families = self._opened()
        if len(families) == 1:
            return families[0].able.standing(row).able  # the usual case, once for each pod
        return tuple([family.able.standing(row).able for family in families])

    def _changed(self, task: Task, row: int) -> None:
        for family in self._families or ():
            family.changed(row)

    def _order(self, choice: CardChoice) -> NDArray[np.float64]:
        """(n, C) thousandths of a card that become unusable if the pod gets each of the cards."""
        self._opened()
        family = self._shared.get(choice.request.kind)
        return np.zeros(choice.used.shape[1:]) if family is None else family.loss(choice)
