"""Making room for a gang in one network domain: whole domains are searched, and other gangs give way in bundles.

A job that runs gives up to two bundles: `Safe`, the tasks that it can spare, and `Whole`, the gang with all its tasks.
Bundles are added one by one until all that the gang lacks can be placed in the domain, on the state after the
evictions and passing every predicate. Then what turned out not to be needed is put back: spare tasks one by one, gangs
whole. Spec of the scheduler, 5.8, with the guarantees of the product's own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import argument
from kilauea.engine.extension import Refusal
from kilauea.engine.gang_placement import sub_gang_sheets
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, add
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement import Part
from kilauea.engine.queue_turns import QueueTurns
from kilauea.engine.session import Session
from kilauea.engine.spare_tasks import spare_and_rest
from kilauea.engine.statement import PIPELINE
from kilauea.engine.victims import Unit, VictimPool

EVICTION = "Evict"
"""The purpose for which domains are asked."""


@dataclass(frozen=True)
class GangArguments:
    """Arguments of gangpreempt and of gangreclaim."""

    domains: int = argument("maxDomains", 8, "Network domains that are tried for a job.", minimum=1)
    whole: bool = argument("allowWholeBundle", True, "Whether gangs may be evicted whole; else only spare tasks are.")


@dataclass(frozen=True, slots=True)
class GangClaim:
    """Who wants room, as `unified_evictable` is told.

    Attributes:
        action: `gangpreempt` or `gangreclaim`.
        job: the job that wants room.
        domain: number of the network domain in which it wants it.
    """

    action: str
    job: Job
    domain: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job that are thought of together.

    Attributes:
        job: whose tasks they are.
        tasks: what would be evicted.
        whole: they are the whole gang.
        gain: how much of what is wanted they free in the domain, against what the job loses.
    """

    job: Job
    tasks: tuple[Task, ...]
    whole: bool
    gain: float


