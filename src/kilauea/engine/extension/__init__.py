"""Extension of a cycle by plugins and actions: the extension points, guards around user code, and observers."""

from kilauea.engine.extension.points import ExtensionPoints
from kilauea.engine.extension.points.answers import (
    ABSTAIN,
    PERMIT,
    REJECT,
    NodePredicate,
    NodeScorer,
    PluginFault,
    Rejection,
    Scope,
)
from kilauea.engine.extension.points.registry import FLAGS
from kilauea.engine.extension.points.victims import Spares, victims_and_vote
from kilauea.engine.plan import Refusal, SpareReason

__all__ = [
    "ABSTAIN",
    "FLAGS",
    "PERMIT",
    "REJECT",
    "ExtensionPoints",
    "NodePredicate",
    "NodeScorer",
    "PluginFault",
    "Refusal",
    "Rejection",
    "Scope",
    "SpareReason",
    "Spares",
    "victims_and_vote",
]
