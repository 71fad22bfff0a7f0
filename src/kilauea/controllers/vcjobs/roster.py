"""The pods of a Volcano job as facts that are updated with each change of a pod.

A job can have tens of thousands of pods, and is reconciled whenever some of them have changed. Reading all of them each
time would take seconds, and block everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from kilauea.api.kinds import VC_JOBS
from kilauea.api.numbers import whole_number
from kilauea.api.ports import Aggregation, Key, Obj
from kilauea.api.times import parse_time
from kilauea.api.wellknown import TASK_ROLE
from kilauea.controllers.objects import annotations_of, controller_of, status_of
from kilauea.controllers.vcjobs.names import JOB_NAME, JOB_VERSION

ROSTER = "roster"
"""Name of the aggregate."""
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
"""Marks a pod that the controller deletes, in contrast to one that was deleted by others."""
COUNTED = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
"""Phases by which pods are counted."""


class PodState(NamedTuple):
    """The state of a pod, shared by many pods of a task.

    Attributes:
        version: version of the job when the pod was created.
        phase: of `COUNTED`.
        going: True if it is being deleted.
        marked: True if the controller itself deletes it.
        ready: True if all of its containers are ready.
        exit_code: of the first container of a pod that has failed; 0 if there is none.
    """

    version: int
    phase: str
    going: bool
    marked: bool
    ready: bool
    exit_code: int


_state = lru_cache(1024)(PodState)
"""Equal states are the same object."""
_moment = lru_cache(1024)(parse_time)


class Member(msgspec.Struct, frozen=True, gc=False):
    """A pod of a job.

    Attributes:
        key: of the pod.
        uid: of the pod.
        task: name of its task.
        state: its state, shared with other pods.
        created: creation time in microseconds since 1970; None if unknown.
        restarts: restarts of its containers.
    """

    key: Key
    uid: str
    task: str
    state: PodState
    created: int | None
    restarts: int

    @property
    def name(self) -> str:
        """The name of the pod."""
        return self.key.name

    @property
    def index(self) -> int:
        """Its index in its task; -1 if its name does not contain one."""
        return index_in(self.key.name)


def index_in(name: str) -> int:
    """The index in the task from the name of a pod; -1 if it does not contain one."""
    text = name.rpartition("-")[2]
    return int(text) if text.isascii() and text.isdigit() else -1


class TaskMembers:
    """The pods of a task, by name, and their number by state."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._states: dict[PodState, int] = {}
        self._restarts = 0
        self._odd: set[str] = set()
        """Names that are not from the controller."""
        self._last: int | None = -1
        """The highest index of the others; None if it must be searched."""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def states(self) -> Mapping[PodState, int]:
        """Numbers of pods by state."""
        return self._states

    @property
    def restarts(self) -> int:
        """Restarts of the containers of all pods."""
        return self._restarts

    def get(self, name: str) -> Member | None:
        """One pod."""
        return self._members.get(name)

    def count(self, wanted: Callable[[PodState], bool]) -> int:
        """Return the number of pods in some states."""
        return sum(count for state, count in self._states.items() if wanted(state))

    def where(self, wanted: Callable[[PodState], bool] = lambda state: True) -> list[Member]:
        """The pods in some states, by name; reads no pods if none is in these states."""
        states = frozenset(filter(wanted, self._states))
        if not states:
            return []
        found = self._members.values()
        chosen = found if len(states) == len(self._states) else [each for each in found if each.state in states]
        return sorted(chosen, key=_name)

    def are_within(self, replicas: int) -> bool:
        """Return True if all pods have names within this number of replicas."""
        if self._last is None:
            self._last = max((each.index for name, each in self._members.items() if name not in self._odd), default=-1)
        return not self._odd and self._last < replicas

    def put(self, member: Member, start: str) -> None:
        """Add or update a pod; `start` is the prefix of names from the controller."""
        name = member.key.name
        before = self._members.get(name)
        if before == member:  # as most changes of a pod do not affect its job
            return
        self._members[name] = member
        self._states[member.state] = self._states.get(member.state, 0) + 1
        self._restarts += member.restarts
        if before is not None:
            self._leave(before)
            return
        index = member.index
        if name != f"{start}{index}":
            self._odd.add(name)
        elif self._last is not None:
            self._last = max(self._last, index)

    def drop(self, name: str) -> None:
        """Remove a pod."""
        member = self._members.pop(name, None)
        if member is None:
            return
        self._leave(member)
        if name in self._odd:
            self._odd.discard(name)
        elif self._last == member.index:
            self._last = None

    def _leave(self, member: Member) -> None:
        """Stop counting a pod."""
        left = self._states[member.state] - 1
        if left:
            self._states[member.state] = left
        else:
            del self._states[member.state]
        self._restarts -= member.restarts


