"""The extension points at which plugins register functions, and the combination of their results.

Plugins are listed in tiers. Every point goes through the tiers in order, and through the plugins of a tier in order,
and skips plugins that are disabled by a flag. The methods below describe how the results are combined (spec of the
scheduler, 3.4). A plugin registers at most one function at a point.

Orders are sort keys: a function returns a value for one object, and lower values go first. Functions over nodes get a
`TaskShape` and a selection of nodes, and return one value for each node.
"""

from __future__ import annotations

from kilauea.engine.extension.points.agreement import AgreementPoints
from kilauea.engine.extension.points.domains import DomainPoints
from kilauea.engine.extension.points.nodes import NodePoints
from kilauea.engine.extension.points.orders import OrderPoints
from kilauea.engine.extension.points.victims import VictimPoints
from kilauea.engine.extension.points.votes import VotePoints


class ExtensionPoints(OrderPoints, AgreementPoints, VotePoints, VictimPoints, NodePoints, DomainPoints):
    """Registration (`add_*`) of functions, and the combination of their results, with one registry."""
