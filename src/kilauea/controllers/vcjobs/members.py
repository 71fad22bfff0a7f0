"""The pods of a Volcano job as they are: which belong to it, of which task, and which of them are done for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kilauea.api.kinds import PODS, VC_JOBS
from kilauea.api.numbers import whole_number
from kilauea.api.ports import Key, Obj, View
from kilauea.api.wellknown import TASK_ROLE
from kilauea.controllers.objects import annotations_of, controller_of, owned_by
from kilauea.controllers.vcjobs.names import JOB_NAME, JOB_VERSION
from kilauea.controllers.vcjobs.work import MOST_PODS, Task, Work

OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
"""Marks a pod that the controller deletes, as opposed to one that was deleted from outside."""
ENDED = frozenset({"Succeeded", "Failed"})
COUNTED = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
"""Phases by which pods are counted."""


@dataclass(slots=True)
class Member:
    """A pod of a job.

    Attributes:
        pod: the object.
        name: its name.
        task: name of its task.
        version: of the job, when the pod was made.
        phase: of `COUNTED`.
        going: whether it is being deleted.
        marked: whether the controller itself wants it gone.
    """

    pod: Obj
    name: str
    task: str
    version: int
    phase: str
    going: bool
    marked: bool

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return str(self.pod["metadata"]["uid"])

    @property
    def key(self) -> Key:
        """The key of the pod."""
        return Key(self.pod["metadata"]["namespace"], self.name)

    @property
    def index(self) -> int:
        """Its place in its task; -1 if its name does not say."""
        text = self.name.rpartition("-")[2]
        return int(text) if text.isascii() and text.isdigit() else -1


class Members:
    """All pods of a job.

    Attributes:
        by_task: pods by name, by task; also of tasks that the job has no more.
    """

    def __init__(self, work: Work, view: View) -> None:
        self._work = work
        self.by_task: dict[str, dict[str, Member]] = {}
        for pod in owned_by(view, PODS, work.obj):
            member = _member(pod, work.uid)
            if member is not None:
                self.by_task.setdefault(member.task, {})[member.name] = member

    def __iter__(self) -> Iterator[Member]:
        for members in self.by_task.values():
            yield from members.values()

    def of(self, task: str) -> dict[str, Member]:
        """The pods of a task, by name."""
        return self.by_task.get(task) or {}

    def names(self, task: Task) -> list[str]:
        """The names of all pods that a task shall have, if it is not out of all bounds."""
        start = f"{self._work.name}-{task.name}-"
        return [f"{start}{index}" for index in range(min(task.replicas, MOST_PODS))]

    def must_go(self, member: Member) -> bool:
        """Return True if a pod is to be deleted: it is marked, or left from before all were killed."""
        if member.marked:
            return True
        if member.version >= self._work.version:
            return False
        return member.phase not in ENDED or self._work.restarts_all


def _member(pod: Obj, uid: str) -> Member | None:
    """The pod as a member of the job with this uid; None if it does not belong to the job."""
    owner, annotations = controller_of(pod), annotations_of(pod)
    if owner is None or owner["uid"] != uid or owner["kind"] != VC_JOBS.kind or JOB_NAME not in annotations:
        return None
    version, task = whole_number(annotations.get(JOB_VERSION, "")), annotations.get(TASK_ROLE)
    if not task or version is None:
        return None
    metadata = pod["metadata"]
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    return Member(
        pod=pod,
        name=metadata["name"],
        task=task,
        version=version,
        phase=phase if phase in COUNTED else "Unknown",
        going="deletionTimestamp" in metadata,
        marked=OUT_OF_SYNC in annotations,
    )
