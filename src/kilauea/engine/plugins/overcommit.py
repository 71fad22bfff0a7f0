"""Admit more work than currently fits, up to a limit.

What:
    Admits jobs as long as the total minimum of all jobs that are admitted and not running yet fits into the free
    resources of the cluster, where the cluster's resources are multiplied by `overcommit-factor`.

Why:
    Jobs whose pods already exist can start as soon as others end; too many of them only fill the API server.

Arguments:
    overcommit-factor (number, 1.2): factor for the cluster's resources; at least 1.

Example:
    tiers:
    - plugins:
      - name: overcommit
        arguments:
          overcommit-factor: 1.5

Difference from the original:
    A queue that stays within its deserved or guaranteed amounts can count on resources that others hold beyond theirs,
    if an action reclaims them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.conf import argument
from kilauea.engine.extension import PERMIT, REJECT, Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.resources import add, insufficient
from kilauea.engine.plugin import Plugin
from kilauea.engine.queues.lending import Lending
from kilauea.engine.session import Session


@dataclass(frozen=True)
class OvercommitArguments:
    """Arguments of overcommit."""

    factor: float = argument("overcommit-factor", 1.2, "Factor for the cluster's resources.", minimum=1.0)


class Overcommit(Plugin):
    """See the module."""

    name = "overcommit"
    depends_on_time = False
    Arguments = OvercommitArguments

    def on_session_open(self, session: Session) -> None:
        used = session.axis.amounts(session.nodes.used.sum(axis=1))
        self._idle: dict[str, float] = {name: amount * self.arguments.factor for name, amount in session.total.items()}
        add(self._idle, used, -1)
        table = session.table
        known = table.queue[: len(table)] >= 0
        self._inqueue: dict[str, float] = dict(session.axis.amounts(table.admitted[:, : len(table)] @ known))
        self._lending = Lending(session)
        session.add_job_enqueueable(self.name, self._enqueueable)
        session.add_job_enqueued(self.name, self._enqueued)

    def _enqueueable(self, job: Job) -> tuple[int, Refusal | None]:
        if job.min_resources is None:
            return PERMIT, None
        wanted = dict(self._inqueue)
        add(wanted, job.min_resources)
        short = insufficient(wanted, self._idle, job.min_resources)
        if short and (lent := self._lending.room_for(job)):
            add(lent, self._idle)
            short = insufficient(wanted, {**self._idle, **lent}, job.min_resources)
        if not short:
            return PERMIT, None
        message = "resource in cluster is overused: " + ", ".join(f"overused {name}" for name in short)
        name = short[0]
        left = max(self._idle.get(name, 0) - self._inqueue.get(name, 0), 0)
        refusal = Refusal("ClusterOvercommitted", message, job.queue, name, job.min_resources[name], left)
        return REJECT, refusal

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            add(self._inqueue, job.ungate(job.min_resources))
