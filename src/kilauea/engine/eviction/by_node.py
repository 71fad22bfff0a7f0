"""Evictions for a gang node by node: for one task after another, the node where the fewest pods are evicted.

All tasks that a gang lacks are placed on the cluster as it would be after the evictions, passing every predicate; only
then is the plan kept (`plan.py`). For each task the nodes are found where room could be made, the most promising are
tried out, and the one that costs the fewest pods is taken. Pods that were to start in this very cycle give their room
back first: they have not started, so that evicts no pod. Spec of the scheduler, 5.5 and 5.6, with the product's own
guarantees.

Services (`services.py`) are served as by Kubernetes' own scheduler: the least important victims rather than the fewest.

Two rules stand above the number of pods. Victims come from the queues nearest to the preemptor's as long as these can
make the room, on whichever node. And no queue is taken below what it deserves as long as any other choice serves the
preemptor; only then may the one unit that is larger than the excess go (`floor.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.eviction.floor import Want
from kilauea.engine.eviction.plan import PLANS_TRIED, EvictionPlan
from kilauea.engine.eviction.policy import Policy
from kilauea.engine.eviction.serving import Search
from kilauea.engine.eviction.units import Unit
from kilauea.engine.eviction.victims import VictimPool, in_victim_order
from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import PODS
from kilauea.engine.model.shapes import NOT_ASKED
from kilauea.engine.model.status import PIPELINED
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

NODES_TRIED = 8
"""Nodes on which a plan is worked out for one task, the most promising first."""

NODES_IN_VAIN = 64
"""If none of them has one, the next are tried, until so many were tried in vain for tasks of a kind."""

_LOWEST = -(2**31)
"""The lowest priority that there is."""


@dataclass
class Option:
    """A node with the evictions that make room on it for a task."""

    row: int
    units: list[Unit]
    overshoot: float
    """The amount by which they take queues below what these deserve."""
    pods: int
    """Pods that are evicted."""
    serves: int
    """Tasks of the same shape that would fit then, as far as the gang lacks them."""
    turn: int
    """The latest turn of any of those that go, in the order in which jobs lose tasks."""
    priority: int
    """The highest priority of any of those that go; 0 where priority does not rank nodes."""

    @property
    def rank(self) -> tuple[float, int, int, int, int]:
        """Least below what is deserved, then fewest pods, then room for the most tasks, then who is to go first.

        For services, the least important victims come before the fewest, as with Kubernetes' own scheduler.
        """
        return (self.overshoot, self.priority, self.pods, -self.serves, self.turn)


@dataclass
class Prospect:
    """A node where room could be made, and bounds on what that takes: nothing below them need be tried."""

    row: int
    pods: int
    """No plan takes fewer pods."""
    free: NDArray[np.int64]
    """(R,) what is free there, or costs nothing to take back."""
    largest: NDArray[np.int64]
    """(R,) the most that any one candidate holds there."""
    asked: NDArray[np.int64]
    lacking: int
    """Tasks that the job lacks; room for more serves nothing."""
    by_priority: bool
    """Plans are ranked by the priority of victims first, so the number of pods bounds nothing."""

    def may_beat(self, best: Option | None) -> bool:
        """Return True if a plan on this node could take fewer pods than an option, or as many and serve more tasks."""
        if best is None or best.overshoot > 0 or self.by_priority:
            return True
        pods, serves = best.pods, -best.serves
        if self.pods != pods:
            return self.pods < pods
        return min(fitting(self.free + pods * self.largest, self.asked), self.lacking) > -serves


def fitting(free: NDArray[np.int64], asked: NDArray[np.int64]) -> int:
    """Return the number of times a request (R,) fits into what is free (R,), at least one."""
    some = asked > 0
    return max(int((free[some] // asked[some]).min()), 1) if some.any() else 1


@dataclass
class Attempt:
    """One look for room for a task: whose pods may go, and how much of them.

    Attributes:
        task: the task.
        wanted: (T,) tasks of the pool that may be thought of.
        crossing: a unit may take a queue from above to below what it deserves.
        turns: (T,) the turn of each task's job to lose tasks.
        in_vain: (N,) nodes that were tried in vain for tasks of this kind.
        kind: what tells tasks apart for which the same nodes are tried in vain.
        over: why the queue may not have the task beside what it holds.
        want: what room is wanted for on the node that is being looked at.
    """

    task: Task
    wanted: NDArray[np.bool_]
    crossing: bool
    turns: NDArray[np.int64]
    in_vain: NDArray[np.bool_]
    kind: tuple[object, ...]
    over: Refusal | None
    want: Want


def node_search(session: Session, pool: VictimPool, policy: Policy, queue: Queue, job: Job, *, gangs: bool) -> Search:
    """Return a search that makes room for tasks of a job, each time in a new plan."""
    return lambda tasks, enough: NodeSearch(session, pool, policy, queue, job, gangs=gangs).make(tasks, enough)


class NodeSearch:
    """A job's search for room, in one plan."""

    def __init__(
        self, session: Session, pool: VictimPool, policy: Policy, queue: Queue, job: Job, *, gangs: bool
    ) -> None:
        self._session = session
        self._pool = pool
        self._policy = policy
        self._queue = queue
        self._job = job
        self._plan = EvictionPlan(session, pool, policy, queue, job, gangs=gangs)
        self._in_vain: dict[tuple[object, ...], int] = {}
        """By kind of task: how many operations there were when no room could be made for it."""
        self._keeping: frozenset[int] = frozenset()
        """Rows of jobs that keep what they have: a plan that took from them was out of turn."""

    def make(self, tasks: Sequence[Task], enough: Callable[[], bool]) -> bool:
        """Nominate tasks until it is enough, with as few evictions as it takes; undone if the gang is not complete."""
        plan, refused = self._plan, list[Task]()
        for _ in range(PLANS_TRIED):
            if not self._make_plan(tasks, enough):
                break
            keeping = plan.out_of_turn()
            if not keeping:
                plan.commit()
                return True
            refused += [task for task, _ in plan.nominations()]
            plan.restart(())
            self._keeping |= keeping
            # Other victims come into question now, so what was in vain need not be.
            self._in_vain.clear()
        plan.undo()
        plan.tell_out_of_turn(refused)
        return False

    def _make_plan(self, tasks: Sequence[Task], enough: Callable[[], bool]) -> bool:
        """Return True if there is a plan with which the gang is complete, without what it does not need."""
        plan = self._plan
        for task in tasks:
            if enough():
                break
            self._nominate(task)
        if not (plan.units or plan.waits_for_room()) or not self._session.points.job_pipelined(self._job):
            return False
        plan.put_back_what_is_not_needed()
        return True

    # --- one task

    def _nominate(self, task: Task) -> bool:
        """Promise a task room, free or made; remembers why if there is none."""
        session, plan = self._session, self._plan
        if task.gated or task.no_preemption:
            return False
        refusal = self._policy.refusal(self._queue, [task]) or session.points.pre_predicate(task)
        if refusal is not None:
            session.report.task_refusals.setdefault(task.key, refusal)
            return False
        over = self._policy.over_limit(self._queue, task)
        choice = session.evaluation(task).choose() if over is None else None
        if choice is not None:
            return plan.nominate(task, choice.row)
        kind = (session.shape_of(task), task.priority, task.role)
        # A task like this found no room, and the plan has not grown since.
        if self._in_vain.get(kind) == plan.checkpoint():
            return False
        option = self._best_option(task, over)
        if option is None:
            self._in_vain[kind] = plan.checkpoint()
            if over is not None:
                session.report.task_refusals.setdefault(task.key, over)
            return False
        checkpoint = plan.checkpoint()
        plan.evict(option.units)
        if not plan.nominate(task, option.row):
            plan.undo(checkpoint)
            return False
        plan.units.extend(option.units)
        return True

    def _best_option(self, task: Task, over: Refusal | None) -> Option | None:
        """The node where room for the task costs the fewest pods, of the first attempt that finds any."""
        futile, pool = self._futile_kind(task, over), self._pool
        if futile is not None and pool.futile.get(futile) == pool.commits:
            return None
        for attempt in self._attempts(task, over):
            option = self._best_of(attempt)
            if option is not None:
                return option
        if futile is not None:
            pool.futile[futile] = pool.commits
        return None

    def _futile_kind(self, task: Task, over: Refusal | None) -> tuple[object, ...] | None:
        """Key of tasks for which the same search must end the same as long as no plan is kept.

        None where that is not known: in the middle of a plan, for votes that look at the job (preempt), and for those
        of plugins that users bring, which may look at anything. At rest a cycle then searches once for each kind.
        """
        if not self._policy.elsewhere or self._plan.checkpoint() or self._session.points.has_user_plugins:
            return None
        job, limited = self._job, over.resource if over is not None else None
        kind = (self._queue.name, job.priority, job.service_type, task.priority, task.owner_kind, task.preemptable)
        return (*kind, self._keeping, self._session.shape_of(task), limited)

    def _attempts(self, task: Task, over: Refusal | None) -> Iterator[Attempt]:
        """Attempts in order: the nearest queues, then farther ones too; then all of them, with units that cross."""
        pool, session = self._pool, self._session
        wanted = self._policy.candidates(pool, self._job, task) & pool.there & pool.without(self._keeping)
        turns = pool.turns(session, self._queue)
        by = (type(self._policy), self._queue.name, self._job.priority, self._keeping)
        kind = (*by, task.priority, session.shape_of(task))
        inside = session.shard.inside if session.shard.soft else None
        if inside is not None:
            yield from self._on_nodes(task, over, wanted & inside[pool.node], turns, (*kind, "inside"))
        yield from self._on_nodes(task, over, wanted, turns, kind)

    def _on_nodes(
        self,
        task: Task,
        over: Refusal | None,
        wanted: NDArray[np.bool_],
        turns: NDArray[np.int64],
        kind: tuple[object, ...],
    ) -> Iterator[Attempt]:
        """The attempts with some of the candidates."""
        pool, session = self._pool, self._session
        distance, levels = pool.distance(session, self._queue)
        for crossing in (False, True):
            # Where no unit stayed for the sake of the line alone, letting units cross it changes nothing.
            if crossing and kind not in pool.held_by_the_line:
                return
            for limit in levels:
                near = wanted if limit == levels[-1] else wanted & (distance <= limit)
                if limit == levels[0] or near.any():
                    in_vain = pool.in_vain((*kind, crossing, limit))
                    yield Attempt(task, near, crossing, turns, in_vain, kind, over, Want(task, task.spec.requests))

    def _best_of(self, attempt: Attempt) -> Option | None:
        in_vain = attempt.in_vain
        best = self._best_among(attempt, self._promising(attempt))
        while best is None and in_vain.sum() < NODES_IN_VAIN:
            fresh = [p for p in self._promising(attempt) if not in_vain[p.row]]
            if not fresh:
                break
            best = self._best_among(attempt, fresh)
        return best

    def _best_among(self, attempt: Attempt, prospects: Sequence[Prospect]) -> Option | None:
        """The best option on some nodes; those that have none are noted."""
        best: Option | None = None
        for prospect in prospects:
            if not prospect.may_beat(best):
                continue
            option = self._work_out(attempt, prospect, best)
            # Once there is an option, none here only means that this node does not beat it.
            if best is None:
                attempt.in_vain[prospect.row] = option is None
            if option is not None and (best is None or option.rank < best.rank):
                best = option
        return best

    def _lacking(self) -> int:
        """Tasks that the job still lacks, at least one."""
        job = self._job
        return max(job.min_available - job.ready_count - job.counts[PIPELINED], 1)

    def _promising(self, attempt: Attempt) -> list[Prospect]:
        """Nodes where room could be made, those first that lack the least of what their candidates hold.

        Among equals those first where a job has candidates that is to lose tasks before others. Nodes that were tried
        in vain for tasks of this kind make way for others. Everything is a bound by node, computed for all nodes at
        once; only the few best nodes are worked out.
        """
        session, pool, wanted = self._session, self._pool, attempt.wanted
        nodes, shape = session.nodes, session.shape_of(attempt.task)
        need = shape.need
        free = nodes.all().future_idle
        room = pool.room(wanted, len(nodes))
        some = room.any(axis=0)
        fresh = wanted & pool.fresh
        if fresh.any():
            unstarted = pool.room(fresh, len(nodes))
            # To take back what has not started evicts no pod, so it counts as free.
            free, room = free + unstarted, room - unstarted
        fits = (free + room >= need).all(axis=0) & some
        rows = np.flatnonzero(fits & session.evaluation(attempt.task).hopeful())
        short = np.where(need == NOT_ASKED, 0, np.maximum(need - free, 0))[:, rows]
        largest = pool.largest(wanted, len(nodes))[:, rows]
        pods = np.ceil(np.divide(short, largest, out=np.zeros(short.shape), where=largest > 0)).max(axis=0, initial=0)
        at_least = pods.copy()
        if self._plan.gangs:
            # Where pods that can go alone are not enough, a whole gang has to go: its size is a better bound.
            at_minimum = wanted & pool.at_minimum() & ~fresh
            alone = pool.room(wanted & ~at_minimum & ~fresh, len(nodes))
            whole = ((free + alone)[:, rows] < need).any(axis=0)
            at_least[whole] = np.maximum(pods, pool.smallest_gang(at_minimum, len(nodes))[rows])[whole]
        turns = pool.earliest(wanted, attempt.turns, len(nodes))[rows]
        first = np.lexsort((rows, turns, pods, at_least, attempt.in_vain[rows]))[:NODES_TRIED]
        # The few that are worked out begin with the cheapest: a good option rules out those that cannot beat it.
        first = first[np.lexsort((rows[first], turns[first], pods[first]))]
        lacking = self._lacking()
        return [
            Prospect(
                int(rows[i]),
                # Where the node has room, and the queue may not have more, one pod has to go all the same.
                max(int(at_least[i]), 0 if fresh.any() else 1),
                free[:, rows[i]],
                largest[:, i],
                shape.request,
                lacking,
                self._job.service,
            )
            for i in first
        ]

    # --- one node

    def _short(self, attempt: Attempt, row: int) -> frozenset[str]:
        """Resources of which a node has too little for a task; those of the queue's limit where the node has enough."""
        lacking = self._plan.free(row) < self._session.shape_of(attempt.task).need[:, 0]
        names = {name for name, index in self._session.axis.rows.items() if lacking[index]}
        if not names and attempt.over is not None and attempt.over.resource:
            names = {attempt.over.resource}
        return frozenset(names - {PODS})

    def _work_out(self, attempt: Attempt, prospect: Prospect, known: Option | None) -> Option | None:
        """The evictions that make room on a node, tried out and taken back; None if they beat no option known."""
        session, pool, task = self._session, self._pool, attempt.task
        session.observer.tried(self._policy.action)
        want = attempt.want = Want(task, task.spec.requests, self._short(attempt, prospect.row))
        candidates = in_victim_order(session, pool.on_node(prospect.row, attempt.wanted), self._queue)
        if pool.fresh.any():
            # Those that have not started go first; a stable sort keeps the order of victims otherwise.
            candidates.sort(key=lambda task: not pool.fresh[pool.index[task.key]])
        plugins_allow = {victim.key for victim in self._policy.plugins_allow(want, candidates)}
        best = self._several(attempt, [c for c in candidates if c.key in plugins_allow], prospect.row)
        if best is None or (known is not None and known.rank <= best.rank):
            best = known
        if prospect.may_beat(best):
            best = self._single(attempt, candidates, plugins_allow, prospect, best)
        return best

    def _several(self, attempt: Attempt, ordered: Sequence[Task], row: int) -> Option | None:
        """Units in victim order until the task fits, without those that turn out not to be needed.

        Units that cross the line are taken only when the others are not enough, the smallest overshoot first: which
        do so depends on what went before, so that is asked again after each.
        """
        plan, task = self._plan, attempt.task
        checkpoint, overshoot = plan.checkpoint(), 0.0
        taken: list[Unit] = []
        found: Option | None = None
        waiting = list(ordered)
        while waiting and found is None:
            unit, over = self._next_unit(attempt, waiting)
            if unit is None:
                break
            plan.evict([unit])
            taken.append(unit)
            overshoot = max(overshoot, over)
            if plan.fits(task, row):
                needed = self._needed(task, row, taken, checkpoint)
                found = self._option(attempt, row, needed, overshoot)
        plan.undo(checkpoint)
        return found

    def _next_unit(self, attempt: Attempt, waiting: list[Task]) -> tuple[Unit | None, float]:
        """The first unit that may go, taken off the list; of those that cross the line the smallest overshoot."""
        late: list[tuple[Task, Unit]] = []
        while waiting:
            victim = waiting.pop(0)
            if not self._pool.has(victim):
                continue
            unit = self._unit(attempt, victim)
            if unit is None or not self._plugins_allow_unit(attempt, unit):
                continue
            if self._may_go(attempt, unit, crossing=False):
                waiting[:0] = [task for task, _ in late]
                return unit, 0.0
            if attempt.crossing and self._may_go(attempt, unit, crossing=True):
                late.append((victim, unit))
        if not late:
            return None, 0.0
        over = [self._policy.overshoot(self._queue, unit) for _, unit in late]
        index = over.index(min(over))
        waiting.extend(task for i, (task, _) in enumerate(late) if i != index)
        return late[index][1], over[index]

    def _single(
        self,
        attempt: Attempt,
        ordered: Sequence[Task],
        plugins_allow: Collection[str],
        prospect: Prospect,
        best: Option | None,
    ) -> Option | None:
        """The best of `best` and of single units that make room alone; in victim order among equals.

        A plugin that counts as it goes spares some among all candidates whom it does not spare alone. So those that
        are not let go among all (`plugins_allow`) are asked about alone.
        """
        session, pool, plan, task, row = self._session, self._pool, self._plan, attempt.task, prospect.row
        checkpoint = plan.checkpoint()
        lacking = session.shape_of(task).need[:, 0] - plan.free(row)
        for victim in ordered:
            if not prospect.may_beat(best):
                break
            if not pool.has(victim):
                continue
            unit = self._unit(attempt, victim)
            if unit is None or (best is not None and not best.overshoot and pool.cost(unit) > best.pods):
                continue
            if (plan.held(unit, row) < lacking).any():
                continue
            if victim.key not in plugins_allow and not self._policy.plugins_allow(attempt.want, [victim]):
                continue
            if not self._plugins_allow_unit(attempt, unit):
                continue
            if not self._may_go(attempt, unit, crossing=attempt.crossing):
                continue
            overshoot = self._policy.overshoot(self._queue, unit) if attempt.crossing else 0.0
            plan.evict([unit])
            if plan.fits(task, row):
                option = self._option(attempt, row, [unit], overshoot)
                best = option if best is None or option.rank < best.rank else best
            plan.undo(checkpoint)
        return best

    def _unit(self, attempt: Attempt, victim: Task) -> Unit | None:
        """The unit of a victim, if all of it can be taken."""
        pool = self._pool
        unit = pool.unit(self._session, victim, gangs=self._plan.gangs)
        if unit is None or any(mate.group == self._job.key and mate is not victim for mate in unit):
            return None
        if len(unit) > 1 and not all(attempt.wanted[pool.index[mate.key]] for mate in unit):
            return None
        return unit

    def _plugins_allow_unit(self, attempt: Attempt, unit: Unit) -> bool:
        """Return True if the plugins allow the eviction of a whole unit; of a single pod that is known."""
        return len(unit) == 1 or len(self._policy.plugins_allow(attempt.want, unit)) == len(unit)

    def _may_go(self, attempt: Attempt, unit: Unit, *, crossing: bool) -> bool:
        """Return True if queues allow the eviction of a unit; a refusal by what they deserve alone is recorded."""
        if self._policy.keeps(self._queue, attempt.want, unit, crossing=crossing) is None:
            return True
        known = crossing or not self._policy.may_cross or attempt.kind in self._pool.held_by_the_line
        if not known and self._policy.keeps(self._queue, attempt.want, unit, crossing=True) is None:
            self._pool.held_by_the_line.add(attempt.kind)
        return False

    def _option(self, attempt: Attempt, row: int, units: list[Unit], overshoot: float) -> Option:
        """Return the latest evictions for a task on a node as an option."""
        index = [self._pool.index[unit[0].key] for unit in units]
        pods = sum(map(self._pool.cost, units))
        room = fitting(self._plan.free(row), self._session.shape_of(attempt.task).request)
        turn = int(attempt.turns[index].max(initial=0))
        priority = int(self._pool.priority[index].max(initial=_LOWEST)) if self._job.service else 0
        return Option(row, units, overshoot, pods, min(room, self._lacking()), turn, priority)

    def _needed(self, task: Task, row: int, taken: list[Unit], checkpoint: int) -> list[Unit]:
        """The units without which the task would not fit, the others put back, the most important first.

        All of them are evicted when this is called, and those that are needed when it returns.
        """
        plan, needed = self._plan, list(taken)
        need = self._session.shape_of(task).need[:, 0]
        for unit in reversed(taken):
            without = [u for u in needed if u is not unit]
            if (plan.free(row) - plan.held(unit, row) < need).any() or not plan.may_stay(unit, without):
                continue
            plan.undo(checkpoint)
            plan.evict(without)
            if plan.fits(task, row):
                needed = without
            else:
                plan.undo(checkpoint)
                plan.evict(needed)
        return needed
