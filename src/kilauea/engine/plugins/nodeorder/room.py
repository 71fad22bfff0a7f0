"""Scores from what is free on a node: least allocated, most allocated, balanced (spec of the node plugins, 2.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine import kernels
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import CPU, MEMORY
from kilauea.engine.model.shapes import TaskShape

GPU = "nvidia.com/gpu"


def least_allocated(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
    """(n,) mean over cpu and memory of the free hundredths, 0 for a resource that would overflow."""
    return kernels.mean_of_two(*_parts(shape, nodes, free=True))


def most_allocated(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
    """(n,) mean over cpu and memory of the used hundredths."""
    return kernels.mean_of_two(*_parts(shape, nodes, free=False))


def _parts(shape: TaskShape, nodes: NodeRows, *, free: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    asked = np.array([[shape.spec.scored_cpu], [shape.spec.scored_memory]], dtype=np.int64)
    offered = nodes.allocatable[:2]
    used = nodes.scored + asked
    counted = np.maximum(offered - used, 0) if free else np.minimum(used, offered)
    return kernels.hundredths(counted, offered)


def balanced(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
    """(n,) how much the task evens out the use of cpu and memory (and GPUs, if it asks for some); 75 changes nothing.

    None for a task that asks for none of them.
    """
    requests = shape.spec.requests
    if not (requests.get(CPU) or requests.get(MEMORY) or requests.get(GPU)):
        return None
    rows = [0, 1]
    if requests.get(GPU):
        rows.append(nodes.table.axis.rows[GPU])
    # The first rows of the axis are cpu and memory, so the usual case needs no copy.
    part = slice(0, 2) if len(rows) == 2 else rows
    used, offered = nodes.viewed[part], nodes.allocatable[part]
    return kernels.balance_gain(used, shape.request[part].reshape(-1, 1), offered)
