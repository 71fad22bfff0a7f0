"""Events of a Volcano job, observed in its objects.

Nothing is remembered: a pod that has failed, or is being taken away by others, shows that itself, until the controller
has acted on it (then it is marked, or of an earlier version). A pod that vanished left its trace in the status, which
still counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kilauea.api.ports import Obj
from kilauea.api.times import parse_time
from kilauea.controllers.objects import status_of
from kilauea.controllers.vcjobs.members import Member, Members
from kilauea.controllers.vcjobs.work import POD_PENDING, Task, Work

POD_FAILED, POD_EVICTED = "PodFailed", "PodEvicted"
TASK_COMPLETED, TASK_FAILED, UNKNOWN = "TaskCompleted", "TaskFailed", "Unknown"


class ObservedEvent(NamedTuple):
    """An event in the life of a job.

    Attributes:
        type: as policies name it.
        task: in which task; None if to the whole job.
        pods: names of the pods that are concerned.
        exit_code: of the first container of a pod that has failed; 0 if there is none.
        since: when it began, in microseconds since 1970; None is now.
    """

    type: str
    task: Task | None
    pods: tuple[str, ...] = ()
    exit_code: int = 0
    since: int | None = None

    @property
    def text(self) -> str:
        """The event and its subject; of several pods the first is named."""
        if not self.pods or not self.pods[0]:
            return f"{self.type} of the pod group"
        more = f" and {len(self.pods) - 1} more" if len(self.pods) > 1 else ""
        code = f" (exit code {self.exit_code})" if self.exit_code else ""
        return f"{self.type} of pod {self.pods[0]}{more}{code}"


def observed_events(work: Work, members: Members, group: Obj | None) -> Iterator[ObservedEvent]:
    """Yield the events that were not acted on yet, in the order in which they are considered."""
    for task in work.tasks:
        if not (task.policies or work.policies):
            continue
        found = members.of(task.name)
        fresh = [each for each in found.values() if _counts(work, task, each)]
        for member in fresh:
            yield from _of_pod(task, member)
        yield from _vanished(work, members, task)
        yield from _completed(task, found, fresh)
        yield from _restarting(task, fresh)
    if group is not None and work.policies and status_of(group).get("phase") == UNKNOWN:
        yield ObservedEvent(UNKNOWN, None)


def _counts(work: Work, task: Task, member: Member) -> bool:
    """Return True if events of a pod count: the job wants it, and has not removed it or killed all pods since."""
    return member.version >= work.version and not member.marked and member.index < task.replicas


def _of_pod(task: Task, member: Member) -> Iterator[ObservedEvent]:
    if member.phase == "Failed":
        yield ObservedEvent(POD_FAILED, task, (member.name,), _exit_code(member.pod))
    if member.going:
        yield ObservedEvent(POD_EVICTED, task, (member.name,))
    elif member.phase == "Pending":
        created = member.pod["metadata"].get("creationTimestamp")
        yield ObservedEvent(POD_PENDING, task, (member.name,), since=parse_time(created) if created else None)


def _exit_code(pod: Obj) -> int:
    statuses = status_of(pod).get("containerStatuses") or ()
    state = (statuses[0].get("state") or {}) if statuses else {}
    return int((state.get("terminated") or {}).get("exitCode") or 0)


def _vanished(work: Work, members: Members, task: Task) -> Iterator[ObservedEvent]:
    """Pods that the status counts and that are there no more."""
    recorded: Any = ((work.status.get("taskStatusCount") or {}).get(task.name) or {}).get("phase") or {}
    expected = min(sum(recorded.values()), task.replicas)
    if not expected:
        return
    found = members.of(task.name)
    names = members.names(task)
    standing = sum(1 for name in names if name in found and not (found[name].going or found[name].marked))
    absent = (name for name in names if name not in found)
    for name, _ in zip(absent, range(expected - standing), strict=False):
        yield ObservedEvent(POD_EVICTED, task, (name,))


def _completed(task: Task, found: dict[str, Member], fresh: list[Member]) -> Iterator[ObservedEvent]:
    """All pods of a task have succeeded."""
    last = next((each.name for each in reversed(fresh) if each.phase == "Succeeded"), None)
    if last is None:
        return
    succeeded = sum(1 for each in found.values() if each.phase == "Succeeded" and not each.marked)
    if succeeded >= task.replicas:
        yield ObservedEvent(TASK_COMPLETED, task, (last,))


def _restarting(task: Task, fresh: list[Member]) -> Iterator[ObservedEvent]:
    """Containers of a task have been restarted too often; those pods are concerned that it takes to come below."""
    if task.max_retry < 0:
        return
    restarts = [(_restarts(each.pod), each.name) for each in fresh if each.phase in ("Pending", "Running")]
    total = sum(count for count, _ in restarts)
    if total < task.max_retry:
        return
    names = []
    for restarted, name in sorted(restarts, key=lambda each: -each[0]):
        if total < task.max_retry:
            break
        names.append(name)
        total -= restarted
    yield ObservedEvent(TASK_FAILED, task, tuple(names))


def _restarts(pod: Obj) -> int:
    status = status_of(pod)
    return sum(
        each.get("restartCount") or 0
        for part in ("initContainerStatuses", "containerStatuses")
        for each in status.get(part) or ()
    )
