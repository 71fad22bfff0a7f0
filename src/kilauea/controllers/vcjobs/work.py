"""A Volcano job as its controller reads it: typed, with defaults, even if fields are missing or invalid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kilauea.api.numbers import whole_number
from kilauea.api.ports import Key, Obj, key_of
from kilauea.api.task_order import OrderedTask, endless_wait, late_tasks
from kilauea.api.times import parse_duration
from kilauea.controllers.objects import annotations_of, name_of, spec_of, status_of, uid_of
from kilauea.controllers.remembering import Remembered
from kilauea.controllers.vcjobs.machine import PHASES, RESTART_JOB, RESTARTING

POD_PENDING = "PodPending"
ANY = "*"
GROUP_VERSION = "kilauea.dev/job-version"
"""Annotation of a pod group: the version of the job that it was created for."""
PARALLELISM = "kilauea.dev/parallelism"
"""Annotation of a job: the maximum number of unfinished pods at a time."""
MOST_PODS = 100_000
"""Maximum number of pods of a job: a cluster must survive a mistyped number."""
MAX_RETRY = 3
"""Default number of restarts of a job, or of the containers of a task."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An action for an event.

    Attributes:
        events: the events it applies to.
        exit_code: or the exit code of a failed pod.
        action: the action to take.
        timeout: delay in microseconds; None for none.
    """

    events: frozenset[str]
    exit_code: int | None
    action: str
    timeout: int | None

    def covers(self, event: str, exit_code: int) -> bool:
        """Return True if the policy matches; one for pending pods only does so if it has a timeout."""
        if exit_code and self.exit_code == exit_code:
            return True
        if event == POD_PENDING and self.timeout is None:
            return False
        return event in self.events or ANY in self.events


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a job.

    Attributes:
        raw: the task in the object.
        name: its name.
        replicas: desired number of pods.
        min_available: number of running pods for it to be ready; None if not set.
        max_retry: restarts of containers at which the task counts as failed; -1 for never.
        policies: its policies, which take precedence over the job's.
        needs: tasks that must be ready first.
        needs_all: True if all of these must be ready; False for any of them.
        partition_size: pods of one partition; 0 if it has none.
    """

    raw: Mapping[str, Any]
    name: str
    replicas: int
    min_available: int | None
    max_retry: int
    policies: tuple[Policy, ...]
    needs: tuple[str, ...]
    needs_all: bool
    partition_size: int

    @property
    def minimum(self) -> int:
        """The minimum number of its pods in the gang."""
        return self.replicas if self.min_available is None else self.min_available

    @property
    def order(self) -> OrderedTask:
        """The fields that matter for dependencies of tasks."""
        ready_at = self.min_available or 0
        return OrderedTask(self.name, self.replicas, self.minimum, ready_at, self.needs, self.needs_all)


@Remembered
def _read(spec: Mapping[str, Any]) -> tuple[tuple[Task, ...], tuple[Policy, ...], int]:
    """The tasks of a specification, the policies of the whole job, and the pods of all tasks."""
    tasks = tuple(map(_task, spec.get("tasks") or ()))
    return tasks, _policies(spec), sum(task.replicas for task in tasks)


