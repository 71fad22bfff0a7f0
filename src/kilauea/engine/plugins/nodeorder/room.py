"""Scores by the free resources of a node: least allocated, most allocated, balanced (spec of the node plugins, 2.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation import kernels
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import CPU, MEMORY
from kilauea.engine.model.shapes import TaskShape

GPU = "nvidia.com/gpu"


def least_allocated(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
    """(n,) mean over cpu and memory of the free hundredths, 0 for a resource that would overflow."""
    return _mean(shape, nodes, free=True)


def most_allocated(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
    """(n,) mean over cpu and memory of the used hundredths."""
    return _mean(shape, nodes, free=False)


def _mean(shape: TaskShape, nodes: NodeRows, *, free: bool) -> NDArray[np.float64]:
    resources = len(nodes.table.axis)
    asked = shape.held[5 * resources :, None]
    offered = nodes.allocatable[:2]
    used = nodes.scored + asked
    counted = np.maximum(offered - used, 0) if free else np.minimum(used, offered)
    return kernels.mean_hundredths(counted, offered, nodes.table.complete)


def balanced(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
    """(n,) how much the task balances the use of cpu and memory (and GPUs, if it requests some); 75 is neutral.

    None for a task that requests none of them.
    """
    requests = shape.spec.requests
    if not (requests.get(CPU) or requests.get(MEMORY) or requests.get(GPU)):
        return None
    table = nodes.table
    if requests.get(GPU):
        part = np.array([0, 1, table.axis.rows[GPU]])
        viewed, offered = nodes.viewed.take(part, axis=0), nodes.allocatable.take(part, axis=0)
        return kernels.balance_gain(viewed, shape.request.take(part)[:, None], offered, table.complete)
    # The first rows of the axis are cpu and memory, so the usual case needs no copy.
    return kernels.balance_gain(nodes.viewed[:2], shape.request[:2, None], nodes.allocatable[:2], table.complete)
