"""PodDisruptionBudgets during a cycle: the evictions that they still allow.

The API server ignores budgets when a pod is deleted, so the scheduler must check them. Evictions in the current cycle
are counted, because the statuses of the budgets do not contain them yet. Those of earlier cycles may be missing, too,
as a controller writes them later; so a budget must also keep as many running pods as it wants healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kilauea.api.selectors import matches
from kilauea.engine.model import status
from kilauea.engine.model.limits import Budget
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState


def allowances(state: ClusterState, gone: Collection[str]) -> dict[str, int]:
    """Return how many pods each budget allows to evict, by the key of the budget.

    That is what its status says, but no more than the running pods exceed those that have to be healthy: of the pods
    that run, all, some or none are healthy.

    Args:
        state: the cluster.
        gone: keys of tasks that are evicted in this cycle, which count as running.
    """
    namespaces = {budget.namespace for budget in state.budgets.values() if budget.allowed > 0}
    running: Counter[tuple[str, int]] = Counter()
    for task in state.tasks.values() if namespaces else ():
        if task.namespace in namespaces and (task.status == status.RUNNING or task.key in gone):
            running[task.namespace, task.label_class] += 1
    return {key: min(budget.allowed, _beyond(state, budget, running)) for key, budget in state.budgets.items()}


def _beyond(state: ClusterState, budget: Budget, running: Counter[tuple[str, int]]) -> int:
    """Return by how many the running pods of a budget exceed those that have to be healthy."""
    classes = {
        label_class: count
        for (namespace, label_class), count in running.items()
        if namespace == budget.namespace and matches(budget.selector, state.classes.get(label_class).labels)
    }
    counted = (state.tasks.get(f"{budget.namespace}/{name}") for name in budget.disrupted)
    disrupted = sum(task is not None and task.status == status.RUNNING for task in counted)
    return max(0, sum(classes.values()) - disrupted - budget.desired)


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
        self._allowed = allowances(state, {task.key for task in gone})
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
