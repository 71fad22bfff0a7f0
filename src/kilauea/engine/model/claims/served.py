"""Nodes by a pod's extended resources that devices serve there, and those that the nodes offer themselves.

The claim of a pod differs between these kinds of nodes: if a device plugin offers a resource, the pod needs no devices
of a class for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.claims.extended import SpecialDemand
from kilauea.engine.model.claims.inventory import Mask, Rows
from kilauea.engine.model.nodes import NodeTable


def _columns(nodes: NodeTable, content: SpecialDemand) -> tuple[list[str], NDArray[np.bool_]]:
    """The resources of a pod, without repeats, and (r, N) True where devices serve them."""
    names = list(dict.fromkeys(content.resources))
    none = np.zeros(len(nodes), dtype=bool)
    return names, np.array([nodes.by_class.get(name, none) for name in names], dtype=bool).reshape(-1, len(nodes))


def served_alike(nodes: NodeTable, content: SpecialDemand, rows: Rows) -> Iterator[tuple[Mask, frozenset[str]]]:
    """Split nodes by the resources that devices serve there: (n,) the nodes, and the resources."""
    names, columns = _columns(nodes, content)
    kinds, which = np.unique(columns[:, rows], axis=1, return_inverse=True)
    for kind in range(kinds.shape[1]):
        served = frozenset(name for name, here in zip(names, kinds[:, kind].tolist(), strict=True) if here)
        yield which.reshape(-1) == kind, served


def served_at(nodes: NodeTable, content: SpecialDemand, row: int) -> frozenset[str]:
    """The resources of a pod that devices serve on one node."""
    names, columns = _columns(nodes, content)
    return frozenset(name for name, here in zip(names, columns[:, row].tolist(), strict=True) if here)


def served_everywhere(nodes: NodeTable, content: SpecialDemand) -> frozenset[str]:
    """The resources of a pod that no node offers itself."""
    names, columns = _columns(nodes, content)
    return frozenset(name for name, column in zip(names, columns, strict=True) if column.all())


def is_served_everywhere(nodes: NodeTable, content: SpecialDemand) -> bool:
    """Return True if no node offers any of the resources itself."""
    return bool(_columns(nodes, content)[1].all())
