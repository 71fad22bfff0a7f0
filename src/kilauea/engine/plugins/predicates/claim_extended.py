"""Nodes that offer the extended resources of a pod themselves, for sessions without resource claims."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape

UNSERVED = Rejection("ExtendedResourceNotServed", "node(s) had devices for the extended resource, but claims are off")


def not_served(shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_] | None:
    """(n,) nodes that offer the extended resources of a pod themselves."""
    table, names = nodes.table, shape.spec.requests.keys()
    served = [column for name, column in table.by_class.items() if name in names]
    return nodes.take(~np.logical_or.reduce(served)) if served else None
