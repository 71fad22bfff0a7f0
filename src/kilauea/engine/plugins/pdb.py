"""Evictions respect PodDisruptionBudgets.

What:
    A pod can be evicted only if every budget that matches it still allows a disruption. Budgets are used up pod by pod,
    in the order in which the pods are given. Pods without labels cannot be evicted.

Why:
    A budget defines how many replicas of a service can be disrupted. The API server enforces it, and a scheduler that
    evicts pods must respect it, too.

Arguments:
    pdb.unlabelled-pods (true or false, false): allow eviction of pods without labels, which no budget can match.

    Flags: `enablePreemptable`, `enableReclaimable`, `enabledVictim`.

Example:
    tiers:
    - plugins:
      - name: pdb

Difference from the original:
    Evictions in the current cycle count: a budget that allows one disruption allows one in a cycle, where Volcano
    checks the same unused budget for every preemptor. Those of earlier cycles count, too, while the status of the
    budget does not contain them yet. With the action shuffle, the plugin selects victims only with
    `enabledVictim: true`, because otherwise shuffle would evict as many pods as all budgets allow. The argument is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilauea.api.selectors import matches
from kilauea.engine.conf import argument
from kilauea.engine.eviction.budgets import allowances
from kilauea.engine.extension import PERMIT, SpareReason
from kilauea.engine.model import status
from kilauea.engine.model.limits import Budget
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session


@dataclass(frozen=True)
class PdbArguments:
    """Arguments of pdb."""

    unlabelled: bool = argument("pdb.unlabelled-pods", False, "Allow eviction of pods without labels.")


class Pdb(Plugin):
    """See the module."""

    name = "pdb"
    depends_on_time = False
    Arguments = PdbArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._budgets: dict[str, list[Budget]] = {}
        for _, budget in sorted(session.state.budgets.items()):
            if budget.selector:
                self._budgets.setdefault(budget.namespace, []).append(budget)
        self._matching: dict[int, list[Budget]] = {}
        self._known: dict[str, int] | None = None
        self._evicted: dict[str, Task] = {}
        """Tasks that were evicted in this session, by key."""
        if self._budgets:
            session.add_event_handler(self.name, self._back, self._gone)
        session.add_preemptable(self.name, self._vote, why=self._why)
        session.add_reclaimable(self.name, self._vote, why=self._why)
        if self.conf.flags.get("victim", "shuffle" not in session.conf.actions):
            session.add_victim_tasks(self.name, self._allowed)

    def _gone(self, task: Task, _: int) -> None:
        if task.status == status.RELEASING:
            self._evicted[task.key] = task

    def _back(self, task: Task, _: int) -> None:
        self._evicted.pop(task.key, None)

    def _vote(self, _: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        return self._allowed(candidates), PERMIT

    def _why(self, _: object, task: Task) -> SpareReason:
        if not self._session.state.classes.get(task.label_class).labels:
            return SpareReason("NoLabels", "it has no labels, so no PodDisruptionBudget can select it")
        return SpareReason("DisruptionBudget", "a PodDisruptionBudget allows no more evictions")

    def _allowed(self, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted, one by one, in the given order."""
        spent = Counter(b.key for task in self._evicted.values() for b in self._budgets_of(task))
        return [task for task in candidates if self._may_go(task, spent)]

    def _may_go(self, task: Task, spent: Counter[str]) -> bool:
        """Return True if all budgets allow the eviction. Each is charged, even if another one objects."""
        if not self._session.state.classes.get(task.label_class).labels:
            return bool(self.arguments.unlabelled)
        may, allowed = True, self._allowances()
        for budget in self._budgets_of(task):
            spent[budget.key] += 1
            may = may and spent[budget.key] <= allowed[budget.key]
        return may

    def _allowances(self) -> dict[str, int]:
        """Return the evictions that each budget allows from the start of the cycle on."""
        if self._known is None:
            self._known = allowances(self._session.state, self._evicted.values())
        return self._known

    def _budgets_of(self, task: Task) -> Iterator[Budget]:
        """Return the budgets that select a task."""
        of_namespace = self._budgets.get(task.namespace)
        if not of_namespace:
            return iter(())
        known = self._matching.get(task.label_class)
        if known is None:
            labels = self._session.state.classes.get(task.label_class).labels
            known = [budget for budget in of_namespace if matches(budget.selector, labels)]
            self._matching[task.label_class] = known
        return (budget for budget in known if task.name not in budget.disrupted)
