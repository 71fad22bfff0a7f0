"""Matches of nodes with a pod's selectors, affinity and tolerations: masks over all nodes, kept with the table.

An expression is evaluated once for each distinct value of its label, not once for each node. Used by the predicates, by
the scores, and by topology spread for the nodes that count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.api.selectors import NodeTerm, Requirement, TolerationKey, node_term_matches, requirement_matches_value
from kilauea.api.selectors import tolerates as tolerates_taint
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.task_specs import Spread, TaskSpec

KEPT = 4096
"""Maximum number of masks that are cached in a table."""

HARD_EFFECTS = ("NoSchedule", "NoExecute")
SOFT_EFFECT = "PreferNoSchedule"

Mask = NDArray[np.bool_]


def kept(nodes: NodeTable, key: tuple[object, ...], make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The array with this key, created if it does not exist yet."""
    known = nodes.kept.get(key)
    if known is None:
        if len(nodes.kept) >= KEPT:
            nodes.kept.clear()
        known = nodes.kept[key] = make()
    return known


def selects(nodes: NodeTable, spec: TaskSpec) -> Mask | None:
    """Nodes that the pod's node selector and required node affinity allow; None for all."""
    if not spec.node_selector and spec.node_terms is None:
        return None
    return kept(nodes, ("selects", spec.node_selector, spec.node_terms), lambda: _selects(nodes, spec))


def _selects(nodes: NodeTable, spec: TaskSpec) -> Mask:
    out = np.ones(len(nodes), dtype=bool)
    for key, value in spec.node_selector:
        out &= _requirement(nodes, Requirement(key, "In", (value,)))
    if spec.node_terms is not None:
        any_term = np.zeros(len(nodes), dtype=bool)
        for term in spec.node_terms:
            any_term |= matches_term(nodes, term)
        out &= any_term
    return out


def matches_term(nodes: NodeTable, term: NodeTerm) -> Mask:
    """Nodes that match one term of a node selector."""
    if term.fields:
        return np.array([node_term_matches(term, f.labels, f.name) for f in nodes.facts], dtype=bool)
    out = np.full(len(nodes), bool(term.expressions))
    for requirement in term.expressions:
        out &= _requirement(nodes, requirement)
    return out


def _requirement(nodes: NodeTable, requirement: Requirement) -> Mask:
    column = nodes.label(requirement.key)
    verdicts = [requirement_matches_value(requirement, value) for value in column.values]
    absent = requirement_matches_value(requirement, None)
    return np.array([*verdicts, absent], dtype=bool)[column.ids]


def tolerates(nodes: NodeTable, tolerations: tuple[TolerationKey, ...]) -> Mask | None:
    """Nodes without a NoSchedule or NoExecute taint that is not tolerated; None for all."""
    sets, ids = nodes.taint_sets
    if nodes.taint_effects.isdisjoint(HARD_EFFECTS):
        return None

    def make() -> Mask:
        verdicts = [_count(taints, tolerations, HARD_EFFECTS) == 0 for taints in sets]
        return np.array(verdicts, dtype=bool)[ids]

    return kept(nodes, ("tolerates", tolerations), make)


def soft_taints(nodes: NodeTable, tolerations: tuple[TolerationKey, ...]) -> NDArray[np.int64] | None:
    """Number of PreferNoSchedule taints that are not tolerated, by node; None if no node has any such taint."""
    sets, ids = nodes.taint_sets
    if SOFT_EFFECT not in nodes.taint_effects:
        return None

    def make() -> NDArray[np.int64]:
        soft = tuple(t for t in tolerations if t.effect in ("", SOFT_EFFECT))
        return np.array([_count(taints, soft, (SOFT_EFFECT,)) for taints in sets], dtype=np.int64)[ids]

    return kept(nodes, ("soft", tolerations), make)


def _count(taints: tuple[Any, ...], tolerations: tuple[TolerationKey, ...], effects: tuple[str, ...]) -> int:
    hard = [taint for taint in taints if taint.effect in effects]
    return sum(1 for taint in hard if not any(tolerates_taint(t, taint) for t in tolerations))


def counted_nodes(nodes: NodeTable, spec: TaskSpec, spread: Spread, keys: tuple[str, ...]) -> Mask | None:
    """Nodes whose pods count for a spread constraint; None for all.

    They have all labels of `keys`, and the pod itself can use them, if the constraint's policies require that.
    """
    parts = [nodes.label(key).ids >= 0 for key in keys if not nodes.label(key).everywhere]
    if spread.honor_affinity and (mask := selects(nodes, spec)) is not None:
        parts.append(mask)
    if spread.honor_taints and (mask := tolerates(nodes, spec.tolerations)) is not None:
        parts.append(mask)
    out: Mask | None = None
    for part in parts:
        out = part if out is None else out & part
    return out
