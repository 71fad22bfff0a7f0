"""Nodes where only devices serve an extended resource, in sessions in which no plugin allocates devices to pods.

A pod bound to such a node would never start: the kubelet waits for a claim with devices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import NodePredicate, Rejection, Scope
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape

UNSERVED = Rejection(
    "ExtendedResourceNotServed",
    "node(s) had devices for the extended resource, but claims are off (plugin predicates)",
    hopeless=True,
)


def _not_served(shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_] | None:
    """(n,) nodes that offer the extended resources of a pod themselves."""
    table, names = nodes.table, shape.spec.requests.keys()
    served = [column for name, column in table.by_class.items() if name in names]
    return nodes.take(~np.logical_or.reduce(served)) if served else None


def _asks_extended(shape: TaskShape) -> bool:
    return bool(shape.spec.extended)


NOT_SERVED = NodePredicate("claims", _not_served, (UNSERVED,), Scope.STATIC, _asks_extended)
"""Keeps pods off these nodes; one object for all shapes, so that they can share it."""
