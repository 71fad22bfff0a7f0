"""Explains from a plan why a pod group waits: its blockers in order of importance, with their rules, and the nodes.

`kilauea.simulator.what_if` finds the smallest change that would admit it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kilauea.engine.conf import nearest
from kilauea.engine.devices.usage import free_cards_text
from kilauea.engine.explain.device_hints import NOTHING, ClaimedDevices, given_cards
from kilauea.engine.explain.formatting import human
from kilauea.engine.explain.hints import (
    NO_CARDS,
    NO_DEVICES,
    NO_DISK,
    NO_VOLUMES,
    NOT_REACHED,
    TOO_MANY_VOLUMES,
    bound_elsewhere,
    full_drivers,
    node_hints,
    nominated_to,
    some,
    terms_text,
    unbound_claims,
    volume_hint,
)
from kilauea.engine.explain.levels import Borrower, Level
from kilauea.engine.explain.queue_position import Ahead, Holder
from kilauea.engine.explain.victim_diagnosis import Attempt
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.status import ENDED
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import NodeReason, Pending, Plan, Refusal
from kilauea.engine.state import ClusterState

RULES = {
    "PodGroupNotFound": "a pod names a pod group that exists",
    "PodsNotCreated": "the API server creates the pods of a job before any of them is scheduled",
    "NoScheduler": "a running scheduler serves the pod's schedulerName",
    "OtherScheduler": "the pods of another scheduler are left to it",
    "NoPodGroup": "a pod of this scheduler belongs to a pod group",
    "QueueNotFound": "a pod group names a queue that exists",
    "SchedulingGated": "a pod with a scheduling gate waits until the gate is removed",
    "NotEnoughTasks": "a gang has at least minMember pods before any of them starts",
    "NotEnoughPodsOfTask": "a gang has the minimum of pods of every task before any of them starts",
    "NoSuchTier": "a gang that has to be close together names a tier of HyperNodes that exists",
    "NotAdmitted": "a pod group is admitted before its pods are placed",
    "QueueFault": "the parents of a queue exist and lead to the root queue",
    "QueueNotLeaf": "jobs run in queues without children",
    "QueuePaused": "no pod starts in a queue while it, or a queue above it, is paused",
    "QueueClosed": "a queue takes jobs only while it is Open",
    "QueueBlocked": "in a queue with dequeueStrategy fifo, a job that cannot start blocks those behind it",
    "QueueQuotaInsufficient": "a gang's minResources must fit into its queue together with those of the admitted gangs",
    "ClusterOvercommitted": "the minimum of all admitted groups stays within overcommit-factor times the cluster",
    "ResourceQuotaInsufficient": "a gang's minResources fit into the ResourceQuotas of its namespace",
    "AdmissionGivenBack": "a group that cannot be placed within a minute gives up its quota until it can be placed",
    "ExtenderRefused": "the configured extender accepts the job or pod",
    "ExtenderFailed": "the configured extender responds, unless it is ignorable",
    "QueueQuotaExceeded": "a queue holds at most what it may use; with proportion, at most what it deserves",
    "GetTaskRequestResourceFailed": "the card of a pod exists on some node, and the pod requests its resource",
    "InsufficientCPUQuota": "the allocated cpu of a queue stays within its capability",
    "InsufficientMemoryQuota": "the allocated memory of a queue stays within its capability",
    "InsufficientScalarQuota": "the allocated cards of a queue stay within its card quota",
    "QueueMayNotReclaim": "a queue reclaims only up to what it deserves",
    "QueueOutOfTurn": "without deserved shares, a queue reclaims only if it stays before the other queue in order",
    "QueueOverused": "a queue that has its deserved share lets others go first",
    "ResourceClaimsNotReady": "the resource claims of a pod exist, and their requests are valid",
    "InsufficientDevices": "a pod needs a node whose cards have enough free memory, cores and slots for it",
    "VolumesNotReady": "the volume claims of a pod exist and are bound, or can be bound on its node",
    "Unschedulable": "a pod needs a node on which it fits and that no rule excludes",
    "RoomKept": "resources that a pod would lose again at once go to the group that would reclaim them",
    "GangWaiting": "a gang starts as a whole or not at all",
    "Nominated": "a pod starts when the resources that are being freed for it are free",
    "NotReached": "an action of the configuration processes the pod",
}
"""The rule for each code."""

STATED = frozenset({"NoPodGroup", "PodGroupNotFound", "VolumesNotReady", "ResourceClaimsNotReady"})
"""Codes of reasons that already name the object to create or correct, so no other change is searched."""

ORDER = tuple(RULES)
"""Codes from the most to the least binding; those of plugins come before `Unschedulable`."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A reason why pods of the group wait, with the number of these pods."""

    code: str
    """The reason, for programs; a key of `RULES` or that of a plugin's rejection."""
    rule: str
    """The rule behind it, in words."""
    queue: str
    """The queue concerned, if any."""
    node_class: str
    """The nodes that the pods may use, as text."""
    resource: str
    """The resource concerned, if any."""
    asked: float
    """The amount requested of the resource, in the engine's units."""
    left: float
    """The amount available of it, in the engine's units."""
    message: str
    """The reason, in words."""
    pods: int
    """The number of pods that wait for it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one kind that admits the group, or a part of two that only help together.

    Attributes:
        what: one of these.
            Of queues: `queue` (create it), `open` (open it), `resume` (resume it), `traverse` (let its jobs start out
            of order), `leaf` (use a queue below it), `quota` (raise its capability), `cards` (raise its card quota),
            `weight` (raise its weight).
            Of a namespace: `namespaceQuota` (raise a ResourceQuota), `priorityClass` (create it).
            Of pods: `gates` (remove scheduling gates), `taint` (tolerate a taint), `selector` (remove entries of the
            nodeSelector), `affinity`, `podAffinity`, `podAntiAffinity` (remove what is required), `spread` (remove
            topology spread constraints), `scheduler` (correct schedulerName).
            Of the group: `tier` (raise highestTierAllowed), `minimum` (lower minMember), `minAvailable` (lower that of
            a Volcano job), `parallel` (let a StatefulSet create its pods at once), `ordered` (set the minimum of a
            StatefulSet that creates one pod after another).
            Of others: `job` (one job fewer), `uncordon` (uncordon nodes), `ready` (get nodes ready), `nodes` (more
            nodes of a kind), `node` (one more node, of another size).
        object: the queue; the quota; the gates; the nodes; the taint; the entry; the pod group; the job; the node to
            copy.
        resource: what is changed, for a quota and a node; the card.
        by: the increase of a quota, weight or tier; the decrease of a minimum; the amount of the resource on the new
            node; the number of gated pods, nodes to uncordon, nodes with the taint, or new nodes; 1 otherwise. In the
            engine's units.
        to: the new minimum or tier.
        min_resources: the new minResources that a lower minMember needs beside it, as pairs of a resource and a
            quantity; empty where minResources may stay.
        also: what has to be changed, too, as no single change admits the group.
    """

    what: str
    object: str
    resource: str
    by: float
    to: int = field(default=0, compare=False)
    min_resources: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    also: Change | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a pod group."""

    group: str
    """The group, as `namespace/name`."""
    verdict: str
    """`starts`, `starts in part`, `runs`, `waits`, `ended` (all of its pods have), or `unknown`."""
    blockers: tuple[Blocker, ...] = ()
    """The reasons why pods wait, the most binding reason first."""
    nodes: tuple[NodeReason, ...] = ()
    """The reasons why nodes do not take its pods."""
    change: Change | None = None
    """The smallest change that would admit it or, if it has its minimum, let another pod start; None for none."""
    levels: tuple[Level, ...] = ()
    """The queues from the root to the group's own, if a plugin reports them."""
    borrowers: tuple[Borrower, ...] = ()
    """Queues that hold more than they deserve, the nearest first: of the queue that blocks, else of all."""
    ahead: tuple[Ahead, ...] = ()
    """Groups ahead of it: in its own queue, then in queues that come first."""
    holders: tuple[Holder, ...] = ()
    """Largest holders of the missing resources, by resource."""
    attempts: tuple[Attempt, ...] = ()
    """The pods that evicting actions considered, with the reason why each was not evicted."""
    stated: bool = False
    """True if the first blocker already names the change."""
    nominated: bool = False
    """True if its minimum, or all of its waiting pods, start as soon as resources that are being released are free."""


