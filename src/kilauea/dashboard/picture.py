"""`Picture`: the state of a cluster for the pages, updated with each event.

Sums (usage of nodes, states of jobs by queue, reasons for waiting) are updated with each row, so that the cost of a
page depends on its content, not on the size of the cluster. Its tables are the handlers of the watches.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.api.kinds import EVENTS, HYPER_NODES, NODES, POD_GROUPS, PODS, QUEUES, VC_JOBS
from kilauea.api.ports import Key, Resource
from kilauea.dashboard import rows
from kilauea.dashboard.rows import VC_JOB, Amounts
from kilauea.dashboard.tables import Table
from kilauea.engine.model.nodes import natural

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
STATES = (WAITING, RUNNING, DONE, FAILED)
MOST_EVICTIONS = 1000
"""Maximum number of evictions to remember, even after the server has deleted their events."""

_STATES = {
    "Pending": WAITING,
    "Inqueue": WAITING,
    "Restarting": WAITING,
    "Completed": DONE,
    "Failed": FAILED,
    "Terminated": FAILED,
    "Aborted": FAILED,
}
"""States by phase; other phases are running."""
_FOR = re.compile(r"Preempted by (pod group|\S+) (\S+)/(\S+?)(?: of queue (\S+))? on node (\S+)")
_BECAUSE = "Pod is evicted, because of "


class Entry(NamedTuple):
    """A line in the list of jobs: a Volcano job, or a pod group that no such job owns.

    Attributes:
        kind: `Job`, or `PodGroup`.
        key: its namespace and name.
        group: key of its pod group; None until it exists.
        queue: its queue.
        state: one of `STATES`.
        phase: the phase in its status.
        owner: kind and name of the workload that owns the pod group; empty for a job.
        wanted: desired number of pods; 0 if unknown.
        least: minimum number of pods.
        running: running pods.
        created: microseconds since 1970.
        since: the time since which it is in this state; 0 if unknown.
        reason: code of the reason why it waits.
        message: the same as a sentence.
        priority: name of its priority class.
    """

    kind: str
    key: Key
    group: Key | None
    queue: str
    state: str
    phase: str
    owner: tuple[str, str]
    wanted: int
    least: int
    running: int
    created: int
    since: int
    reason: str
    message: str
    priority: str

    @property
    def id(self) -> tuple[str, Key]:
        """Kind and key."""
        return self.kind, self.key


class Eviction(NamedTuple):
    """A pod that was evicted.

    Attributes:
        at: its time, microseconds since 1970.
        pod: its key.
        node: its node; empty if unknown.
        job: kind and key of the job or pod group that lost it; None if unknown.
        queue: queue of that job; empty if unknown.
        by: kind, namespace, name and queue of the preemptor; None if unknown.
        why: the action of the scheduler, such as `reclaim`, or the whole message of another program.
    """

    at: int
    pod: Key
    node: str = ""
    job: tuple[str, Key] | None = None
    queue: str = ""
    by: tuple[str, str, str, str] | None = None
    why: str = ""


@dataclass
class NodeUse:
    """The pods on a node: the sum of their requests, and their keys."""

    used: dict[str, float] = field(default_factory=dict)
    pods: dict[Key, None] = field(default_factory=dict)


class Picture:
    """The cluster.

    Attributes:
        pods, groups, jobs, queues, nodes, hypernodes, events: rows of the kinds.
        on_node: pods and their requests, by node.
        members: keys of the pods of each pod group.
        phases: number of pods by phase.
        entries: jobs, and pod groups without one, by kind and key.
        order: the same, the newest first.
        waiting: entries that wait.
        counts: number of entries by queue and state.
        evictions: the last evictions by uid of the pod, the newest last.
    """

    def __init__(self) -> None:
        self.pods = Table(rows.READ_POD, self._pod)
        self.groups = Table(rows.READ_GROUP, self._group)
        self.jobs = Table(rows.READ_JOB, self._job)
        self.queues = Table(rows.READ_QUEUE)
        self.nodes = Table(rows.READ_NODE)
        self.hypernodes = Table(rows.READ_HYPER_NODE)
        self.preempted = Table(rows.READ_EVENT, self._event)
        self.evicted = Table(rows.READ_EVENT, self._event)
        self.on_node: dict[str, NodeUse] = {}
        self.members: dict[Key, dict[Key, None]] = {}
        self.phases: Counter[str] = Counter()
        self.entries: dict[tuple[str, Key], Entry] = {}
        self.order: list[tuple[int, str, Key]] = []
        self.waiting: dict[tuple[str, Key], Entry] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.evictions: dict[str, Eviction] = {}
        self._group_of_job: dict[Key, Key] = {}

    @property
    def watched(self) -> Sequence[tuple[Resource, Table[object], str]]:
        """The kinds to watch, the handler of each, and the field selector to watch it with."""
        named: Sequence[tuple[Resource, Table[object], str]] = (
            (QUEUES, self.queues, ""),  # type: ignore[assignment]  # tables are told of bytes, whatever their rows are
            (NODES, self.nodes, ""),
            (HYPER_NODES, self.hypernodes, ""),
            (POD_GROUPS, self.groups, ""),
            (VC_JOBS, self.jobs, ""),
            (PODS, self.pods, ""),
            (EVENTS, self.preempted, "reason=Preempted"),
            (EVENTS, self.evicted, "reason=Evict"),
        )
        return named

    @property
    def version(self) -> int:
        """Increases with each change."""
        return sum(table.version for _, table, _ in self.watched)

    @property
    def complete(self) -> bool:
        """True once every kind has been listed, or is forbidden."""
        return all(table.complete or table.refused for _, table, _ in self.watched)

    @property
    def refusals(self) -> dict[str, str]:
        """Error messages of the server about forbidden kinds, by plural."""
        return {resource.plural: table.refused for resource, table, _ in self.watched if table.refused}

    # --- changes

    def _pod(self, old: rows.Pod | None, new: rows.Pod | None) -> None:
        for pod, sign in ((old, -1), (new, 1)):
            if pod is None:
                continue
            self.phases[pod.phase] += sign
            if pod.holds:
                self._hold(pod, sign)
        if old is not None and old.group and (new is None or new.group != old.group):
            group = Key(old.key.namespace, old.group)
            keys = self.members.get(group, {})
            keys.pop(old.key, None)
            if not keys:
                self.members.pop(group, None)
        if new is not None and new.group:
            self.members.setdefault(Key(new.key.namespace, new.group), {})[new.key] = None

    def _hold(self, pod: rows.Pod, sign: int) -> None:
        use = self.on_node.setdefault(pod.node, NodeUse())
        if sign > 0:
            use.pods[pod.key] = None
        else:
            use.pods.pop(pod.key, None)
        for name, amount in pod.requests.items():
            left = use.used.get(name, 0) + sign * amount
            if left:
                use.used[name] = left
            else:
                use.used.pop(name, None)
        if not use.pods:
            del self.on_node[pod.node]

    def _group(self, old: rows.Group | None, new: rows.Group | None) -> None:
        for each in (old, new):
            if each is None:
                continue
            job = self._job_of(each)
            if job is None:
                self._entry(("PodGroup", each.key), _entry_of_group(new) if new is not None else None)
                continue
            if new is not None:
                self._group_of_job[job] = new.key
            elif self._group_of_job.get(job) == each.key:
                del self._group_of_job[job]
            self._refresh(job)

    def _job(self, old: rows.Job | None, new: rows.Job | None) -> None:
        key = (new or old).key  # type: ignore[union-attr]  # one of them is a job
        self._refresh(key)

    def _refresh(self, key: Key) -> None:
        """Rebuild the entry of a job."""
        job = self.jobs.get(*key)
        at = self._group_of_job.get(key)
        group = self.groups.get(*at) if at is not None else None
        self._entry(("Job", key), _entry_of_job(job, group) if job is not None else None)

    def _job_of(self, group: rows.Group) -> Key | None:
        api_group, kind, name = group.owner
        return Key(group.key.namespace, name) if (api_group, kind) == (VC_JOB, "Job") else None

    def _entry(self, at: tuple[str, Key], new: Entry | None) -> None:
        old = self.entries.pop(at, None) if new is None else self.entries.get(at)
        if new is not None:
            self.entries[at] = new
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, 1)
        before = (-old.created, *at) if old is not None else None
        after = (-new.created, *at) if new is not None else None
        if before != after:
            if before is not None:
                del self.order[bisect_left(self.order, before)]
            if after is not None:
                insort(self.order, after)
        if new is not None and new.state == WAITING:
            self.waiting[at] = new
        else:
            self.waiting.pop(at, None)

    def _count(self, entry: Entry, sign: int) -> None:
        at = entry.queue, entry.state
        self.counts[at] += sign
        if not self.counts[at]:
            del self.counts[at]

    def _event(self, old: rows.Event | None, new: rows.Event | None) -> None:
        """Record an eviction from its events; the server deletes these after an hour, we later."""
        if new is None or new.about[0] != "Pod":
            return
        _, key, uid = new.about
        known = self.evictions.pop(uid, None) or self._eviction(key, new.at)
        found = _FOR.search(new.message) if new.reason == "Preempted" else None
        if found is not None:
            kind, namespace, name, queue, node = found.groups("")
            kind = "PodGroup" if kind == "pod group" else kind
            known = known._replace(by=(kind, namespace, name, queue), node=known.node or node)
        elif new.reason == "Preempted":
            known = known._replace(why=known.why or new.message)
        else:
            known = known._replace(why=new.message.removeprefix(_BECAUSE))
        self.evictions[uid] = known._replace(at=max(known.at, new.at))
        while len(self.evictions) > MOST_EVICTIONS:
            del self.evictions[next(iter(self.evictions))]

    def _eviction(self, key: Key, at: int) -> Eviction:
        """The eviction of a pod, with its job as long as the pod is known."""
        pod = self.pods.get(*key)
        if pod is None:
            job = self._job_by_name(key)
            return Eviction(at, key, "", ("Job", job.key), job.queue) if job is not None else Eviction(at, key)
        if not pod.group:
            return Eviction(at, key, pod.node)
        group = self.groups.get(key.namespace, pod.group)
        if group is None:
            return Eviction(at, key, pod.node)
        owner = self._job_of(group)
        return Eviction(at, key, pod.node, ("Job", owner) if owner else ("PodGroup", group.key), group.queue)

    def _job_by_name(self, pod: Key) -> rows.Job | None:
        """The Volcano job of a deleted pod, from its name `JOB-TASK-NUMBER`."""
        words = pod.name.split("-")
        for cut in range(1, len(words) - 1):
            job = self.jobs.get(pod.namespace, "-".join(words[:cut]))
            if job is not None and any(task.name == "-".join(words[cut:-1]) for task in job.tasks):
                return job
        return None

    # --- queries

    def find(self, kind: str, namespace: str, name: str) -> Entry | None:
        """The entry of a job or pod group."""
        return self.entries.get((kind, Key(namespace, name)))

    def pods_of(self, entry: Entry) -> list[rows.Pod]:
        """The pods of an entry, by task and name."""
        if entry.group is None:
            return []
        return sorted(
            self.pods.several(self.members.get(entry.group, ())), key=lambda pod: (pod.task, natural(pod.key.name))
        )

    def entry_of(self, pod: rows.Pod) -> Entry | None:
        """The entry that a pod belongs to."""
        group = self.groups.get(pod.key.namespace, pod.group) if pod.group else None
        if group is None:
            return None
        job = self._job_of(group)
        return self.entries.get(("Job", job) if job is not None else ("PodGroup", group.key))

    def offered(self) -> dict[str, float]:
        """The total of all nodes."""
        total: dict[str, float] = {}
        for node in self.nodes:
            for name, amount in node.offers.items():
                total[name] = total.get(name, 0) + amount
        return total

    def used(self) -> dict[str, float]:
        """The total requests of the pods on all nodes."""
        total: dict[str, float] = {}
        for use in self.on_node.values():
            for name, amount in use.used.items():
                total[name] = total.get(name, 0) + amount
        return total


def _entry_of_job(job: rows.Job, group: rows.Group | None) -> Entry:
    state = _STATES.get(job.phase, RUNNING)
    waits = group if group is not None and state in (WAITING, RUNNING) else None
    own = job.message if job.phase in ("Pending", "Aborted", "Failed", "Terminated") else ""
    return Entry(
        "Job",
        job.key,
        group.key if group is not None else None,
        job.queue,
        state,
        job.phase,
        ("", ""),
        sum(task.replicas for task in job.tasks),
        job.least,
        job.counts["running"],
        job.created,
        job.changed or job.created,
        waits.reason if waits is not None else "",
        (waits.message if waits is not None else "") or own,
        job.priority,
    )


def _entry_of_group(group: rows.Group) -> Entry:
    state = _STATES.get(group.phase, RUNNING)
    shown = state in (WAITING, RUNNING)
    return Entry(
        "PodGroup",
        group.key,
        group.key,
        group.queue,
        state,
        group.phase,
        group.owner[1:],
        0,
        group.least,
        group.running,
        group.created,
        group.since or group.created,
        group.reason if shown else "",
        group.message if shown else "",
        group.priority,
    )


def main_resources(offered: Amounts) -> list[str]:
    """Resources to show, in order: cpu, memory, and devices that nodes offer."""
    skipped = ("cpu", "memory", "pods", "ephemeral-storage")
    extended = sorted(name for name, amount in offered.items() if amount and name not in skipped and "/" in name)
    return ["cpu", "memory", *extended]


Figures = Mapping[str, "QueueFigures"]


class QueueFigures(NamedTuple):
    """Figures of a queue from its scheduler.

    Attributes:
        deserved: deserved amounts; None if no plugin computes them.
        allocated: amounts that its pods and those of its descendants hold; None if unknown.
    """

    deserved: Amounts | None
    allocated: Amounts | None = None
