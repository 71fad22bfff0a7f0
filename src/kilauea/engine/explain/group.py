"""Why a pod group waits, from its plan: the blockers in order of importance, the nodes, and in which rule each stands.

The smallest change that would admit it is found by trying (`kilauea.simulator.what_if`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kilauea.engine.conf import nearest
from kilauea.engine.explain.formatting import human
from kilauea.engine.explain.hints import node_hints, volume_hint
from kilauea.engine.explain.levels import Borrower, Level
from kilauea.engine.explain.queue_position import Ahead, Holder
from kilauea.engine.explain.victim_diagnosis import Attempt
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import NodeReason, Pending, Plan
from kilauea.engine.state import ClusterState

RULES = {
    "PodGroupNotFound": "a pod names a pod group that exists",
    "PodsNotCreated": "the API server creates the pods of a job before any of them is scheduled",
    "NoScheduler": "a pod names a scheduler that runs",
    "NoPodGroup": "a pod of this scheduler names a pod group",
    "QueueNotFound": "a pod group names a queue that exists",
    "SchedulingGated": "a pod with a scheduling gate waits for the gate to be removed",
    "NotEnoughTasks": "a gang has at least minMember pods before any of them starts",
    "NotEnoughPodsOfTask": "a gang has the minimum of pods of every role before any of them starts",
    "NotAdmitted": "a pod group is admitted before its pods get room",
    "QueueFault": "a queue hangs on the root by parents that exist",
    "QueueNotLeaf": "jobs go to queues without children",
    "QueueClosed": "a queue takes work while it is Open",
    "QueueQuotaInsufficient": "minResources + allocated + inqueue - elastic of a queue stay within what it may use",
    "ClusterOvercommitted": "the minimum of all admitted groups stays within overcommit-factor times the cluster",
    "QueueQuotaExceeded": "what a queue holds stays within what it may use; with proportion, within what it deserves",
    "GetTaskRequestResourceFailed": "a pod's card is one that nodes have, and the pod asks for the resource that it is",
    "InsufficientCPUQuota": "what a queue holds stays within the cpu of its capability",
    "InsufficientMemoryQuota": "what a queue holds stays within the memory of its capability",
    "InsufficientScalarQuota": "what a queue holds of a card stays within its card quota",
    "QueueMayNotReclaim": "a queue takes back as long as it has less than it deserves",
    "QueueOverused": "a queue that has all it deserves waits for the others",
    "VolumesNotReady": "the volume claims of a pod exist and are bound, or may be bound where the pod goes",
    "Unschedulable": "a pod needs one node that has room for it and that nothing rules out",
    "RoomKept": "room that a pod would lose again at once goes to the group that would take it back",
    "GangWaiting": "a gang starts whole or not at all",
    "Nominated": "a pod starts when the room that is being freed for it is free",
    "NotReached": "an action has to deal with the pod",
    "ResourceClaimsUnsupported": "pods with resource claims wait until this version supports them",
}
"""What each code stands for, as a rule."""

STATED = frozenset({"NoPodGroup", "PodGroupNotFound", "VolumesNotReady", "ResourceClaimsUnsupported"})
"""Codes of reasons that name the object to create or correct: no change of the cluster is looked for beyond them."""

ORDER = tuple(RULES)
"""Codes from the most to the least binding; those of plugins stand before `Unschedulable`."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason why pods of the group wait, and how many of them."""

    code: str
    rule: str
    queue: str
    node_class: str
    """The nodes that the pods can use at all, in words."""
    resource: str
    asked: float
    left: float
    message: str
    pods: int


@dataclass(frozen=True, slots=True)
class Change:
    """The smallest single change that admits the group.

    Attributes:
        what: `queue` (make or open it), `quota` (raise a queue's capability), `cards` (raise its card quota), `weight`
            (raise a queue's weight), `namespaceQuota` (raise a ResourceQuota), `gates` (remove scheduling gates),
            `uncordon` (uncordon nodes), `taint` (tolerate or remove a taint), `selector` (remove an entry of the
            nodeSelector), `affinity` (remove required node affinity), `tier` (raise highestTierAllowed), `minimum`
            (lower minMember), `minAvailable` (lower that of a Volcano job), `job` (one job fewer), `nodes` (more nodes
            of a kind), `node` (one more node, of another size).
        object: the queue; the quota; the gates; the nodes; the taint; the entry; the pod group; the job; the node to
            copy.
        resource: what is changed, for a quota and a node; the card.
        by: how much more for a quota, weight or tier; how much less for a minimum; how much of the resource the new
            node offers; how many gated pods, nodes to uncordon, nodes with the taint, or new nodes; 1 otherwise. In the
            engine's units.
        to: the new minimum or tier.
    """

    what: str
    object: str
    resource: str
    by: float
    to: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pod group waits, or that it does not."""

    group: str
    verdict: str
    """`starts`, `starts in part`, `runs`, `waits`, or `unknown`."""
    blockers: tuple[Blocker, ...] = ()
    nodes: tuple[NodeReason, ...] = ()
    change: Change | None = None
    levels: tuple[Level, ...] = ()
    """The queues from the root to the group's own, where a plugin says anything of them."""
    borrowers: tuple[Borrower, ...] = ()
    """Queues that hold more than they deserve, the nearest first: of the queue that blocks, else of all."""
    ahead: tuple[Ahead, ...] = ()
    """Groups that waited too and are asked first: of its own queue, then of queues that come first."""
    holders: tuple[Holder, ...] = ()
    """Groups that hold what it lacks, by resource, those with most first."""
    attempts: tuple[Attempt, ...] = ()
    """Whom the actions that evict thought of, and why each was spared."""
    stated: bool = False
    """The first blocker says itself what to change."""

    @property
    def promised(self) -> bool:
        """The group waits for nothing but room that is being freed for it."""
        return bool(self.blockers) and all(blocker.code == "Nominated" for blocker in self.blockers)


