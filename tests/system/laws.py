"""What holds at every moment: of each plan before it is carried out, and of each change of a pod in the API.

What is broken is noted, not raised: it would be raised within the system, which is made to go on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec

from kilauea.api.selectors import matches
from kilauea.apiserver.storage.log import Row
from kilauea.engine.eviction.units import may_be_evicted
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.scheduler.live import LiveScheduler
from support.builders import placements
from system.job_laws import JobLaws
from system.policies import Policy

GROUP_NAME = "scheduling.k8s.io/group-name"
CORES = 4
"""Of each node."""
POD_PREFIX = "/core/pods/"
WATCHED = {
    "job": "/batch.volcano.sh/jobs/",
    "group": "/scheduling.volcano.sh/podgroups/",
    "command": "/bus.volcano.sh/commands/",
}
"""Keys of what laws of Volcano's jobs are about."""
BEATS = ("/core/nodes/", "/core/events/", "/events.k8s.io/", "/coordination.k8s.io/")
"""Keys of what is written forever."""
RECLAIM = ("reclaim", "gangreclaim")
STILL = 120.0
"""Seconds at the end of a history in which nothing happens any more."""
ENDED = ("Succeeded", "Failed")


def cores_of(pod: dict[str, Any]) -> int:
    """What a pod asks for."""
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


