"""Fill nodes that are in use before touching empty ones.

What:
    Scores a node by how full it would be with the task. For each resource that the task requests and that has a weight,
    the score is (used + requested) / allocatable. The score of the node is the weighted mean, times 100, times
    `binpack.weight`. A node where the task does not fit gets 0.

Why:
    Whole nodes stay free for jobs that need whole nodes, and an autoscaler can remove empty ones.

Arguments:
    binpack.weight (integer, 1): weight of the whole score; 0 disables it.
    binpack.cpu (integer, 1), binpack.memory (integer, 1): weights of cpu and memory.
    binpack.resources (text, ""): additional resources, separated by commas.
    binpack.resources.NAME (integer, 1): weight of one of them.

Example:
    tiers:
    - plugins:
      - name: binpack
        arguments:
          binpack.weight: 10
          binpack.cpu: 5
          binpack.resources: nvidia.com/gpu
          binpack.resources.nvidia.com/gpu: 2

Difference from the original:
    None known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import argument
from kilauea.engine.evaluation import kernels
from kilauea.engine.extension import Scope
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import CPU, MEMORY, order_of
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

NO_WEIGHTS: dict[str, int] = {}


@dataclass(frozen=True)
class BinpackArguments:
    """Arguments of binpack."""

    weight: int = argument("binpack.weight", 1, "Weight of the whole score; 0 disables it.")
    cpu: int = argument("binpack.cpu", 1, "Weight of cpu.", minimum=0)
    memory: int = argument("binpack.memory", 1, "Weight of memory.", minimum=0)
    resources: str = argument("binpack.resources", "", "Additional resources, separated by commas.")
    resource_weights: dict[str, int] = argument("binpack.resources.", NO_WEIGHTS, "Weight of one of them.", minimum=0)


class Counted(NamedTuple):
    """The resources that count for a shape."""

    rows: slice | list[int]
    asked: NDArray[np.int64]
    """(r, 1)"""
    weights: NDArray[np.float64]
    """(r, 1)"""
    whole: float
    """Sum of the weights, including zeros."""
    always_there: bool
    """True if only cpu and memory count."""


class Binpack(Plugin):
    """See the module."""

    name = "binpack"
    depends_on_time = False
    Arguments = BinpackArguments

    def on_session_open(self, session: Session) -> None:
        given: BinpackArguments = self.arguments
        listed = [name.strip() for name in given.resources.split(",") if name.strip()]
        self._weights = {name: given.resource_weights.get(name, 1) for name in listed}
        self._weights |= {CPU: given.cpu, MEMORY: given.memory}
        self._rows = session.axis.rows
        self._plans: dict[TaskShape, Counted] = {}
        if given.weight:
            session.add_node_score(self.name, self._score, scope=Scope.FIGURES, resources=self._weights)

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
        rows, asked, weights, whole, complete = self._plan(shape)
        if not whole:
            return None
        complete = complete and nodes.table.complete
        full = kernels.fullness(nodes.used[rows], asked, nodes.allocatable[rows], weights, complete)
        factor: float = 100.0 * self.arguments.weight / whole
        return full * factor

    def _plan(self, shape: TaskShape) -> Counted:
        """The resources that count for a shape."""
        plan = self._plans.get(shape)
        if plan is None:
            requests = shape.spec.requests
            names = [n for n in sorted(requests, key=order_of) if requests[n] > 0 and n in self._weights]
            counted = [n for n in names if self._weights[n]]
            rows = [self._rows[n] for n in counted]
            plan = self._plans[shape] = Counted(
                # The first rows are cpu and memory: a slice of them is read without a copy.
                slice(0, 2) if rows == [0, 1] else rows,
                np.array([requests[n] for n in counted], dtype=np.int64)[:, None],
                np.array([self._weights[n] for n in counted], dtype=np.float64)[:, None],
                float(sum(self._weights[n] for n in names)),
                set(rows) <= {0, 1},
            )
        return plan
