"""How plugins and actions take part in a cycle: the extension points, guards around user code, and observers."""

from kilauea.engine.extension.points import (
    ABSTAIN,
    FLAGS,
    PERMIT,
    REJECT,
    ExtensionPoints,
    NodePredicate,
    NodeScorer,
    PluginFault,
    Refusal,
    Rejection,
    Scope,
    SpareReason,
    victims_and_vote,
)

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
    "victims_and_vote",
]
