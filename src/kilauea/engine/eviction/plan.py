"""One plan of an eviction: units are evicted and tasks nominated, tried in a statement, and kept or dropped together.

    plan = EvictionPlan(session, pool, policy, queue, job)
    plan.evict([unit]); plan.nominate(task, row)          # try; `undo(checkpoint)` takes back
    plan.put_back_what_is_not_needed(); plan.commit()     # minimise, keep

Everything takes effect in the session immediately, so all later checks see the cluster as it would be. The searches
(`by_node.py`, `by_domain.py`) decide which units to try.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.policy import OUT_OF_TURN, Policy
from kilauea.engine.eviction.units import Unit, enough_with
from kilauea.engine.eviction.victims import VictimPool
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shapes import NOT_ASKED
from kilauea.engine.model.status import PIPELINED
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement.promises import can_be_completed, drop_nominations, start_where_free
from kilauea.engine.session import Session
from kilauea.engine.statement import EVICT, PIPELINE

Nominations = Sequence[tuple[Task, int]]
"""Tasks with the rows of their nodes."""
PLANS_TRIED = 8
"""Maximum number of plans for the same tasks, each without the jobs that the previous one may not evict from."""


class EvictionPlan:
    """Evictions and nominations for one job.

    Args:
        session: the cycle.
        pool: the tasks that might be evicted; updated with the evictions of the plan.
        policy: the rules of the action.
        queue: the queue of the job.
        job: the job that needs resources.
        gangs: True if gangs at their minimum are evicted as a whole.

    Attributes:
        units: the units of the plan so far; `evict` alone does not add to it.
    """

    def __init__(
        self, session: Session, pool: VictimPool, policy: Policy, queue: Queue, job: Job, *, gangs: bool
    ) -> None:
        self.session = session
        self.pool = pool
        self.policy = policy
        self.queue = queue
        self.job = job
        self.gangs = gangs
        self.units: list[Unit] = []
        self._come_first: list[str] = []
        """Names of queues that would go before the plan's own queue after their losses."""
        self._statement = session.statement()
        self._axis = session.axis

    # --- try

    def checkpoint(self) -> int:
        """Return a point to undo to."""
        return self._statement.checkpoint()

    def evict(self, units: Sequence[Unit]) -> None:
        """Evict units."""
        for unit in units:
            for victim in unit:
                self._statement.release(victim, self.policy.action, self.job.key)
            self.pool.evicted(unit, gone=True)

    def nominate(self, task: Task, row: int) -> bool:
        """Nominate a task to a node; return False, without a nomination, if a plugin refuses it there."""
        checkpoint = self.checkpoint()
        self._statement.take(task, row, now=False)
        objection = self.session.points.objections.get(task.key)
        if objection is None:
            return True
        self._statement.roll_back(checkpoint)
        self.session.report.task_refusals.setdefault(task.key, objection)
        return False

    def undo(self, checkpoint: int = 0) -> None:
        """Undo everything since a checkpoint."""
        evicted = [op.task for op in self._statement.operations[checkpoint:] if op.kind == EVICT]
        self._statement.roll_back(checkpoint)
        self.pool.evicted(evicted, gone=False)

    def nominations(self) -> list[tuple[Task, int]]:
        """Return the nominations so far."""
        return [(op.task, op.row) for op in self._statement.operations if op.kind == PIPELINE]

    def restart(self, units: Sequence[Unit]) -> None:
        """Start over with only these units evicted, and without nominations."""
        self.undo()
        self.units = list(units)
        self.evict(units)

    def free(self, row: int) -> NDArray[np.int64]:
        """(R,) resources of a node that are free now or will be."""
        # The first four parts of the block, in the order of `columns_of`. Called for each unit, so with few views.
        parts = self.session.nodes.block[: 4 * len(self._axis), row].reshape(4, -1)
        free: NDArray[np.int64] = parts[0] - parts[1] + parts[2] - parts[3]
        return free

    def fits(self, task: Task, row: int) -> bool:
        """Return True if a task could be placed on a node now; plugins are called only if its resources are enough."""
        session = self.session
        if (self.free(row) < session.shape_of(task).need[:, 0]).any():
            return False
        if self.policy.over_limit(self.queue, task) is not None:
            return False
        return session.evaluation(task).choose(np.array([row], dtype=np.intp)) is not None

    def held(self, unit: Unit, row: int) -> NDArray[np.int64]:
        """(R,) resources that a unit holds on a node."""
        pool = self.pool
        index = [i for i in (pool.index[mate.key] for mate in unit) if pool.node[i] == row]
        # A view, because most units are one pod.
        held: NDArray[np.int64] = pool.request[:, index[0]] if len(index) == 1 else pool.request[:, index].sum(axis=1)
        return held

    def may_stay(self, unit: Unit, others: Sequence[Unit]) -> bool:
        """Return True if an evicted unit can be put back, and its gang has its minimum then."""
        return self._may_stay([unit], others)

    def _may_stay(self, units: Iterable[Unit], others: Iterable[Unit]) -> bool:
        """Return True if each of these evicted units, if it alone is put back, leaves its gang with its minimum."""
        if not self.gangs:
            return True
        losing = {other[0].group for other in others}
        jobs = self.session.state.jobs
        return all(unit[0].group not in losing or enough_with(jobs[unit[0].group], unit) for unit in units)

    # --- minimize

    def put_back_what_is_not_needed(self) -> None:
        """Remove units from the plan as long as all nominations still fit, in reverse order."""
        if len(self.units) < 2:
            return
        promised = self.nominations()
        asked = self._asked(promised)
        # A unit that is needed now is still needed after others are put back.
        last_first = [unit for unit in reversed(self.units) if not self._clearly_needed(unit, asked)]
        # Units that have not started cost nothing, so they are put back last.
        last_first.sort(key=lambda unit: not self.pool.cost(unit))
        together = self._fitting_together(last_first, asked)
        if len(together) > 1:
            self._put_back(together, promised)
        there = set(map(id, self.units))
        for unit in last_first:
            if id(unit) in there and not self._clearly_needed(unit, asked) and self._put_back([unit], promised):
                there.discard(id(unit))

    def _put_back(self, units: Sequence[Unit], promised: Nominations) -> bool:
        """Redo the plan without some of its units, or with them if it fails without."""
        before, going = self.units, set(map(id, units))
        rest = [other for other in before if id(other) not in going]
        if not self._may_stay(units, rest):
            return False
        if self.stands(rest, promised):
            return True
        self.stands(before, promised)
        return False

    def stands(self, units: Sequence[Unit], promised: Nominations) -> bool:
        """Redo the plan with these units only; return True if it fits on the nodes and within the queue's limits."""
        self.restart(units)
        return all(self.fits(task, row) and self.nominate(task, row) for task, row in promised)

    def _asked(self, promised: Nominations) -> dict[int, NDArray[np.int64]]:
        """Nominated requests (R,) by row of the node."""
        asked: dict[int, NDArray[np.int64]] = {}
        for task, row in promised:
            asked[row] = asked.get(row, 0) + self.session.shape_of(task).request
        return asked

    def _clearly_needed(self, unit: Unit, asked: dict[int, NDArray[np.int64]]) -> bool:
        """Return True if nominations on a node would not fit without a unit."""
        for row in {int(self.pool.node[self.pool.index[mate.key]]) for mate in unit} & asked.keys():
            short = self.free(row) < self.held(unit, row)
            if (short & (asked[row] > 0)).any():
                return True
        return False

    def _fitting_together(self, units: Sequence[Unit], asked: dict[int, NDArray[np.int64]]) -> list[Unit]:
        """Return units that fit back together next to the nominations; together, they need only one try."""
        pool, left, found = self.pool, dict[int, NDArray[np.int64]](), []
        for unit in units:
            rows = {int(pool.node[pool.index[mate.key]]) for mate in unit} & asked.keys()
            held = {row: self.held(unit, row) for row in rows}
            room = {row: left.get(row, self.free(row)) for row in rows}
            if all(((held[row] <= room[row]) | (asked[row] == 0)).all() for row in rows):
                left.update({row: room[row] - held[row] for row in rows})
                found.append(unit)
        return found

    # --- keep

    def waits_for_room(self) -> bool:
        """True if a nomination needs resources that are being released; allocate uses those that are free already."""
        asked: dict[int, NDArray[np.int64]] = {}
        for task, row in self.nominations():
            need = self.session.shape_of(task).need[:, 0]
            asked[row] = asked.get(row, 0) + np.where(need == NOT_ASKED, 0, need)
        rows = np.array(sorted(asked), dtype=np.intp)
        idle = self.session.nodes.select(rows).idle
        return any(bool(((asked[row] > idle[:, i]) & (asked[row] > 0)).any()) for i, row in enumerate(rows.tolist()))

    def out_of_turn(self) -> frozenset[int]:
        """Return the rows of jobs that the plan may not evict from: their queues would go before the plan's own."""
        jobs, queues = self.session.state.jobs, self.policy.out_of_turn(self.queue, self.units)
        self._come_first += [name for name in sorted(queues) if name not in self._come_first]
        losers = (jobs[unit[0].group] for unit in self.units)
        return frozenset(job.row for job in losers if job.queue in queues)

    def tell_out_of_turn(self, tasks: Iterable[Task]) -> None:
        """Set the reason of tasks that the order of queues allows no plan; at least one was out of turn."""
        for task in tasks:
            first = self._come_first[0]
            message = f"queue {self.queue.name} would come after queue {first} if it took this room from it"
            refusal = Refusal(OUT_OF_TURN, message, self.queue.name)
            self.session.report.task_refusals.setdefault(task.key, refusal)

    def commit(self) -> None:
        """Keep the plan. If its victims are only pods that have not started, its tasks start instead of them.

        If they waited for the next cycle, allocate would place the others there again, and so on forever. Nominations
        of a gang that the plan leaves incomplete are dropped, because they would hold resources for nothing.
        """
        promised, costs = self.nominations(), sum(map(self.pool.cost, self.units))
        self._statement.commit()
        self.pool.commits += 1
        for key in dict.fromkeys(unit[0].group for unit in self.units):
            job = self.session.state.jobs[key]
            if job.counts[PIPELINED] and not can_be_completed(self.session, job):
                drop_nominations(self.session, job)
        if not costs:
            start_where_free(self.session, self.job, promised)
