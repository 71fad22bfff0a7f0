"""Dominant resource fairness: the job with the smallest share goes first.

What:
    A job's share is the largest part of the cluster that it holds of any one resource. Jobs with smaller shares go
    first. A task may evict another job's if its own job would still have the smaller share afterwards.

Why:
    Jobs that need much of different things can be compared: one holds a tenth of the cores, another a tenth of the
    memory, and they are even.

Arguments:
    None. Flags: `enableJobOrder`, `enablePreemptable`.

Example:
    tiers:
    - plugins:
      - name: drf

Difference from the original:
    The hierarchical form (`enableHierarchy: true`, queues weighted by annotations) is not built yet: the flag is warned
    about and the plain form is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.engine.conf import Finding
from kilauea.engine.extension import PERMIT
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.resources import add, dominant_share
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

TIE = 0.000001
"""Shares closer than this are equal for an eviction."""


class Drf(Plugin):
    """See the module."""

    name = "drf"

    def on_session_open(self, session: Session) -> None:
        self._jobs = session.state.jobs
        self._total = session.total
        if self.conf.flags.get("hierarchy"):
            message = "hierarchical drf is not part of this version; plain drf is used"
            session.findings.append(Finding("plugin drf", message))
        session.add_job_order(self.name, self._share)
        session.add_preemptable(self.name, self._larger_shares)

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