class Laws:
    """Looks on, and notes what must not be."""

    room, unit = CORES, "cores"
    """Of each node."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.broken: list[str] = []
        self.decisions: list[tuple[int, str]] = []
        """Binds and evictions, with the monotonic time in microseconds."""
        self.hurt: set[str] = set()
        """Groups that lost a pod, or of which one has failed."""
        self.plan: Plan | None = None
        """The latest."""
        self.changed = 0.0
        """When a pod, a job or a group was last written, in seconds of the loop."""
        self.writes: list[tuple[float, str]] = []
        """All but what is written forever: when, and the key."""
        self.admitted: dict[str, float] = {}
        """Groups that are Inqueue, by name, and since when."""
        self.jobs = JobLaws(self.broken, self.hurt)
        self._pods: dict[str, dict[str, Any]] = {}
        """By key of the store."""
        self._held: Counter[str] = Counter()
        """Held on each node."""
        self._places: dict[str, str] = {}
        """Nodes of pods by uid."""

    # --- plans

    def look(self, now: int, scheduler: LiveScheduler, plan: Plan) -> None:
        """A plan is about to be carried out."""
        state = scheduler.feed.state
        self.decisions += [(now, f"bind {bind.pod} to {bind.node}") for bind in plan.binds]
        self.decisions += [(now, f"{eviction.action} {eviction.pod} for {eviction.by}") for eviction in plan.evictions]
        self.plan = plan
        self._gangs(state, plan)
        self.floor(state, plan)
        self._preemptors(state, plan)
        self._budgets(state, plan)

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
            left = _ready(job) + started[key] - count
            goes_whole = left == job.counts[status.SUCCEEDED]
            if not goes_whole and left < job.min_available <= _ready(job):
                self.broken.append(f"{key}: {count} pods are evicted, {left} are left of {job.min_available}")

    def floor(self, state: ClusterState, plan: Plan) -> None:
        """Reclaim takes from a queue while it holds more than it deserves, with what starts or is promised room then.

        So one unit, a pod or a gang that goes whole, may take it below that. Gangreclaim puts back what is not in the
        way of such a gang, where the gang can spare just the rest: then less than one unit goes. That takes a gang of
        which all may go, and a preemptor whose queue holds no more than it deserves afterwards.
        """
        starts = {each.pod for each in placements(plan)}
        lost: defaultdict[str, Counter[str]] = defaultdict(Counter)
        units: defaultdict[str, list[float]] = defaultdict(list)
        split: defaultdict[str, set[str]] = defaultdict(set)
        for eviction in plan.evictions:
            task = state.tasks[eviction.pod]
            if eviction.action in RECLAIM:
                queue, cpu = state.jobs[task.group].queue, int(task.spec.requests.get("cpu", 0))
                lost[queue][task.group] += cpu
                if eviction.action == "gangreclaim":
                    split[task.group].add(state.jobs[eviction.by].queue)
                units[queue].append(cpu)
        for queue, by_group in lost.items():
            held, deserved = _held(state, queue, starts), _deserved(plan, queue)
            gangs = [key for key in by_group if _goes_whole(state.jobs[key], plan)]
            for key in by_group:
                left = {by: _held(state, by, starts) - lost.get(by, Counter[str]()).total() for by in split[key]}
                within = bool(left) and all(cpu <= _deserved(plan, by) for by, cpu in left.items())
                if within and _could_go_whole(state.jobs[key]):
                    gangs.append(key)
            largest = max(*units[queue], *(by_group[key] for key in gangs), 0)
            amount = by_group.total()
            if held - amount + largest <= deserved:
                self.broken.append(f"queue {queue}: held {held}, lost {amount} by reclaim, deserves {deserved}")

    def _preemptors(self, state: ClusterState, plan: Plan) -> None:
        """Who is evicted is less important, or of another queue that lends; whom it is for gets its minimum."""
        helped = Counter(state.tasks[bind.pod].group for bind in plan.binds)
        helped.update(state.tasks[nomination.pod].group for nomination in plan.nominations)
        # Pods of a gang that found free room, and hold it until the room of the nominated ones is free too.
        helped.update({key: group.counts.get("Allocated", 0) for key, group in plan.groups.items()})
        for eviction in plan.evictions:
            victim, by = state.jobs[state.tasks[eviction.pod].group], state.jobs[eviction.by]
            what = f"{eviction.action} {eviction.pod} for {eviction.by}"
            if _ready(by) + helped[eviction.by] < by.min_available:
                self.broken.append(f"{what}, which stays below its minimum")
            if eviction.action in RECLAIM:
                if victim.queue == by.queue or not state.queues[victim.queue].reclaimable:
                    self.broken.append(f"{what}: from queue {victim.queue} for {by.queue}")
            elif victim.queue != by.queue or not (victim.priority < by.priority or self.policy.shares):
                self.broken.append(f"{what}: {victim.queue} {victim.priority}, {by.queue} {by.priority}")

    def _budgets(self, state: ClusterState, plan: Plan) -> None:
        """Preempt overdraws no budget, if budgets count: for whole gangs they do not.

        Nor do they where all candidates are protected and the next tier has a say: drf does in preempt, and those who
        share among queues do in reclaim. A budget's answer is not final, as in the original.
        """
        if not self.policy.budgets or self.policy.shares:
            return
        for key, budget in state.budgets.items():
            spent = [
                each.pod
                for each in plan.evictions
                if each.action == "preempt"
                and (task := state.tasks[each.pod]).namespace == budget.namespace
                and task.name not in budget.disrupted
                and budget.selector
                and matches(budget.selector, state.classes.get(task.label_class).labels)
            ]
            if len(spent) > max(budget.allowed, 0):
                self.broken.append(f"budget {key} allows {budget.allowed}, and {spent} are evicted")

    # --- pods

    def durable(self, seconds: float, row: Row) -> None:
        """See every change of a pod that became durable, in order."""
        if row.key.startswith(BEATS):
            return
        self.writes.append((seconds, row.key))
        kind = next((each for each, prefix in WATCHED.items() if row.key.startswith(prefix)), "")
        if kind or row.key.startswith(POD_PREFIX):
            self.changed = seconds
        if row.key.startswith(POD_PREFIX):
            self._see(row.key, None if row.value is None else msgspec.json.decode(row.value))
        elif row.value is not None and kind == "group":
            self._group(seconds, msgspec.json.decode(row.value), row.revision)
        elif row.value is not None and kind == "job":
            self.jobs.job(msgspec.json.decode(row.value))
        elif row.value is not None and kind == "command":
            self.jobs.command(msgspec.json.decode(row.value))

    def _group(self, seconds: float, group: dict[str, Any], revision: int) -> None:
        self.jobs.group(group, revision)
        name = group["metadata"]["name"]
        if (group.get("status") or {}).get("phase") == "Inqueue":
            self.admitted.setdefault(name, seconds)
        else:
            self.admitted.pop(name, None)

    def _see(self, key: str, pod: dict[str, Any] | None) -> None:
        before = self._pods.pop(key, None)
        self.jobs.pod(before, pod)
        if before is not None and _holds(before):
            self._held[before["spec"]["nodeName"]] -= self.size(before)
        if pod is None:
            if before is not None:
                self.hurt.add(_group_of(before))
            return
        if pod["status"].get("phase") == "Failed":
            self.hurt.add(_group_of(pod))
        self._pods[key] = pod
        name, uid, place = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if self._places.setdefault(uid, place) not in ("", place):
            self.broken.append(f"pod {name} moves from {self._places[uid]} to {place}")
        self._places[uid] = place
        if _holds(pod):
            self._held[place] += self.size(pod)
            if self._held[place] > self.room:
                self.broken.append(f"{place} has {self.room} {self.unit}, of which pods hold {self._held[place]}")

    def size(self, pod: dict[str, Any]) -> int:
        """What a pod takes of its node."""
        return cores_of(pod)


def _group_of(pod: dict[str, Any]) -> str:
    metadata = pod["metadata"]
    return f"{metadata['namespace']}/{(metadata.get('annotations') or {}).get(GROUP_NAME, '')}"


def _holds(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ENDED


def _ready(job: Job) -> int:
    return sum(task.status in status.READY for task in job.tasks.values())


def _goes_whole(job: Job, plan: Plan) -> bool:
    """Whether a plan evicts all that a job has on nodes."""
    gone = {eviction.pod for eviction in plan.evictions}
    return all(task.key in gone for task in job.tasks.values() if task.status in status.HOLDING)


def _could_go_whole(job: Job) -> bool:
    """Whether all that a gang has on nodes may be evicted together."""
    held = [task for task in job.tasks.values() if task.status in status.HOLDING]
    return job.min_available > 1 and len(held) > 1 and all(may_be_evicted(task, job) for task in held)


def _held(state: ClusterState, queue: str, starts: set[str]) -> float:
    """The cpu that a queue holds, with what starts or is promised room, in milli-cpu."""
    tasks = (task for job in state.jobs.values() if job.queue == queue for task in job.tasks.values())
    return sum(t.spec.requests.get("cpu", 0) for t in tasks if t.status in status.HOLDING or t.key in starts)


def _deserved(plan: Plan, queue: str) -> float:
    """The cpu that a queue deserves, in milli-cpu; 0 if it says nothing of it."""
    return (plan.queues[queue].deserved or {}).get("cpu", 0)
