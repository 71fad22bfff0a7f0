"""The tree of network domains: the nodes in each HyperNode, and the nesting of HyperNodes.

Built from all HyperNode objects at once, so their order does not matter. An object that contradicts the others is left
out, with a fault that gives the reason: a member of a cycle, or a second parent (by tier, then name) of a child. The
rest is a forest; a root that contains all nodes and all domains without a parent makes it a tree. Spec of the
scheduler, 1.8 and 3.2; of the node plugins, 11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kilauea.api.patterns import Pattern, pattern_of
from kilauea.api.selectors import Selector, matches, selector_of
from kilauea.api.topology import HyperNode
from kilauea.engine.model.nodes import NodeTable, natural
from kilauea.engine.model.resources import within

ROOT = "<cluster-top-hypernode>"
"""Name of the root that contains all nodes."""
MOST_TIER = (1 << 31) - 1
"""Higher tiers are reduced to this."""
LONGEST_SHOWN = 80
"""Maximum number of characters of a pattern in messages."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A HyperNode, as described by its object."""

    name: str
    tier: int
    tier_name: str
    children: tuple[str, ...]
    """HyperNodes named as members."""
    nodes: tuple[str, ...]
    """Nodes listed by exact name."""
    patterns: tuple[Pattern, ...]
    """Nodes whose names match."""
    selectors: tuple[Selector, ...]
    """Nodes whose labels match."""

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if a node is a direct member."""
        return (
            name in self.nodes
            or any(pattern.search(name) for pattern in self.patterns)
            or any(matches(selector, labels) for selector in self.selectors)
        )


def domain_of(obj: HyperNode) -> Domain:
    """Read a HyperNode's object.

    Raises:
        ValueError: a pattern is not a valid RE2 expression.
    """
    spec = obj.spec
    members = (spec.members if spec else None) or []
    chosen = [(m.type, m.selector) for m in members if m.selector is not None]
    patterns = [s.regex_match.pattern for kind, s in chosen if kind == "Node" and s.regex_match]
    labels = [selector_of(s.label_match) for kind, s in chosen if kind == "Node" and s.label_match]
    return Domain(
        obj.name,
        within(spec.tier if spec else 0, 0, MOST_TIER),
        (spec.tier_name if spec else None) or "",
        tuple(s.exact_match.name for kind, s in chosen if kind == "HyperNode" and s.exact_match),
        tuple(s.exact_match.name for kind, s in chosen if kind == "Node" and s.exact_match),
        tuple(_pattern(obj.name, text) for text in patterns if text),
        # An empty selector matches nothing here, although it matches everything elsewhere.
        tuple(selector for selector in labels if selector),
    )


def _pattern(name: str, text: str) -> Pattern:
    try:
        return pattern_of(text)
    except ValueError as error:
        shown = repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "...")
        raise ValueError(f"hypernode {name}: member regexMatch pattern is invalid: {shown}: {error}") from error


@dataclass
class HyperNodeTree:
    """Network domains by number; number 0 is the root.

    Attributes:
        names: name of each domain.
        tiers: tier of each; the root's is one above the highest.
        parents: number of the parent, -1 for the root.
        children: numbers of the children, in natural order of names.
        rows: (n,) rows of the nodes of each domain in the node table, ascending.
        faults: domains that are left out, with the reason.
    """

    names: list[str]
    tiers: list[int]
    parents: list[int]
    children: list[list[int]]
    rows: list[NDArray[np.intp]]
    tier_names: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each domain by name."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def distinct_tiers(self) -> list[int]:
        """All tiers including the root's, ascending."""
        return sorted(set(self.tiers))

    @cached_property
    def of_node(self) -> list[list[int]]:
        """For each node, the domains that contain it, by tier and name."""
        out: list[list[int]] = [[] for _ in range(len(self.rows[0]))]
        for number in sorted(range(len(self.names)), key=lambda n: (self.tiers[n], natural(self.names[n]))):
            for row in self.rows[number]:
                out[row].append(number)
        return out

    def at_tier(self, tier: int) -> NDArray[np.int32]:
        """(N,) for each node, the domain of a tier that contains it, the first by name; -1 for none."""
        known = self._at_tier.get(tier)
        if known is None:
            known = self._at_tier[tier] = np.full(len(self.rows[0]), -1, dtype=np.int32)
            for number in sorted((n for n, t in enumerate(self.tiers) if t == tier), key=self._by_name, reverse=True):
                known[self.rows[number]] = number
        return known

    @cached_property
    def _at_tier(self) -> dict[int, NDArray[np.int32]]:
        return {}

    def _by_name(self, number: int) -> tuple[object, ...]:
        return natural(self.names[number])

    def ancestors(self, number: int) -> list[int]:
        """A domain and all its ancestors, from the inside out."""
        out = []
        while number >= 0:
            out.append(number)
            number = self.parents[number]
        return out

    def common(self, a: int, b: int) -> int:
        """The smallest domain that contains both; if one is -1, the other."""
        if a == b or a < 0 or b < 0:
            return max(a, b)
        around = set(self.ancestors(a))
        return next((n for n in self.ancestors(b) if n in around), -1)

    def inside(self, a: int, b: int) -> bool:
        """Return True if domain `a` is `b` or inside it."""
        return b in self.ancestors(a)

    def within(self, number: int) -> list[int]:
        """A domain and everything in it, breadth first."""
        out = [number]
        for known in out:
            out.extend(self.children[known])
        return out

    def smallest_around(self, rows: Sequence[int]) -> int:
        """The lowest domain that contains all of these nodes; -1 for no nodes."""
        if not len(rows):
            return -1
        held = set(self.of_node[rows[0]])
        for row in rows[1:]:
            held &= set(self.of_node[row])
        return min(held, key=lambda n: (self.tiers[n], natural(self.names[n])), default=-1)


