"""Creates missing pods of a Volcano job, a few hundred at a time, and deletes surplus ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kilauea.api.kinds import PODS
from kilauea.api.ports import Create, Key, Operation, View
from kilauea.controllers.objects import controller_of, is_going
from kilauea.controllers.vcjobs.killing import deletion, together
from kilauea.controllers.vcjobs.members import ENDED, Members
from kilauea.controllers.vcjobs.plugins import JobPlugin, PluginFault
from kilauea.controllers.vcjobs.pods import new_pod
from kilauea.controllers.vcjobs.refusals import FAILED_CREATE, PLUGIN_ERROR, POD_REFUSED
from kilauea.controllers.vcjobs.roster import Member, PodState
from kilauea.controllers.vcjobs.work import Task, Work

BURST = 500
"""Number of pods that are created in one go, so that other jobs have their turn."""


class Scaling:
    """Creates and deletes pods until each task has its replicas.

    Attributes:
        faults: reasons and messages of obstacles.
        is_cut: True if more pods remain to be created.
    """

    def __init__(self, work: Work, members: Members, view: View, plugins: Sequence[JobPlugin]) -> None:
        self._work, self._members, self._view, self._plugins = work, members, view, plugins
        self.faults: list[tuple[str, str]] = []
        self.is_cut = False
        self._tasks: dict[str, Task] | None = None
        self._ready: dict[str, bool] = {}
        """Tasks that others depend on: True if they are ready. Cached, as thousands may depend on the same ones."""

    def operations(self) -> list[Operation]:
        """Deletions, then creations."""
        surplus = together([deletion(each)] for each in self._surplus())
        return [*surplus, *together([Create(PODS, pod, self._work.obj, POD_REFUSED)] for pod in self._pods())]

    def _surplus(self) -> Iterator[Member]:
        """Pods beyond the replicas of their task, those with the highest index first."""
        wanted = {task.name: task.replicas for task in self._work.tasks}
        for name, pods in self._members.tasks:
            replicas = wanted.get(name, 0)
            if pods.are_within(replicas):
                continue
            staying = pods.where(lambda state: not state.going and not self._members.must_go(state))
            yield from sorted((each for each in staying if each.index >= replicas), key=lambda each: -each.index)

    def _pods(self) -> list[dict[str, Any]]:
        """New pods, extended by the plugins."""
        made: list[dict[str, Any]] = []
        try:
            room = self._work.parallelism - self._members.count(lambda state: state.phase not in ENDED)
        except ValueError as error:
            self.faults.append((FAILED_CREATE, f"Error creating pods: {error}"))
            return []
        try:
            for task, index in self._missing():
                if len(made) >= room:  # the end of a pod makes room for the next
                    break
                if len(made) == BURST:
                    self.is_cut = True
                    break
                pod = new_pod(self._work.obj, task.raw, index)
                for plugin in self._plugins:
                    plugin.on_pod(pod, task.raw, index)
                made.append(pod)
        except PluginFault as fault:
            self.faults.append((PLUGIN_ERROR, f"Execute plugin when pod create failed, err: {fault.why}"))
            return []
        return made

    def _missing(self) -> Iterator[tuple[Task, int]]:
        """Missing indexes of tasks that may start."""
        for task in self._work.tasks:
            if self._members.are_complete(task) or not self._may_start(task):
                continue
            found = self._members.of(task.name)
            for index, name in enumerate(self._members.names(task)):
                if name not in found and self._is_free(name):
                    yield task, index

    def _is_free(self, name: str) -> bool:
        """Return True if no pod has this name; a pod of another owner with this name is a fault."""
        pod = self._view.get(PODS, Key(self._work.key.namespace, name))
        if pod is None:
            return True
        owner = controller_of(pod)
        if not is_going(pod) and (owner is None or owner["name"] != self._work.name):
            self.faults.append(
                (FAILED_CREATE, f"Error creating pods: pod {name} exists and does not belong to this job")
            )
        return False

    # --- dependencies of tasks

    def _may_start(self, task: Task) -> bool:
        """Return True if the tasks that a task depends on are ready."""
        ready = map(self._is_ready, task.needs)
        return not task.needs or (all(ready) if task.needs_all else any(ready))

    def _is_ready(self, name: str) -> bool:
        if name not in self._ready:
            self._ready[name] = self._find_ready(name)
        return self._ready[name]

    def _find_ready(self, name: str) -> bool:
        if self._tasks is None:
            self._tasks = {task.name: task for task in reversed(self._work.tasks)}  # the first of several with one name
        task = self._tasks.get(name)
        if task is None:
            self.faults.append((FAILED_CREATE, f"Error creating pods: there is no task {name} to depend on"))
            return False
        if task.min_available is None:
            return True
        return self._members.of(name).count(_serves) >= task.min_available


def _serves(state: PodState) -> bool:
    """Return True if a pod has succeeded, or is ready and not being deleted."""
    if state.going or state.marked:
        return False
    return state.phase == "Succeeded" or (state.phase == "Running" and state.ready)
