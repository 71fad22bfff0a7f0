"""PodDisruptionBudgets during a cycle: the evictions that they still allow.

The API server ignores budgets when a pod is deleted, so the scheduler must check them. Evictions in the current cycle
are counted, because the statuses of the budgets do not contain them yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kilauea.api.selectors import matches
from kilauea.engine.model.limits import Budget
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState


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
        for task in gone:
            self.charge(task)

    def allow(self, task: Task) -> bool:
        """Return True if every budget that selects a pod allows one more eviction."""
        return all(self._spent[budget.key] < budget.allowed for budget in self._of(task))

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