class Roster:
    """All pods of a job, by task; an `Aggregate` of `kilauea.api.ports`."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskMembers] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tasks.values()))

    def __iter__(self) -> Iterator[tuple[str, TaskMembers]]:
        """Yield the tasks with pods, by name."""
        yield from sorted(self._tasks.items())

    def of(self, task: str) -> TaskMembers:
        """The pods of a task."""
        return self._tasks.get(task) or TaskMembers()

    def put(self, key: Key, obj: Obj) -> None:
        """Add or update a pod."""
        owner, annotations = controller_of(obj), annotations_of(obj)
        version, task = whole_number(annotations.get(JOB_VERSION, "")), annotations.get(TASK_ROLE)
        found = self._tasks.get(task or "")
        before = found.get(key.name) if found is not None else None
        if before is None:
            before = self._member(key.name)
        if before is not None and before.task != task:
            self.drop(key)
            before = None
        if owner is None or not task or version is None or JOB_NAME not in annotations:
            self.drop(key)
            return
        metadata = obj["metadata"]
        uid, created = metadata["uid"], metadata.get("creationTimestamp")
        if found is None:
            found = self._tasks[task] = TaskMembers()
        member = Member(
            key=key if before is None else before.key,
            uid=before.uid if before is not None and before.uid == uid else uid,
            task=task if before is None else before.task,
            state=_state_of(obj, version, marked=OUT_OF_SYNC in annotations),
            created=_moment(created) if created else None,
            restarts=_restarts(obj),
        )
        found.put(member, f"{owner['name']}-{task}-")

    def drop(self, key: Key) -> None:
        """Remove a pod."""
        for task, members in self._tasks.items():
            if key.name in members:
                members.drop(key.name)
                if not members:
                    del self._tasks[task]
                return

    def _member(self, name: str) -> Member | None:
        return next((found for members in self._tasks.values() if (found := members.get(name)) is not None), None)


def _name(member: Member) -> str:
    return member.key.name


def _state_of(pod: Obj, version: int, *, marked: bool) -> PodState:
    status = status_of(pod)
    phase = status.get("phase") or "Pending"
    if phase not in COUNTED:
        phase = "Unknown"
    containers = status.get("containerStatuses") or ()
    ready = all(each.get("ready") for each in containers)
    exit_code = 0
    if phase == "Failed" and containers:
        exit_code = int(((containers[0].get("state") or {}).get("terminated") or {}).get("exitCode") or 0)
    return _state(
        version, COUNTED[COUNTED.index(phase)], "deletionTimestamp" in pod["metadata"], marked, ready, exit_code
    )


def _restarts(pod: Obj) -> int:
    status, count = status_of(pod), 0
    for part in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(part) or ():
            count += each.get("restartCount") or 0
    return count


# --- ownership


def roster_of(namespace: str, name: str, uid: str) -> str:
    """The value by which the pods of a job are aggregated."""
    return f"{namespace}/{name}/{uid}"


def _job_of(pod: Obj) -> str:
    owner = controller_of(pod)
    if owner is None or owner["kind"] != VC_JOBS.kind:
        return ""
    return roster_of(pod["metadata"].get("namespace", ""), owner["name"], owner["uid"])


ROSTERS = Aggregation(_job_of, Roster)
"""Builds the roster of each job."""
