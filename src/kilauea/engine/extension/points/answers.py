"""Results of plugins, and how they are registered: votes, sort keys, rejections, scopes, and the fault of a plugin."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal, SpareReason

PERMIT, ABSTAIN, REJECT = 1, 0, -1
"""Votes."""

Key = Any
"""A sort key: anything comparable, lower first."""


class Scope(enum.Enum):
    """The inputs of a predicate besides the task; its result is computed again when they change."""

    STATIC = "what the node's object says"
    FIGURES = "what is allocatable and used on the node, and no more: equal nodes have equal answers"
    NODE = "what runs on the node"
    CLUSTER = "what runs anywhere"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why a node is rejected: a code for programs, a message in the words of Kubernetes."""

    code: str
    message: str
    room: bool = False
    """The node lacks resources, so the reason also names the scarcest one."""
    hopeless: bool = False
    """Evicting pods from the node would not help (Kubernetes' UnschedulableAndUnresolvable)."""


Codes = NDArray[Any]
Predicate = Callable[[TaskShape, NodeRows], Codes | None]
NodeScore = Callable[[TaskShape, NodeRows], NDArray[np.float64] | None]
Applies = Callable[[TaskShape], bool]
VictimVote = Callable[[Task, Sequence[Task]], tuple[Sequence[Task], int]]
WhySpared = SpareReason | Callable[[Any, Task], SpareReason]
EventHandler = Callable[[Task, int], Refusal | None]
BindAnnotations = Callable[[Task], Mapping[str, str]]


class PluginFault(Exception):
    """A plugin raised an exception or returned an invalid result."""

    def __init__(self, plugin: str, point: str, error: object) -> None:
        self.what = f"failed in {point}: {error}"
        super().__init__(f"plugin {plugin} {self.what}")
        self.plugin = plugin
        self.point = point


@dataclass(frozen=True, slots=True)
class NodePredicate:
    """A registered predicate. A result of i > 0 means `rejections[i - 1]`."""

    plugin: str
    function: Predicate
    rejections: Sequence[Rejection]
    scope: Scope
    applies: Applies | None
    room: Predicate | None = None
    """The nodes with enough free resources now; to other nodes that fit, a task is only nominated."""


@dataclass(frozen=True, slots=True)
class NodeScorer:
    """A registered score over nodes."""

    plugin: str
    function: NodeScore
    applies: Applies | None
    scope: Scope = Scope.NODE
    resources: Collection[str] | None = None
    """The resources that a score with scope FIGURES depends on; None if it may depend on more."""
