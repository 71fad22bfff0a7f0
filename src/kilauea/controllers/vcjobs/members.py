"""The current pods of a Volcano job: those that belong to it, their tasks, and those that have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kilauea.api.kinds import PODS
from kilauea.api.ports import View
from kilauea.controllers.vcjobs.roster import ROSTER, Member, PodState, Roster, TaskMembers, roster_of
from kilauea.controllers.vcjobs.work import MOST_PODS, Task, Work

ENDED = frozenset({"Succeeded", "Failed"})


class Members:
    """All pods of a job, including those of removed tasks."""

    def __init__(self, work: Work, view: View) -> None:
        self._work = work
        found = view.aggregate(PODS, ROSTER, roster_of(work.key.namespace, work.name, work.uid))
        self._roster = found if isinstance(found, Roster) else Roster()

    @property
    def tasks(self) -> Iterator[tuple[str, TaskMembers]]:
        """Names of tasks with pods, and their pods."""
        return iter(self._roster)

    def of(self, task: str) -> TaskMembers:
        """The pods of a task."""
        return self._roster.of(task)

    def count(self, wanted: Callable[[PodState], bool]) -> int:
        """Return the number of pods in some states."""
        return sum(members.count(wanted) for _, members in self._roster)

    def where(self, wanted: Callable[[PodState], bool]) -> list[Member]:
        """The pods in some states, by task and name."""
        return [each for _, members in self._roster for each in members.where(wanted)]

    def names(self, task: Task) -> Iterator[str]:
        """Yield the names of all desired pods of a task, unless their number is excessive."""
        start = f"{self._work.name}-{task.name}-"
        return (f"{start}{index}" for index in range(min(task.replicas, MOST_PODS)))

    def are_complete(self, task: Task) -> bool:
        """Return True if a task has all desired pods."""
        found = self.of(task.name)
        if len(found) < task.replicas:
            return False
        return found.are_within(task.replicas) or all(name in found for name in self.names(task))

    def must_go(self, state: PodState) -> bool:
        """Return True if a pod should be deleted: it is marked, or from before all pods were killed."""
        if state.marked:
            return True
        if state.version >= self._work.version:
            return False
        return state.phase not in ENDED or self._work.restarts_all
