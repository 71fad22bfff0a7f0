"""Image locality: prefer nodes that have the images of a pod, especially if few other nodes have them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation import matching
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.shapes import TaskShape

MIB = 1024 * 1024
LEAST = 23 * MIB
MOST_PER_CONTAINER = 1000 * MIB


def image_locality(shape: TaskShape, table: NodeTable) -> NDArray[np.int64]:
    """(N,) score from 0 to 100 (spec of the node plugins, 2.2)."""
    return matching.kept(table, ("images", shape.images), lambda: _score(shape, table))


def _score(shape: TaskShape, table: NodeTable) -> NDArray[np.int64]:
    containers, images = shape.images
    total = np.zeros(len(table), dtype=np.int64)
    for image in images:
        sizes = np.array([f.images.get(image, 0) for f in table.facts], dtype=np.int64)
        holders = sum(1 for f in table.facts if image in f.images)
        total += (sizes * (holders / max(len(table), 1))).astype(np.int64)
    most = MOST_PER_CONTAINER * max(containers, 1)
    scored: NDArray[np.int64] = 100 * (np.clip(total, LEAST, most) - LEAST) // (most - LEAST)
    return scored