def explain(plan: Plan, state: ClusterState, key: str) -> Explanation:
    """What a plan says of a pod group (`namespace/name`)."""
    job = state.jobs.get(key)
    waiting = [p for p in plan.pending if p.group == key]
    starting = sum(1 for bind in plan.binds if state.tasks[bind.pod].group == key)
    if job is None or not (job.group or job.tasks):
        return Explanation(key, "unknown")
    waiting = list(map(with_hints(state), waiting))
    verdict = "waits"
    if not waiting:
        verdict = "starts" if starting else "runs" if job.ready_count else "waits"
    elif starting or job.ready_count >= max(job.min_available, 1):
        verdict = "starts in part"
    blockers = _blockers(job, waiting)
    if verdict == "waits" and not blockers and job.is_pending:
        blockers = (_without_pods(job, plan),)
    nodes = next((p.nodes for p in sorted(waiting, key=lambda p: rank(p.code)) if p.nodes), ())
    stated = bool(blockers) and blockers[0].code in STATED
    return Explanation(key, verdict, blockers, nodes, stated=stated)


def binding_reasons(plan: Plan) -> dict[str, Pending]:
    """By pod group that waits: the reason of the pod that waits for what binds most, as in its explanation."""
    out: dict[str, Pending] = {}
    for pending in plan.pending:
        known = out.get(pending.group)
        if known is None or (pending.code != known.code and rank(pending.code) < rank(known.code)):
            out[pending.group] = pending
    return out


def with_hint(p: Pending, state: ClusterState) -> Pending:
    """The reason with the names that it leaves out: of claims, labels, taints and nodes, and with the largest size."""
    task = state.tasks.get(p.pod)
    if task is None:
        return p
    if p.code == "Unschedulable":
        return _with_sizes(p, state, task)
    hint = volume_hint(state.storage, task) if p.code == "VolumesNotReady" else ""
    return dataclasses.replace(p, message=f"{p.message}: {hint}") if hint else p


def with_hints(state: ClusterState) -> Callable[[Pending], Pending]:
    """The same for many pods of one state: those that are alike share the answer, which looks at all nodes."""
    known: dict[tuple[object, ...], str] = {}

    def hinted(p: Pending) -> Pending:
        task = state.tasks.get(p.pod)
        key = (p.code, p.message, p.resource, p.asked, p.left, task.spec if task else None)
        if key not in known:
            known[key] = with_hint(p, state).message
        return p if known[key] == p.message else dataclasses.replace(p, message=known[key])

    return hinted


def _with_sizes(p: Pending, state: ClusterState, task: Task) -> Pending:
    """What waits for nodes, with what it asks for and no node has, or with what keeps it away from them."""
    if p.resource and p.nodes and all(n.reason == f"Insufficient {p.resource}" for n in p.nodes):
        largest = int(state.nodes.all().allocatable[state.axis.rows[p.resource]].max())
        if p.asked > largest:
            hint = f"the largest node has {human(p.resource, largest)}" if largest else f"no node has {p.resource}"
            return dataclasses.replace(p, message=f"{p.message.removesuffix('.')}; {hint}")
    for key, value in task.spec.node_selector:
        values = state.nodes.label(key).values
        if value not in values:
            lacking = f"{key}={value}" if values else key
            hint = f"no node has {lacking}{nearest(value, values)}"
            return dataclasses.replace(p, message=f"{p.message.removesuffix('.')}; {hint}")
    hints = node_hints(p.nodes, state.nodes, task.spec)
    return dataclasses.replace(p, message="; ".join([p.message.removesuffix("."), *hints])) if hints else p


def rank(code: str) -> int:
    """How binding a code is; lower is more."""
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
            # What its mates wait for is said already.
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
    """The nodes that a pod asks for, in words."""
    parts = [f"{key}={value}" for key, value in spec.node_selector]
    for term in spec.node_terms or ():
        words = [f"{r.key} {r.operator} {','.join(r.values)}".strip() for r in (*term.expressions, *term.fields)]
        parts.append(" and ".join(words))
    if not parts:
        return "all nodes"
    return "nodes with " + " or ".join(parts)
