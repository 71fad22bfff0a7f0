"""Events of a Volcano job, observed in its objects.

There is no other state: a pod that has failed, or is being deleted by others, shows this until the controller has acted
on it (then it is marked, or of an earlier version). A pod that vanished is still counted in the status.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from kilauea.api.ports import Obj
from kilauea.controllers.objects import status_of
from kilauea.controllers.vcjobs.members import Members
from kilauea.controllers.vcjobs.roster import Member, PodState, TaskMembers
from kilauea.controllers.vcjobs.work import POD_PENDING, Task, Work

POD_FAILED, POD_EVICTED = "PodFailed", "PodEvicted"
TASK_COMPLETED, TASK_FAILED, UNKNOWN = "TaskCompleted", "TaskFailed", "Unknown"


class ObservedEvent(NamedTuple):
    """An event of a job.

    Attributes:
        type: its name in policies.
        task: the task; None for the whole job.
        pods: names of the affected pods.
        exit_code: of the first container of a pod that has failed; 0 if there is none.
        since: start time in microseconds since 1970; None for now.
    """

    type: str
    task: Task | None
    pods: tuple[str, ...] = ()
    exit_code: int = 0
    since: int | None = None

    @property
    def text(self) -> str:
        """The event and its subject, the first of several pods."""
        if not self.pods or not self.pods[0]:
            return f"{self.type} of the pod group"
        more = f" and {len(self.pods) - 1} more" if len(self.pods) > 1 else ""
        code = f" (exit code {self.exit_code})" if self.exit_code else ""
        return f"{self.type} of pod {self.pods[0]}{more}{code}"


def observed_events(work: Work, members: Members, group: Obj | None) -> Iterator[ObservedEvent]:
    """Yield the events that were not handled yet, in the order in which they are considered."""
    for task in work.tasks:
        if not (task.policies or work.policies):
            continue
        found = members.of(task.name)
        yield from _of_pods(work, task, found)
        yield from _vanished(work, members, task)
        yield from _completed(work, task, found)
        yield from _restarting(work, task, found)
    if group is not None and work.policies and status_of(group).get("phase") == UNKNOWN:
        yield ObservedEvent(UNKNOWN, None)


def _counts(work: Work, state: PodState) -> bool:
    """Return True if events of a pod count: the job has not removed it, or killed all pods since."""
    return state.version >= work.version and not state.marked


def _of_pods(work: Work, task: Task, found: TaskMembers) -> Iterator[ObservedEvent]:
    """Events of single pods; pending pods, of which there can be thousands, only count if a policy needs them."""
    pending = any(each.covers(POD_PENDING, 0) for each in (*task.policies, *work.policies))

    def is_told(state: PodState) -> bool:
        happened = state.going or state.phase == "Failed" or (pending and state.phase == "Pending")
        return happened and _counts(work, state)

    for member in found.where(is_told):
        if member.index < task.replicas:
            yield from _of_pod(task, member)


def _of_pod(task: Task, member: Member) -> Iterator[ObservedEvent]:
    state = member.state
    # Nodes report a failure after they have stopped a deleted pod. Volcano does not count it.
    if state.going:
        yield ObservedEvent(POD_EVICTED, task, (member.name,))
    elif state.phase == "Failed":
        yield ObservedEvent(POD_FAILED, task, (member.name,), state.exit_code)
    elif state.phase == "Pending":
        yield ObservedEvent(POD_PENDING, task, (member.name,), since=member.created)


def _vanished(work: Work, members: Members, task: Task) -> Iterator[ObservedEvent]:
    """Pods that the status counts but that no longer exist."""
    recorded: Any = ((work.status.get("taskStatusCount") or {}).get(task.name) or {}).get("phase") or {}
    expected = min(sum(recorded.values()), task.replicas)
    if not expected:
        return
    found = members.of(task.name)
    if found.are_within(task.replicas):
        standing = found.count(_stands)
    else:
        present = (found.get(name) for name in members.names(task))
        standing = sum(1 for each in present if each is not None and _stands(each.state))
    if expected > standing:
        absent = (name for name in members.names(task) if name not in found)
        for name in islice(absent, expected - standing):
            yield ObservedEvent(POD_EVICTED, task, (name,))


def _stands(state: PodState) -> bool:
    return not (state.going or state.marked)


def _completed(work: Work, task: Task, found: TaskMembers) -> Iterator[ObservedEvent]:
    """Yield an event if all pods of a task have succeeded."""
    succeeded = found.count(lambda state: state.phase == "Succeeded" and not state.marked)
    if not succeeded or succeeded < task.replicas:
        return
    fresh = found.where(lambda state: state.phase == "Succeeded" and _counts(work, state))
    last = next((each.name for each in reversed(fresh) if each.index < task.replicas), None)
    if last is not None:
        yield ObservedEvent(TASK_COMPLETED, task, (last,))


def _restarting(work: Work, task: Task, found: TaskMembers) -> Iterator[ObservedEvent]:
    """Yield an event if containers of a task were restarted too often; it affects enough pods to end that."""
    if task.max_retry < 0 or found.restarts < task.max_retry:
        return
    fresh = found.where(lambda state: state.phase in ("Pending", "Running") and _counts(work, state))
    restarts = [(each.restarts, each.name) for each in fresh if each.index < task.replicas]
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
