"""Defaults of a job."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kilauea.admission.reading import add, read
from kilauea.admission.review import JsonPatch, Review, Settings
from kilauea.api.batch import Job, JobSpec, PodTemplate, Task
from kilauea.api.ports import Obj, View
from kilauea.api.wellknown import DEFAULT_QUEUE

DEFAULT_RETRIES = 3
"""Restarts that a job has, and that the containers of a task have together."""
_NEED_SERVICE = frozenset({"tensorflow", "mpi", "pytorch", "ray"})
_HOST_NETWORK_DNS = "ClusterFirstWithHostNet"


def mutate(review: Review, _view: View, settings: Settings) -> JsonPatch:
    """The fields that are missing, one operation for each.

    Of a job that is there only those that its tasks have lost, if that is all that has changed in them.

    Raises:
        Denied: the job cannot be read.
    """
    spec = read(review.obj, Job).spec
    if review.old is not None:
        return _restored(spec, review.obj or {}, review.old, settings)
    patch = [] if "spec" in (review.obj or {}) else [add({}, "spec")]
    for field, value in _missing_fields(spec, settings):
        patch.append(add(value, "spec", field))
    for index, task in enumerate(spec.tasks or ()):
        patch += _complete_task(task, index)
    total = sum(_least(task) for task in spec.tasks or ())
    if not spec.min_available and total:
        patch.append(add(total, "spec", "minAvailable"))
    return patch + [add([], "spec", "plugins", name) for name in _missing_plugins(spec)]


def _missing_fields(spec: JobSpec, settings: Settings) -> Iterator[tuple[str, Any]]:
    """Fields of the job itself that cannot change and are missing or empty, each with its default."""
    if not spec.queue:
        yield "queue", DEFAULT_QUEUE
    if not spec.scheduler_name:
        yield "schedulerName", settings.scheduler_names[0]
    if not spec.max_retry:
        yield "maxRetry", DEFAULT_RETRIES


def _restored(spec: JobSpec, new: Obj, old: Obj, settings: Settings) -> JsonPatch:
    """Defaults that were given before, for a manifest that is applied again as it was first written.

    Fields that the manifest has with an empty value, such as `maxRetry: 0`, and what the list of its tasks has lost;
    the latter only if nothing else has changed in them: Volcano refuses all such updates, and for the others that
    stays so.
    """
    had = old.get("spec") or {}
    fields = [
        add(value, "spec", field)
        for field, value in _missing_fields(spec, settings)
        if field in (new.get("spec") or {}) and had.get(field) == value
    ]
    return fields + _restored_tasks(spec, new, old)


def _restored_tasks(spec: JobSpec, new: Obj, old: Obj) -> JsonPatch:
    """Defaults of tasks that are missing in a manifest that is otherwise what the job has."""
    patch = [each for index, task in enumerate(spec.tasks or ()) for each in _complete_task(task, index)]
    tasks = copy.deepcopy(new["spec"]["tasks"]) if patch else []
    for each in patch:
        *_, index, field = each["path"].split("/")
        if field == "dnsPolicy":
            tasks[int(each["path"].split("/")[3])]["template"]["spec"][field] = each["value"]
        else:
            tasks[int(index)][field] = each["value"]
    return patch if tasks == (old.get("spec") or {}).get("tasks") else []


def _complete_task(task: Task, index: int) -> Iterator[dict[str, Any]]:
    """Defaults that a task lacks."""
    if not task.name:
        yield add(f"default{index}", "spec", "tasks", index, "name")
    if _needs_dns_policy(task.template):
        yield add(_HOST_NETWORK_DNS, "spec", "tasks", index, "template", "spec", "dnsPolicy")
    if task.min_available is None:
        yield add(_least(task), "spec", "tasks", index, "minAvailable")
    if not task.max_retry:
        yield add(DEFAULT_RETRIES, "spec", "tasks", index, "maxRetry")


def _least(task: Task) -> int:
    """The number of pods of a task that its gang needs."""
    if task.min_available is not None:
        return task.min_available
    parts = task.partition_policy
    if parts and (parts.min_partitions or 0) > 0:
        return (parts.min_partitions or 0) * parts.partition_size
    return task.replicas


def _needs_dns_policy(template: PodTemplate | None) -> bool:
    """Return True if pods are in their node's network, where they find services only with a DNS policy."""
    spec = (template or {}).get("spec")
    return isinstance(spec, dict) and spec.get("hostNetwork") is True and not spec.get("dnsPolicy")


def _missing_plugins(spec: JobSpec) -> Iterator[str]:
    """Plugins that others of the job rely on."""
    plugins = spec.plugins or {}
    if _NEED_SERVICE & plugins.keys() and "svc" not in plugins:
        yield "svc"
    if "mpi" in plugins and "ssh" not in plugins:
        yield "ssh"
