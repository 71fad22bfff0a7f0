"""PodDisruptionBudgets during a cycle: the evictions that they still allow.

The API server ignores budgets when a pod is deleted, so the scheduler must check them. Evictions in the current cycle
are counted, because the statuses of the budgets do not contain them yet. Those of earlier cycles may be missing, too,
as a controller writes them later; so a budget must also keep as many running pods as it wants healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kilauea.api.selectors import matches
from kilauea.engine.model import status
from kilauea.engine.model.limits import Budget
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState


def allowances(state: ClusterState, gone: Iterable[Task]) -> dict[str, int]:
    """Return how many pods each budget allows to evict, by the key of the budget.

    That is what its status says, but no more than the running pods exceed those that have to be healthy: of the pods
    that run, all, some or none are healthy.

    Args:
        state: the cluster.
        gone: tasks that are evicted in this cycle, which count as running.
    """
    allowed = {key: budget.allowed for key, budget in state.budgets.items()}
    allowing = [budget for budget in state.budgets.values() if budget.allowed > 0]
    if not allowing:
        return allowed
    runs = state.placements.running.copy()
    runs[[task.row for task in gone]] = True
    running = np.bincount(state.placements.label_class[runs], minlength=len(state.classes))
    within = {name: state.classes.within([name]) for name in {budget.namespace for budget in allowing}}
    for budget in allowing:
        selected = within[budget.namespace] & state.classes.selected(budget.selector)
        allowed[budget.key] = min(budget.allowed, _beyond(state, budget, int(running[selected].sum())))
    return allowed


def _beyond(state: ClusterState, budget: Budget, running: int) -> int:
    """Return by how many the running pods of a budget exceed those that have to be healthy."""
    counted = (state.tasks.get(f"{budget.namespace}/{name}") for name in budget.disrupted)
    disrupted = sum(task is not None and task.status == status.RUNNING for task in counted)
    return max(0, running - disrupted - budget.desired)


class Budgets:
    """The budgets of a cluster.

    Args:
        state: the cluster.
        gone: tasks that are already evicted in this cycle.
    """

    def __init__(self, state: ClusterState, gone: Iterable[Task] = ()) -> None:
        self._classes = state.classes
        self._by_namespace: dict[str, list[Budget]] = {}
        for _, budget in sorted(state.budgets.items()):
            if budget.selector:
                self._by_namespace.setdefault(budget.namespace, []).append(budget)
        self._spent: Counter[str] = Counter()
        gone = list(gone)
        self._allowed = allowances(state, gone)
        for task in gone:
            self.charge(task)

    def allow(self, task: Task) -> bool:
        """Return True if every budget that selects a pod allows one more eviction."""
        return all(self._spent[budget.key] < self._allowed[budget.key] for budget in self._of(task))

    def charge(self, task: Task) -> None:
        """Count the eviction of a pod."""
        self._spent.update(budget.key for budget in self._of(task))

    def _of(self, task: Task) -> list[Budget]:
        """Return the budgets that select a task."""
        of_namespace = self._by_namespace.get(task.namespace)
        if not of_namespace:
            return []
        labels = self._classes.get(task.label_class).labels
        return [b for b in of_namespace if task.name not in b.disrupted and matches(b.selector, labels)]