class Work:
    """A job and its status.

    Attributes:
        obj: the object, with a name for each task.
        key: its key.
        name: its name.
        uid: its uid.
        phase: its phase; empty if missing or unknown.
        tasks: its tasks, in order.
        policies: those of the whole job.
        replicas: pods of all tasks.
    """

    def __init__(self, job: Obj) -> None:
        self.obj = _named(job)
        self.key: Key = key_of(job)
        self.name, self.uid = name_of(job), uid_of(job)
        self._spec, self.status = spec_of(self.obj), status_of(job)
        phase = str((self.status.get("state") or {}).get("phase") or "")
        self.phase = phase if phase in PHASES else ""
        self.tasks, self.policies, self.replicas = _read(self._spec)

    @property
    def excess(self) -> str:
        """The reason why none of its pods are created, if the number is excessive; else empty."""
        if self.replicas <= MOST_PODS:
            return ""
        return f"{self.replicas} pods are requested, and a job may have {MOST_PODS}: set fewer replicas in spec.tasks"

    @property
    def parallelism(self) -> int:
        """Maximum number of unfinished pods at a time.

        Raises:
            ValueError: the annotation is invalid; names the fix.
        """
        text = annotations_of(self.obj).get(PARALLELISM)
        if text is None:
            return MOST_PODS
        least = max(self.min_available, 1)
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
            raise ValueError(f'annotation {PARALLELISM}: invalid number "{text}": use {least} (minAvailable) or more')
        return int(text)

    @property
    def late_tasks(self) -> list[str]:
        """Names of the tasks whose pods are created only once others run."""
        return [each.name for each in late_tasks([task.order for task in self.tasks])]

    @property
    def endless_wait(self) -> str:
        """The reason why the gang can never be complete because of dependencies of tasks; empty if it can."""
        return endless_wait([task.order for task in self.tasks], self.min_available)

    @property
    def min_available(self) -> int:
        """Minimum number of pods that must run together."""
        return _number(self._spec.get("minAvailable"))

    @property
    def min_success(self) -> int:
        """Number of succeeded pods that is sufficient; 0 if not set."""
        return _number(self._spec.get("minSuccess"))

    @property
    def max_retry(self) -> int:
        """Maximum number of restarts."""
        return _number(self._spec.get("maxRetry")) or MAX_RETRY

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return str(self._spec.get("queue") or "default")

    @property
    def version(self) -> int:
        """The number of times that all pods were killed."""
        return _number(self.status.get("version"))

    @property
    def retries(self) -> int:
        """Restarts so far."""
        return _number(self.status.get("retryCount"))

    def retry_words(self, number: int) -> str:
        """Describe the number of a retry."""
        return f"retry {number} of spec.maxRetry {self.max_retry}"

    @property
    def no_retry_left(self) -> str:
        """The message that the last retry ends the job, with the fix; valid while it is still Restarting."""
        state = self.status.get("state") or {}
        action, last = state.get("reason") or "a restart", state.get("message") or self.retry_words(self.retries)
        way_out = "create the job again, with a larger spec.maxRetry if its pods are often evicted or fail"
        return f"{action} on {last}, at which the job fails: {way_out}"

    @property
    def restarts_all(self) -> bool:
        """True if all pods are restarted, including ended ones; they stay after the last try."""
        state = self.status.get("state") or {}
        return self.phase == RESTARTING and state.get("reason") == RESTART_JOB and self.retries < self.max_retry

    def has_outlived(self, group: Obj) -> bool:
        """Return True if a pod group is from before all pods were killed; False if it has no version."""
        version = whole_number(annotations_of(group).get(GROUP_VERSION, ""))
        return version is not None and version < self.version


def _named(job: Obj) -> Obj:
    """The job with a name for each task, as admission sets it."""
    tasks = spec_of(job).get("tasks") or ()
    if all(task.get("name") for task in tasks):
        return job
    named = [{**task, "name": task.get("name") or f"default{index}"} for index, task in enumerate(tasks)]
    return {**job, "spec": {**spec_of(job), "tasks": named}}


def _task(raw: Mapping[str, Any]) -> Task:
    depends, partitions = raw.get("dependsOn") or {}, raw.get("partitionPolicy") or {}
    needs = tuple(depends.get("name") or ())
    minimum = raw.get("minAvailable")
    return Task(
        raw=raw,
        name=str(raw["name"]),
        replicas=_number(raw.get("replicas")),
        min_available=None if minimum is None else _number(minimum),
        max_retry=raw.get("maxRetry") or MAX_RETRY,
        policies=_policies(raw),
        needs=needs,
        needs_all=depends.get("iteration") != "any" or len(needs) < 2,
        partition_size=_number(partitions.get("partitionSize")),
    )


def _policies(holder: Mapping[str, Any]) -> tuple[Policy, ...]:
    return tuple(_read_policies(holder))


def _read_policies(holder: Mapping[str, Any]) -> Iterator[Policy]:
    for each in holder.get("policies") or ():
        events = frozenset({*(each.get("events") or ()), each.get("event") or ""} - {""})
        yield Policy(events, each.get("exitCode"), str(each.get("action") or ""), _duration(each.get("timeout")))


def _duration(text: object) -> int | None:
    """Microseconds; None if missing or invalid."""
    try:
        return max(0, parse_duration(text)) if isinstance(text, str) and text else None
    except ValueError:
        return None


def _number(value: object) -> int:
    """A count; 0 if invalid or below zero."""
    return max(0, value) if isinstance(value, int) else 0
