"""The plan of room for a gang in one network domain: who goes, and where the tasks that the gang lacks are placed.

Everything is tried out in one statement. Units are added until the gang can be placed, passing every predicate on the
state after the evictions; then what turned out not to be needed is put back: spare tasks one by one, gangs whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kilauea.engine.eviction.bundles import EVICTION, Bundle, GangRule
from kilauea.engine.eviction.spare_tasks import spare_and_rest
from kilauea.engine.eviction.victims import Unit, VictimPool
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement.tasks import Part
from kilauea.engine.session import Session
from kilauea.engine.statement import PIPELINE


class GangPlan:
    """Evictions and nominations for a job.

    Args:
        session: the cycle.
        rule: what may be lost.
        queue: the queue of the job.
        job: the job.
        parts: its sub-gangs as far as it needs them, each with the tasks that wait, in order.

    Attributes:
        refused: a unit stayed because its queue may not lose it.
    """

    def __init__(
        self, session: Session, rule: GangRule, queue: Queue, job: Job, parts: Sequence[tuple[Part, list[Task]]]
    ) -> None:
        self._session = session
        self._rule = rule
        self._queue = queue
        self._job = job
        self._parts = parts
        self._statement = session.statement()
        self._units: list[Unit] = []
        self.refused = False
        self._inner: dict[str, int] = {}
        """By part: the domain that the plan puts it in."""

    def add(self, bundle: Bundle) -> bool:
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
            self.refused = True
            return False
        self._evict(unit)
        self._units.append(unit)
        return True

    def clear(self) -> None:
        """Nothing goes, and nothing is nominated."""
        self._evict_again(())

    def _evict(self, unit: Unit) -> None:
        for victim in unit:
            self._statement.evict(victim, self._rule.action, self._job.key)

    def _evict_again(self, units: Sequence[Unit]) -> None:
        """These units and nothing else, and no nominations."""
        self._statement.roll_back()
        self._units = list(units)
        for unit in units:
            self._evict(unit)

    def place(self, domain: int) -> bool:
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

    def keep(self, pool: VictimPool, domain: int) -> None:
        """The plan is taken; where the gang is to be is remembered for the rest of the session."""
        job, domains = self._job, self._session.domains
        if domains.wishes(job):
            for key, inner in ((job.key, domain), *self._inner.items()):
                domains.chosen[key] = domains.tree.common(domains.chosen.get(key, -1), inner)
        pool.evicted([victim for unit in self._units for victim in unit], gone=True)
        self._statement.commit()

    # --- no more than it takes

    def put_back_what_is_not_needed(self) -> None:
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

    def move_where_less_is_needed(self, domain: int, holds_enough: Callable[[int], bool]) -> None:
        """Take units off the plan without which the gang can be placed on other nodes of the domain.

        Args:
            domain: number of the domain.
            holds_enough: whether it is worth trying, as things stand.
        """
        for unit in self._units[::-1]:
            promised = [(op.task, op.row) for op in self._statement.operations if op.kind == PIPELINE]
            units, inner = self._units, dict(self._inner)
            self._evict_again([other for other in units if other is not unit])
            if holds_enough(domain) and self.place(domain):
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
