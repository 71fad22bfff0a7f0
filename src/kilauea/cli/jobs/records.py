"""Jobs of the cluster in Slurm's terms: a record for each job, and for each element of an array."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, parse_milli
from kilauea.api.times import SECOND, parse_time
from kilauea.cli.jobs.arrays import ARRAY, PARALLELISM, array_text, parse_array
from kilauea.cli.jobs.batch_request import JOB_NAME
from kilauea.cli.jobs.copies import INDEX_LABEL, JOB_LABEL, exit_code
from kilauea.cli.jobs.manifest import USER
from kilauea.cli.jobs.reasons import job_reason, waiting_condition
from kilauea.cli.vcctl.job_list import phase_of
from kilauea.cli.vcctl.tables import part

STATES: Mapping[str, str] = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETING": "CG",
    "REQUEUED": "RQ",
    "COMPLETED": "CD",
    "FAILED": "F",
    "CANCELLED": "CA",
    "TIMEOUT": "TO",
    "OUT_OF_MEMORY": "OOM",
}
"""States in `squeue`, with their short forms."""
ACTIVE = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED")
_BY_PHASE = {
    "": "PENDING",
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Restarting": "REQUEUED",
    "Aborting": "COMPLETING",
    "Terminating": "COMPLETING",
    "Completing": "COMPLETING",
    "Aborted": "SUSPENDED",
    "Completed": "COMPLETED",
    "Failed": "FAILED",
    "Terminated": "CANCELLED",
}
_BY_POD = {"Pending": "PENDING", "Running": "RUNNING", "Succeeded": "COMPLETED", "Failed": "FAILED"}


@dataclass(frozen=True)
class Record:
    """A job, an element of an array, or its waiting elements.

    Attributes:
        id: name of the job, and the element: `sweep-x7k2q_3`, `sweep-x7k2q_[4-9]`.
        job: name of the job.
        namespace: its namespace.
        name: the name given by its user.
        queue: its queue.
        user: its submitter; `-` if unknown.
        state: one of `STATES`.
        submitted: microseconds since 1970; None if unknown.
        started: microseconds since 1970; None before the start.
        ended: microseconds since 1970; None before the end.
        ran: seconds of the last run of a job without pods, such as a suspended one.
        nodes: names of the nodes.
        wanted_nodes: number of nodes of a waiting job.
        cpus: cpus of all its copies, in thousandths.
        limit: time limit in seconds; 0 for none.
        exit_code: the highest of its copies; 0 if none is known.
        reason: the reason why it waits, one word; empty for none.
        message: the reason in words.
    """

    id: str
    job: str
    namespace: str
    name: str
    queue: str
    user: str
    state: str
    submitted: int | None
    started: int | None
    ended: int | None
    nodes: tuple[str, ...]
    wanted_nodes: int
    cpus: int
    limit: int
    exit_code: int
    reason: str
    message: str
    ran: int = 0


def state_of_phase(phase: str) -> str:
    """The state for a phase of a job."""
    return _BY_PHASE.get(phase, "PENDING")


def records_of(jobs: Sequence[Obj], pods: Sequence[Obj], groups: Sequence[Obj]) -> list[Record]:
    """Records of jobs, from their objects."""
    by_job: dict[tuple[str, str], list[Obj]] = {}
    for pod in pods:
        name = (pod["metadata"].get("labels") or {}).get(JOB_LABEL, "")
        by_job.setdefault((pod["metadata"]["namespace"], name), []).append(pod)
    by_group = {(group["metadata"]["namespace"], group["metadata"]["name"]): group for group in groups}
    found: list[Record] = []
    for job in jobs:
        metadata = job["metadata"]
        own = by_job.get((metadata["namespace"], metadata["name"]), [])
        group = by_group.get((metadata["namespace"], f"{metadata['name']}-{metadata['uid']}"))
        found += _records(job, own, group)
    return found


def _records(job: Obj, pods: Sequence[Obj], group: Obj | None) -> Iterator[Record]:
    """The record of a job, or those of an array: one for each started element, one for the others."""
    elements = _elements(job)
    if not elements:
        yield _record(job, "", pods, _state(job, pods), group)
        return
    by_index = {int((pod["metadata"].get("labels") or {}).get(INDEX_LABEL) or 0): pod for pod in pods}
    waiting = []
    over = _BY_PHASE.get(phase_of(job), "PENDING") not in ACTIVE
    for index, element in enumerate(elements):
        pod = by_index.get(index)
        state = _pod_state(pod) if pod is not None else "CANCELLED" if over else "PENDING"
        if state == "PENDING":
            waiting.append(element)
        else:
            yield _record(job, f"_{element}", [pod] if pod is not None else [], state, group)
    if waiting:
        record = _record(job, f"_[{array_text(waiting)}]", [], "PENDING", group, copies=len(waiting))
        reason, message = (record.reason, record.message) if record.message else _reason_of_pods(pods)
        if not message and (at_once := (job["metadata"].get("annotations") or {}).get(PARALLELISM)):
            words = "one element runs" if at_once == "1" else f"{at_once} elements run"
            reason, message = "JobArrayTaskLimit", f"{words} at a time"
        yield replace(record, reason=reason, message=message)


def _elements(job: Obj) -> tuple[int, ...]:
    text = (job["metadata"].get("annotations") or {}).get(ARRAY, "")
    try:
        return parse_array(text) if text else ()
    except ValueError:
        return ()


def _state(job: Obj, pods: Sequence[Obj]) -> str:
    state = _BY_PHASE.get(phase_of(job), "PENDING")
    reasons = {_pod_state(pod) for pod in pods}
    return next((each for each in ("OUT_OF_MEMORY", "TIMEOUT") if state == "FAILED" and each in reasons), state)


def _pod_state(pod: Obj) -> str:
    status = pod.get("status") or {}
    if status.get("reason") == "DeadlineExceeded":
        return "TIMEOUT"
    ends = [part(each, "state", "terminated", "reason") for each in status.get("containerStatuses") or ()]
    if "OOMKilled" in ends:
        return "OUT_OF_MEMORY"
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") == "Running":
        return "COMPLETING"
    return _BY_POD.get(str(status.get("phase")), "PENDING")


def _record(
    job: Obj, suffix: str, pods: Sequence[Obj], state: str, group: Obj | None, copies: int | None = None
) -> Record:
    metadata, spec = job["metadata"], job.get("spec") or {}
    notes = metadata.get("annotations") or {}
    started, ended = _times(pods)
    reason, message = _reason(job, group) if state in ("PENDING", "SUSPENDED", "REQUEUED") else ("", "")
    tasks = spec.get("tasks") or []
    total = sum(_cpus(task) * int(task.get("replicas") or 0) for task in tasks)
    each = total // max(1, sum(int(task.get("replicas") or 0) for task in tasks))
    return Record(
        id=f"{metadata['name']}{suffix}",
        job=metadata["name"],
        namespace=metadata["namespace"],
        name=notes.get(JOB_NAME) or metadata["name"],
        queue=spec.get("queue") or "default",
        user=notes.get(USER) or "-",
        state=state,
        submitted=_time(metadata.get("creationTimestamp")),
        started=started,
        ended=(ended or _time(part(job, "status", "state", "lastTransitionTime"))) if state not in ACTIVE else None,
        nodes=tuple(sorted({name for pod in pods if (name := part(pod, "spec", "nodeName"))})),
        wanted_nodes=_wanted_nodes(job),
        cpus=each * (copies or 1) if suffix else total,
        limit=_limit(tasks),
        exit_code=exit_code(pods),
        reason=reason,
        message=message,
        ran=0 if pods or suffix or state in ("PENDING", "REQUEUED") else _last_run(job),
    )


def _reason(job: Obj, group: Obj | None) -> tuple[str, str]:
    """The reason why a job waits, as a word and a message."""
    if message := job_reason(job):
        suspended = phase_of(job) in ("Aborted", "Aborting")
        return "JobHeldUser" if suspended else str(part(job, "status", "state", "reason") or "None"), message
    found = waiting_condition(group)
    if found is None:
        return "None", ""
    message = str(found.get("message") or "")
    word = str(found.get("reason") or found.get("type") or "None")
    lower = message.lower()
    if "queue" in lower and ("closed" in lower or "closing" in lower):
        return "PartitionDown", message
    if "quota" in lower or "deserved" in lower or "overused" in lower:
        return "QueueQuota", message
    return ("Resources" if word in ("Unschedulable", "NotEnoughResources", "NotEnoughTasks") else word), message


def _reason_of_pods(pods: Sequence[Obj]) -> tuple[str, str]:
    """The first reason among some waiting pods."""
    for pod in sorted(pods, key=lambda each: str(each["metadata"]["name"])):
        for condition in part(pod, "status", "conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                word = str(condition.get("reason") or "None")
                return ("Resources" if word == "Unschedulable" else word), str(condition.get("message") or "")
    return "None", ""


def _times(pods: Sequence[Obj]) -> tuple[int | None, int | None]:
    """The first start and the last end of containers."""
    states = [each.get("state") or {} for pod in pods for each in part(pod, "status", "containerStatuses") or ()]
    starts = [_time(inner.get("startedAt")) for state in states for inner in state.values() if inner]
    ends = [_time(part(state, "terminated", "finishedAt")) for state in states]
    known, finished = [at for at in starts if at is not None], [at for at in ends if at is not None]
    return min(known, default=None), max(finished, default=None) if len(finished) == len(states) else None


def _last_run(job: Obj) -> int:
    """Duration of the last run of a job in seconds, by the times of its conditions; 0 if it never ran."""
    conditions = part(job, "status", "conditions") or ()
    times = {str(each.get("status")): _time(each.get("lastTransitionTime")) for each in conditions}
    started = times.get("Running")
    if started is None:
        return 0
    later = [at for phase, at in times.items() if phase != "Running" and at is not None and at >= started]
    return (min(later, default=started) - started) // SECOND


def _time(text: Any) -> int | None:
    """A time; None if missing, which kubelets write as 1970 for a container that could not start."""
    try:
        return (parse_time(text) or None) if text else None
    except ValueError:
        return None


def _limit(tasks: Sequence[Mapping[str, Any]]) -> int:
    return max((int(part(task, "template", "spec", "activeDeadlineSeconds") or 0) for task in tasks), default=0)


def _wanted_nodes(job: Obj) -> int:
    """Minimum number of nodes of a job: as many as copies if each is on a separate one, otherwise one."""
    tasks = part(job, "spec", "tasks") or []
    apart = any(part(task, "template", "spec", "affinity", "podAntiAffinity") for task in tasks)
    return sum(int(task.get("replicas") or 0) for task in tasks) if apart else 1


def _cpus(task: Mapping[str, Any]) -> int:
    """CPUs of a copy, in thousandths."""
    return pod_cpus(part(task, "template", "spec") or {})


def pod_cpus(spec: Mapping[str, Any]) -> int:
    """CPUs that the containers of a pod request, in thousandths; an invalid amount counts as 0."""
    total = 0
    for container in spec.get("containers") or ():
        amount = part(container, "resources", "requests", "cpu") or part(container, "resources", "limits", "cpu") or 0
        try:
            total += parse_milli(str(amount))
        except QuantityError:
            continue
    return total


def cpu_count(record: Record) -> str:
    """CPUs as in Slurm: whole ones."""
    return str(math.ceil(record.cpus / 1000))


def elapsed(record: Record, now: int) -> int:
    """Run time of a job in seconds."""
    if record.started is None:
        return record.ran
    return max(0, (record.ended if record.ended is not None else now) - record.started) // SECOND
