"""Place pods on the node groups that their queues require, prefer or avoid.

What:
    The group of a node is its label `volcano.sh/nodegroup-name`. A queue names groups in
    `spec.affinity.nodeGroupAffinity` (to use) and `spec.affinity.nodeGroupAntiAffinity` (to avoid), each required or
    preferred. Its pods run in the groups of its affinity, and in those of its preferred anti-affinity. They do not run
    in the groups of its required anti-affinity, unless these are also in the preferred one, and not in groups that it
    does not name. Nodes score 100 for the required affinity, 50 for the preferred one, and -1 for the preferred
    anti-affinity. The annotation `volcano.sh/nodegroup-resource-limits` of a queue, such as `{"g1": {"cpu": "10"}}`,
    limits what its pods use in a group; resources that it does not name are not limited.

Why:
    Nodes that a team paid for, or that have special hardware, serve only the queues they are meant for.

Arguments:
    strict (true or false, true): pods of queues that do not name a group do not run. If false, they run on nodes
    without a group.
    enablePreferredOrder (true or false, false): among preferred groups, the first scores 50 and the others less, in
    equal steps.

    With `enableHierarchy: true` on the plugin, a queue without `spec.affinity` inherits it from the nearest ancestor
    that has one. An empty `spec.affinity` counts and ends the search. Limits are not inherited.

Example:
    tiers:
    - plugins:
      - name: nodegroup
        enableHierarchy: true
        arguments:
          strict: false
          enablePreferredOrder: true

Difference from the original:
    A pod that is kept out only by a limit can preempt pods of its queue in the group; Volcano gives up. An annotation
    that cannot be read is reported as a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.wellknown import NODE_GROUP, ROOT_QUEUE
from kilauea.engine.conf import Finding, argument
from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model.node_groups import NO_LIMITS, NodeGroups
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, add
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.status import HOLDING
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

REQUIRED, PREFERRED, RATHER_NOT = 100.0, 50.0, -1.0
"""Scores."""

ALLOWED, INVALID_LIMITS, NO_LABEL, NO_AFFINITY, DENIED = range(5)
REJECTIONS = (
    Rejection("NodeGroupLimitsInvalid", "node group resource limit annotation invalid", hopeless=True),
    Rejection("NodeGroupLabelNotFound", "node group label not found", hopeless=True),
    Rejection("NodeGroupAffinityNotSpecified", "node group affinity not specified", hopeless=True),
    Rejection("NodeGroupAffinity", "node does not satisfy the node group affinity", hopeless=True),
)
LIMIT = Rejection("NodeGroupLimit", "node group resource limit exceeded")
NOTHING_NAMED = NodeGroups()


@dataclass(frozen=True)
class NodeGroupArguments:
    """Arguments of nodegroup."""

    strict: bool = argument("strict", True, "Pods of queues that do not name a group do not run.")
    ordered: bool = argument("enablePreferredOrder", False, "The first of the preferred groups is the best.")


class Rules(NamedTuple):
    """The rules of a task's queue, by which the plugin distinguishes tasks."""

    groups: NodeGroups
    limited: str
    """The queue, if it has limits or an invalid annotation."""


NO_RULES = Rules(NOTHING_NAMED, "")