def explain(plan: Plan, state: ClusterState, key: str) -> Explanation:
    """The explanation of a pod group (`namespace/name`) from a plan."""
    job = state.jobs.get(key)
    waiting = [p for p in plan.pending if p.group == key]
    starting = sum(1 for bind in plan.binds if state.tasks[bind.pod].group == key)
    if job is None or not (job.group or job.tasks):
        return Explanation(key, "unknown")
    waiting = list(map(with_hints(state, plan), waiting))
    nominated = {n.pod: n.node for n in plan.nominations if state.tasks[n.pod].group == key}
    if len(set(nominated.values())) > 1:
        message = nominated_to(sorted(set(nominated.values())))
        waiting = [dataclasses.replace(p, message=message) if p.code == "Nominated" else p for p in waiting]
    verdict = "waits"
    if not waiting and job.tasks and all(task.status in ENDED for task in job.tasks.values()):
        verdict = "ended"
    elif not waiting:
        verdict = "starts" if starting else "runs" if job.ready_count else "waits"
    elif starting or job.ready_count >= max(job.min_available, 1):
        verdict = "starts in part"
    blockers = _blockers(job, waiting)
    if verdict == "waits" and not blockers and (job.is_pending or not job.tasks):
        blockers = (_without_pods(job, plan),)
    nodes = next((p.nodes for p in sorted(waiting, key=lambda p: rank(p.code)) if p.nodes), ())
    promised = bool(blockers) and all(blocker.code == "Nominated" for blocker in blockers)
    if verdict == "waits" and 0 < len(nominated) >= job.min_available - job.ready_count:
        promised = True
        blockers = tuple(sorted(blockers, key=lambda b: b.code != "Nominated"))
    stated = bool(blockers) and blockers[0].code in STATED
    return Explanation(key, verdict, blockers, nodes, stated=stated, nominated=promised)