class GangRule(ABC):
    """What tells gangpreempt and gangreclaim apart."""

    action: str

    @abstractmethod
    def candidates(self, pool: VictimPool, job: Job) -> NDArray[np.bool_]:
        """(T,) tasks of the pool that may be thought of."""

    @abstractmethod
    def in_order(self, session: Session, bundles: Iterable[Bundle], queue: Queue) -> list[Bundle]:
        """Bundles of one kind in the order in which they go."""

    def skips(self, session: Session, queue: Queue) -> bool:
        """Whether a queue gets no turn."""
        return False

    def refusal(self, session: Session, queue: Queue, tasks: Sequence[Task]) -> Refusal | None:
        """Why no room may be made for the tasks of a queue; None if it may."""
        return None

    def floor_holds(self, session: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether these tasks may go together for a queue, after what went already."""
        return True


def claim_for_gangs(session: Session, rule: GangRule, arguments: GangArguments) -> None:
    """Make room for all starving jobs, queue by queue, in each the job that is first."""
    starving = [
        job
        for job in session.waiting_jobs()
        if not job.is_pending and session.job_valid(job) is None and session.job_starving(job)
    ]
    if not starving:
        return
    pool = VictimPool(session)
    jobs = session.state.jobs
    open_to_it = np.array(
        [t.preemptable is not False and jobs[t.group].preemptable is not False for t in pool.tasks], dtype=bool
    )
    turns = QueueTurns(session, starving)
    while (queue := turns.next_queue()) is not None:
        if rule.skips(session, queue):
            continue
        for job in turns.drain(queue):
            Search(session, pool, open_to_it, rule, queue, job, arguments).make()


class Search:
    """One job's search for a domain in which room can be made for it, in one statement."""

    def __init__(
        self,
        session: Session,
        pool: VictimPool,
        open_to_it: NDArray[np.bool_],
        rule: GangRule,
        queue: Queue,
        job: Job,
        arguments: GangArguments,
    ) -> None:
        self._session = session
        self._pool = pool
        self._rule = rule
        self._queue = queue
        self._job = job
        self._arguments = arguments
        self._eligible: NDArray[np.bool_] = rule.candidates(pool, job) & pool.there & open_to_it
        self._statement = session.statement()
        self._units: list[Unit] = []
        self._refused = False
        """A unit stayed because its queue may not lose it."""
        self._inner: dict[str, int] = {}
        """By part: the domain that the plan puts it in."""

    def make(self) -> bool:
        """Evict what it takes to place the job in one domain, and nominate its tasks; nothing is done if that fails."""
        session, job = self._session, self._job
        if not session.job_starving(job):
            return False
        tasks = session.in_order(
            t for t in job.pending() if not (t.gated or t.foreign_gate or t.no_preemption or t.spec.best_effort)
        )
        if not tasks:
            return False
        refusal = self._rule.refusal(session, self._queue, tasks)
        if refusal is not None:
            for task in tasks:
                session.task_refusals.setdefault(task.key, refusal)
            return False
        self._tasks = tasks
        self._need: dict[str, float] = {}
        for task in tasks:
            add(self._need, task.spec.requests)
        self._least, self._smallest = self._least_need()
        self._parts = list(self._parts_of(tasks))
        session.domains.locate(job)
        domains = self._domains()
        for domain in domains:
            if self._holds_enough(domain) and self._place(domain):
                return self._keep(domain)
        hopeful = self._hopeful()
        return any(self._make_room(domain, hopeful) for domain in domains)

    def _parts_of(self, tasks: list[Task]) -> Iterator[tuple[Part, list[Task]]]:
        job = self._job
        sheets = sub_gang_sheets(self._session, job, tasks) if job.sub_groups else {job.key: tasks}
        for key, listed in sheets.items():
            yield Part(self._queue, job, job.sub_jobs.get(key)), listed
            if self._session.job_ready(job):
                return

    # --- domains

    def _domains(self) -> list[int]:
        """Domains to try; for a job that need not be in one, the whole cluster."""
        session, job = self._session, self._job
        gradient = session.hyper_node_gradient("hyper_node_gradient_for_job", job, 0, EVICTION)
        found = list(dict.fromkeys(domain for group in gradient for domain in group))[: self._arguments.domains]
        if not found and (wish := session.domains.of_job(job)) is not None and wish.tier is not None:
            return []
        return found or [0]

    def _least_need(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(R,) what the gang takes at least, whichever of its tasks are placed; and what any one of them does."""
        job, axis = self._job, self._session.axis
        held = job.ready_count + job.counts[status.PIPELINED] + job.pending_best_effort
        lacking = max(job.min_available - held, 1)
        least, smallest = np.zeros(len(axis), dtype=np.int64), np.zeros(len(axis), dtype=np.int64)
        for name, row in axis.rows.items():
            asked = sorted(t.spec.requests.get(name, 0) for t in self._tasks)
            least[row], smallest[row] = sum(asked[:lacking]), asked[0]
        return least, smallest

    def _holds_enough(self, domain: int) -> bool:
        """Whether the domain has as much free, all nodes together, as the gang takes at least."""
        free = self._session.nodes.select(self._session.domains.tree.rows[domain]).future_idle
        return bool((np.maximum(free, 0).sum(axis=1) >= self._least).all())

    def _hopeful(self) -> NDArray[np.bool_]:
        """(N,) nodes on which evictions could make room for any of the tasks."""
        session = self._session
        shapes = {id(session.shape_of(task)): task for task in self._tasks}
        out = np.zeros(len(session.nodes), dtype=bool)
        for task in shapes.values():
            out |= session.evaluation(task).hopeful()
        return out

    # --- bundles

    def _bundles(self, domain: int, hopeful: NDArray[np.bool_]) -> list[Bundle]:
        """What may be evicted for room in a domain, in the order in which it goes."""
        session, pool = self._session, self._pool
        inside = np.zeros(len(session.nodes), dtype=bool)
        inside[session.domains.tree.rows[domain]] = True
        chosen = self._eligible & pool.there & (inside & hopeful)[pool.node]
        room = session.nodes.all().future_idle + pool.room(chosen, len(session.nodes))
        smallest = self._smallest[:, None]
        useful: NDArray[np.bool_] = ((room >= smallest) | (smallest == 0)).all(axis=0)
        chosen &= useful[pool.node]
        by_job: dict[str, list[Task]] = {}
        for index in np.flatnonzero(chosen):
            task = pool.tasks[index]
            by_job.setdefault(task.group, []).append(task)
        found = [b for key, tasks in by_job.items() for b in self._of_job(session.state.jobs[key], tasks)]
        asked = {task.key: task for bundle in found for task in bundle.tasks}
        claim = GangClaim(self._rule.action, self._job, domain)
        let_go = {t.key for t in session.unified_evictable(claim, list(asked.values()))} if asked else set()
        kept = []
        for bundle in found:
            left = tuple(task for task in bundle.tasks if task.key in let_go)
            if bundle.whole and self._arguments.whole and len(left) == len(bundle.tasks):
                kept.append(bundle)
            elif left and not bundle.whole:
                kept.append(Bundle(bundle.job, left, whole=False, gain=math.inf))
        safe, whole = ([b for b in kept if b.whole == kind] for kind in (False, True))
        return [b for kind in (safe, whole) for b in self._rule.in_order(session, kind, self._queue)]

    def _of_job(self, job: Job, here: Sequence[Task]) -> Iterator[Bundle]:
        """The bundles of a job with these tasks in the domain."""
        safe, rest = spare_and_rest(job, here)
        if safe:
            yield Bundle(job, tuple(safe), whole=False, gain=math.inf)
        if not rest or job.counts[status.PIPELINED]:
            return
        mates = [task for task in job.tasks.values() if task.status in status.HOLDING]
        index = self._pool.index
        if all(t.key in index and self._eligible[index[t.key]] and self._pool.there[index[t.key]] for t in mates):
            tasks = tuple(sorted(mates, key=lambda t: t.order))
            yield Bundle(job, tasks, whole=True, gain=self._gain(rest, tasks))

    def _gain(self, here: Sequence[Task], lost: Sequence[Task]) -> float:
        """What evicting tasks brings in the domain, against what their job loses."""
        brings, costs = 0.0, 0.0
        for name, need in self._need.items():
            if need > EPSILON:
                brings += min(sum(t.spec.requests.get(name, 0) for t in here), need) / need
                costs += sum(t.spec.requests.get(name, 0) for t in lost) / need
        return brings / costs if costs else math.inf

    # --- the plan

    def _make_room(self, domain: int, hopeful: NDArray[np.bool_]) -> bool:
        """Add bundles until the gang can be placed in the domain.

        A queue that cannot lose them all may lose them on the wrong nodes; then they are taken node by node.
        """
        bundles = self._bundles(domain, hopeful)
        self._refused = False
        if self._take_in_turn(bundles, domain):
            return True
        return self._refused and self._take_in_turn(self._by_node(bundles), domain)

    def _take_in_turn(self, bundles: Iterable[Bundle], domain: int) -> bool:
        for bundle in bundles:
            if self._add(bundle) and self._holds_enough(domain) and self._place(domain):
                self._put_back_what_is_not_needed()
                self._move_where_less_is_needed(domain)
                return self._keep(domain)
        self._evict_again(())
        return False

    def _by_node(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """The same tasks, the spare ones one by one, node by node, those nodes first that lack the least for a task."""
        nodes, smallest = self._session.nodes, self._smallest[:, None]
        lacking = np.maximum(smallest - np.maximum(nodes.all().future_idle, 0), 0) / np.maximum(smallest, 1)
        place = np.argsort(lacking.sum(axis=0), kind="stable").argsort()
        spare = [(place[nodes.row_of[t.node]], b, t) for b in bundles if not b.whole for t in b.tasks]
        spare.sort(key=lambda entry: entry[0])
        alone = [Bundle(b.job, (task,), whole=False, gain=b.gain) for _, b, task in spare]
        return [*alone, *(bundle for bundle in bundles if bundle.whole)]

    def _add(self, bundle: Bundle) -> bool:
        """Evict a bundle, as far as its queue may lose it; whether anything is evicted that was not."""
        if not bundle.whole:
            before = len(self._units)
            for task in bundle.tasks:
                self._add_unit((task,))
            return len(self._units) > before
        others = [unit for unit in self._units if unit[0].group != bundle.job.key]
        if len(others) == len(self._units):
            return self._add_unit(bundle.tasks)
        # Of a gang that goes whole nothing can be put back alone, so its spare tasks become part of the whole.
        known = self._units
        self._statement.roll_back()
        self._units = []
        if all(self._add_unit(unit) for unit in (*others, bundle.tasks)):
            return True
        self._evict_again(known)
        return False

    def _add_unit(self, unit: Unit) -> bool:
        if not self._rule.floor_holds(self._session, self._queue, unit):
            self._refused = True
            return False
        self._evict(unit)
        self._units.append(unit)
        return True

    def _evict(self, unit: Unit) -> None:
        for victim in unit:
            self._statement.evict(victim, self._rule.action, self._job.key)

    def _evict_again(self, units: Sequence[Unit]) -> None:
        """These units and nothing else, and no nominations."""
        self._statement.roll_back()
        self._units = list(units)
        for unit in units:
            self._evict(unit)

    def _place(self, domain: int) -> bool:
        """Nominate in a domain as many tasks as the job lacks; undone if they are too few."""
        session, job, checkpoint = self._session, self._job, self._statement.checkpoint()
        self._inner.clear()
        waiting: list[tuple[Part, list[Task]]] = []
        for part, tasks in self._parts:
            left = self._place_part(part, tasks, domain)
            if left is not None:
                waiting.append((part, left))
            if self._satisfied():
                break
        for part, tasks in waiting:
            self._nominate(tasks, self._inner.get(part.key, domain), self._satisfied)
        if self._statement.checkpoint() > checkpoint and session.job_pipelined(job):
            return True
        self._statement.roll_back(checkpoint)
        return False

    def _satisfied(self) -> bool:
        """The job lacks nothing that it would evict others for."""
        return self._session.job_pipelined(self._job) and not self._session.job_starving(self._job)

    def _place_part(self, part: Part, tasks: list[Task], domain: int) -> list[Task] | None:
        """Nominate what a sub-gang needs, in the first domain inside the one given; what is left, or None if it fails.

        A job without sub-gangs is placed by `_place`, in the domain itself.
        """
        session, sub_job = self._session, part.sub_job
        if sub_job is None:
            return tasks

        def enough() -> bool:
            return session.sub_job_ready(part.job, sub_job) or session.sub_job_pipelined(part.job, sub_job)

        gradient = session.hyper_node_gradient("hyper_node_gradient_for_sub_job", part, domain, EVICTION)
        for inner in dict.fromkeys(number for group in gradient for number in group):
            checkpoint = self._statement.checkpoint()
            left = self._nominate(tasks, inner, enough)
            if enough():
                self._inner[part.key] = inner
                return left
            self._statement.roll_back(checkpoint)
        return None

    def _nominate(self, tasks: Sequence[Task], domain: int, enough: Callable[[], bool]) -> list[Task]:
        """Nominate tasks in a domain until it is enough; those that are left."""
        session = self._session
        rows = session.domains.tree.rows[domain] if domain > 0 else None
        unfit: set[int] = set()
        left = list(tasks)
        for task in tasks:
            shape = id(session.shape_of(task))
            if enough():
                break
            if shape in unfit or session.allocatable(self._queue, task) or session.pre_predicate(task):
                continue
            choice = session.evaluation(task).choose(rows)
            if choice is None:
                unfit.add(shape)
                continue
            self._statement.pipeline(task, choice.row)
            left.remove(task)
        return left

    def _keep(self, domain: int) -> bool:
        """The plan is taken; where the gang is to be is remembered for the rest of the session."""
        job, domains = self._job, self._session.domains
        if domains.wishes(job):
            for key, inner in ((job.key, domain), *self._inner.items()):
                domains.chosen[key] = domains.tree.common(domains.chosen.get(key, -1), inner)
        self._pool.evicted([victim for unit in self._units for victim in unit], gone=True)
        self._statement.commit()
        return True

    # --- no more than it takes

    def _put_back_what_is_not_needed(self) -> None:
        """Take units off the plan as long as all nominations still fit, those first that were added last."""
        promised = [(op.task, op.row) for op in self._statement.operations if op.kind == PIPELINE]
        alone, together = self._spare_units()
        needed = [unit for unit in self._units if not any(unit is spare for spare in together)]
        if alone and not self._stands(needed, promised):
            needed = self._thinned([*needed, *together], alone, promised)
        for gang in [unit for unit in needed if len(unit) > 1]:
            needed = self._with_part_of(gang, needed, promised)
        self._evict_again(needed)
        for task, row in promised:
            self._statement.pipeline(task, row)

    def _move_where_less_is_needed(self, domain: int) -> None:
        """Take units off the plan without which the gang can be placed on other nodes of the domain."""
        for unit in self._units[::-1]:
            promised = [(op.task, op.row) for op in self._statement.operations if op.kind == PIPELINE]
            units, inner = self._units, dict(self._inner)
            self._evict_again([other for other in units if other is not unit])
            if self._holds_enough(domain) and self._place(domain):
                continue
            self._evict_again(units)
            self._inner = inner
            for task, row in promised:
                self._statement.pipeline(task, row)

    def _thinned(self, units: list[Unit], spare: Sequence[Unit], promised: Sequence[tuple[Task, int]]) -> list[Unit]:
        """The units without those among `spare` that the plan can do without, one after the other."""
        for unit in spare:
            rest = [other for other in units if other is not unit]
            if self._stands(rest, promised):
                units = rest
        return units

    def _with_part_of(self, gang: Unit, units: list[Unit], promised: Sequence[tuple[Task, int]]) -> list[Unit]:
        """The units with only those pods of a gang that are in the way, where it can spare just these.

        Which pods a gang spares was settled before it was known where the claimer goes.
        """
        name, rows, row_of = gang[0].group, {row for _, row in promised}, self._session.nodes.row_of
        others = [unit for unit in units if unit is not gang]
        singles: list[Unit] = [(task,) for task in gang]
        in_the_way = [unit for unit in singles if row_of[unit[0].node] in rows]
        fewer = [*others, *in_the_way]
        if not self._stands(fewer, promised):
            fewer = [*others, *singles]  # the queue's limit asks for more
            if not self._stands(fewer, promised):
                return units
        alone, _ = self._spare_units()
        fewer = self._thinned(fewer, [unit for unit in alone if unit[0].group == name], promised)
        self._evict_again(others)
        gone = [unit[0] for unit in fewer if unit[0].group == name]
        return units if spare_and_rest(self._session.state.jobs[name], gone)[1] else fewer

    def _spare_units(self) -> tuple[list[Unit], list[Unit]]:
        """Units that there is room for beside the nominations, each by itself; and those of them that fit together."""
        session = self._session
        free = session.nodes.all().future_idle.copy()
        untouched, row_of = free.copy(), session.nodes.row_of
        alone, together = [], []
        for unit in reversed(self._units):
            held = np.zeros_like(free)
            for task in unit:
                held[:, row_of[task.node]] += session.shape_of(task).request
            if (held <= np.maximum(untouched, 0)).all():
                alone.append(unit)
                if (held <= np.maximum(free, 0)).all():
                    free -= held
                    together.append(unit)
        return alone, together

    def _stands(self, units: Sequence[Unit], promised: Sequence[tuple[Task, int]]) -> bool:
        """Do the plan again with these units only; whether it holds, on the nodes and in the limits of the queue."""
        session = self._session
        self._statement.roll_back()
        self._units = []
        if not all(self._add_unit(unit) for unit in units):
            return False
        for task, row in promised:
            if session.allocatable(self._queue, task):
                return False
            if session.evaluation(task).choose(np.array([row], dtype=np.intp)) is None:
                return False
            self._statement.pipeline(task, row)
        return True
