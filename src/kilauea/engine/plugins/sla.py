"""Limit the waiting times of jobs: the job with the earliest deadline goes first.

What:
    A job can set its maximum waiting time, or the plugin sets one for all jobs. The job whose time is up first goes
    first, and before jobs without a limit. A job whose time is up is admitted, and can reserve resources that are being
    released, unless another plugin in the same tier rejects it.

Why:
    If small jobs keep filling the resources that a large job needs, the large job would wait forever.

Arguments:
    sla-waiting-time (text, none): maximum waiting time of jobs that do not set their own; a duration such as `1h2m3s`,
    above zero.

    Pod groups set it with the annotation `volcano.sh/sla-waiting-time` or `sla-waiting-time`. A value that is invalid
    or not above zero is ignored.

Example:
    tiers:
    - plugins:
      - name: sla
        arguments:
          sla-waiting-time: 1h
    - plugins:
      - name: overcommit
      - name: proportion

    A rejection wins over a permit in the same tier, so put sla in a tier before the plugins that it should overrule.

Difference from the original:
    Durations are counted in whole microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kilauea.engine.conf import Finding, argument
from kilauea.engine.extension import ABSTAIN, PERMIT, Refusal
from kilauea.engine.model.jobs import Job, positive_duration
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

WAITING_TIME = "sla-waiting-time"


@dataclass(frozen=True)
class SlaArguments:
    """Arguments of sla."""

    waiting_time: str = argument(WAITING_TIME, "", "Waiting time of jobs that do not set their own.")


class Sla(Plugin):
    """See the module."""

    name = "sla"
    depends_on_time = False
    Arguments = SlaArguments

    def on_session_open(self, session: Session) -> None:
        text = self.arguments.waiting_time
        self._now = session.now
        self._limit = positive_duration(text)
        if text and self._limit is None:
            message = f"{WAITING_TIME} takes a duration above zero such as 1h30m, not {text!r}; jobs may wait forever"
            session.findings.append(Finding("plugin sla", message))
        session.add_job_order(self.name, self._deadline)
        session.add_job_enqueueable(self.name, self._enqueueable)
        session.add_job_pipelined(self.name, self._vote)

    def _deadline(self, job: Job) -> float:
        wait = self._wait(job)
        return math.inf if wait is None else job.creation + wait

    def _wait(self, job: Job) -> int | None:
        return self._limit if job.waiting_time is None else job.waiting_time

    def _vote(self, job: Job) -> int:
        return PERMIT if self._now >= self._deadline(job) else ABSTAIN

    def _enqueueable(self, job: Job) -> tuple[int, Refusal | None]:
        return self._vote(job), None
