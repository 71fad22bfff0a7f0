"""A check that the gang of a Volcano job can become complete although some tasks depend on others.

The pods of a task are created once pods of the tasks that it depends on are ready. If the gang needs them, those tasks
never start, as they wait for the gang. Admission warns about that, and the job controller reports it on the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrderedTask:
    """The fields of a task that matter for the order.

    Attributes:
        name: the name of the task.
        replicas: the desired number of pods.
        minimum: the number of pods that the gang needs.
        ready_at: the number of ready pods that dependent tasks require; 0 if it is always ready.
        needs: the tasks that it depends on.
        needs_all: True if it depends on all of these; otherwise on any of them.
    """

    name: str
    replicas: int
    minimum: int
    ready_at: int
    needs: Sequence[str]
    needs_all: bool


def late_tasks(tasks: Sequence[OrderedTask]) -> list[OrderedTask]:
    """Return the tasks whose pods are created only once others run, in order."""
    ready_at = {task.name: task.ready_at for task in tasks}
    return [task for task in tasks if task.replicas and not _starts_first(task, ready_at)]


def _starts_first(task: OrderedTask, ready_at: Mapping[str, int]) -> bool:
    """Return True if the pods of a task are created before any runs."""
    ready = (not ready_at.get(name, 1) for name in task.needs)
    return not task.needs or (all(ready) if task.needs_all else any(ready))


def endless_wait(tasks: Sequence[OrderedTask], min_available: int) -> str:
    """Return the reason why the gang of a job can never be complete, and the fix; empty if it can.

    Args:
        tasks: the tasks of the job.
        min_available: the total number of pods that the gang needs.
    """
    late = late_tasks(tasks)
    first = sum(task.replicas for task in tasks) - sum(task.replicas for task in late)
    # The gang counts per task only if it needs at least as many pods as its tasks in total.
    counts_tasks = min_available >= sum(task.minimum for task in tasks)
    held, too_many = [task for task in late if task.minimum], min_available > first
    if not late or not (too_many or (held and counts_tasks)):
        return ""
    fixes = [f"minAvailable of {', '.join(task.name for task in held)} to 0"] if held else []
    fixes += [f"spec.minAvailable to at most {first}"] if too_many else []
    names = ", ".join(task.name for task in held or late)
    needs = ", ".join(dict.fromkeys(name for task in held or late for name in task.needs))
    return (
        f"the job never starts: pods of {names} are made once {needs} is ready (dependsOn), which waits for the gang, "
        f"and the gang needs them (minAvailable): set {' and '.join(fixes)}"
    )
