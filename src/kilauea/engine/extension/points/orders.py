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
        """Increases whenever the keys of queues change."""
        self._moved: dict[str, int] = {}
        """Value of `moves` at the last change of each queue; lines of queues remember the value they have processed."""

    # --- orders: the first plugin with different keys decides

    def add_job_order(self, plugin: str, key: Callable[[Job], Key]) -> None:
        """Add a sort key of jobs within a queue."""
        self.add("job_order", plugin, key)

    def add_queue_order(self, plugin: str, key: Callable[[Queue], Key]) -> None:
        """Add a sort key of queues.

        The key of a queue is computed when the queue is added, and again when `queues_moved` names it. Between two
        turns, at least one key is computed, so a plugin can wait until then to find out which keys have changed.
        """
        self.add("queue_order", plugin, key)

    def add_task_order(self, plugin: str, key: Callable[[Task], Key]) -> None:
        """Add a sort key of the tasks of a job."""
        self.add("task_order", plugin, key)

    def add_sub_job_order(self, plugin: str, key: Callable[[Any], Key]) -> None:
        """Add a sort key of the sub-gangs of a job."""
        self.add("sub_job_order", plugin, key)

    def add_cluster_order(self, plugin: str, key: Callable[[str], Key]) -> None:
        """Add a sort key of clusters, by name. No action calls it yet."""
        self.add("cluster_order", plugin, key)

    def add_victim_queue_order(self, plugin: str, key: Callable[[Queue, Queue], Key]) -> None:
        """Add a sort key of queues that lose tasks, from (queue, queue of the preemptor)."""
        self.add("victim_queue_order", plugin, key)

    def job_key(self, job: Job) -> tuple[Key, ...]:
        """Return the sort key of a job; ties are broken by creation time and name."""
        return (*self._keys("job_order", job), job.order)

    def queue_key(self, queue: Queue) -> tuple[Key, ...]:
        """Return the sort key of a queue; ties are broken by creation time and name."""
        return (*self._keys("queue_order", queue), queue.creation, queue.name)

    def queues_moved(self, queues: Iterable[str]) -> None:
        """Report that the keys of queues, by name, have changed because of changes in other queues."""
        self.moves += 1
        for name in queues:
            self._moved.pop(name, None)
            self._moved[name] = self.moves

    def moved_since(self, moves: int) -> set[str]:
        """Queues that `queues_moved` has named since `moves` had this value."""
        # The latest changes are at the end of the dict, so the time depends only on their number.
        return set(takewhile(lambda name: self._moved[name] > moves, reversed(self._moved)))

    def task_key(self, task: Task) -> tuple[Key, ...]:
        """Return the sort key of a task; ties are broken by the index in its name, creation time and UID."""
        return (*self._keys("task_order", task), task.order)

    def sub_job_key(self, sub_job: Any) -> tuple[Key, ...]:
        """Return the sort key of a sub-gang, from the plugins alone."""
        return tuple(self._keys("sub_job_order", sub_job))

    def cluster_key(self, cluster: str) -> tuple[Key, ...]:
        """Return the sort key of a cluster; ties are broken by its name."""
        return (*self._keys("cluster_order", cluster), cluster)

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> tuple[Key, ...]:
        """Return the sort key by which queues lose tasks to a preemptor, from the plugins alone."""
        return tuple(
            self.ask("victim_queue_order", plugin, f, queue, preemptor) for plugin, f in self.walk("victim_queue_order")
        )

    def blame_for_keys(self, point: str, keys: Sequence[tuple[Key, ...]], error: TypeError) -> NoReturn:
        """Find the plugin whose sort keys cannot be compared with each other.

        Raises:
            PluginFault: a plugin's keys cannot be compared.
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
