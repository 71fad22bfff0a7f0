"""Evictions for a gang in one network domain: whole domains are searched, and other gangs are evicted in bundles.

Bundles (`bundles.py`) are added one by one until all missing tasks of the gang can be placed in the domain, passing
every predicate on the state after the evictions. Then bundles that are not needed are put back, and of a whole gang
only the pods in the way are evicted, if it can spare just these. Spec of the scheduler, 5.8, with additional
guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.bundles import Bundle, Bundles, GangPreemptor, Gangs, Kind, least_of
from kilauea.engine.eviction.floor import Want
from kilauea.engine.eviction.plan import PLANS_TRIED, EvictionPlan
from kilauea.engine.eviction.policy import GangsOfOtherQueues, LesserGangs
from kilauea.engine.eviction.serving import Search
from kilauea.engine.eviction.units import Unit, spare_and_rest
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import PODS, add
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement.gangs import sub_gang_sheets
from kilauea.engine.placement.tasks import Part
from kilauea.engine.session import Session

EVICTION = "Evict"
"""The purpose for which plugins select domains."""

Enough = Callable[[], bool]
"""True if the job has all tasks that others would be evicted for."""


def domain_search(
    session: Session,
    pool: VictimPool,
    gangs: Gangs,
    policy: LesserGangs | GangsOfOtherQueues,
    queue: Queue,
    job: Job,
    *,
    domains: int,
    whole: bool,
) -> Search:
    """Return a search that evicts others for tasks of a job, in a new plan each time; arguments of `DomainSearch`."""

    def search(tasks: Sequence[Task], enough: Enough) -> bool:
        found = DomainSearch(session, pool, gangs, policy, queue, job, domains=domains, whole=whole)
        return found.make(tasks, enough)

    return search


class DomainSearch:
    """The search for a domain in which evictions make room for a job.

    Args:
        session: the cycle.
        pool: the tasks that might be evicted.
        gangs: their gangs.
        policy: the rules of the action.
        queue: the queue of the job.
        job: the job.
        domains: maximum number of domains to try.
        whole: True if whole gangs may be evicted.
    """

    def __init__(
        self,
        session: Session,
        pool: VictimPool,
        gangs: Gangs,
        policy: LesserGangs | GangsOfOtherQueues,
        queue: Queue,
        job: Job,
        *,
        domains: int,
        whole: bool,
    ) -> None:
        self._session = session
        self._pool = pool
        self._gangs = gangs
        self._policy = policy
        self._queue = queue
        self._job = job
        self._most_domains = domains
        self._whole = whole
        self._eligible: NDArray[np.bool_] = policy.candidates(pool, job) & pool.there
        self._plan = EvictionPlan(session, pool, policy, queue, job, gangs=True)
        self._inner: dict[str, int] = {}
        """The domain of each part of the gang in the plan."""
        self._refused = False
        """True if a unit was spared because its queue may not lose it."""
        self._keeping: frozenset[int] = frozenset()
        """Rows of jobs to spare: a plan that evicted their tasks was out of turn."""
        self._crossing = False
        """True if a unit may take a queue below its deserved share."""
        self._evictions = 0
        """Number of bundles that were evicted, including those that were put back."""

    def make(self, tasks: Sequence[Task], enough: Enough) -> bool:
        """Evict others to place tasks in one domain, and nominate the tasks; change nothing if that fails.

        Args:
            tasks: pending tasks, in order.
            enough: the condition to stop.
        """
        session, job = self._session, self._job
        refusal = self._policy.refusal(self._queue, tasks)
        if refusal is not None:
            for task in tasks:
                session.report.task_refusals.setdefault(task.key, refusal)
            return False
        self._enough = enough
        self._asked: dict[str, float] = {}
        for task in tasks[: self._lacking()]:
            add(self._asked, task.spec.requests)
        self._least = least_of(session, tasks, self._lacking())
        self._smallest = least_of(session, tasks, 1)
        self._at_once = min(self._lacking(), len(tasks)) if self._gang_decides() else 1
        self._parts = list(self._parts_of(list(tasks)))
        session.domains.locate(job)
        domains = self._domains()
        for domain in domains:
            if self._holds_enough(domain) and self._place(domain):
                return self._keep(domain)
        for _ in range(PLANS_TRIED):
            known = self._keeping
            if self._make_room(domains, tasks):
                return True
            if self._keeping == known:
                break
            self._eligible &= self._pool.without(self._keeping)
        self._plan.tell_out_of_turn(tasks if self._keeping else ())
        return False

    def _parts_of(self, tasks: list[Task]) -> Iterator[tuple[Part, list[Task]]]:
        job = self._job
        sheets = sub_gang_sheets(self._session, job, tasks) if job.sub_groups else {job.key: tasks}
        for key, listed in sheets.items():
            yield Part(self._queue, job, job.sub_jobs.get(key)), listed
            if self._session.points.job_ready(job):
                return

    def _domains(self) -> list[int]:
        """Return the domains to try; the whole cluster for a job without topology constraint."""
        session, job = self._session, self._job
        gradient = session.hyper_node_gradient("hyper_node_gradient_for_job", job, 0, EVICTION)
        found = list(dict.fromkeys(domain for group in gradient for domain in group))[: self._most_domains]
        if not found and (wish := session.domains.of_job(job)) is not None and wish.tier is not None:
            return []
        return found or [0]

    def _lacking(self) -> int:
        """Return the number of missing tasks of the gang, at least one."""
        job = self._job
        return max(job.min_available - job.ready_count - job.counts[status.PIPELINED] - job.pending_best_effort, 1)

    def _gang_decides(self) -> bool:
        """Return True if no job has enough nominations without its minimum, because the gang plugin votes first."""
        tiers = self._session.points.tiers_of("job_pipelined")
        return bool(tiers) and any(plugin == "gang" for plugin, _ in tiers[0])

    def _holds_enough(self, domain: int) -> bool:
        """Return True if the free resources of all nodes of the domain add up to the minimum of the gang."""
        free = self._session.nodes.select(self._session.domains.tree.rows[domain]).future_idle
        return bool((np.maximum(free, 0).sum(axis=1) >= self._least).all())

    def _slots(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """(N,) how many tasks with the smallest request of each resource have room on each of these nodes."""
        asked = np.flatnonzero(self._smallest)
        if not len(asked):
            return np.full(len(rows), self._at_once)
        free = np.maximum(self._session.nodes.select(rows).future_idle[asked], 0)
        slots: NDArray[np.int64] = (free // self._smallest[asked, None]).min(axis=0)
        return slots

    def _short(self, domain: int) -> frozenset[str]:
        """Return the resources of which all nodes of the domain together have less free than the gang needs."""
        free = self._session.nodes.select(self._session.domains.tree.rows[domain]).future_idle
        lacking = np.maximum(free, 0).sum(axis=1) < self._least
        return frozenset(name for name, row in self._session.axis.rows.items() if lacking[row] and name != PODS)

    def _hopeful(self, tasks: Sequence[Task]) -> NDArray[np.bool_]:
        """(N,) nodes where evictions could free enough resources for any of the tasks."""
        session = self._session
        shapes = {session.shape_of(task): task for task in tasks}
        out = np.zeros(len(session.nodes), dtype=bool)
        for task in shapes.values():
            out |= session.evaluation(task).hopeful()
        return out

    # --- evictions

    def _make_room(self, domains: Sequence[int], tasks: Sequence[Task]) -> bool:
        """Evict bundles until the gang can be placed in one of the domains.

        If a queue cannot lose all of them, it could lose them on the wrong nodes; then they are evicted node by node.
        If no domain fits otherwise, a unit may be evicted that is larger than the excess of its queue.
        """
        policy, hopeful = self._policy, self._hopeful(tasks)
        finder = Bundles(
            self._session,
            self._pool,
            self._gangs,
            self._eligible,
            policy.action,
            lambda claim, tasks: policy.plugins_allow(Want(claim, self._asked), tasks),
            policy.in_order,
            self._queue,
            self._job,
            tasks,
            whole=self._whole,
        )
        found: dict[int, list[Bundle]] = {}
        for self._crossing in (False, True) if policy.may_cross else (False,):
            for domain in domains:
                if domain not in found:
                    found[domain] = finder.of(domain, hopeful)
                bundles = found[domain]
                self._want = Want(GangPreemptor(policy.action, self._job, domain), self._asked, self._short(domain))
                self._refused = False
                if self._take_in_turn(bundles, domain):
                    return True
                if self._refused and self._take_in_turn(finder.by_node(bundles), domain):
                    return True
        return False

    def _take_in_turn(self, bundles: Iterable[Bundle], domain: int) -> bool:
        plan = self._plan
        # Kinds of bundles that were spared since the latest eviction: others of these kinds would be spared, too. Jobs
        # that already lose tasks are excluded, because what else they can lose depends on those.
        spared: set[Kind] = set()
        losing: set[str] = set()
        rows = self._session.domains.tree.rows[domain]
        slots = np.zeros(len(self._session.nodes), dtype=np.int64)
        slots[rows] = self._slots(rows)
        inside = np.zeros(len(slots), dtype=bool)
        inside[rows] = True
        for bundle in self._in_order(bundles):
            kind = None if bundle.job.key in losing else bundle.kind
            if kind in spared:
                continue
            if not self._add(bundle):
                if kind is not None:
                    spared.add(kind)
                continue
            self._evictions += 1
            spared.clear()
            losing.add(bundle.job.key)
            changed = np.unique([self._session.nodes.row_of[task.node] for task in bundle.tasks])
            changed = changed[inside[changed]]
            slots[changed] = self._slots(changed)
            # A search among the nodes costs more, and hundreds of bundles can be needed.
            if slots.sum() >= self._at_once and self._holds_enough(domain) and self._place(domain):
                plan.put_back_what_is_not_needed()
                self._split_gangs()
                self._move_where_less_is_needed(domain)
                keeping = plan.out_of_turn()
                if not keeping:
                    return self._keep(domain)
                self._keeping |= keeping
                break
        plan.restart(())
        return False

    def _in_order(self, bundles: Iterable[Bundle]) -> Iterator[Bundle]:
        """Yield bundles in order; if they may cross, first the one that takes its queue least below its deserved share.

        The overshoot depends on earlier evictions, so it is computed again after each.
        """
        if not self._crossing:
            yield from bundles
            return
        waiting = list(bundles)
        while waiting:
            tasks = {bundle.kind: bundle.tasks for bundle in waiting}
            over = {kind: self._policy.overshoot(self._queue, some) for kind, some in tasks.items()}
            order = sorted(range(len(waiting)), key=[over[bundle.kind] for bundle in waiting].__getitem__)
            before, tried = self._evictions, 0
            while tried < len(order) and self._evictions == before:
                tried += 1
                yield waiting[order[tried - 1]]
            left = sorted(order[tried:])
            waiting = [waiting[number] for number in left]

    def _add(self, bundle: Bundle) -> bool:
        """Evict a bundle, as far as its queue may lose it; return True if this evicts further tasks."""
        plan = self._plan
        if not bundle.whole:
            before = len(plan.units)
            for task in bundle.tasks:
                self._add_unit((task,))
            return len(plan.units) > before
        others = [unit for unit in plan.units if unit[0].group != bundle.job.key]
        if len(others) == len(plan.units):
            return self._add_unit(bundle.tasks)
        # Tasks of a whole gang cannot be put back separately, so its spare tasks become part of the whole.
        known = plan.units
        plan.restart(())
        if all(self._add_unit(unit) for unit in (*others, bundle.tasks)):
            return True
        plan.restart(known)
        return False

    def _add_unit(self, unit: Unit) -> bool:
        if self._policy.keeps(self._queue, self._want, unit, crossing=self._crossing) is not None:
            self._refused = True
            return False
        self._plan.evict([unit])
        self._plan.units.append(unit)
        return True

    # --- nominations

    def _place(self, domain: int) -> bool:
        """Nominate the missing tasks of the job in a domain; undone if they are too few."""
        session, job, plan = self._session, self._job, self._plan
        checkpoint = plan.checkpoint()
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
        if plan.checkpoint() > checkpoint and session.points.job_pipelined(job):
            return True
        plan.undo(checkpoint)
        return False

    def _satisfied(self) -> bool:
        return self._session.points.job_pipelined(self._job) and self._enough()

    def _place_part(self, part: Part, tasks: list[Task], domain: int) -> list[Task] | None:
        """Nominate the tasks of a sub-gang in the first domain inside this one; return the rest, or None if it fails.

        A job without sub-gangs is placed by `_place`, in the domain itself.
        """
        session, sub_job = self._session, part.sub_job
        if sub_job is None:
            return tasks

        def enough() -> bool:
            return session.sub_job_ready(part.job, sub_job) or session.sub_job_pipelined(part.job, sub_job)

        gradient = session.hyper_node_gradient("hyper_node_gradient_for_sub_job", part, domain, EVICTION)
        for inner in dict.fromkeys(number for group in gradient for number in group):
            checkpoint = self._plan.checkpoint()
            left = self._nominate(tasks, inner, enough)
            if enough():
                self._inner[part.key] = inner
                return left
            self._plan.undo(checkpoint)
        return None

    def _nominate(self, tasks: Sequence[Task], domain: int, enough: Enough) -> list[Task]:
        """Nominate tasks in a domain until it is enough; return the rest."""
        session = self._session
        rows = session.domains.tree.rows[domain] if domain > 0 else None
        unfit: set[TaskShape] = set()
        left = list(tasks)
        for task in tasks:
            shape = session.shape_of(task)
            if enough():
                break
            if shape in unfit or session.points.allocatable(self._queue, task) or session.points.pre_predicate(task):
                continue
            choice = session.evaluation(task).choose(rows)
            if choice is None:
                unfit.add(shape)
                continue
            if self._plan.nominate(task, choice.row):
                left.remove(task)
        return left

    def _keep(self, domain: int) -> bool:
        """Keep the plan, and the domain of the gang for the rest of the session."""
        job, domains = self._job, self._session.domains
        if domains.wishes(job):
            for key, inner in ((job.key, domain), *self._inner.items()):
                domains.chosen[key] = domains.tree.common(domains.chosen.get(key, -1), inner)
        self._plan.commit()
        return True

    # --- minimize

    def _split_gangs(self) -> None:
        """Spare the tasks of whole gangs that are not in the way, if their gang can spare just the others.

        The spare pods of a gang were chosen before the nodes of the preemptor were known.
        """
        plan, row_of = self._plan, self._session.nodes.row_of
        promised = plan.nominations()
        rows = {row for _, row in promised}
        for gang in [unit for unit in plan.units if len(unit) > 1]:
            known = plan.units
            others = [unit for unit in known if unit is not gang]
            singles: list[Unit] = [(task,) for task in gang]
            in_the_way = [unit for unit in singles if row_of[unit[0].node] in rows]
            # If the queue's limit needs more than the nodes, pods on other nodes are in the way, too.
            if any(plan.stands([*others, *some], promised) for some in (in_the_way, singles)):
                self._thin_out(singles, promised)
                gone = [unit[0] for unit in plan.units if unit[0].group == gang[0].group]
                fewer = plan.units
                plan.restart(others)
                if not spare_and_rest(self._session.state.jobs[gang[0].group], gone)[1]:
                    plan.stands(fewer, promised)
                    continue
            plan.stands(known, promised)

    def _thin_out(self, singles: Sequence[Unit], promised: Sequence[tuple[Task, int]]) -> None:
        """Put back pods of a gang, one by one, that the plan does not need."""
        plan = self._plan
        for unit in singles:
            if any(unit is taken for taken in plan.units):
                known = plan.units
                if not plan.stands([other for other in known if other is not unit], promised):
                    plan.stands(known, promised)

    def _move_where_less_is_needed(self, domain: int) -> None:
        """Remove units from the plan if the gang can be placed on other nodes of the domain without them."""
        plan = self._plan
        for unit in plan.units[::-1]:
            promised, units, inner = plan.nominations(), plan.units, dict(self._inner)
            plan.restart([other for other in units if other is not unit])
            if self._holds_enough(domain) and self._place(domain):
                continue
            self._inner = inner
            plan.stands(units, promised)