def build_tree(domains: Iterable[Domain], nodes: NodeTable) -> HyperNodeTree:
    """Build the tree of these domains over the existing nodes."""
    known = {d.name: d for d in sorted(domains, key=lambda d: (d.tier, natural(d.name)))}
    faults: dict[str, str] = {}
    parent = _parents(known, faults)
    kept = [d for d in known.values() if d.name not in faults]
    names = [ROOT, *(d.name for d in kept)]
    number = {name: i for i, name in enumerate(names)}
    tiers = [max((d.tier for d in kept), default=0) + 1, *(d.tier for d in kept)]
    tiers[0] = max(tiers[0], 1)
    parents = [-1, *(number.get(parent.get(d.name, ROOT), 0) for d in kept)]
    children: list[list[int]] = [[] for _ in names]
    for child in sorted(range(1, len(names)), key=lambda n: natural(names[n])):
        children[parents[child]].append(child)
    rows = _rows(kept, parents, nodes)
    tier_names = {d.tier_name: d.tier for d in kept if d.tier_name}
    return HyperNodeTree(names, tiers, parents, children, rows, tier_names, faults)


def _parents(known: Mapping[str, Domain], faults: dict[str, str]) -> dict[str, str]:
    """Parent of each domain that is claimed; contradictions become faults and their claims are dropped."""
    while True:
        parent: dict[str, str] = {}
        fault = None
        for domain in known.values():
            if domain.name in faults:
                continue
            for child in domain.children:
                if child not in known or child in faults:
                    continue
                if child in parent and parent[child] != domain.name:
                    other = parent[child]
                    text = (
                        f"HyperNode {child} already has a parent {other}, and cannot set another parent {domain.name}"
                    )
                    fault = (domain.name, text)
                    break
                parent[child] = domain.name
            if fault:
                break
        fault = fault or _cycle(parent)
        if fault is None:
            return parent
        faults[fault[0]] = fault[1]


def _cycle(parent: Mapping[str, str]) -> tuple[str, str] | None:
    """A domain that is inside itself, if any, and the error message."""
    for start in sorted(parent, key=natural):
        chain, at = {start: None}, parent.get(start)
        while at is not None and at not in chain:
            chain[at] = None
            at = parent.get(at)
        if at == start:
            listed = ", ".join(chain)
            return start, f"cyclic dependency detected: HyperNode {start} is already in the ancestor chain [{listed}]"
    return None


def _rows(kept: Sequence[Domain], parents: Sequence[int], nodes: NodeTable) -> list[NDArray[np.intp]]:
    """Rows of the nodes of each domain, including those of its children; the root first, with all nodes."""
    held: list[set[int]] = [set(range(len(nodes)))]
    for domain in kept:
        rows = {nodes.row_of[name] for name in domain.nodes if name in nodes.row_of}
        if domain.patterns or domain.selectors:
            rows.update(r for r, f in enumerate(nodes.facts) if domain.holds(f.name, f.labels))
        held.append(rows)
    for number in range(1, len(held)):
        direct, at = held[number].copy(), parents[number]
        while at > 0:
            held[at] |= direct
            at = parents[at]
    return [np.array(sorted(rows), dtype=np.intp) for rows in held]
