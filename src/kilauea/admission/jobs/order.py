"""Jobs that admission accepts, as Volcano does, but that can never start because of the order of their tasks."""

from __future__ import annotations

from kilauea.api.batch import JobSpec, Task
from kilauea.api.task_order import OrderedTask, endless_wait


def order_warnings(spec: JobSpec) -> list[str]:
    """Return the reason why the gang of a job can never be complete, and the fix."""
    fault = endless_wait([_ordered(task) for task in spec.tasks or ()], spec.min_available or 0)
    return [f"spec.tasks: {fault}"] if fault else []


def _ordered(task: Task) -> OrderedTask:
    depends = task.depends_on
    needs = (depends.name if depends else None) or ()
    needs_all = len(needs) < 2 or depends is None or depends.iteration != "any"
    minimum = task.replicas if task.min_available is None else task.min_available
    return OrderedTask(task.name or "", task.replicas, minimum, task.min_available or 0, needs, needs_all)