class NodeGroup(Plugin):
    """See the module."""

    name = "nodegroup"
    depends_on_time = False
    Arguments = NodeGroupArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        column = session.nodes.label(NODE_GROUP)
        self._names, self._group_of = column.values, column.ids
        self._rules: dict[str, Rules | None] = {}
        self._tree = self.conf.is_enabled("hierarchy")
        self._used: dict[str, dict[int, dict[str, float]]] = {}
        """Allocations by queue with limits and number of the group."""
        if any(queue.node_groups or queue.group_limits != NO_LIMITS for queue in session.queues.values()):
            session.add_task_trait(self.name, self._trait)
        session.add_predicate(self.name, self._codes, REJECTIONS, scope=Scope.STATIC)
        session.add_node_score(self.name, self._score, scope=Scope.STATIC, applies=self._names_any)
        limited = [queue for queue in session.queues.values() if queue.group_limits.amounts]
        if limited:
            self._count(limited)
            session.add_predicate(
                self.name,
                self._limits,
                (LIMIT,),
                scope=Scope.CLUSTER,
                applies=lambda s: self._of(s).limited in self._used,
            )
            session.add_event_handler(
                self.name, lambda task, row: self._charge(task, row, 1), lambda task, row: self._charge(task, row, -1)
            )
        for name in sorted(session.queues):
            fault = session.queues[name].group_limits.fault
            if fault:
                message = f"{fault}; its pods wait until then"
                session.findings.append(Finding(f"queue {name}", message, code="InvalidNodeGroupLimits"))

    # --- rules of queues

    def _trait(self, task: Task) -> Rules | None:
        job = self._session.state.jobs.get(task.group)
        queue = self._session.queues.get(job.queue) if job is not None else None
        if queue is None:
            return None
        if queue.name not in self._rules:
            limits = queue.group_limits
            rules = Rules(self._groups(queue), queue.name if limits.amounts or limits.fault else "")
            self._rules[queue.name] = None if rules == NO_RULES else rules
        return self._rules[queue.name]

    def _groups(self, queue: Queue) -> NodeGroups:
        """Return the groups of a queue, or those of its nearest ancestor with groups."""
        passed: set[str] = set()
        above: Queue | None = queue
        while above is not None and above.name not in passed:
            if above.node_groups is not None:
                return above.node_groups
            if not self._tree:
                break
            passed.add(above.name)
            above = self._session.queues.get(above.parent or ROOT_QUEUE)
        return NOTHING_NAMED

    def _of(self, shape: TaskShape) -> Rules:
        rules = shape.traits.get(self.name)
        return rules if isinstance(rules, Rules) else NO_RULES

    def _names_any(self, shape: TaskShape) -> bool:
        return self._of(shape).groups != NOTHING_NAMED

    # --- nodes

    def _codes(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64] | None:
        groups, limited = self._of(shape)
        if limited and self._session.queues[limited].group_limits.fault:
            return np.full(len(nodes), INVALID_LIMITS, dtype=np.int64)
        unset = groups == NOTHING_NAMED
        by_group = [NO_AFFINITY if unset else ALLOWED if allows(groups, name) else DENIED for name in self._names]
        # The number of nodes without the label is -1, the last entry.
        without = ALLOWED if unset and not self.arguments.strict else NO_LABEL
        return np.array([*by_group, without], dtype=np.int64)[nodes.take(self._group_of)]

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        groups = self._of(shape).groups
        by_group = [score_of(groups, name, ordered=self.arguments.ordered) for name in self._names]
        return np.array([*by_group, 0.0])[nodes.take(self._group_of)]

    # --- limits

    def _count(self, queues: list[Queue]) -> None:
        """Sum the allocations of queues with limits in each group."""
        session = self._session
        self._used = {queue.name: {} for queue in queues}
        rows = np.zeros(len(session.table), dtype=bool)
        for queue in queues:
            rows |= session.table.queue[: len(session.table)] == queue.row
        for job in session.jobs_where(rows):
            for task in job.tasks.values():
                row = session.nodes.row_of.get(task.node)
                if task.status in HOLDING and row is not None:
                    self._charge(task, row, 1)

    def _charge(self, task: Task, row: int, sign: int) -> None:
        group = int(self._group_of[row])
        job = self._session.state.jobs.get(task.group)
        if group >= 0 and job is not None and job.queue in self._used:
            add(self._used[job.queue].setdefault(group, {}), task.spec.requests, sign)

    def _limits(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64]:
        queue = self._session.queues[self._of(shape).limited]
        over = np.zeros(len(self._names) + 1, dtype=np.int64)
        for number, name in enumerate(self._names):
            limits = queue.group_limits.amounts.get(name)
            if limits:
                used = self._used[queue.name].get(number, {})
                asked = shape.spec.requests
                over[number] = any(
                    used.get(res, 0) + asked.get(res, 0) - limit >= EPSILON for res, limit in limits.items()
                )
        return over[nodes.take(self._group_of)]


def allows(groups: NodeGroups, name: str) -> bool:
    """Return True if a queue with these groups may use one; the last list that contains it decides."""
    if name in groups.rather_not:
        return True
    if name in groups.avoided:
        return False
    return name in groups.preferred or name in groups.required


def score_of(groups: NodeGroups, name: str, *, ordered: bool) -> float:
    """Return the score of a group's nodes for a queue that names these groups."""
    if name in groups.rather_not:
        return RATHER_NOT
    score = REQUIRED if name in groups.required else 0.0
    if name in groups.preferred:
        places = {each: index for index, each in enumerate(groups.preferred)}
        # A duplicate name has its last position, and counts once, as in Volcano.
        score += PREFERRED * max(len(places) - places[name], 0) / len(places) if ordered else PREFERRED
    return score
