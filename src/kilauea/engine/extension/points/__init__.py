"""The extension points: where plugins take part, and how their results are combined.

Plugins stand in tiers. Every point walks the tiers in order, and in each the plugins in order, past those that are
switched off by their enable flag; how the answers are combined is what the methods below say (spec of the scheduler,
3.4). A plugin registers at most one function at a point.

Orders are sort keys: a function gives a value for one object, and lower values come first.
Node-side points are asked about a `TaskShape` and a selection of nodes, and answer with one value a node.
"""

from __future__ import annotations

from kilauea.engine.extension.points.agreement import AgreementPoints
from kilauea.engine.extension.points.domains import DomainPoints
from kilauea.engine.extension.points.nodes import NodePoints
from kilauea.engine.extension.points.orders import OrderPoints
from kilauea.engine.extension.points.victims import VictimPoints
from kilauea.engine.extension.points.votes import VotePoints


class ExtensionPoints(OrderPoints, AgreementPoints, VotePoints, VictimPoints, NodePoints, DomainPoints):
    """Registration (`add_*`) and combination of what plugins registered, theme by theme over one registry."""
