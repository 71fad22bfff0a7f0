"""HyperNode: nodes that are close to each other in the network, as a tree of domains."""

from __future__ import annotations

from kilauea.api.meta import Condition, LabelSelector, Object, Wire


class ExactMatch(Wire):
    """Member with this name."""

    name: str = ""


class RegexMatch(Wire):
    """Members whose names contain a match of a pattern."""

    pattern: str = ""


class MemberSelector(Wire):
    """A selector of members: exactly one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(Wire):
    """Nodes, or one HyperNode, that belong to a HyperNode."""

    type: str = ""
    selector: MemberSelector | None = None


class HyperNodeSpec(Wire):
    """`spec` of a HyperNode; a lower tier is closer."""

    tier: int = 0
    tier_name: str | None = None
    members: list[Member] | None = None


class HyperNodeStatus(Wire):
    """`status` of a HyperNode."""

    conditions: list[Condition] | None = None
    node_count: int | None = None


class HyperNode(Object):
    """A domain of the network: a switch, or several."""

    spec: HyperNodeSpec | None = None
    status: HyperNodeStatus | None = None
