"""Dominant resource fairness: the job with the smallest share goes first.

What:
    A job's share is the largest part of the cluster that it holds of any one resource. Jobs with smaller shares go
    first. A task may evict another job's if its own job would still have the smaller share afterwards.

    With `enableHierarchy: true` queues are compared too, along the tree that their annotations describe: level by level
    from the root a node that can still grow goes before one that cannot, then the one with the smaller share for its
    weight. A task may reclaim another queue's if its own would still go first afterwards. Whatever other
    plugins say, the branch that takes must not end up with a larger share for its weight than the one that gives.

Why:
    Jobs that need much of different things can be compared: one holds a tenth of the cores, another a tenth of the
    memory, and they are even. The tree makes departments even first, then their teams.

Arguments:
    hierarchyShares (text, level): how the share of a node of the tree comes from its children. `level` adds them up in
    the ratio of their weights; `volcano` as if their weights were equal, as Volcano does.

    Flags: `enableJobOrder`, `enablePreemptable`, and `enableHierarchy`, which is off by default; with it
    `enableQueueOrder` and `enableReclaimable`.

    Queues say where they stand by the annotations `volcano.sh/hierarchy` (`root/eng/prod`) and
    `volcano.sh/hierarchy-weights` (`1/2/8`, the root's first, which means nothing).

Example:
    tiers:
    - plugins:
      - name: priority
      - name: gang
      - name: drf
        enableHierarchy: true

    A tier with the plugin proportion cannot hold the hierarchical form.

Difference from the original:
    Queues are in one order, where the original compares them pair by pair and some pairs not at all: a path that ends
    early goes on as if its last node had a single child, and a queue without annotations stands below the root with
    weight 1. Of different weights for one node the oldest queue's counts, not that of any job. Jobs and tasks that have
    ended do not keep a node from being saturated. A path that does not begin with `root` stands below it. A node whose
    children have unequal weights gets what its own weight says; in the original it gets more. A queue that can still
    grow takes nothing from one with a smaller share, so two queues do not take the same room from each other in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilauea.engine.conf import argument
from kilauea.engine.extension import PERMIT, SpareReason
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.resources import add, dominant_share
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.queues.hierarchy import Hierarchy
from kilauea.engine.session import Session

TIE = 0.000001
"""Shares closer than this are equal for an eviction."""


FAIR_SHARE = SpareReason("FairShare", "its job has the smaller share of the cluster")


@dataclass(frozen=True)
class DrfArguments:
    """Arguments of drf."""

    shares: str = argument("hierarchyShares", "level", "`level` or `volcano`.", choices=("level", "volcano"))


class Drf(Plugin):
    """See the module."""

    name = "drf"
    depends_on_time = False
    Arguments = DrfArguments

    def on_session_open(self, session: Session) -> None:
        self._jobs = session.state.jobs
        self._total = session.total
        session.add_job_order(self.name, self._share)
        session.add_preemptable(self.name, self._larger_shares, why=FAIR_SHARE)
        if self.conf.is_enabled("hierarchy"):
            tree = Hierarchy(session, weighted=self.arguments.shares == "level")
            session.add_event_handler(self.name, tree.came, tree.left)
            session.add_queue_order(self.name, tree.key)
            session.weighted_shares = tree.weighted_shares
            session.add_reclaimable(
                self.name, lambda task, candidates: (tree.victims(task, candidates), PERMIT), why=FAIR_SHARE
            )

    def _share(self, job: Job) -> float:
        return dominant_share(job.allocated, self._total)

    def _larger_shares(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        own = self._jobs.get(preemptor.group)
        if own is None:
            return [], PERMIT
        with_task = dict(own.allocated)
        add(with_task, preemptor.spec.requests)
        share = dominant_share(with_task, self._total)
        left: dict[str, dict[str, float]] = {}
        victims = []
        for task in candidates:
            job = self._jobs.get(task.group)
            if job is None:
                continue
            held = left.setdefault(job.key, dict(job.allocated))
            add(held, task.spec.requests, -1)
            if share < dominant_share(held, self._total) + TIE:
                victims.append(task)
        return victims, PERMIT
