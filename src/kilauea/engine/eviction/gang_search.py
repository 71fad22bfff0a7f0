"""Making room for a gang in one network domain: whole domains are searched, and other gangs give way in bundles.

Bundles (`bundles.py`) are added one by one until all that the gang lacks can be placed in the domain
(`gang_plan.py`). Spec of the scheduler, 5.8, with the guarantees of the product's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.bundles import EVICTION, Bundle, Bundles, GangArguments, GangRule, least_of
from kilauea.engine.eviction.gang_plan import GangPlan
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement.gangs import sub_gang_sheets
from kilauea.engine.placement.tasks import Part
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session


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
    """One job's search for a domain in which room can be made for it."""

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
        self._least = least_of(session, tasks, self._lacking())
        self._plan = GangPlan(session, self._rule, self._queue, job, list(self._parts_of(tasks)))
        session.domains.locate(job)
        domains = self._domains()
        for domain in domains:
            if self._holds_enough(domain) and self._plan.place(domain):
                self._plan.keep(self._pool, domain)
                return True
        return self._make_room(domains, tasks)

    def _parts_of(self, tasks: list[Task]) -> Iterator[tuple[Part, list[Task]]]:
        job = self._job
        sheets = sub_gang_sheets(self._session, job, tasks) if job.sub_groups else {job.key: tasks}
        for key, listed in sheets.items():
            yield Part(self._queue, job, job.sub_jobs.get(key)), listed
            if self._session.job_ready(job):
                return

    def _domains(self) -> list[int]:
        """Domains to try; for a job that need not be in one, the whole cluster."""
        session, job = self._session, self._job
        gradient = session.hyper_node_gradient("hyper_node_gradient_for_job", job, 0, EVICTION)
        found = list(dict.fromkeys(domain for group in gradient for domain in group))[: self._arguments.domains]
        if not found and (wish := session.domains.of_job(job)) is not None and wish.tier is not None:
            return []
        return found or [0]

    def _lacking(self) -> int:
        """How many tasks the gang lacks, at least one."""
        job = self._job
        return max(job.min_available - job.ready_count - job.counts[status.PIPELINED] - job.pending_best_effort, 1)

    def _holds_enough(self, domain: int) -> bool:
        """Whether the domain has as much free, all nodes together, as the gang takes at least."""
        free = self._session.nodes.select(self._session.domains.tree.rows[domain]).future_idle
        return bool((np.maximum(free, 0).sum(axis=1) >= self._least).all())

    def _hopeful(self, tasks: Sequence[Task]) -> NDArray[np.bool_]:
        """(N,) nodes on which evictions could make room for any of the tasks."""
        session = self._session
        shapes = {id(session.shape_of(task)): task for task in tasks}
        out = np.zeros(len(session.nodes), dtype=bool)
        for task in shapes.values():
            out |= session.evaluation(task).hopeful()
        return out

    # --- evictions

    def _make_room(self, domains: Sequence[int], tasks: Sequence[Task]) -> bool:
        """Add bundles until the gang can be placed in one of the domains.

        A queue that cannot lose them all may lose them on the wrong nodes; then they are taken node by node.
        """
        plan, hopeful = self._plan, self._hopeful(tasks)
        finder = Bundles(
            self._session,
            self._pool,
            self._eligible,
            self._rule,
            self._queue,
            self._job,
            tasks,
            whole=self._arguments.whole,
        )
        for domain in domains:
            bundles = finder.of(domain, hopeful)
            plan.refused = False
            if self._take_in_turn(bundles, domain):
                return True
            if plan.refused and self._take_in_turn(finder.by_node(bundles), domain):
                return True
        return False

    def _take_in_turn(self, bundles: Iterable[Bundle], domain: int) -> bool:
        plan = self._plan
        for bundle in bundles:
            if plan.add(bundle) and self._holds_enough(domain) and plan.place(domain):
                plan.put_back_what_is_not_needed()
                plan.move_where_less_is_needed(domain, self._holds_enough)
                plan.keep(self._pool, domain)
                return True
        plan.clear()
        return False
