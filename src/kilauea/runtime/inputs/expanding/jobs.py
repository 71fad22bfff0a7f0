"""Expands a Volcano job into its pod group and pods, after admission."""

from __future__ import annotations

from shlex import quote
from typing import Any

import msgspec

from kilauea.admission.registry import HOOKS, mutations
from kilauea.admission.review import Denied, Review, Settings
from kilauea.api.batch import Job
from kilauea.api.errors import explain, path_text
from kilauea.api.kinds import QUEUES, VC_JOBS
from kilauea.api.meta import Object
from kilauea.api.ports import Create, Key, Obj
from kilauea.api.storage import PersistentVolumeClaim
from kilauea.apiserver.patch.json_patch import json_patch
from kilauea.apiserver.patch.values import copied
from kilauea.controllers.vcjobs.groups import group_of
from kilauea.controllers.vcjobs.names import group_name, task_name
from kilauea.controllers.vcjobs.plugins import PluginFault, active
from kilauea.controllers.vcjobs.pods import new_pod
from kilauea.controllers.vcjobs.refusals import FAULTS
from kilauea.controllers.vcjobs.volumes import volumes_of
from kilauea.controllers.vcjobs.work import Work
from kilauea.runtime.inputs.expanding.creation import JUDGED, Creation
from kilauea.runtime.inputs.expanding.objects import Known, made_group, made_pod
from kilauea.runtime.inputs.expanding.refusing import Refused
from kilauea.runtime.inputs.template_rules import template_errors
from kilauea.simulator.scenario import NotCreated

MAKES_NO_PODS = frozenset({"Aborting", "Aborted", "Completing", "Completed", "Failed", "Terminating", "Terminated"})
"""Phases of jobs that have ended, or are about to."""


def expand_job(job: dict[str, Any], known: Known, creation: Creation) -> tuple[str, list[Object], NotCreated | None]:
    """The key of a job's group (`namespace/name`), its group and pods, and the pods that are not created.

    Raises:
        Refused: admission refuses the job, or one of its plugins is invalid.
    """
    try:
        typed = msgspec.convert(job, Job)
    except (msgspec.ValidationError, RecursionError) as error:
        path, message = explain(error, job)
        raise Refused(f"{path_text(path)}: {message}") from error
    job = {**job, "spec": {"queue": "default", "maxRetry": 3, **(job.get("spec") or {})}}
    phase = typed.status.state.phase if typed.status and typed.status.state else None
    if not phase:
        job = _admitted(job, known)
    group = _group_key(job, known)
    if phase in MAKES_NO_PODS:
        return group, [], None
    for number, task in enumerate(typed.spec.tasks or () if phase else ()):
        for reason in template_errors(task.template or {}):
            raise Refused(f"spec.tasks[{number}].{reason}")
    excess = Work(job).excess
    if excess:
        raise Refused(excess)
    made, missing = _made(job, known, creation)
    return group, made, missing


def _said_refusal(job: Obj) -> str:
    """The reason in the job's status why pods are rejected; empty if `Creation` finds it itself."""
    state = (job.get("status") or {}).get("state") or {}
    message = str(state.get("message") or "") if state.get("reason") in FAULTS else ""
    return "" if any(words in message for words in JUDGED) else message


def phase_of(job: Obj) -> str:
    """The phase in a job's status; empty for a new job."""
    status = job.get("status") or {}
    return str((status.get("state") or {}).get("phase") or "")


def _group_key(job: Obj, known: Known) -> str:
    """The group of a job; in old clusters, the group has the name of the job."""
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    return f"{namespace}/{name}" if known.has_group(f"{namespace}/{name}") else f"{namespace}/{group_name(job)}"


def _admitted(job: dict[str, Any], known: Known) -> dict[str, Any]:
    """A new job with its defaults."""
    settings = Settings(check_template=template_errors)
    metadata = job["metadata"]
    for hook in HOOKS:
        if hook.resource != VC_JOBS or "CREATE" not in hook.operations:
            continue
        review = Review("CREATE", VC_JOBS, metadata["namespace"], metadata["name"], job, None)
        try:
            job = json_patch(copied(job), mutations(hook, review, known, settings))
            if hook.validate is not None:
                hook.validate(review, known, settings)
        except Denied as denied:
            words = denied.message.rstrip(";")
            raise Refused(f"admission rejects it: {words}{_missing_queue(job, known)}") from denied
    return job


def _missing_queue(job: Obj, known: Known) -> str:
    """Advice to create the queue of a job; empty if it exists."""
    queue = job["spec"]["queue"]
    if not isinstance(queue, str) or known.get(QUEUES, Key("", queue)) is not None:
        return ""
    return f"; create the queue with `vcctl queue create -n {quote(queue)}`, or add it to the files"


def _made(job: Obj, known: Known, creation: Creation) -> tuple[list[Object], NotCreated | None]:
    """The claims, the group and the pods; pods of dependent tasks only if they already exist."""
    try:
        plugins = active(job)
    except PluginFault as fault:
        raise Refused(str(fault)) from fault
    made: list[Object] = [
        msgspec.convert(operation.body, PersistentVolumeClaim)
        for operation in volumes_of(job, known).operations
        if isinstance(operation, Create)
    ]
    made.append(made_group(group_of(job, known.priority), job))
    work, pods = Work(job), []
    late = frozenset(work.late_tasks)
    for task in job["spec"].get("tasks") or ():
        for index in range(0 if task_name(task) in late else task.get("replicas") or 0):
            pod = new_pod(job, task, index)
            for plugin in plugins:
                plugin.on_pod(pod, task, index)
            if not known.has_pod(pod):
                pods.append(pod)
    refused, missing = creation.refusals(pods)
    if missing is None and (said := _said_refusal(job)) and pods:
        refused, missing = list(range(len(pods))), NotCreated(len(pods), said)
    left_out = frozenset(refused)
    made += [made_pod(pod, job) for place, pod in enumerate(pods) if place not in left_out]
    if missing is None and work.endless_wait:
        count = sum(task.replicas for task in work.tasks if task.name in late)
        missing = NotCreated(count, work.endless_wait)
    return made, missing
