"""Making room for a gang by evictions, planned whole.

All tasks that a gang lacks are placed on the cluster as it would be after the evictions, passing every predicate; only
then are the evictions kept. For each task the nodes are found where room could be made, the most promising are tried,
and the one that costs the fewest pods is taken. In the end whatever turned out not to be needed is put back: taking any
one unit off the plan makes it fail. Pods that got
their room in this very cycle give it back first: they have not started, so it costs nobody anything. Spec of the
scheduler, 5.5 and 5.6, with the guarantees of the product's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.victims import Unit, VictimPool, enough_with, in_victim_order, unit_of
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shapes import NOT_ASKED
from kilauea.engine.model.status import PIPELINED
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session
from kilauea.engine.statement import EVICT, Statement

NODES_TRIED = 8
"""Nodes on which a plan is worked out for one task, the most promising first."""

NODES_IN_VAIN = 64
"""Where none of them has one, the next are tried, until so many were tried in vain for tasks of a kind."""


class Rule(ABC):
    """What tells preempt and reclaim apart."""

    action: str

    @abstractmethod
    def candidates(self, pool: VictimPool, task: Task, job: Job) -> NDArray[np.bool_]:
        """(T,) tasks of the pool that may be thought of."""

    @abstractmethod
    def votes(self, session: Session, task: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates that the plugins let go."""

    def refusal(self, session: Session, queue: Queue, task: Task) -> Refusal | None:
        """Why no room may be made for the task; None if it may."""
        return None

    def over_limit(self, session: Session, queue: Queue, task: Task) -> Refusal | None:
        """Why the queue may not have the task beside what it holds now; None if it may."""
        return None

    def floor_holds(self, session: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether these tasks may go together for a queue, after what went already."""
        return True


@dataclass
class Option:
    """A node with the evictions that make room on it for a task."""

    row: int
    units: list[Unit]
    pods: int
    """Pods that are evicted."""
    serves: int
    """Tasks of the same shape that would fit then, as far as the gang lacks them."""
    turn: int
    """The latest turn of any of those that go, in the order in which jobs lose tasks."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """The fewest pods come first; among equals the room that serves the most tasks; then who is to go first."""
        return (self.pods, -self.serves, self.turn)


@dataclass
class Prospect:
    """A node where room could be made, and bounds on what that takes: nothing below them need be tried."""

    row: int
    pods: int
    """No plan takes fewer pods."""
    free: NDArray[np.int64]
    """(R,) what is free there, or costs nobody anything."""
    largest: NDArray[np.int64]
    """(R,) the most that any one candidate holds there."""
    asked: NDArray[np.int64]
    lacking: int
    """Tasks that the job lacks; room for more serves nobody."""

    def may_beat(self, best: Option | None) -> bool:
        """Whether any plan on this node could take fewer pods than an option, or as many and serve more tasks."""
        if best is None:
            return True
        pods, serves, _ = best.rank
        if self.pods != pods:
            return self.pods < pods
        return min(fitting(self.free + pods * self.largest, self.asked), self.lacking) > -serves


def fitting(free: NDArray[np.int64], asked: NDArray[np.int64]) -> int:
    """How many times what is asked for (R,) fits into what is free (R,), at least one."""
    some = asked > 0
    return max(int((free[some] // asked[some]).min()), 1) if some.any() else 1


class Claim:
    """A job's attempt to make room, in one statement."""

    def __init__(self, session: Session, pool: VictimPool, rule: Rule, queue: Queue, job: Job, *, gangs: bool) -> None:
        self._session = session
        self._pool = pool
        self._rule = rule
        self._queue = queue
        self._job = job
        self._gangs = gangs
        self.statement: Statement = session.statement()
        self._units: list[Unit] = []
        self._turns: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._in_vain: dict[tuple[object, ...], int] = {}
        """By kind of task: how many operations there were when no room could be made for it."""

    def make(self, tasks: Sequence[Task]) -> bool:
        """Nominate tasks until the job lacks none, with as few evictions as it takes; undone if that fails."""
        for task in tasks:
            if not self._session.job_starving(self._job):
                break
            self._nominate(task)
        if (self._units or self._waits_for_room()) and self._session.job_pipelined(self._job):
            self._put_back_what_is_not_needed()
            self.statement.commit()
            return True
        self._discard(0)
        return False

    def _waits_for_room(self) -> bool:
        """Whether a nomination needs room that others are about to leave; what is free already is for allocate."""
        session, asked = self._session, dict[int, NDArray[np.int64]]()
        for op in self.statement.operations:
            if op.kind != EVICT:
                need = session.shape_of(op.task).need[:, 0]
                asked[op.row] = asked.get(op.row, 0) + np.where(need == NOT_ASKED, 0, need)
        rows = np.array(sorted(asked), dtype=np.intp)
        idle = session.nodes.select(rows).idle
        return any(bool(((asked[row] > idle[:, i]) & (asked[row] > 0)).any()) for i, row in enumerate(rows.tolist()))

    def _discard(self, checkpoint: int) -> None:
        evicted = [op.task for op in self.statement.operations[checkpoint:] if op.kind == EVICT]
        self.statement.roll_back(checkpoint)
        self._pool.evicted(evicted, gone=False)

    # --- one task

    def _nominate(self, task: Task) -> bool:
        """Promise a task room, free or made; remembers why if there is none."""
        session = self._session
        if task.gated or task.no_preemption:
            return False
        refusal = self._rule.refusal(session, self._queue, task) or session.pre_predicate(task)
        if refusal is not None:
            session.task_refusals.setdefault(task.key, refusal)
            return False
        over = self._rule.over_limit(session, self._queue, task)
        choice = session.evaluation(task).choose() if over is None else None
        if choice is not None:
            self.statement.pipeline(task, choice.row)
            return True
        kind = (session.shape_of(task), task.priority, task.role)
        if self._in_vain.get(kind) == self.statement.checkpoint():
            return False
        option = self._best_option(task)
        if option is None:
            self._in_vain[kind] = self.statement.checkpoint()
            if over is not None:
                session.task_refusals.setdefault(task.key, over)
            return False
        self._evict(option.units)
        self.statement.pipeline(task, option.row)
        self._units.extend(option.units)
        return True

    def _evict(self, units: Sequence[Unit]) -> None:
        for unit in units:
            for victim in unit:
                self.statement.evict(victim, self._rule.action, self._job.key)
            self._pool.evicted(unit, gone=True)

    def _best_option(self, task: Task) -> Option | None:
        """The node where room for the task costs the fewest pods."""
        wanted = self._rule.candidates(self._pool, task, self._job) & self._pool.there
        self._turns = self._pool.turns(self._session, self._queue)
        kind = (type(self._rule), self._queue.name, self._job.priority, task.priority, self._session.shape_of(task))
        in_vain = self._pool.in_vain(kind)
        best = self._best_among(task, wanted, self._promising(task, wanted, in_vain), in_vain)
        while best is None and in_vain.sum() < NODES_IN_VAIN:
            fresh = [p for p in self._promising(task, wanted, in_vain) if not in_vain[p.row]]
            if not fresh:
                break
            best = self._best_among(task, wanted, fresh, in_vain)
        return best

    def _best_among(
        self, task: Task, wanted: NDArray[np.bool_], prospects: Sequence[Prospect], in_vain: NDArray[np.bool_]
    ) -> Option | None:
        """The best option on some nodes; those that have none are noted."""
        best: Option | None = None
        for prospect in prospects:
            if not prospect.may_beat(best):
                continue
            option = self._work_out(task, prospect, wanted, best)
            if best is None:
                in_vain[prospect.row] = option is None
            if option is not None and (best is None or option.rank < best.rank):
                best = option
        return best

    def _lacking(self) -> int:
        """Tasks that the job still lacks, at least one."""
        job = self._job
        return max(job.min_available - job.ready_count - job.counts[PIPELINED], 1)

    def _free(self, row: int) -> NDArray[np.int64]:
        """(R,) what is free on a node, or will be once it is freed."""
        nodes = self._session.nodes
        free: NDArray[np.int64] = nodes.allocatable[:, row] - nodes.used[:, row]
        return free + nodes.releasing[:, row] - nodes.pipelined[:, row]

    def _serves(self, task: Task, row: int) -> int:
        """Tasks of a shape that fit on a node now, as far as the job lacks them."""
        return min(fitting(self._free(row), self._session.shape_of(task).request), self._lacking())

    def _fits(self, task: Task, row: int) -> bool:
        """Whether the task could be placed on the node now; the plugins are asked only where there is room."""
        session = self._session
        if (self._free(row) < session.shape_of(task).need[:, 0]).any():
            return False
        if self._rule.over_limit(session, self._queue, task) is not None:
            return False
        return session.evaluation(task).choose(np.array([row], dtype=np.intp)) is not None

    def _held(self, unit: Unit, row: int) -> NDArray[np.int64]:
        """(R,) what a unit holds on a node."""
        pool = self._pool
        index = [i for i in (pool.index[mate.key] for mate in unit) if pool.node[i] == row]
        held: NDArray[np.int64] = pool.request[:, index].sum(axis=1)
        return held

    def _promising(self, task: Task, wanted: NDArray[np.bool_], in_vain: NDArray[np.bool_]) -> list[Prospect]:
        """Nodes where room could be made, those first that lack the least of what their candidates hold.

        Among equals those first where a job has candidates that is to lose tasks before others.
        Nodes that were tried in vain for tasks of this kind make way for others.
        """
        session = self._session
        nodes, shape = session.nodes, session.shape_of(task)
        need = shape.need
        free = nodes.all().future_idle
        room = self._pool.room(wanted, len(nodes))
        some = room.any(axis=0)
        fresh = wanted & self._pool.fresh
        if fresh.any():
            unstarted = self._pool.room(fresh, len(nodes))
            free, room = free + unstarted, room - unstarted
        fits = (free + room >= need).all(axis=0) & some
        rows = np.flatnonzero(fits & session.evaluation(task).hopeful())
        short = np.where(need == NOT_ASKED, 0, np.maximum(need - free, 0))[:, rows]
        largest = self._pool.largest(wanted, len(nodes))[:, rows]
        pods = np.ceil(np.divide(short, largest, out=np.zeros(short.shape), where=largest > 0)).max(axis=0, initial=0)
        at_least = pods.copy()
        if self._gangs:
            at_minimum = wanted & self._pool.at_minimum() & ~fresh
            alone = self._pool.room(wanted & ~at_minimum & ~fresh, len(nodes))
            whole = ((free + alone)[:, rows] < need).any(axis=0)
            at_least[whole] = np.maximum(pods, self._pool.smallest_gang(at_minimum, len(nodes))[rows])[whole]
        turns = self._pool.earliest(wanted, self._turns, len(nodes))[rows]
        first = np.lexsort((rows, turns, pods, at_least, in_vain[rows]))[:NODES_TRIED]
        first = first[np.lexsort((rows[first], turns[first], pods[first]))]
        lacking = self._lacking()
        return [
            Prospect(
                int(rows[i]),
                max(int(at_least[i]), 0 if fresh.any() else 1),
                free[:, rows[i]],
                largest[:, i],
                shape.request,
                lacking,
            )
            for i in first
        ]

    def _option(self, task: Task, row: int, units: list[Unit]) -> Option:
        """What has just been evicted for a task on a node, as an option."""
        index = [self._pool.index[unit[0].key] for unit in units]
        pods = sum(map(self._pool.cost, units))
        return Option(row, units, pods, self._serves(task, row), int(self._turns[index].max(initial=0)))

    def _work_out(
        self, task: Task, prospect: Prospect, wanted: NDArray[np.bool_], known: Option | None
    ) -> Option | None:
        """The evictions that make room on a node, tried out and taken back; None if they beat no option known."""
        session = self._session
        session.observer.tried(self._rule.action)
        candidates = in_victim_order(session, self._pool.on_node(prospect.row, wanted), self._queue)
        if self._pool.fresh.any():
            candidates.sort(key=lambda task: not self._pool.fresh[self._pool.index[task.key]])
        let_go = {victim.key for victim in self._rule.votes(session, task, candidates)}
        best = self._several(task, [c for c in candidates if c.key in let_go], prospect.row, wanted)
        if best is None or (known is not None and known.rank <= best.rank):
            best = known
        if prospect.may_beat(best):
            best = self._single(task, candidates, let_go, prospect, wanted, best)
        return best

    def _several(self, task: Task, ordered: Sequence[Task], row: int, wanted: NDArray[np.bool_]) -> Option | None:
        """Units in victim order until the task fits, without those that turn out not to be needed."""
        checkpoint = self.statement.checkpoint()
        taken: list[Unit] = []
        found: Option | None = None
        for victim in ordered:
            if not self._pool.has(victim):
                continue
            unit = self._unit(victim, wanted)
            if unit is None or not self._may_go(task, unit):
                continue
            self._evict([unit])
            taken.append(unit)
            if self._fits(task, row):
                found = self._option(task, row, self._needed(task, row, taken, checkpoint))
                break
        self._discard(checkpoint)
        return found

    def _single(
        self,
        task: Task,
        ordered: Sequence[Task],
        let_go: Collection[str],
        prospect: Prospect,
        wanted: NDArray[np.bool_],
        best: Option | None,
    ) -> Option | None:
        """The best of `best` and of single units that make room alone; in victim order among equals.

        A gang at its minimum is spared as long as others have pods to spare; asked about by itself it is not. So those
        that are not let go among all candidates (`let_go`) are asked about alone.
        """
        session, pool, row = self._session, self._pool, prospect.row
        checkpoint = self.statement.checkpoint()
        lacking = session.shape_of(task).need[:, 0] - self._free(row)
        for victim in ordered:
            if not prospect.may_beat(best):
                break
            if not pool.has(victim):
                continue
            unit = self._unit(victim, wanted)
            if unit is None or (best is not None and self._pool.cost(unit) > best.rank[0]):
                continue
            if (self._held(unit, row) < lacking).any():
                continue
            if victim.key not in let_go and not self._rule.votes(session, task, [victim]):
                continue
            if not self._may_go(task, unit):
                continue
            self._evict([unit])
            if self._fits(task, row):
                option = self._option(task, row, [unit])
                best = option if best is None or option.rank < best.rank else best
            self._discard(checkpoint)
        return best

    def _unit(self, victim: Task, wanted: NDArray[np.bool_]) -> Unit | None:
        """What goes with a victim, if all of it is wanted."""
        unit = unit_of(self._session, victim, self._pool, gangs=self._gangs)
        if unit is None or any(mate.group == self._job.key and mate is not victim for mate in unit):
            return None
        if len(unit) > 1 and not all(wanted[self._pool.index[mate.key]] for mate in unit):
            return None
        return unit

    def _may_go(self, task: Task, unit: Unit) -> bool:
        """Whether the plugins and the rule let all of a unit go."""
        if len(unit) > 1 and len(self._rule.votes(self._session, task, unit)) < len(unit):
            return False
        return self._rule.floor_holds(self._session, self._queue, unit)

    def _needed(self, task: Task, row: int, taken: list[Unit], checkpoint: int) -> list[Unit]:
        """The units without which the task would not fit, the others put back, the most important first.

        All of them are evicted when this is called, and those that are needed when it returns.
        """
        needed = list(taken)
        need = self._session.shape_of(task).need[:, 0]
        for unit in reversed(taken):
            without = [u for u in needed if u is not unit]
            if (self._free(row) - self._held(unit, row) < need).any() or not self._may_stay(unit, without):
                continue
            self._discard(checkpoint)
            self._evict(without)
            if self._fits(task, row):
                needed = without
            else:
                self._discard(checkpoint)
                self._evict(needed)
        return needed

    def _may_stay(self, unit: Unit, others: Sequence[Unit]) -> bool:
        """Whether a unit that goes can be put back while the others go; not as the rest of a gang, too few to work."""
        group = unit[0].group
        going = sum(len(other) for other in others if other[0].group == group)
        return not self._gangs or going == 0 or enough_with(self._session.state.jobs[group], unit)

    # --- the whole plan

    def _put_back_what_is_not_needed(self) -> None:
        """Take units off the plan as long as all nominations still fit."""
        if len(self._units) < 2:
            return
        promised = [(op.task, op.row) for op in self.statement.operations if op.kind != EVICT]
        asked: dict[int, NDArray[np.int64]] = {}
        for task, row in promised:
            asked[row] = asked.get(row, 0) + self._session.shape_of(task).request
        last_first = list(reversed(self._units))
        last_first.sort(key=lambda unit: not self._pool.cost(unit))
        for unit in last_first:
            rest = [u for u in self._units if u is not unit]
            if self._clearly_needed(unit, asked) or not self._may_stay(unit, rest):
                continue
            self._discard(0)
            self._evict(rest)
            if self._promise_again(promised):
                self._units = rest
            else:
                self._discard(0)
                self._evict(self._units)
                self._promise_again(promised)

    def _clearly_needed(self, unit: Unit, asked: dict[int, NDArray[np.int64]]) -> bool:
        """Whether a node would have less of something than is promised on it (`asked`, by row) without a unit."""
        for row in {int(self._pool.node[self._pool.index[mate.key]]) for mate in unit} & asked.keys():
            short = self._free(row) < self._held(unit, row)
            if (short & (asked[row] > 0)).any():
                return True
        return False

    def _promise_again(self, promised: Sequence[tuple[Task, int]]) -> bool:
        for task, row in promised:
            if not self._fits(task, row):
                return False
            self.statement.pipeline(task, row)
        return True