def binding_reasons(plan: Plan) -> dict[str, Pending]:
    """The most binding reason of each waiting pod group, as in its explanation."""
    out: dict[str, Pending] = {}
    for pending in plan.pending:
        known = out.get(pending.group)
        if known is None or (pending.code != known.code and rank(pending.code) < rank(known.code)):
            out[pending.group] = pending
    return out


def with_hint(p: Pending, state: ClusterState, plan: Plan = NOTHING, devices: ClaimedDevices | None = None) -> Pending:
    """The reason with added details: names of claims, labels, taints and nodes, and the largest size.

    Args:
        p: a pod that waits, and the reason.
        state: the cluster.
        plan: the plan in which it waits, which gives devices to other pods.
        devices: the devices of claims in that plan, to share them between calls for several pods.
    """
    task = state.tasks.get(p.pod)
    if task is None:
        return p
    if p.code == "Unschedulable":
        return _with_sizes(p, state, task, plan, devices or ClaimedDevices(state.resource_claims, state.nodes, plan))
    if p.code == "QueueQuotaInsufficient":
        return _with_limit(p, state)
    hint = volume_hint(state.storage, task) if p.code == "VolumesNotReady" else ""
    return dataclasses.replace(p, message=f"{p.message}: {hint}") if hint else p


def with_hints(state: ClusterState, plan: Plan = NOTHING) -> Callable[[Pending], Pending]:
    """Details for many pods of one plan: equal pods share the result, which needs all nodes."""
    known: dict[tuple[object, ...], str] = {}
    table, devices = state.resource_claims, ClaimedDevices(state.resource_claims, state.nodes, plan)

    def hinted(p: Pending) -> Pending:
        task = state.tasks.get(p.pod)
        claims = (
            [(ref.name, wish) for ref, wish in zip(task.claims, table.wishes(task.claims, task.uid), strict=True)]
            if task is not None
            else []
        )
        place = task and (task.namespace, task.spec)
        key = (p.code, p.message, p.queue, p.resource, p.asked, p.left, place, *claims)
        if key not in known:
            known[key] = with_hint(p, state, plan, devices).message
        return p if known[key] == p.message else dataclasses.replace(p, message=known[key])

    return hinted


def _with_sizes(p: Pending, state: ClusterState, task: Task, plan: Plan, devices: ClaimedDevices) -> Pending:
    """A reason about nodes, with the request that no node satisfies, or the rules that exclude the nodes."""
    if p.resource and p.nodes and all(n.reason == f"Insufficient {p.resource}" for n in p.nodes):
        largest = int(state.nodes.all().allocatable[state.axis.rows[p.resource]].max())
        if p.asked > largest:
            hint = f"the largest node has {human(p.resource, largest)}" if largest else f"no node has {p.resource}"
            hints = [hint, *served_devices(p.resource, state, task, devices)]
            return dataclasses.replace(p, message="; ".join([p.message.removesuffix("."), *hints]))
    for key, value in task.spec.node_selector:
        values = state.nodes.label(key).values
        if value not in values:
            hint = f"no node has {key}={value}{nearest(value, values)}"
            return dataclasses.replace(p, message=f"{p.message.removesuffix('.')}; {hint}")
    hints = node_hints(p.nodes, state.nodes, task.spec)
    hints += [
        hint
        for resource in state.nodes.by_class
        if any(n.reason == f"Insufficient {resource}" for n in p.nodes)
        for hint in served_devices(resource, state, task, devices)
    ]
    if any(n.reason == NOT_REACHED for n in p.nodes):
        hints += bound_elsewhere(state.storage, task)
    if any(n.reason in NO_VOLUMES for n in p.nodes):
        hints += unbound_claims(state.storage, task)
    if any(n.reason == TOO_MANY_VOLUMES for n in p.nodes):
        hints += full_drivers(state.storage, task)
    if any(n.reason == NO_DISK for n in p.nodes):
        hints.append(f"another pod on the node has {some([disk.name for disk in task.spec.disks])}")
    if any(n.reason == NO_DEVICES for n in p.nodes):
        hints += devices.hints(task)
    if any(n.reason == NO_CARDS for n in p.nodes):
        hints += free_cards_text(state, task, given_cards(plan))
    return dataclasses.replace(p, message="; ".join([p.message.removesuffix("."), *hints])) if hints else p


