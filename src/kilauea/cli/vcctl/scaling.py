"""The number of pods of a job's tasks, and the matching minimums."""

from __future__ import annotations

from typing import Any

from kilauea.api.ports import Obj
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.job_list import replicas_of, tasks_of


def scaled(job: Obj, text: str, minimum: int | None) -> list[dict[str, Any]]:
    """The JSON patch that changes the number of pods of tasks, provided that the order of the tasks has not changed.

    A task or job whose minimum is all its pods still needs all of them; any other keeps its minimum if it is still
    possible.

    Args:
        job: the current job.
        text: `4` for the only task, or `worker=4,ps=2`.
        minimum: minAvailable of the job; None to derive it as above.

    Raises:
        CommandError: the text does not fit the job.
    """
    tasks, patch, total = tasks_of(job), list[dict[str, Any]](), 0
    numbers = _numbers(text, [str(task.get("name")) for task in tasks])
    for place, task in enumerate(tasks):
        old = int(task.get("replicas") or 0)
        new = numbers.get(str(task.get("name")), old)
        total += new
        at = f"/spec/tasks/{place}"
        if new != old:
            patch += [{"op": "test", "path": f"{at}/name", "value": task.get("name")}, _set(f"{at}/replicas", new)]
            if task.get("minAvailable") is not None:
                patch.append(_set(f"{at}/minAvailable", _minimum(task["minAvailable"], old, new)))
    known = job["spec"].get("minAvailable")
    if minimum is None and known is not None:
        minimum = _minimum(known, replicas_of(job), total)
    return patch + ([_set("/spec/minAvailable", minimum)] if minimum is not None else [])


def _minimum(old: int, old_replicas: int, replicas: int) -> int:
    return replicas if old >= old_replicas else min(old, replicas)


def _set(path: str, value: int) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _numbers(text: str, tasks: list[str]) -> dict[str, int]:
    """The new numbers by task."""
    found = {}
    for entry in text.split(","):
        task, equals, value = entry.rpartition("=")
        if not equals and len(tasks) != 1:
            raise CommandError(
                f"the job has {len(tasks)} tasks: name the task, for example {tasks[0] if tasks else 'TASK'}={value}"
            )
        task = task if equals else tasks[0]
        if task not in tasks:
            raise CommandError(f'task "{task}" does not exist: the job has {", ".join(tasks)}')
        if not value.isascii() or not value.isdigit():
            raise CommandError(f'invalid number of pods "{value}" for task {task}: use 0 or more')
        found[task] = int(value)
    return found
