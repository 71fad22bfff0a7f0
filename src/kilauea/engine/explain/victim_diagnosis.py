"""Victim diagnosis: the pods that evicting actions consider for a waiting group, and the reason why each is kept.

It is computed afterwards, in the session at the end of its cycle (`replay.py`): every candidate passes through the same
checks as in the action, and the first check that spares it is its reason. Each pod is checked alone, so the reason does
not depend on other evictions; equal pods are checked once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import QUEUE_PLUGINS
from kilauea.engine.eviction.bundles import GangPreemptor
from kilauea.engine.eviction.floor import Want
from kilauea.engine.eviction.policy import OUT_OF_TURN, POLICIES, BetweenJobs, Policy, WithinJob
from kilauea.engine.eviction.victims import VictimPool, in_victim_order, is_served
from kilauea.engine.extension import ABSTAIN, Refusal, victims_and_vote
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.resources import PODS, order_of
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Plan
from kilauea.engine.plan import SpareReason as Reason
from kilauea.engine.queues import fifo
from kilauea.engine.session import Session

EXAMPLES = 2
"""Maximum number of pods named for each reason."""

NODES_LOOKED_AT = 64
"""Maximum number of nodes that are tested for pods that may be evicted together."""

MARKED = Reason("NotPreemptable", "marked as not preemptable (volcano.sh/preemptable)")
GANG = Reason("GangGoesWhole", "its gang can only be evicted as a whole, and one of its pods may not be evicted")
SERVED = Reason("GangIsServed", "its gang can only be evicted as a whole, and other pods are evicted for it")
RULED_OUT = Reason("NodeRuledOut", "the waiting pod cannot run on that node, whatever is evicted")
OTHERS = Reason("NotTogether", "with the other pods that would have to be evicted, its queue would lose too much")
ENOUGH_FOR_ONE = Reason("NotTheWholeGang", "evicting it makes room for only a part of the gang")
NEXT_CYCLE = Reason("MayGo", "nothing protects it now: the next cycle may evict it")


@dataclass(frozen=True, slots=True)
class Spared:
    """Pods of one queue that one reason spares.

    Attributes:
        code: the reason, for programs.
        why: the reason, as the end of "the pod is spared because".
        plugin: the plugin that spares them; empty if the action itself does.
        queue: their queue.
        pods: number of pods.
        groups: number of their pod groups.
        examples: keys of the first few pods.
    """

    code: str
    why: str
    plugin: str
    queue: str
    pods: int
    groups: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The victims that one action considers for a pod that waits.

    Attributes:
        action: name of the action.
        pod: key of the pod: the first of the group for which there is no free room.
        refusal: the reason why the action evicts nothing for it; empty if it looked for victims.
        considered: number of candidates.
        spared: all candidates by reason, the most frequent first.
    """

    action: str
    pod: str
    refusal: str
    considered: int
    spared: tuple[Spared, ...]


def attempts(session: Session, plan: Plan, job: Job) -> tuple[Attempt, ...]:
    """The attempts of each evicting action of the configuration for a job that waits.

    Args:
        session: the session after the plan; this call gives its free resources to the job's pods.
        plan: the plan.
        job: the job.

    Raises:
        PluginFault: a plugin fails.
    """
    pool = VictimPool(session)
    task = _first_without_room(session, job)
    if task is None:
        return ()
    late = [p for p in plan.pending if p.group == job.key and p.code in ("QueueMayNotReclaim", OUT_OF_TURN)]
    blocked = next((p.message for p in plan.pending if p.group == job.key and p.code == fifo.CODE), "")
    out = []
    for policy in (POLICIES[name](session) for name in dict.fromkeys(session.conf.actions) if name in POLICIES):
        refusal, pod = _refusal(session, policy, job, task) or blocked, task.key
        if not refusal and late and policy.elsewhere:
            refusal, pod = _in_words(late[0].code, late[0].message, job.queue), late[0].pod
        inquiry = Inquiry(session, pool, policy, job, task)
        considered, spared = (0, ()) if refusal else inquiry.spared()
        out.append(Attempt(policy.action, pod, refusal, considered, spared))
    return tuple(out)


