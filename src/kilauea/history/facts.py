"""Facts from objects for the history: jobs, runs of containers, requests, run times, reasons; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kilauea.api.quantity import QuantityError, resource_amounts
from kilauea.api.remembered import remembered_items
from kilauea.api.times import parse_duration
from kilauea.api.wellknown import DEFAULT_QUEUE
from kilauea.history.records import VOLCANO_JOB, JobRecord
from kilauea.history.views import Condition, Container, Job, Pod, PodSpec, moment

RUN_TIME = "kilauea.dev/run-time"
"""Annotation of pods: the run time of their containers."""
USER, TITLE = "kilauea.dev/user", "kilauea.dev/job-name"
"""Annotations: the submitter of a job according to the client; its name as its user set it."""
_ENDED = frozenset({"Completed", "Failed", "Terminated"})
"""Final phases of a Volcano job."""


class Runs(NamedTuple):
    """Facts about the containers of a pod."""

    started: int | None
    ended: int | None
    exit_code: int
    reason: str
    restarts: int

    @classmethod
    def of(cls, pod: Pod) -> Runs:
        """The first start, the last end if all have ended, and the worst exit."""
        started: int | None = None
        ended: int | None = None
        code, reason, restarts, open_ = 0, "", 0, False
        for each in pod.state.container_statuses or ():
            restarts += each.restart_count
            state = each.state
            run = (state.running or state.terminated) if state is not None else None
            if state is None or run is None or state.running is not None:
                open_ = True
            if run is None:
                continue
            begin = moment(run.started_at)
            if begin is not None and (started is None or begin < started):
                started = begin
            end = moment(run.finished_at)
            if end is not None and (ended is None or end > ended):
                ended = end
            if run.exit_code > code or not reason:
                reason, code = run.reason or reason, max(code, run.exit_code)
        return cls(started, None if open_ else ended, code, reason if code else "", restarts)


def job_record(job: Job, user: str) -> JobRecord:
    """The current record of a Volcano job.

    Args:
        job: the object.
        user: its creator.
    """
    meta, spec = job.metadata, job.spec
    state = job.status.state if job.status is not None else None
    phase = (state.phase if state is not None else None) or ""
    tasks = [(task.replicas or 0, (task.template and task.template.spec) or PodSpec()) for task in spec.tasks or ()]
    notes = [
        task.template.metadata.annotations or {}
        for task in spec.tasks or ()
        if task.template and task.template.metadata
    ]
    pods = sum(count for count, _ in tasks)
    queue = spec.queue or DEFAULT_QUEUE
    return JobRecord(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        kind=VOLCANO_JOB,
        queue=queue,
        user=user,
        title=meta.notes.get(TITLE) or "",
        submitted=moment(meta.creation_timestamp) or 0,
        ended=(moment(state.last_transition_time) if state is not None and phase in _ENDED else None),
        state=phase,
        reason=(state.reason if state is not None else None) or "",
        message=(state.message if state is not None else None) or "",
        pods=pods,
        minimum=spec.min_available or pods,
        cpus=sum(count * amounts_of(template).get("cpu", 0) for count, template in tasks),
        run_time=duration(spec.running_estimate) or max(map(declared_time, (meta.notes, *notes))),
        limit=max((template.active_deadline_seconds or 0 for _, template in tasks), default=0),
        restarts=(job.status.retry_count if job.status is not None else None) or 0,
    )


def amounts_of(spec: PodSpec) -> dict[str, int]:
    """The requests of a pod: the sum of its containers, or the largest step of its init containers; shared."""
    containers = spec.containers or ()
    if len(containers) == 1 and not spec.init_containers and not spec.overhead:
        return _amounts(_items(containers[0]))
    total: dict[str, int] = {}
    for each in containers:
        _add(total, _amounts(_items(each)))
    beside: dict[str, int] = {}
    most: dict[str, int] = {}
    for each in spec.init_containers or ():
        asked = dict(beside)
        _add(asked, _amounts(_items(each)))
        if each.restart_policy == "Always":
            beside = asked
        most = {name: max(most.get(name, 0), asked.get(name, 0)) for name in {**most, **asked}}
    _add(total, beside)
    total = {name: max(total.get(name, 0), most.get(name, 0)) for name in {**total, **most}}
    _add(total, _amounts(tuple((spec.overhead or {}).items())))
    return total


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _items(container: Container) -> tuple[tuple[str, str | int | float], ...]:
    requests = container.resources.requests if container.resources is not None else None
    return tuple(requests.items()) if requests else ()


@remembered_items(4096)
def _amounts(items: tuple[tuple[str, str | int | float], ...]) -> dict[str, int]:
    try:
        return dict(resource_amounts(dict(items)))
    except QuantityError:
        return {}  # the server has reported the user


def declared_time(notes: Mapping[str, str]) -> int:
    """The longest run time in annotations of a pod, in microseconds; 0 for none."""
    times = [duration(text) for name, text in notes.items() if name.startswith(RUN_TIME)]
    return max(times, default=0)


def duration(text: str | None) -> int:
    """Microseconds of a duration; 0 if missing or invalid."""
    try:
        return max(parse_duration(text), 0) if text else 0
    except ValueError:
        return 0


def condition(pod: Pod, type: str) -> Condition | None:
    """The condition of a pod with this type."""
    return next((each for each in pod.state.conditions or () if each.type == type), None)


def why_waits(conditions: Sequence[Condition] | None) -> tuple[str, str]:
    """The newest true condition of a waiting group, as reason and message; empty if it does not wait."""
    true = [each for each in conditions or () if each.status == "True"]
    last = max(true, key=lambda each: each.last_transition_time or "", default=None)
    if last is None or last.type == "Scheduled":
        return "", ""
    return last.reason or last.type, last.message or ""
