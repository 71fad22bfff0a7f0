"""What holds at every moment: of each plan before it is carried out, and of each change of a pod in the API.

What is broken is noted, not raised: it would be raised within the system, which is made to go on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.scheduler.live import LiveScheduler

GROUP_NAME = "scheduling.k8s.io/group-name"
CORES = 4
"""Of each node."""
ENDED = ("Succeeded", "Failed")


def cores_of(pod: dict[str, Any]) -> int:
    """What a pod asks for."""
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


class Laws:
    """Looks on, and notes what must not be."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.deeds: list[tuple[int, str]] = []
        """Binds and evictions, with the time in microseconds since 1970."""
        self.hurt: set[str] = set()
        """Groups that lost a pod which had a node, whoever took it."""
        self._pods: dict[str, dict[str, Any]] = {}
        self._cores: Counter[str] = Counter()
        """Held on each node."""
        self._places: dict[str, str] = {}
        """Nodes of pods by uid."""

    # --- plans

    def look(self, now: int, scheduler: LiveScheduler, plan: Plan) -> None:
        """A plan is about to be carried out."""
        state = scheduler.feed.state
        self.deeds += [(now, f"bind {bind.pod} to {bind.node}") for bind in plan.binds]
        self.deeds += [(now, f"{eviction.action} {eviction.pod} for {eviction.by}") for eviction in plan.evictions]
        self._gangs(state, plan)
        self._floor(state, plan)

    def _gangs(self, state: ClusterState, plan: Plan) -> None:
        """A gang starts with its minimum or not at all, and evictions leave it its minimum or nothing."""
        started = Counter(state.tasks[bind.pod].group for bind in plan.binds)
        for key, count in started.items():
            job = state.jobs[key]
            if _ready(job) + count < job.min_available:
                self.broken.append(f"{key}: {count} pods start, {_ready(job)} run, {job.min_available} are needed")
        taken = Counter(state.tasks[eviction.pod].group for eviction in plan.evictions)
        for key, count in taken.items():
            job = state.jobs[key]
            left = _ready(job) - count
            if 0 < left < job.min_available <= _ready(job):
                self.broken.append(f"{key}: {count} pods are evicted, {left} are left of {job.min_available}")

    def _floor(self, state: ClusterState, plan: Plan) -> None:
        """Reclaim leaves each queue what it deserves, with what starts in the same cycle."""
        starts = {bind.pod for bind in plan.binds}
        lost: defaultdict[str, float] = defaultdict(float)
        for eviction in plan.evictions:
            task = state.tasks[eviction.pod]
            if eviction.action == "reclaim":
                lost[state.jobs[task.group].queue] += task.spec.requests.get("cpu", 0)
        for queue, amount in lost.items():
            held = sum(
                task.spec.requests.get("cpu", 0)
                for job in state.jobs.values()
                if job.queue == queue
                for task in job.tasks.values()
                if task.status in status.HOLDING or task.key in starts
            )
            deserved = (plan.queues[queue].deserved or {}).get("cpu", 0)
            if held - amount < deserved - 1:
                self.broken.append(f"queue {queue}: held {held}, lost {amount} by reclaim, deserves {deserved}")

    # --- pods

    async def follow(self, pods: AsyncIterator[bytes]) -> None:
        """See every change of a pod, in order."""
        async for piece in pods:
            for line in piece.splitlines():
                event = msgspec.json.decode(line)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    self._see(event["type"], event["object"])

    def _see(self, what: str, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        uid, place = metadata["uid"], pod["spec"].get("nodeName", "")
        before = self._pods.pop(uid, None)
        if before is not None and _holds(before):
            self._cores[before["spec"]["nodeName"]] -= cores_of(before)
        if self._places.setdefault(uid, place) not in ("", place):
            self.broken.append(f"pod {metadata['name']} moves from {self._places[uid]} to {place}")
        self._places[uid] = place
        if what == "DELETED":
            if place:
                self.hurt.add(f"{metadata['namespace']}/{(metadata.get('annotations') or {}).get(GROUP_NAME, '')}")
            return
        self._pods[uid] = pod
        if _holds(pod):
            self._cores[place] += cores_of(pod)
            if self._cores[place] > CORES:
                self.broken.append(f"{place} has {CORES} cores, of which pods hold {self._cores[place]}")


def _holds(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ENDED


def _ready(job: Job) -> int:
    return sum(task.status in status.READY for task in job.tasks.values())