def _refusal(session: Session, policy: Policy, job: Job, task: Task) -> str:
    """The reason why an action evicts nothing for a task; empty if it may evict."""
    queue = session.queues[job.queue]
    unready = _unready(session, policy, job, task)
    if unready:
        return unready
    if isinstance(policy, BetweenJobs) and session.domains.wishes(job):
        return "groups with a network topology are served by gangpreempt"
    asked = [task] if policy.by_task else [t for t in job.pending() if not (t.gated or t.spec.best_effort)]
    why: Refusal | None = policy.queue_refusal(queue) or policy.refusal(queue, asked)
    if why is None and policy.by_task:
        why = session.pre_predicate(task)
    if why is None:
        return ""
    return _in_words(why.code, why.message, why.queue)


def _unready(session: Session, policy: Policy, job: Job, task: Task) -> str:
    """The reason why all actions skip the group; empty for none."""
    if job.is_pending:
        return "the group is not admitted yet"
    invalid = session.job_valid(job)
    if invalid is not None:
        return invalid.message
    if not policy.serves_pending(session) and not session.job_starving(job):
        return "no plugin reports that the group is starving"
    if task.gated:
        return "the pod has a scheduling gate"
    return "the pod may not preempt others (preemptionPolicy: Never)" if task.no_preemption else ""


def _in_words(code: str, message: str, queue: str) -> str:
    """The reason why a queue gets nothing; plugins only say that it may not reclaim."""
    return f"queue {queue} would exceed its deserved share or its limit" if code == "QueueMayNotReclaim" else message


def _first_without_room(session: Session, job: Job) -> Task | None:
    """The first waiting task without room; earlier ones are nominated to free resources."""
    first: Task | None = None
    statement = session.statement()
    queue = session.queues[job.queue]
    for task in session.in_order(task for task in job.pending() if not task.gated):
        first = first or task
        if session.allocatable(queue, task) or session.pre_predicate(task):
            return task
        choice = session.evaluation(task).choose()
        if choice is None:
            return task
        statement.pipeline(task, choice.row)
    statement.roll_back()
    return first


