"""What holds at every moment of Volcano's jobs, seen in each change that becomes durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OVER = ("Completed", "Failed", "Terminated")
STOPS = ("Aborting", "Aborted", "Completing", "Terminating", *OVER)
"""Phases in which a job makes no pods."""
MARKED = "volcano.sh/controller-out-of-sync"
VERSION, TASK, ORDER = "volcano.sh/job-version", "volcano.sh/task-spec", "order"
MAX_RETRY = 3
Obj = dict[str, Any]


@dataclass
class Story:
    """A job so far.

    Attributes:
        name: of it.
        phase: that it is in.
        version: how often all pods were killed.
        retries: tries that counted.
        least: its minAvailable.
        most: the highest number of replicas that each task ever had.
        waits: whether a policy says what is done with pods that are pending for too long.
        causes: what has happened that a job may be restarted or stopped for.
        times: how often it was.
    """

    name: str
    phase: str = ""
    version: int = 0
    retries: int = 0
    least: int = -1
    most: dict[str, int] = field(default_factory=dict)
    waits: bool = False
    causes: set[tuple[str, str]] = field(default_factory=set)
    times: int = 0


class JobLaws:
    """Looks on.

    Args:
        broken: takes what must not be.
        hurt: takes groups that need not be whole any more.
    """

    def __init__(self, broken: list[str], hurt: set[str]) -> None:
        self._broken, self._hurt = broken, hurt
        self._stories: dict[str, Story] = {}
        """By uid; also of jobs that are gone."""

    def job(self, job: Obj) -> None:
        """A job was written."""
        metadata, spec, status = job["metadata"], job["spec"], job.get("status") or {}
        story = self._stories.setdefault(metadata["uid"], Story(metadata["name"]))
        group = f"{metadata['namespace']}/{metadata['name']}-{metadata['uid']}"
        self._numbers(story, spec, group)
        phase = (status.get("state") or {}).get("phase") or ""
        retries, version = status.get("retryCount", 0), status.get("version", 0)
        changes = f"job {story.name}: {story.phase} to {phase}, tries {story.retries} to {retries}"
        if retries > (spec.get("maxRetry") or MAX_RETRY):
            self._broken.append(f"{changes} of {spec.get('maxRetry')}")
        if retries not in (story.retries, story.retries + 1) or version not in (story.version, story.version + 1):
            self._broken.append(f"{changes}, version {story.version} to {version}")
        if phase != story.phase and (story.phase in OVER or (story.phase == "Aborted" and phase != "Restarting")):
            self._broken.append(f"{changes}, and it was at its end")
        if retries > story.retries or (
            phase != story.phase and phase in ("Restarting", *STOPS[:4]) and phase != "Aborted"
        ):
            story.times += 1
            if story.times > len(story.causes):
                self._broken.append(f"{changes}, and nothing has happened but {sorted(story.causes)}")
        story.phase, story.retries, story.version = phase, retries, version

    def _numbers(self, story: Story, spec: Mapping[str, Any], group: str) -> None:
        """What a job wants."""
        least = spec.get("minAvailable", 0)
        if story.least not in (-1, least):
            self._hurt.add(group)
        story.least = least
        for task in spec["tasks"]:
            story.most[task["name"]] = max(task["replicas"], story.most.get(task["name"], 0))
        policies = [*spec.get("policies", ()), *(each for task in spec["tasks"] for each in task.get("policies", ()))]
        story.waits = any(
            {"PodPending", "*"} & {each.get("event"), *each.get("events", ())} and each.get("timeout")
            for each in policies
        )

    def pod(self, before: Obj | None, pod: Obj | None) -> None:
        """A pod was written, or is gone."""
        known = pod or before or {}
        owner = next((each for each in known["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        story = self._stories.get(owner["uid"]) if owner else None
        if story is None:
            return
        if pod is not None and before is None:
            self._made(story, pod)
        notes, uid = known["metadata"].get("annotations") or {}, known["metadata"]["uid"]
        if MARKED in notes or int(notes[VERSION]) < story.version:
            return
        status = known["status"]
        statuses = status.get("containerStatuses") or ()
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            story.causes.add((uid, "gone"))
        if status.get("phase") in ("Failed", "Succeeded"):
            story.causes.add((uid, status["phase"]))
        if sum(each.get("restartCount", 0) for each in statuses):
            story.causes.add((uid, "begins again"))
        if story.waits and status.get("phase") == "Pending":
            story.causes.add((uid, "waits"))

    def _made(self, story: Story, pod: Obj) -> None:
        """A pod is there that was not."""
        name, notes = pod["metadata"]["name"], pod["metadata"]["annotations"]
        task, index = notes[TASK], int(name.rpartition("-")[2])
        if story.phase in STOPS:
            self._broken.append(f"job {story.name} is {story.phase} and makes pod {name}")
        if int(notes[VERSION]) != story.version:
            self._broken.append(f"pod {name} is made for version {notes[VERSION]}, the job has {story.version}")
        if index >= story.most.get(task, 0):
            self._broken.append(f"pod {name} is made, and its task never had more than {story.most.get(task)}")

    def group(self, group: Obj, revision: int) -> None:
        """A group was written."""
        for owner in group["metadata"].get("ownerReferences") or ():
            story = self._stories.get(owner["uid"])
            if story is not None and (group.get("status") or {}).get("phase") == "Unknown":
                story.causes.add((str(revision), "group unknown"))

    def command(self, command: Obj) -> None:
        """A command was written."""
        story = self._stories.get((command.get("target") or {}).get("uid", ""))
        if story is not None:
            story.causes.add((command["metadata"]["uid"], ORDER))
