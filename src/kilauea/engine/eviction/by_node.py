"""Evictions for a gang node by node: for each task, the node where the fewest pods are evicted.

The plan is kept only if all missing tasks of a gang can be placed on the cluster as it would be after the evictions,
passing every predicate (`plan.py`). For each task, the search finds nodes where evictions could free enough resources,
tries the most promising ones, and uses the one that costs the fewest pods. Pods that were about to start in this cycle
are taken first: they have not started, so this does not evict a running pod. Spec of the scheduler, 5.5 and 5.6, with
additional guarantees.

For services (`services.py`), victims of the lowest priority are preferred to the fewest, as in kube-scheduler.

Two rules take precedence over the number of pods. Victims come from the queues nearest to the preemptor's as long as
these can free the resources, on any node. And no queue falls below its deserved share as long as any other choice
works; only then may one unit that is larger than the excess be evicted (`floor.py`).
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
"""Number of nodes on which to plan evictions for one task, the most promising first."""

NODES_IN_VAIN = 64
"""If none of them works, the next ones are tried, up to this number for tasks of a kind."""

_LOWEST = -(2**31)
"""The lowest possible priority."""


@dataclass
class Option:
    """A node with the evictions that free enough resources for a task."""

    row: int
    units: list[Unit]
    overshoot: float
    """Amount by which they take queues below their deserved share."""
    pods: int
    """Pods that are evicted."""
    serves: int
    """Number of missing tasks of the gang with the same shape that would fit then."""
    turn: int
    """The latest turn of any victim, in the order in which jobs lose tasks."""
    priority: int
    """The highest priority of any victim; 0 if priority does not rank nodes."""

    @property
    def rank(self) -> tuple[float, int, int, int, int]:
        """Sort key: least below the deserved share, then fewest pods, then room for the most tasks, then the turn.

        For services, victims of the lowest priority come before the fewest, as in kube-scheduler.
        """
        return (self.overshoot, self.priority, self.pods, -self.serves, self.turn)


@dataclass
class Prospect:
    """A node where evictions could free enough resources, with lower bounds on their cost."""

    row: int
    pods: int
    """Lower bound of evicted pods."""
    free: NDArray[np.int64]
    """(R,) free resources there, including those of pods that have not started."""
    largest: NDArray[np.int64]
    """(R,) maximum that any candidate holds there."""
    asked: NDArray[np.int64]
    lacking: int
    """Number of missing tasks of the job; room for more is not useful."""
    by_priority: bool
    """True if plans are ranked by the priority of victims first, so the number of pods is not a bound."""

    def may_beat(self, best: Option | None) -> bool:
        """Return True if a plan on this node could take fewer pods than an option, or as many and serve more tasks."""
        if best is None or best.overshoot > 0 or self.by_priority:
            return True
        pods, serves = best.pods, -best.serves
        if self.pods != pods:
            return self.pods < pods
        return min(fitting(self.free + pods * self.largest, self.asked), self.lacking) > -serves


def fitting(free: NDArray[np.int64], asked: NDArray[np.int64]) -> int:
    """Return the number of times a request (R,) fits into free resources (R,), at least one."""
    some = asked > 0
    return max(int((free[some] // asked[some]).min()), 1) if some.any() else 1


@dataclass
class Attempt:
    """One attempt to free resources for a task: the candidates and the limits.

    Attributes:
        task: the task.
        wanted: (T,) tasks of the pool to consider.
        possible: (T,) those that plugins do not spare in any case.
        crossing: True if a unit may take a queue below its deserved share.
        turns: (T,) the turn of each task's job to lose tasks.
        in_vain: (N,) nodes that failed for tasks of this kind.
        kind: key of tasks for which the same nodes fail.
        over: the reason why the task would exceed the limit of its queue.
        want: the missing resources on the current node.
    """

    task: Task
    wanted: NDArray[np.bool_]
    possible: NDArray[np.bool_]
    crossing: bool
    turns: NDArray[np.int64]
    in_vain: NDArray[np.bool_]
    kind: tuple[object, ...]
    over: Refusal | None
    want: Want


def node_search(session: Session, pool: VictimPool, policy: Policy, queue: Queue, job: Job, *, gangs: bool) -> Search:
    """Return a search that evicts others for tasks of a job, each time in a new plan."""
    return lambda tasks, enough: NodeSearch(session, pool, policy, queue, job, gangs=gangs).make(tasks, enough)


class NodeSearch:
    """A job's search for nodes, in one plan."""

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
        """Number of operations at the last failed search, by kind of task."""
        self._left = False
        """True if the latest search has left promising nodes untried."""
        self._keeping: frozenset[int] = frozenset()
        """Rows of jobs to spare: a plan that evicted their tasks was out of turn."""

    def make(self, tasks: Sequence[Task], enough: Callable[[], bool]) -> bool:
        """Nominate tasks until it is enough, with the fewest evictions; undone if the gang is not complete."""
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
            # Other victims are possible now, so an attempt that failed before may succeed.
            self._in_vain.clear()
        plan.undo()
        plan.tell_out_of_turn(refused)
        return False

    def _make_plan(self, tasks: Sequence[Task], enough: Callable[[], bool]) -> bool:
        """Make a minimal plan; return True if the gang is complete with it."""
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
        """Nominate a task to free or freed resources; record the reason if there are none."""
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
        """Return the node that costs the fewest pods for a task, from the first attempt that finds one."""
        futile, pool = self._futile_kind(task, over), self._pool
        if futile is not None and pool.futile.get(futile) == pool.commits:
            return None
        self._left = False
        for attempt in self._attempts(task, over):
            option = self._best_of(attempt)
            if option is not None:
                return option
        # The next job of this kind in the queue continues with the nodes that this search has left.
        if futile is not None and (self._policy.elsewhere or not self._left):
            pool.futile[futile] = pool.commits
        return None

    def _futile_kind(self, task: Task, over: Refusal | None) -> tuple[object, ...] | None:
        """Return a key of tasks for which the same search has the same result as long as no plan is kept.

        None if that is unknown: within a plan, for votes that depend on the job, and for custom plugins, which may
        depend on anything. At rest, a cycle thus searches once for each kind.
        """
        if self._plan.checkpoint() or self._session.points.has_user_plugins:
            return None
        if not self._policy.votes_by_kind(self._pool, self._job):
            return None
        job, limited = self._job, over.resource if over is not None else None
        kind = (self._queue.name, job.priority, job.service_type, task.priority, task.owner_kind, task.preemptable)
        return (*kind, self._keeping, self._session.shape_of(task), limited)

    def _attempts(self, task: Task, over: Refusal | None) -> Iterator[Attempt]:
        """Yield attempts in order: the nearest queues, then also farther ones; then all again, with crossing units."""
        pool, session = self._pool, self._session
        wanted = self._policy.candidates(pool, self._job, task) & pool.there & pool.without(self._keeping)
        possible = self._policy.possible(pool, self._job)
        if possible is None:
            possible = wanted
        elif len(session.points.voters(self._policy.point)) == 1:  # others count the tasks that they are asked about
            wanted = wanted & possible
        if not (wanted & possible).any():
            return
        turns = pool.turns(session, self._queue)
        by = (type(self._policy), self._queue.name, self._job.priority, self._keeping)
        kind = (*by, task.priority, session.shape_of(task))
        inside = session.shard.inside if session.shard.soft else None
        if inside is not None:
            yield from self._on_nodes(task, over, wanted & inside[pool.node], possible, turns, (*kind, "inside"))
        yield from self._on_nodes(task, over, wanted, possible, turns, kind)

    def _on_nodes(
        self,
        task: Task,
        over: Refusal | None,
        wanted: NDArray[np.bool_],
        possible: NDArray[np.bool_],
        turns: NDArray[np.int64],
        kind: tuple[object, ...],
    ) -> Iterator[Attempt]:
        """Yield the attempts with some of the candidates."""
        pool, session = self._pool, self._session
        distance, levels = pool.distance(session, self._queue)
        for crossing in (False, True):
            # If no unit was spared only because of the deserved share, crossing units change nothing.
            if crossing and kind not in pool.held_by_the_line:
                return
            for limit in levels:
                near = wanted if limit == levels[-1] else wanted & (distance <= limit)
                if limit == levels[0] or near.any():
                    in_vain = pool.in_vain((*kind, crossing, limit))
                    want = Want(task, task.spec.requests)
                    yield Attempt(task, near, near & possible, crossing, turns, in_vain, kind, over, want)

    def _best_of(self, attempt: Attempt) -> Option | None:
        in_vain = attempt.in_vain
        best = self._best_among(attempt, self._promising(attempt))
        while best is None:
            fresh = [p for p in self._promising(attempt) if not in_vain[p.row]]
            if not fresh:
                break
            if in_vain.sum() >= NODES_IN_VAIN:
                self._left = True
                break
            best = self._best_among(attempt, fresh)
        return best

    def _best_among(self, attempt: Attempt, prospects: Sequence[Prospect]) -> Option | None:
        """Return the best option on some nodes; record nodes without an option."""
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
        """Return the number of missing tasks of the job, at least one."""
        job = self._job
        return max(job.min_available - job.ready_count - job.counts[PIPELINED], 1)

    def _promising(self, attempt: Attempt) -> list[Prospect]:
        """Yield nodes where evictions could free enough resources, with nodes first that lack the least.

        Of equal nodes, those come first with candidates of the job whose turn to lose tasks is earliest. Nodes that
        failed for tasks of this kind come last. Everything is a bound per node, computed for all nodes at once; plans
        are made only for the few best nodes.
        """
        session, pool, wanted = self._session, self._pool, attempt.wanted
        nodes, shape = session.nodes, session.shape_of(attempt.task)
        need = shape.need
        free = nodes.all().future_idle
        room = pool.room(wanted, len(nodes))
        some = room.any(axis=0) & pool.nodes_with(attempt.possible, len(nodes))
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
            # If single pods are not enough, a whole gang must be evicted, and its size is a better bound.
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
        """Return the resources that a node lacks for a task; if it has enough, those of the queue's limit."""
        lacking = self._plan.free(row) < self._session.shape_of(attempt.task).need[:, 0]
        names = {name for name, index in self._session.axis.rows.items() if lacking[index]}
        if not names and attempt.over is not None and attempt.over.resource:
            names = {attempt.over.resource}
        return frozenset(names - {PODS})

    def _work_out(self, attempt: Attempt, prospect: Prospect, known: Option | None) -> Option | None:
        """Return the evictions for a task on a node, tried and undone; None if a known option is as good."""
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
        """Return units in victim order until the task fits, without units that are not needed.

        Crossing units are used only if the others are not enough, smallest overshoot first. This depends on the units
        before them, so it is computed again after each.
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
        """Remove and return the first unit that may be evicted; of crossing ones, that with the smallest overshoot."""
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
        """Return the best of `best` and of single units that are enough alone; in victim order among equals.

        A plugin that counts evictions may spare candidates among all others that it would not spare alone. So
        candidates that are spared among all (`plugins_allow`) are checked separately.
        """
        session, pool, plan, task, row = self._session, self._pool, self._plan, attempt.task, prospect.row
        checkpoint = plan.checkpoint()
        lacking = session.shape_of(task).need[:, 0] - plan.free(row)
        for victim in ordered:
            if not prospect.may_beat(best):
                break
            if not pool.has(victim) or not attempt.possible[pool.index[victim.key]]:
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
        """Return the unit of a victim, if all of it can be evicted."""
        pool = self._pool
        unit = pool.unit(self._session, victim, gangs=self._plan.gangs)
        if unit is None or any(mate.group == self._job.key and mate is not victim for mate in unit):
            return None
        if len(unit) > 1 and not all(attempt.wanted[pool.index[mate.key]] for mate in unit):
            return None
        return unit

    def _plugins_allow_unit(self, attempt: Attempt, unit: Unit) -> bool:
        """Return True if the plugins allow the eviction of a whole unit; this is already known for a single pod."""
        return len(unit) == 1 or len(self._policy.plugins_allow(attempt.want, unit)) == len(unit)

    def _may_go(self, attempt: Attempt, unit: Unit, *, crossing: bool) -> bool:
        """Return True if queues allow the eviction of a unit; record refusals only because of the deserved share."""
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
        """Return the units without which the task would not fit; put back the others, most important first.

        All of them are evicted before the call, and only the needed ones after it.
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