class Inquiry:
    """The candidates of one action."""

    def __init__(self, session: Session, pool: VictimPool, policy: Policy, job: Job, task: Task) -> None:
        self._session = session
        self._pool = pool
        self._policy = policy
        self._job = job
        self._task = task
        self._initiator = task if policy.by_task else GangPreemptor(policy.action, job, 0)
        self._gangs = not policy.by_task or bool(session.points.tiers_of("job_ready"))
        self._wanted = policy.candidates(pool, job, task)
        if isinstance(policy, BetweenJobs):
            self._wanted = self._wanted | WithinJob(session).candidates(pool, job, task)
        self._known: dict[tuple[object, ...], Reason | None] = {}

    def spared(self) -> tuple[int, tuple[Spared, ...]]:
        """The number of candidates, and all of them by the reason that spares them."""
        considered = list(self._considered())
        wanted = [task for task, why in considered if why is None]
        answers = self._answers(wanted)
        reasons: dict[str, Reason] = {task.key: why for task, why in considered if why is not None}
        free: list[Task] = []
        for task in wanted:
            why = self._alone(task, tuple(task.key in named for named in answers))
            if why is None:
                free.append(task)
            else:
                reasons[task.key] = why
        reasons.update(self._of_nodes(free))
        return len(considered), self._grouped([task for task, _ in considered], reasons)

    # --- candidates

    def _considered(self) -> Iterator[tuple[Task, Reason | None]]:
        """Pods on nodes, in other queues or in the group's own, with the reasons that apply before plugins."""
        session, policy, table = self._session, self._policy, self._session.table
        there = table.counts[[status.BOUND, status.RUNNING]].sum(axis=0) > 0
        for job in session.jobs_where(there):
            if (job.queue != self._job.queue) != policy.elsewhere:
                continue
            for task in sorted(job.tasks.values(), key=lambda t: t.order):
                if task.status in (status.BOUND, status.RUNNING) and task.node in session.nodes.row_of:
                    yield task, self._ruled_out(task)

    def _ruled_out(self, task: Task) -> Reason | None:
        index = self._pool.index.get(task.key)
        if index is None:
            return MARKED
        return None if self._wanted[index] else self._policy.not_a_candidate(self._job, self._task, task)

    # --- what spares a pod

    def _votes(self, tasks: Sequence[Task]) -> list[Task]:
        """The pods that the plugins permit to evict together."""
        return self._session.points.victims(self._policy.point, self._initiator, tasks) if tasks else []

    def _answers(self, tasks: Sequence[Task]) -> list[set[str]]:
        """The victims that each plugin returns for all candidates; pods with the same answers are equal."""
        point, walk = self._policy.point, self._session.points.walk(self._policy.point)
        asked = [self._session.points.ask(point, plugin, f, self._initiator, tasks) for plugin, f in walk if tasks]
        return [{task.key for task in answer[0]} for answer in asked]

    def _alone(self, task: Task, named: tuple[bool, ...]) -> Reason | None:
        """The reason that spares a pod alone; None for none. Equal pods share the answer."""
        kind = (task.group, task.spec, task.role, task.priority, named)
        if kind not in self._known:
            self._known[kind] = self._why(task)
        return self._known[kind]

    def _why(self, task: Task) -> Reason | None:
        session, pool, policy = self._session, self._pool, self._policy
        preemptor = session.queues[self._job.queue]
        reason = policy.spares(preemptor, self._want(task), task)
        if reason is not None:
            return reason
        sparing = self._sparing([task])
        if sparing:
            return session.points.why_spared(policy.point, sparing[-1], self._initiator, task)
        unit = pool.unit(session, task, gangs=self._gangs)
        if unit is None and is_served(session, session.state.jobs[task.group]):
            return SERVED
        if unit is None or any(mate.group == self._job.key and mate is not task for mate in unit):
            return GANG
        if not all(self._wanted[pool.index[mate.key]] for mate in unit):
            return GANG
        if len(unit) > 1 and len(self._votes(unit)) < len(unit):
            return self._of_gang(unit)
        return self._keeps(unit)

    def _keeps(self, unit: Sequence[Task]) -> Reason | None:
        """The reason why queues keep a unit, even as the last unit."""
        preemptor = self._session.queues[self._job.queue]
        return self._policy.keeps(preemptor, self._want(unit[0]), unit, crossing=True)

    def _want(self, victim: Task) -> Want:
        """The resources needed on the node of a victim or, for a gang, in the cluster."""
        session, asked = self._session, self._task.spec.requests
        if not self._policy.by_task:
            return Want(self._initiator, asked)
        node = session.nodes.select(np.array([session.nodes.row_of[victim.node]], dtype=np.intp))
        lacking = (node.future_idle < session.shape_of(self._task).need)[:, 0]
        names = {name for name, row in session.axis.rows.items() if lacking[row]}
        over = self._policy.over_limit(session.queues[self._job.queue], self._task)
        if not names and over is not None and over.resource:
            names = {over.resource}
        return Want(self._initiator, asked, frozenset(names - {PODS}))

    def _of_gang(self, unit: Sequence[Task]) -> Reason:
        """The reason why a gang may not be evicted as a whole, although one of its pods may."""
        plugin = (self._sparing(unit) or [""])[-1]
        rest = "its queue may not lose that much" if plugin in QUEUE_PLUGINS else "one of its pods may not be evicted"
        return Reason(GANG.code, f"its gang of {len(unit)} can only be evicted as a whole, and {rest}", plugin)

    def _sparing(self, tasks: Sequence[Task]) -> list[str]:
        """The first plugin of each tier that protects some of the pods; none if the decision is to evict them."""
        session, point = self._session, self._policy.point
        found: list[str] = []
        if len(self._votes(tasks)) == len(tasks):
            return found
        for tier in session.points.tiers_of(point):
            for plugin, function in tier:
                answer = session.points.ask(point, plugin, function, self._initiator, tasks)
                named, vote = victims_and_vote(point, plugin, answer)
                if vote != ABSTAIN and len(named) < len(tasks):
                    found.append(plugin)
                    break
        return found

    # --- pods that nothing spares

    def _of_nodes(self, free: Sequence[Task]) -> dict[str, Reason]:
        """The reason why evicting pods that nothing spares does not help."""
        session, pool, task = self._session, self._pool, self._task
        if not free:
            return {}
        hopeful = session.evaluation(task).hopeful()
        chosen = np.zeros(len(pool.tasks), dtype=bool)
        chosen[[pool.index[t.key] for t in free]] = True
        short = self._short(chosen)
        together: dict[int, Reason] = {}
        out = {}
        for victim in free:
            row = int(pool.node[pool.index[victim.key]])
            if not hopeful[row]:
                out[victim.key] = RULED_OUT
            elif short[:, row].any():
                out[victim.key] = self._too_small(short[:, row])
            else:
                if row not in together and len(together) < NODES_LOOKED_AT:
                    together[row] = self._together(row, chosen)
                out[victim.key] = together.get(row, self._for_all())
        return out

    def _short(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(R, N) resources that each node would lack for the pod after evicting the chosen ones."""
        nodes = self._session.nodes
        room = nodes.all().future_idle + self._pool.room(chosen, len(nodes))
        short: NDArray[np.bool_] = room < self._session.shape_of(self._task).need
        return short

    def _too_small(self, short: NDArray[np.bool_]) -> Reason:
        names = sorted((self._session.axis.names[i] for i in np.flatnonzero(short)), key=order_of)
        return Reason(
            "NotEnoughRoom", f"its node would have too little {names[0]} even without all pods that may be evicted"
        )

    def _together(self, row: int, chosen: NDArray[np.bool_]) -> Reason:
        """The reason that remains when all pods of a node that may be evicted together are evicted."""
        session, pool = self._session, self._pool
        here = self._votes(pool.on_node(row, chosen)) or pool.on_node(row, chosen)
        going: list[Task] = []
        for victim in in_victim_order(session, here, session.queues[self._job.queue]):
            unit = pool.unit(session, victim, gangs=self._gangs) or (victim,)
            if victim not in going and self._keeps([*going, *unit]) is None:
                going += unit
        mask = np.zeros(len(pool.tasks), dtype=bool)
        mask[[pool.index[t.key] for t in going]] = True
        return OTHERS if self._short(mask)[:, row].any() else self._for_all()

    def _for_all(self) -> Reason:
        lacking = self._job.min_available - self._job.ready_count
        return ENOUGH_FOR_ONE if lacking > 1 else NEXT_CYCLE

    # --- summary

    def _grouped(self, tasks: Sequence[Task], reasons: dict[str, Reason]) -> tuple[Spared, ...]:
        jobs = self._session.state.jobs
        rows: dict[tuple[str, Reason], list[Task]] = {}
        for task in tasks:
            rows.setdefault((jobs[task.group].queue, reasons[task.key]), []).append(task)
        found = [
            Spared(
                why.code,
                why.words,
                why.plugin,
                queue,
                len(of),
                len({task.group for task in of}),
                tuple(task.key for task in of[:EXAMPLES]),
            )
            for (queue, why), of in rows.items()
        ]
        return tuple(sorted(found, key=lambda s: (-s.pods, s.queue, s.code, s.why)))
