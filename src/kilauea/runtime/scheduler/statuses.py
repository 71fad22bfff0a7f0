"""Statuses of pod groups, pods and queues after a cycle, and the events about them.

`Writes` sends them concurrently with the decisions, never before them. Urgent statuses (a group without pods is
admitted) are written after every cycle, all others once a period, because most intermediate values are soon obsolete.
`Nominations` writes nominations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kilauea.api.kinds import KUBERNETES_GROUP, KUBERNETES_POD_GROUPS
from kilauea.api.kubernetes_groups import KubernetesPodGroup
from kilauea.api.ports import Api, Clock, Key, Record
from kilauea.api.scheduling import PodGroup
from kilauea.api.times import SECOND, format_time
from kilauea.engine.explain.group import with_hints
from kilauea.engine.model import status
from kilauea.engine.model.jobs import PENDING
from kilauea.engine.model.kubernetes_groups import was_scheduled
from kilauea.engine.plan import GroupOutcome, Plan
from kilauea.runtime.inputs.reading import pod_in
from kilauea.runtime.inputs.resources import GROUPS_OF_PODS, PODS, QUEUES, reference
from kilauea.runtime.scheduler import group_status, kubernetes_status, pod_status
from kilauea.runtime.scheduler.assumed import Phased
from kilauea.runtime.scheduler.debounce import Debounce
from kilauea.runtime.scheduler.executor import PodOperation
from kilauea.runtime.scheduler.feed import Feed
from kilauea.runtime.scheduler.pod_status import Room
from kilauea.runtime.scheduler.queue_status import allocated_patch, held_by_queues, rooms
from kilauea.runtime.scheduler.reasons import outcomes, waiting_reason
from kilauea.runtime.scheduler.workers import Writes

OF_TOO_FEW = frozenset({"NotEnoughTasks", "NotEnoughPodsOfTask"})
"""Codes of pods whose group lacks pods; they are temporary while the group still gets pods."""


STARTING = 3
"""Full cycles for which the status of a group waits for its placed pods to start, as each start changes it again."""


class Said(NamedTuple):
    """The decision about a group, identified by its uid: a later group of the same name is another one."""

    uid: str
    outcome: GroupOutcome


class Statuses:
    """Writes the decisions of cycles to statuses and events.

    Args:
        api: the cluster.
        feed: knows the objects; phases of groups are assumed in it until they are written.
        record: receives events.
        writes: carries out writes.
        clock: for the times of conditions.
    """

    def __init__(self, api: Api, feed: Feed, record: Callable[[Record], None], writes: Writes, clock: Clock) -> None:
        self._api = api
        self._feed = feed
        self._record = record
        self._writes = writes
        self._clock = clock
        self._outcomes: dict[str, Said] = {}
        """Decisions about groups that are not written yet."""
        self._said: dict[str, pod_status.Content] = {}
        """Status of pending pods, as written or being written."""
        self._told: dict[str, tuple[str, str]] = {}
        """Reason and message of groups whose reason for waiting is stable."""
        self._waiting_groups: Debounce[tuple[str, str]] = Debounce()
        self._waiting_pods: Debounce[pod_status.Content] = Debounce()
        self.kubernetes_groups = KUBERNETES_POD_GROUPS
        """The version in which PodGroups of Kubernetes are served."""
        self._sizes: dict[str, int] = {}
        """Number of pods of the groups that lacked pods in the previous cycle."""
        self._starting: dict[str, int] = {}
        """Groups whose placed pods are starting: number of full cycles for which they have not been written."""
        self._cycle = 0

    @property
    def busy(self) -> bool:
        """True if a status is still to be written."""
        return bool(self._outcomes or self._feed.touched)

    def after(self, plan: Plan, *, all_: bool) -> None:
        """Write the statuses of a cycle: all that differ with `all_`, else only urgent ones."""
        self._cycle += 1
        groups = outcomes(plan, self._feed.state) if all_ else plan.groups
        for key, outcome in groups.items():
            self._assume(key, outcome)
        if not all_:
            return
        self._report_waiting(groups)
        starting = self._note_starting(plan)
        for key in sorted((self._outcomes.keys() | self._feed.touched) - starting.keys()):
            self._put_group(key)
        for key in sorted(self._feed.kubernetes_groups.keys() & (groups.keys() | self._feed.touched)):
            self._put_kubernetes_group(key)
        self._feed.touched.intersection_update(starting)
        held = held_by_queues(self._feed.state)
        self._say_pods(plan, rooms(self._feed.state, held))
        self._put_queues(held)

    # --- pod groups

    def _note_starting(self, plan: Plan) -> Mapping[str, int]:
        """Return groups with pods that were placed in this cycle or are starting, but not for long.

        A group whose status still shows that it waits is corrected at once.
        """
        state, earlier = self._feed.state, self._starting
        placed = {state.tasks[bind.pod].group for bind in plan.binds if bind.pod in state.tasks}
        bound = (
            key
            for key in earlier.keys() | self._feed.touched
            if key in state.jobs and state.jobs[key].counts[status.BOUND] and not self._says_unschedulable(key)
        )
        found = {key: earlier.get(key, 0) + 1 for key in placed.union(bound)}
        self._starting = {key: rounds for key, rounds in found.items() if rounds <= STARTING}
        return self._starting

    def _says_unschedulable(self, key: str) -> bool:
        group = self._feed.groups.get(key)
        return group is not None and group_status.says_unschedulable(group.status)

    def _assume(self, key: str, outcome: GroupOutcome) -> None:
        """Assume that a group is in the phase of the plan."""
        group = self._feed.groups.get(key)
        if group is None:
            return
        uid = group.metadata.uid or ""
        earlier = self._outcome(key, uid)
        admitted = (
            earlier is not None and earlier.phase == PENDING != outcome.phase
        )  # its reason for waiting no longer applies
        if outcome.condition is None and earlier is not None and not admitted:
            outcome = dataclasses.replace(outcome, condition=earlier.condition)
        self._outcomes[key] = Said(uid, outcome)
        known = self._feed.assumed.phases.get(key)
        phase = known.phase if known else group_status.content_of(group.status).phase
        if phase == outcome.phase:
            return
        self._feed.assumed.phases[key] = Phased(uid, outcome.phase)
        self._feed.reconsider_group(key)
        if not self._feed.state.jobs[key].tasks:
            self._put_group(key, urgent=True)  # its pods are created once it is admitted

    def _outcome(self, key: str, uid: str) -> GroupOutcome | None:
        """Return the decision about a group that is not written yet."""
        said = self._outcomes.get(key)
        return said.outcome if said is not None and said.uid == uid else None

    def _put_group(self, key: str, *, urgent: bool = False) -> None:
        group, job = self._feed.groups.get(key), self._feed.state.jobs.get(key)
        if group is None or job is None:
            self._outcomes.pop(key, None)
            return
        uid = group.metadata.uid or ""
        outcome = latest = self._outcome(key, uid)
        if outcome is not None and waiting_reason(outcome) and key not in self._told:
            outcome = dataclasses.replace(outcome, condition=None)  # the reason may still change
        content = group_status.wanted(group, job.counts, job.phase, outcome)
        if content == group_status.content_of(group.status) and not self._writes.busy(("PodGroup", key)):
            self._outcomes.pop(key, None)
            if self._feed.assumed.phases.pop(key, None) is not None:
                self._feed.reconsider_group(key)
            return
        work = partial(self._write_group, key, uid, content, latest)
        self._writes.put(("PodGroup", key), (uid, content), work, urgent=urgent)

    async def _write_group(
        self, key: str, uid: str, content: group_status.Content, outcome: GroupOutcome | None
    ) -> None:
        group = self._feed.groups.get(key)
        if group is None or (group.metadata.uid or "") != uid:
            return
        was = group_status.content_of(group.status)
        patch = group_status.patch_of(group, content, str(self._cycle), self._now())
        written = await self._api.patch(GROUPS_OF_PODS, Key(*key.split("/", 1)), patch)
        await self._feed.thawed()
        if outcome is not None and self._outcome(key, uid) is outcome:
            del self._outcomes[key]
        if self._feed.assumed.phases.get(key) == Phased(uid, content.phase):
            del self._feed.assumed.phases[key]
        await self._feed.answered("PodGroup", written)
        if content.phase == "Running" != was.phase:
            self._record(Record(self._about(group), "Normal", "Scheduled", "pod group is ready"))

    def _put_kubernetes_group(self, key: str) -> None:
        """Write the condition of a PodGroup of Kubernetes, if it changes."""
        group, job = self._feed.kubernetes_groups[key], self._feed.state.jobs.get(key)
        said = self._told.get(key, ("", ""))[1]
        content = kubernetes_status.wanted(group, job, said) if job is not None else None
        if content is not None:
            uid = group.metadata.uid or ""
            self._writes.put((KUBERNETES_GROUP, key), (uid, content), lambda: self._write_condition(key, uid, content))

    async def _write_condition(self, key: str, uid: str, content: kubernetes_status.Content) -> None:
        group = self._feed.kubernetes_groups.get(key)
        if group is None or (group.metadata.uid or "") != uid or was_scheduled(group):
            return
        resource = self.kubernetes_groups
        patch = kubernetes_status.patch_of(group, content, resource.version, self._now())
        written = await self._api.patch(resource, Key(group.namespace, group.name), patch, "strategic", "status")
        await self._feed.answered(KUBERNETES_GROUP, written)
        if content.status == "True":
            self._record(Record(self._about(group), "Normal", "Scheduled", "pod group is ready"))

    def _report_waiting(self, groups: Mapping[str, GroupOutcome]) -> None:
        """Record an event for each group whose reason for waiting is stable and new."""
        reasons = {key: said for key, outcome in groups.items() if (said := waiting_reason(outcome))}
        told = self._told
        self._told = self._waiting_groups.stable(reasons)
        for key, said in self._told.items():
            group = self._feed.groups.get(key) or self._feed.kubernetes_groups.get(key)
            if group is not None and told.get(key) != said:
                self._record(Record(self._about(group), "Warning", *said))

    @staticmethod
    def _about(group: PodGroup | KubernetesPodGroup) -> dict[str, Any]:
        return reference(group.kind, group.key, group.metadata.uid or "")

    # --- pods

    def _say_pods(self, plan: Plan, rooms: Mapping[str, list[Room]]) -> None:
        """Write the conditions of all pending pods."""
        wanted: dict[str, pod_status.Content] = {}
        tasks, hinted = self._feed.state.tasks, with_hints(self._feed.state, plan)
        growing = self._growing(plan)
        for pending in plan.pending:
            if pending.group in growing:
                continue
            task = tasks.get(pending.pod)
            content = pod_status.wanted(hinted(pending), task.uid, rooms.get(pending.queue, ())) if task else None
            if content is not None:
                wanted[pending.pod] = content
        changed = self._feed.changed_specs
        said = {pod: content for pod, content in self._said.items() if pod in wanted and pod not in changed}
        changed.clear()
        for pod, content in self._waiting_pods.stable(wanted).items():
            if said.get(pod) != content:
                said[pod] = content
                self._put_pod(pod, content)
        self._said = said

    def _growing(self, plan: Plan) -> set[str]:
        """Return groups that lack pods, but have more than in the previous cycle."""
        jobs = self._feed.state.jobs
        short = {pending.group for pending in plan.pending if pending.code in OF_TOO_FEW}
        before, self._sizes = self._sizes, {group: len(jobs[group].tasks) for group in short if group in jobs}
        return {group for group, size in self._sizes.items() if size > before.get(group, 0)}

    def bind_failed(self, operation: PodOperation, message: str) -> None:
        """Write the condition of a pod that could not be bound; more nodes would not help it."""
        self._put_pod(operation.pod, pod_status.Content(operation.uid, "SchedulerError", message))

    def _put_pod(self, key: str, content: pod_status.Content) -> None:
        self._writes.put(("Pod", key), content, lambda: self._write_pod(key, content))

    async def _write_pod(self, key: str, content: pod_status.Content) -> None:
        data = self._feed.pods.get(key)
        if data is None:
            return
        pod = pod_in(data)
        told = pod_status.content_of(pod) == content and not pod_status.is_about_earlier(pod)
        if pod.metadata.uid != content.uid or pod.spec.node_name or told:
            return
        if key in self._feed.assumed.binds:
            return
        patch = pod_status.patch_of(pod, content, self._now())
        await self._api.patch(PODS, Key(*key.split("/", 1)), patch, "strategic", "status")
        about = reference("Pod", key, content.uid)
        self._record(Record(about, "Warning", "FailedScheduling", content.message))

    # --- queues

    def _put_queues(self, held: Mapping[str, Mapping[str, float]]) -> None:
        for name, amounts in held.items():
            queue = self._feed.queues.get(name)
            allocated = allocated_patch(queue, amounts) if queue is not None else None
            if allocated is not None:
                self._put_queue(name, allocated)

    def _put_queue(self, name: str, allocated: Mapping[str, str | None]) -> None:
        async def write() -> None:
            written = await self._api.patch(
                QUEUES, Key("", name), {"status": {"allocated": allocated}}, subresource="status"
            )
            await self._feed.answered("Queue", written)

        self._writes.put(("Queue", name), allocated, write)

    def _now(self) -> str:
        return format_time(self._clock.now() // SECOND * SECOND)
