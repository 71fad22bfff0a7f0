"""The smallest change that admits a pod group, tested on the cluster itself.

A change is applied to the state as an event, a whole cycle decides, and the original object is applied again. So the
answer holds for the cluster with all its other work, not for the group alone. Kinds of changes are tried from the
least to the most costly for others: a queue or a quota, rules that keep the pods from existing nodes, the group's own
minimum, another job, new nodes. The first kind that admits the group wins, with the smallest sufficient amount. If none
does, a higher capability is tried together with new nodes. A group that has its minimum is admitted already: for it, a
change counts that lets one more of its pods start.

A trial costs a cycle, so it is skipped where the answer is known: where nothing is evicted and the nodes could not hold
the group's minimum even if no other waiting pod got anything, and where an equal job was removed before.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from kilauea.api.core import Node, NodeStatus, Pod, ResourceQuota, Workload, WorkloadSpec
from kilauea.api.errors import object_label
from kilauea.api.meta import Object, ObjectMeta, ResourceMap
from kilauea.api.quantity import format_amount, resource_amounts
from kilauea.api.scheduling import PodGroup, Queue, QueueSpec, QueueStatus
from kilauea.api.selectors import tolerates
from kilauea.api.topology import HyperNode
from kilauea.api.wellknown import CARD_QUOTA
from kilauea.engine.events import Changed, Event, Gone
from kilauea.engine.explain.group import Change, Explanation
from kilauea.engine.model.cards import CARD, EITHER
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import pausing
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Plan
from kilauea.engine.queues import fifo
from kilauea.engine.state import ClusterState
from kilauea.simulator import remedies

_Kind = TypeVar("_Kind", bound=Object)

NEW_NODE = "kilauea-what-if"
"""Name of the node that a trial adds; it sorts like any other name."""

JOBS_TRIED = 6
"""Number of different jobs to remove, one at a time, before giving up on this kind of change."""

JOBS_LOOKED_AT = 1000
"""Number of jobs among which they are selected."""

TAINTS_TRIED = 6
"""Number of taints to tolerate, one at a time, before giving up on this kind of change."""

MOST_NODES = 64
"""Maximum number of nodes to add."""

NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
"""The reason of nodes with other labels."""

NEIGHBOURS: tuple[tuple[str, str, Callable[[Pod], Pod]], ...] = (
    ("podAffinity", "node(s) didn't match pod affinity rules", remedies.without_pod_affinity),
    ("podAntiAffinity", "node(s) didn't match pod anti-affinity rules", remedies.without_anti_affinity),
    ("spread", "node(s) didn't match pod topology spread constraints", remedies.without_spread),
)
"""Rules about other pods on a node: the kind of the change, the start of the reason, and the pod without the rule."""

MOST_WEIGHT = 64
"""Largest increase of the weight of a queue."""

OF_NODES = ("Unschedulable", "GangWaiting")
"""Codes of groups that wait for nodes alone."""

Decide = Callable[[ClusterState], Plan]


class _Limit(NamedTuple):
    """The capability of a queue in one resource, in the engine's units."""

    queue: Queue
    spec: QueueSpec
    resource: str
    amount: int

    def raised(self, more: int) -> Queue:
        """The queue with a higher capability."""
        capability = {**(self.spec.capability or {}), self.resource: format_amount(self.resource, self.amount + more)}
        return msgspec.structs.replace(self.queue, spec=msgspec.structs.replace(self.spec, capability=capability))


