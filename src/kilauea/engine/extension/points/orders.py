"""Points at which plugins define orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from kilauea.engine.conf import PluginConf
from kilauea.engine.extension.points.answers import Key, PluginFault
from kilauea.engine.extension.points.registry import Registry
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task


class OrderPoints(Registry):
    """Sort keys of jobs, queues, tasks, sub-gangs and clusters."""

    def __init__(self, tiers: Sequence[Sequence[PluginConf]]) -> None:
        super().__init__(tiers)
        self.moves = 0
        """Grows whenever queues move."""
        self._moved: dict[str, int] = {}
        """By queue: what `moves` was when it moved last. Each line of queues remembers what it has taken in."""

    # --- orders: the first plugin that tells two apart decides

    def add_job_order(self, plugin: str, key: Callable[[Job], Key]) -> None:
        """Order of jobs within a queue."""
        self.add("job_order", plugin, key)

    def add_queue_order(self, plugin: str, key: Callable[[Queue], Key]) -> None:
        """Order in which queues get their turns.

        A queue's key is taken when it joins the line, and again when `queues_moved` names it. Between a turn
        and the next, a key is taken at least once, so a plugin may wait until then to find out what has moved.
        """
        self.add("queue_order", plugin, key)

    def add_task_order(self, plugin: str, key: Callable[[Task], Key]) -> None:
        """Order of the tasks of a job."""
        self.add("task_order", plugin, key)

    def add_sub_job_order(self, plugin: str, key: Callable[[Any], Key]) -> None:
        """Order of the sub-gangs of a job."""
        self.add("sub_job_order", plugin, key)

    def add_cluster_order(self, plugin: str, key: Callable[[str], Key]) -> None:
        """Order of clusters, by name; no action of this version asks."""
        self.add("cluster_order", plugin, key)

    def add_victim_queue_order(self, plugin: str, key: Callable[[Queue, Queue], Key]) -> None:
        """Order in which queues lose tasks: of (queue, queue of the preemptor)."""
        self.add("victim_queue_order", plugin, key)

    def job_key(self, job: Job) -> tuple[Key, ...]:
        """Sort key of a job; ties fall to creation time and name."""
        return (*self._keys("job_order", job), job.order)

    def queue_key(self, queue: Queue) -> tuple[Key, ...]:
        """Sort key of a queue; ties fall to creation time and name."""
        return (*self._keys("queue_order", queue), queue.creation, queue.name)

    def queues_moved(self, queues: Iterable[str]) -> None:
        """Say that the keys of queues, by name, have changed by what other queues got or lost."""
        self.moves += 1
        for name in queues:
            self._moved.pop(name, None)
            self._moved[name] = self.moves

    def moved_since(self, moves: int) -> set[str]:
        """Queues that `queues_moved` has named since `moves` stood at this number."""
        # The last that moved are the last of the dict, so that this takes as long as there are queues that did.
        return set(takewhile(lambda name: self._moved[name] > moves, reversed(self._moved)))

    def task_key(self, task: Task) -> tuple[Key, ...]:
        """Sort key of a task; ties fall to the index in its name, creation time and UID."""
        return (*self._keys("task_order", task), task.order)

    def sub_job_key(self, sub_job: Any) -> tuple[Key, ...]:
        """Sort key of a sub-gang, as far as plugins tell them apart."""
        return tuple(self._keys("sub_job_order", sub_job))

    def cluster_key(self, cluster: str) -> tuple[Key, ...]:
        """Sort key of a cluster; ties fall to its name."""
        return (*self._keys("cluster_order", cluster), cluster)

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> tuple[Key, ...]:
        """Sort key by which queues lose tasks to a preemptor, as far as plugins tell them apart."""
        return tuple(
            self.ask("victim_queue_order", plugin, f, queue, preemptor) for plugin, f in self.walk("victim_queue_order")
        )

    def blame_for_keys(self, point: str, keys: Sequence[tuple[Key, ...]], error: TypeError) -> NoReturn:
        """Find the plugin whose sort keys cannot be compared with each other.

        Raises:
            PluginFault: it is that plugin's.
            TypeError: no plugin is to blame.
        """
        for position, (plugin, _) in enumerate(self.walk(point)):
            try:
                sorted(key[position] for key in keys)
            except TypeError as incomparable:
                raise PluginFault(plugin, point, f"keys cannot be compared: {incomparable}") from incomparable
        raise error

    def _keys(self, point: str, subject: object) -> list[Key]:
        # Written out, not by `ask` and `walk`: keys are taken for every job and task that waits, many times a cycle.
        out = []
        for tier in self.tiers_of(point):
            for plugin, function in tier:
                try:
                    out.append(function(subject))
                except PluginFault:
                    raise
                except Exception as error:
                    raise PluginFault(plugin, point, f"{type(error).__name__}: {error}") from error
        return out
