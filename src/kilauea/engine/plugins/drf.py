"""Dominant resource fairness: the job with the smallest share goes first.

What:
    The share of a job is the largest fraction of the cluster's total that it holds of any resource. Jobs with smaller
    shares go first. A task can preempt a task of another job if its own job would still have the smaller share
    afterwards.

    With `enableHierarchy: true`, queues are also compared, along the tree that their annotations describe. At each
    level from the root, a tree node that can still grow goes before one that cannot, then the one with the smaller
    share for its weight. A task can reclaim from another queue if its own queue would still go first afterwards.
    Regardless of other plugins, the branch that reclaims must not end up with a larger share for its weight than the
    branch it reclaims from.

Why:
    Jobs that need different resources can be compared: a job with a tenth of the cores and a job with a tenth of the
    memory have equal shares. The tree balances departments first, then their teams.

Arguments:
    hierarchyShares (text, level): how the share of a tree node is computed from its children. `level` adds them up in
    proportion to their weights; `volcano` as if their weights were equal, as Volcano does.

    Flags: `enableJobOrder`, `enablePreemptable`, and `enableHierarchy`, which is off by default; with it,
    `enableQueueOrder` and `enableReclaimable`.

    Queues set their position in the tree with the annotations `volcano.sh/hierarchy` (`root/eng/prod`) and
    `volcano.sh/hierarchy-weights` (`1/2/8`; the first weight is the root's and is ignored).

Example:
    tiers:
    - plugins:
      - name: priority
      - name: gang
      - name: drf
        enableHierarchy: true

    A tier with the plugin proportion cannot contain drf with `enableHierarchy: true`.

Difference from the original:
    Queues are in one total order, where Volcano compares them in pairs and does not compare some pairs. A path that
    ends early continues as if its last node had a single child, and a queue without annotations is below the root with
    weight 1. If queues give different weights for a node, the weight from the oldest queue applies, not the weight from
    a job. Jobs and tasks that have ended do not keep a node from being saturated. A path that does not begin with
    `root` is placed below it. A node whose children have unequal weights gets what its own weight specifies; in Volcano
    it gets more. A queue that can still grow does not reclaim from a queue with a smaller share, so two queues do not
    take the same resources from each other again and again.
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
