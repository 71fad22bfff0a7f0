"""Check that the gang of a Volcano job can become complete even though some of its tasks depend on others.

A task that depends on another gets its pods once pods of the other are ready. If the gang needs them, the other never
starts: it waits for the gang. Admission warns of that, and the controller of jobs says it on the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrderedTask:
    """The fields of a task that matter for the order.

    Attributes:
        name: of the task.
        replicas: pods that it wants.
        minimum: how many of them the gang needs.
        ready_at: how many must be ready for those that depend on it; 0 if it counts as ready without any.
        needs: tasks that it depends on.
        needs_all: True if it depends on all of these; else on one of them.
    """

    name: str
    replicas: int
    minimum: int
    ready_at: int
    needs: Sequence[str]
    needs_all: bool


def late_tasks(tasks: Sequence[OrderedTask]) -> list[OrderedTask]:
    """The tasks with pods that are made only once others run, in their order."""
    ready_at = {task.name: task.ready_at for task in tasks}
    return [task for task in tasks if task.replicas and not _starts_first(task, ready_at)]


def _starts_first(task: OrderedTask, ready_at: Mapping[str, int]) -> bool:
    """Return True if the pods of a task are created before any runs."""
    ready = (not ready_at.get(name, 1) for name in task.needs)
    return not task.needs or (all(ready) if task.needs_all else any(ready))


def endless_wait(tasks: Sequence[OrderedTask], min_available: int) -> str:
    """Return the reason why the gang of a job can never be complete, and the fix; empty if it can.

    Args:
        tasks: of the job.
        min_available: pods that the gang needs in all.
    """
    late = late_tasks(tasks)
    first = sum(task.replicas for task in tasks) - sum(task.replicas for task in late)
    # The gang counts by task only if it needs as many pods as its tasks do together.
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