def served_devices(resource: str, state: ClusterState, task: Task, devices: ClaimedDevices) -> list[str]:
    """The devices that serve an extended resource of a pod."""
    if resource not in state.nodes.by_class:
        return []
    return [hint for hint in devices.hints(task, special=True) if hint.startswith(f"{resource} ")]


def refusal_with_hint(refusal: Refusal, state: ClusterState) -> Refusal:
    """The reason why a group without pods is refused, with the resources that the whole cluster lacks."""
    if not refusal.resource or not len(state.nodes.names):
        return refusal
    hint = "" if state.nodes.total().get(refusal.resource, 0) else f"no node has {refusal.resource}"
    if not hint and refusal.code == "QueueQuotaInsufficient":
        hint = _limit_hint(refusal.queue, refusal.resource, state)
    return refusal._replace(message=f"{refusal.message.removesuffix('.')}; {hint}") if hint else refusal


def _with_limit(p: Pending, state: ClusterState) -> Pending:
    """A reason about a quota; if no queue sets one, it says that the cluster is the limit."""
    hint = _limit_hint(p.queue, p.resource, state) if p.resource else ""
    return dataclasses.replace(p, message=f"{p.message.removesuffix('.')}; {hint}") if hint else p


def _limit_hint(name: str, resource: str, state: ClusterState) -> str:
    """A hint that the cluster itself limits a queue; empty if a capability does."""
    queue, seen = state.queues.get(name), set[str]()
    while queue is not None and queue.name not in seen:
        if queue.capability and resource in queue.capability:
            return ""
        seen.add(queue.name)
        queue = state.queues.get(queue.parent)
    total = state.nodes.total().get(resource, 0)
    return f"no capability limits queue {name}; all nodes together have {human(resource, total)}"


def rank(code: str) -> int:
    """The rank of a code; lower is more binding."""
    return ORDER.index(code) if code in RULES else ORDER.index("Unschedulable") - 1


def _blockers(job: Job, waiting: list[Pending]) -> tuple[Blocker, ...]:
    """The distinct reasons, the most binding first."""
    pods = Counter((p.code, p.message, p.resource, p.asked, p.left) for p in waiting)
    first: dict[tuple[str, str, str, float, float], Pending] = {}
    for p in waiting:
        first.setdefault((p.code, p.message, p.resource, p.asked, p.left), p)
    others = {p.code for p in first.values()} - {"GangWaiting"}
    out = [
        Blocker(
            p.code,
            RULES.get(p.code, "every plugin has to agree"),
            p.queue,
            node_class(job.tasks[p.pod].spec) if p.pod in job.tasks else "",
            p.resource,
            p.asked,
            p.left,
            # The reason of the other pods is already in the list.
            p.message.partition(": ")[0] if p.code == "GangWaiting" and others else p.message,
            pods[key],
        )
        for key, p in first.items()
    ]
    return tuple(sorted(out, key=lambda b: rank(b.code)))


def _without_pods(job: Job, plan: Plan) -> Blocker:
    """A group that waits to be admitted and has no pods yet."""
    outcome = plan.groups.get(job.key)
    phase = outcome.phase if outcome else job.phase
    if outcome is not None and outcome.refusal is not None:
        why = outcome.refusal
        rule = RULES.get(why.code, "every plugin has to agree")
        return Blocker(why.code, rule, job.queue, "", why.resource, why.asked, why.left, why.message, 0)
    code = "NotEnoughTasks" if phase != "Pending" else "NotAdmitted"
    message = "its pods do not exist yet" if phase != "Pending" else "it is not admitted"
    return Blocker(code, RULES[code], job.queue, "", "", 0, 0, message, 0)


def node_class(spec: TaskSpec) -> str:
    """The nodes that a pod selects, as text."""
    parts = [f"{key}={value}" for key, value in spec.node_selector]
    parts += [terms_text(spec.node_terms)] if spec.node_terms else []
    if not parts:
        return "all nodes"
    return "nodes with " + " or ".join(parts)