class WhatIf:
    """Trials on one cluster for one pod group.

    Args:
        objects: the objects of the state.
        state: the cluster; every trial restores it.
        decide: the cycle to run; only binds and nominations of its plan are used.
        key: the pod group, `namespace/name`.
        plan: the plan of the cycle without changes.
        evicting: True if the cycle may evict, so that used resources may become free.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        state: ClusterState,
        decide: Decide,
        key: str,
        plan: Plan,
        *,
        evicting: bool = True,
    ) -> None:
        self._objects: dict[tuple[str, str], Object] = {(o.kind, object_label(o)): o for o in objects}
        self._state = state
        self._decide = decide
        self._key = key
        self._plan = plan
        self._evicting = evicting
        self._job = state.jobs[key]
        self._before = 0
        """Number of pods of a group with its minimum that start without any change."""
        self._whole_nodes_fail = False
        """True once as many new nodes as the group has pods did not admit it."""

    def smallest(self, explanation: Explanation) -> Change | None:
        """The smallest change that admits the group or, if it has its minimum, lets another pod of it start.

        None if no change does, or if nothing has to change.
        """
        if explanation.verdict not in ("waits", "starts in part") or explanation.nominated or not self._job.group:
            return None
        if explanation.verdict == "starts in part":
            self._before = self._placed(self._plan)
        kinds: list[Callable[[Explanation], Change | None]] = [self._gates, self._uncordon, self._ready, self._taint]
        kinds += [self._selector, self._neighbours, self._tier, self._parallel, self._minimum]
        kinds += [self._fewer, self._nodes, self._node]
        if self._has_room():
            kinds[:0] = [
                self._queue,
                self._traverse,
                self._leaf,
                self._quota,
                self._cards,
                self._weight,
                self._namespace_quota,
            ]
        for kind in [*kinds, self._quota_and_nodes]:
            change = kind(explanation)
            if change is not None:
                return change
        return None

    # --- trials

    def _admitted(self, changes: Iterable[Object], gone: Iterable[tuple[str, str]] = ()) -> bool:
        """True if the group is admitted after some objects are changed and others are deleted."""
        forward: list[Event] = [Changed(obj) for obj in changes]
        back = [self._undo(obj.kind, object_label(obj)) for obj in changes]
        for kind, key in gone:
            forward.append(Gone(kind, key))
            back.append(self._undo(kind, key))
        for event in forward:
            self._state.apply(event)
        try:
            return self._has_room() and self._starts(self._decide(self._state))
        finally:
            for event in reversed(back):
                self._state.apply(event)

    def _undo(self, kind: str, key: str) -> Event:
        known = self._objects.get((kind, key))
        return Gone(kind, key) if known is None else Changed(known)

    def _starts(self, plan: Plan) -> bool:
        """True if the group's minimum is placed or nominated, and a pod starts that would not without the change."""
        placed = self._placed(plan)
        minimum = self._state.jobs[self._key].min_available if self._key in self._state.jobs else 0
        return placed > self._before and placed + self._job.ready_count >= minimum

    def _placed(self, plan: Plan) -> int:
        """Number of the group's pods that a plan starts or nominates."""
        return len(({b.pod for b in plan.binds} | {n.pod for n in plan.nominations}) & self._job.tasks.keys())

    def _has_room(self) -> bool:
        """True if the nodes could hold the missing part of the group's minimum, if no other group got anything."""
        job, state = self._state.jobs.get(self._key), self._state
        if self._evicting or job is None:
            return True
        state.settle()
        least = np.array([state.axis.vector(task.spec.requests) for task in job.pending()])
        if not len(least):
            return False
        need, nodes = least.min(axis=0), state.nodes.all()
        asked = need > 0
        free = np.maximum(nodes.idle + nodes.releasing, 0)[asked]
        fitting = (free // need[asked][:, None]).min(axis=0) if asked.any() else np.full(len(state.nodes), len(least))
        return int(fitting.sum()) >= max(job.min_available - job.ready_count, 1)

    def _least(self, admits: Callable[[int], bool], guesses: Iterable[int], most: int) -> int | None:
        """The least number from 1 to `most` that admits the group, if any; larger numbers are assumed to admit it, too.

        The largest is tried first, because most kinds of changes do not help at any size.
        """
        low, high = 0, most
        if not admits(most):
            return None
        for guess in sorted({g for g in guesses if 0 < g < most}):
            if admits(guess):
                high = guess
                break
            low = guess
        if high - low > 1 and not admits(high - 1):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if admits(middle) else (middle, high)
        return high

    # --- kinds of changes

    def _queue(self, _: Explanation) -> Change | None:
        """Create the group's queue, or open or resume it."""
        name = self._job.queue
        known = self._state.queues.get(name)
        if known is not None and known.paused:
            return self._resume(known.name)
        if known is not None and known.open:
            return None
        spec = QueueSpec(weight=1)
        made = self._objects.get(("Queue", name))
        if isinstance(made, Queue) and made.spec is not None:
            spec = made.spec
        queue = Queue("scheduling.volcano.sh/v1beta1", "Queue", ObjectMeta(name=name), spec, QueueStatus("Open"))
        return Change("queue" if known is None else "open", name, "", 1) if self._admitted([queue]) else None

    def _resume(self, name: str) -> Change | None:
        """Resume the queue and those above it, as far as they are paused."""
        paused: list[Queue] = []
        change: Change | None = None
        for above in pausing(name, self._state.queues):
            made = self._objects.get(("Queue", above))
            assert isinstance(made, Queue)
            paused.append(remedies.resumed(made))
            change = Change("resume", above, "", 1, also=change)
        return change if self._admitted(paused) else None

    def _traverse(self, explanation: Explanation) -> Change | None:
        """Let the jobs of the group's queue start out of order."""
        made = self._objects.get(("Queue", self._job.queue))
        if not isinstance(made, Queue) or not any(b.code == fifo.CODE for b in explanation.blockers):
            return None
        return Change("traverse", made.name, "", 1) if self._admitted([remedies.traversed(made)]) else None

    def _leaf(self, explanation: Explanation) -> Change | None:
        """Move the group from a queue with children to one below it."""
        made = self._objects.get(("PodGroup", self._key))
        if not isinstance(made, PodGroup) or not any(b.code == "QueueNotLeaf" for b in explanation.blockers):
            return None
        for name in sorted(self._state.queues):
            above = self._state.queues[name].parent
            if above == self._job.queue and self._admitted([remedies.in_queue(made, name)]):
                return Change("leaf", name, "", 1)
        return None

    def _quota(self, explanation: Explanation) -> Change | None:
        """Raise the capability of the group's queue, or of one that blocks, in the missing resource."""
        changes = (self._more(explanation, limit) for limit in self._limits(explanation))
        return next((change for change in changes if change is not None), None)

    def _limits(self, explanation: Explanation) -> Iterator[_Limit]:
        """The capabilities of the group's queue and of those that block, in the scarce resources."""
        blocking = [b.queue for b in explanation.blockers]
        blocking += [level.queue for level in reversed(explanation.levels) if level.blocks]
        for name in dict.fromkeys([self._job.queue, *blocking]):
            queue, made = self._state.queues.get(name), self._objects.get(("Queue", name))
            if queue is not None and isinstance(made, Queue) and made.spec is not None:
                capability = queue.capability or {}
                for resource in self._scarce(explanation):
                    if resource in capability:
                        yield _Limit(made, made.spec, resource, int(capability[resource]))

    def _more(self, explanation: Explanation, limit: _Limit, with_it: Iterable[Object] = ()) -> Change | None:
        """Raise a capability, and change other objects as well."""

        def admits(more: int) -> bool:
            return self._admitted([limit.raised(more), *with_it])

        resource = limit.resource
        found = self._least(admits, self._shortage(explanation, resource), most=self._total(resource))
        return None if found is None else Change("quota", limit.queue.name, resource, found)

    def _cards(self, explanation: Explanation) -> Change | None:
        """Raise the queue's quota of a missing card."""
        queue = self._state.queues.get(self._job.queue)
        made = self._objects.get(("Queue", self._job.queue))
        short = [b for b in explanation.blockers if b.code == "InsufficientScalarQuota"]
        if queue is None or not isinstance(made, Queue) or not short:
            return None
        cards = {name: amount // CARD for name, amount in queue.cards.amounts.items()}
        for model in dict.fromkeys(model for b in short for model in b.resource.split(EITHER)):

            def admits(more: int, model: str = model) -> bool:
                quota = json.dumps({**cards, model: cards.get(model, 0) + more})
                metadata = msgspec.structs.replace(made.metadata, annotations={**made.annotations, CARD_QUOTA: quota})
                return self._admitted([msgspec.structs.replace(made, metadata=metadata)])

            asked = max(int(b.asked) // CARD for b in short)
            most = asked * max(len(self._job.tasks), 1)
            found = self._least(admits, [int(b.asked - b.left) // CARD for b in short], most=max(most, 1))
            if found is not None:
                return Change("cards", queue.name, model, found * CARD)
        return None

    def _weight(self, explanation: Explanation) -> Change | None:
        """Raise the weight of the queue, if the group waits for its queue."""
        if not any(b.code.startswith("Queue") for b in explanation.blockers):
            return None
        made = self._objects.get(("Queue", self._job.queue))
        if not isinstance(made, Queue) or self._job.queue not in self._state.queues:
            return None
        spec = made.spec or QueueSpec()
        weight = self._state.queues[self._job.queue].weight

        def admits(more: int) -> bool:
            raised = msgspec.structs.replace(spec, weight=weight + more)
            return self._admitted([msgspec.structs.replace(made, spec=raised)])

        found = self._least(admits, (1, 2, 4), most=MOST_WEIGHT)
        return None if found is None else Change("weight", self._job.queue, "", found)

    def _namespace_quota(self, explanation: Explanation) -> Change | None:
        """Raise a quota of the namespace in the missing resource."""
        short = [b for b in explanation.blockers if b.code == "ResourceQuotaInsufficient"]
        if not short:
            return None
        resource, asked, left = short[0].resource, int(short[0].asked), int(short[0].left)
        for quota in self._of(ResourceQuota):
            limit = resource_amounts(_hard(quota)).get(resource)
            if quota.namespace != self._job.namespace or limit is None:
                continue

            def admits(more: int, quota: ResourceQuota = quota, limit: int = int(limit)) -> bool:
                return self._admitted([remedies.raised(quota, resource, limit + more)])

            found = self._least(admits, [asked - left], most=max(asked, 1))
            if found is not None:
                return Change("namespaceQuota", quota.key, resource, found)
        return None

    # --- rules that keep pods off existing nodes

    def _gates(self, explanation: Explanation) -> Change | None:
        """Remove the scheduling gates of the pods."""
        gated = [pod for pod in self._pods() if pod.spec.scheduling_gates]
        if not gated or not any(b.code == "SchedulingGated" for b in explanation.blockers):
            return None
        names = dict.fromkeys(gate.name for pod in gated for gate in pod.spec.scheduling_gates or ())
        change = Change("gates", ", ".join(names), "", len(gated))
        return change if self._admitted([remedies.without_gates(pod) for pod in gated]) else None

    def _uncordon(self, _: Explanation) -> Change | None:
        """Uncordon as few nodes as possible, the most useful ones first."""
        cordoned = sorted((n for n in self._nodes_known() if n.spec and n.spec.unschedulable), key=self._fitness())

        def admits(count: int) -> bool:
            return self._admitted([remedies.uncordoned(node) for node in cordoned[:count]])

        found = self._least(admits, (1, 2, 4), most=len(cordoned)) if cordoned else None
        return None if found is None else Change("uncordon", ", ".join(n.name for n in cordoned[:found]), "", found)

    def _ready(self, _: Explanation) -> Change | None:
        """Make as few nodes as possible ready, the most useful ones first."""
        down = sorted((node for node in self._nodes_known() if not remedies.is_ready(node)), key=self._fitness())

        def admits(count: int) -> bool:
            return self._admitted([remedies.ready(node) for node in down[:count]])

        found = self._least(admits, (1, 2, 4), most=len(down)) if down else None
        return None if found is None else Change("ready", ", ".join(node.name for node in down[:found]), "", found)

    def _taint(self, _: Explanation) -> Change | None:
        """Tolerate a taint; the most frequent one is tried first."""
        pods = self._pods()
        held = Counter(
            taint
            for node in self._of(Node)
            for taint in remedies.hard_taints(node)
            if not all(any(tolerates(t, taint) for t in task.spec.tolerations) for task in self._waiting())
        )
        for taint, count in sorted(held.items(), key=lambda item: (-item[1], item[0]))[:TAINTS_TRIED]:
            if pods and self._admitted([remedies.tolerating(pod, taint) for pod in pods]):
                return Change("taint", remedies.in_words(taint), "", count)
        return None

    def _selector(self, explanation: Explanation) -> Change | None:
        """Remove requirements on the labels of nodes."""
        if not any(reason.reason == NOT_SELECTED for reason in explanation.nodes):
            return None
        pods = self._pods()
        pairs = sorted({pair for pod in pods for pair in (pod.spec.node_selector or {}).items()})
        tried = [{key: value} for key, value in pairs] + ([dict(pairs)] if len(pairs) > 1 else [])
        for wanted in tried:
            if self._admitted([remedies.without_selector(pod, wanted) for pod in pods]):
                return Change("selector", ", ".join(f"{key}={value}" for key, value in wanted.items()), "", len(wanted))
        wishes = any(pod.spec.affinity and pod.spec.affinity.node_affinity for pod in pods)
        if wishes and self._admitted([remedies.without_node_affinity(pod) for pod in pods]):
            return Change("affinity", self._key, "", 1)
        return None

    def _neighbours(self, explanation: Explanation) -> Change | None:
        """Remove requirements on the other pods on a node."""
        given, pods = {reason.reason for reason in explanation.nodes}, self._pods()
        for what, begin, without in NEIGHBOURS:
            named = any(reason.startswith(begin) for reason in given)
            if named and pods and self._admitted([without(pod) for pod in pods]):
                return Change(what, self._key, "", 1)
        return None

    def _tier(self, _: Explanation) -> Change | None:
        """Allow the gang a higher tier of the network topology."""
        made = self._objects.get(("PodGroup", self._key))
        wish = made.spec.network_topology if isinstance(made, PodGroup) else None
        if not isinstance(made, PodGroup) or wish is None or wish.mode != "hard":
            return None
        allowed = wish.highest_tier_allowed or 0
        tiers = {domain.spec.tier for domain in self._of(HyperNode) if domain.spec is not None}
        wider = sorted(tier for tier in tiers if tier > allowed)
        if not wider or not self._admitted([remedies.within_tier(made, wider[-1])]):
            return None
        # A gang that fits in a tier fits in all higher ones, so the lowest is found by bisection.
        low, high = 0, len(wider) - 1
        while low < high:
            middle = (low + high) // 2
            if self._admitted([remedies.within_tier(made, wider[middle])]):
                high = middle
            else:
                low = middle + 1
        return Change("tier", self._key, "", wider[low] - allowed, to=wider[low])

    # --- the group, other jobs, new nodes

    def _parallel(self, _: Explanation) -> Change | None:
        """Let a StatefulSet create its pods at once: one after another, they never reach a minimum above 1."""
        made, pods = self._objects.get(("PodGroup", self._key)), self._pods()
        owner = next((o for o in (pods[0].metadata.owner_references if pods else None) or () if o.controller), None)
        found = self._objects.get(("StatefulSet", f"{pods[0].namespace}/{owner.name}")) if owner else None
        if not isinstance(made, PodGroup) or not isinstance(found, Workload) or self._job.min_available < 2:
            return None
        spec = found.spec or WorkloadSpec()
        missing = (1 if spec.replicas is None else spec.replicas) - len(self._job.tasks)
        if spec.pod_management_policy == "Parallel" or missing < 1:
            return None
        if self._admitted([remedies.renamed(pods[0], f"{pods[0].name}-{number}") for number in range(missing)]):
            return Change("parallel", found.key, "", 1)
        of_controller = any(o.kind == found.kind for o in made.metadata.owner_references or ())
        if of_controller and self._admitted([remedies.smaller(made, 1, self._job.tasks.values())]):
            return Change("ordered", found.key, "", 1, to=1)
        return None

    def _minimum(self, _: Explanation) -> Change | None:
        """Lower the group's minMember, or the minAvailable of its job."""
        made = self._objects.get(("PodGroup", self._key))
        if not isinstance(made, PodGroup) or self._job.min_available < 2:
            return None
        tasks = list(self._job.tasks.values())

        def admits(less: int) -> bool:
            return self._admitted([remedies.smaller(made, made.spec.min_member - less, tasks)])

        found = self._least(admits, (1, 2, 4), most=self._job.min_available - 1)
        if found is None:
            return None
        minimum = made.spec.min_member - found
        owner = next((o for o in made.metadata.owner_references or () if o.kind == "Job"), None)
        if owner is not None:
            # The job's controller writes the minResources that match.
            return Change("minAvailable", f"{made.namespace}/{owner.name}", "", found, to=minimum)
        given = remedies.smaller(made, minimum, tasks).spec.min_resources
        alone = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, min_member=minimum))
        if given == made.spec.min_resources or self._admitted([alone]):
            return Change("minimum", self._key, "", found, to=minimum)
        needed = tuple(sorted((name, str(amount)) for name, amount in (given or {}).items()))
        return Change("minimum", self._key, "", found, to=minimum, min_resources=needed)

    def _fewer(self, explanation: Explanation) -> Change | None:
        """Remove another job: the least important first, then the smallest, then the newest."""
        of_queue = any(b.code not in OF_NODES for b in explanation.blockers)
        others = [j for j in self._state.jobs.values() if j.key != self._key and j.group and not j.service and j.tasks]
        if not of_queue:
            placed = [*(b.pod for b in self._plan.binds), *(n.pod for n in self._plan.nominations)]
            started = {self._state.tasks[pod].group for pod in placed}
            others = [j for j in others if any(j.allocated.values()) or j.key in started]
        order = sorted(others, key=lambda j: (j.priority, len(j.tasks), -j.creation, j.key))
        labels = any(not reason.reason.startswith("Insufficient ") for reason in explanation.nodes)
        tried: set[object] = set()
        for job in order[:JOBS_LOOKED_AT]:
            kind = self._kind(job, of_queue=of_queue, labels=labels)
            if kind in tried:
                continue
            tried.add(kind)
            gone = [("Pod", key) for key in job.tasks if ("Pod", key) in self._objects]
            if self._admitted([], [*gone, ("PodGroup", job.key)]):
                return Change("job", job.key, "", 1)
            if len(tried) == JOBS_TRIED:
                break
        return None

    def _kind(self, job: Job, *, of_queue: bool, labels: bool) -> object:
        """A key for the effect of removing a job: jobs with the same pods on equally full nodes share it.

        Args:
            job: the job.
            of_queue: the group waits for a queue, so the job's queue matters.
            labels: the group waits for more than resources, so labels of pods may matter.
        """
        nodes = self._state.nodes
        idle = nodes.all().idle
        pods = []
        for task in job.tasks.values():
            row = nodes.row_of.get(task.node, -1)
            left = idle[:, row].tobytes() if row >= 0 else b""
            pods.append((id(task.spec), task.label_class if labels else 0, task.status, left))
        queue = job.queue if of_queue else job.queue == self._job.queue
        return (queue, job.phase, tuple(sorted(pods)))

    def _nodes(self, explanation: Explanation, with_them: Iterable[Object] = ()) -> Change | None:
        """Add nodes like an existing one that is large enough for each of the pods.

        Args:
            explanation: the groups ahead may get the new nodes first.
            with_them: objects to change as well.
        """
        template = self._template
        if template is None:
            return None
        size, pods = remedies.offered(template), list(self._waiting())
        if not pods or any(amount > size.get(name, 0) for task in pods for name, amount in task.spec.requests.items()):
            return None

        def admits(count: int) -> bool:
            return self._admitted([*with_them, *self._new_nodes(count)])

        most = min(len(pods) + sum(group.waiting for group in explanation.ahead), MOST_NODES)
        found = self._least(admits, (1, 2, 4), most=most)
        self._whole_nodes_fail = found is None
        return None if found is None else Change("nodes", template.name, "", found)

    def _new_nodes(self, count: int) -> list[Node]:
        """Empty nodes like the template."""
        template = self._template
        return [remedies.twin(template, f"{NEW_NODE}-{number}") for number in range(count)] if template else []

    def _quota_and_nodes(self, explanation: Explanation) -> Change | None:
        """Raise the capability of a queue that blocks, and add nodes."""
        for limit in self._limits(explanation):
            nodes = self._nodes(explanation, [limit.raised(self._total(limit.resource))])
            quota = None if nodes is None else self._more(explanation, limit, self._new_nodes(int(nodes.by)))
            if quota is not None:
                return dataclasses.replace(quota, also=nodes)
        return None

    def _node(self, explanation: Explanation) -> Change | None:
        """Add a node like an existing one, with enough of the scarce resource."""
        template = self._template
        if template is None:
            return None
        needed, whole = self._needed(), remedies.offered(template) if self._whole_nodes_fail else {}
        most = {name: max(int(needed.get(name, 0)), 1) for name in self._scarce(explanation)}
        # New nodes of the usual size did not start it, so smaller ones do not either.
        larger = {name: size for name, size in most.items() if size > whole.get(name, 0)}
        if not larger:
            return None
        # The node stays, empty, during the trials: changing its resources is faster than changing the set of nodes.
        known = ("Node", NEW_NODE)
        self._objects[known] = self._like(template, "cpu", 0, bare=True)
        self._state.apply(Changed(self._objects[known]))
        try:
            return self._sized(explanation, template, larger)
        finally:
            del self._objects[known]
            self._state.apply(Gone(*known))

    def _sized(self, explanation: Explanation, template: Node, largest: Mapping[str, int]) -> Change | None:
        """The smallest sufficient size of the new node in one of the scarce resources."""
        for resource, most in largest.items():

            def admits(size: int, resource: str = resource) -> bool:
                return self._admitted([self._like(template, resource, size)])

            found = self._least(admits, self._shortage(explanation, resource), most=most)
            if found is not None:
                return Change("node", template.name, resource, found)
        return None

    def _like(self, template: Node, resource: str, size: int, *, bare: bool = False) -> Node:
        """A node like another, with an amount of one resource; a bare one has no other resources."""
        status = template.status or NodeStatus()
        given = {} if bare else status.allocatable or status.capacity or {}
        return remedies.twin(template, NEW_NODE, {**given, resource: format_amount(resource, size)})

    @functools.cached_property
    def _template(self) -> Node | None:
        """The largest node that only lacks resources for the group's first waiting pod; else the largest."""
        nodes = (node for node in self._nodes_known() if not node.name.startswith(NEW_NODE))
        return min(nodes, key=self._fitness(), default=None)

    def _fitness(self) -> Callable[[Node], tuple[bool, bool, bool, int, int, str]]:
        """Sort key of nodes: least for the first waiting pod's labels, no taints, and much room."""
        spec = next((task.spec for task in self._waiting()), None)
        wanted = dict(spec.node_selector) if spec else {}
        requested = tuple(spec.requests) if spec else ()

        def fitness(node: Node) -> tuple[bool, bool, bool, int, int, str]:
            has = remedies.offered(node)
            lacking = any(not has.get(name) for name in requested)
            tainted = bool(remedies.hard_taints(node)) or bool(node.spec and node.spec.unschedulable)
            selected = wanted.items() <= node.labels.items()
            return (not selected, lacking, tainted, -has.get("cpu", 0), -has.get("memory", 0), node.name)

        return fitness

    def _nodes_known(self) -> Iterator[Node]:
        """The objects of the nodes, in no particular order."""
        return (obj for obj in self._objects.values() if isinstance(obj, Node))

    def _of(self, kind: type[_Kind]) -> list[_Kind]:
        """The objects of a kind, in the order of their names."""
        return sorted((o for o in self._objects.values() if isinstance(o, kind)), key=object_label)

    def _pods(self) -> list[Pod]:
        """The group's pods that wait, as objects."""
        found = (self._objects.get(("Pod", task.key)) for task in sorted(self._job.pending(), key=lambda t: t.order))
        return [pod for pod in found if isinstance(pod, Pod)]

    # --- amounts

    def _waiting(self) -> Iterator[Task]:
        placed = {entry.pod for entry in self._plan.binds}
        return (t for t in sorted(self._job.pending(), key=lambda t: t.order) if t.key not in placed)

    def _needed(self) -> dict[str, float]:
        """The sum of the requests of the group's waiting pods."""
        total: dict[str, float] = {}
        for task in self._job.pending():
            for name, amount in task.spec.requests.items():
                total[name] = total.get(name, 0) + amount
        return total

    def _scarce(self, explanation: Explanation) -> list[str]:
        """Resources of the blockers, in their order; else those that the pods request."""
        named = [b.resource for b in explanation.blockers if b.resource]
        return list(dict.fromkeys([*named, *(n for n in self._needed() if n != "pods")]))

    def _shortage(self, explanation: Explanation, resource: str) -> list[int]:
        """Estimates of the missing amount, from the blockers and from the total request of the group."""
        needed = int(self._needed().get(resource, 0))
        out = [needed]
        for blocker in explanation.blockers:
            if blocker.resource == resource:
                out += [int(blocker.asked - blocker.left), int(needed - blocker.left), int(blocker.asked)]
        return out

    def _total(self, resource: str) -> int:
        """An amount of a resource above the use of any queue."""
        cluster = int(self._state.nodes.total().get(resource, 0))
        return cluster + int(self._needed().get(resource, 0)) + 1


def _hard(quota: ResourceQuota) -> ResourceMap:
    """The limits of a quota."""
    status, spec = quota.status, quota.spec
    return (status.hard if status else None) or (spec.hard if spec else None) or {}
