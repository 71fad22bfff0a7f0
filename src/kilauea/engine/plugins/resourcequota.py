"""Admit no more to a namespace than its resource quotas allow.

What:
    A job is admitted if its minimum, plus what the namespace uses and what was admitted in this cycle, stays within
    every ResourceQuota of the namespace.

Why:
    The API server rejects pods beyond a quota. A job that is admitted regardless starts in part and holds resources
    that it cannot use.

Arguments:
    None. Flag: `enableJobEnqueued`.

Example:
    tiers:
    - plugins:
      - name: resourcequota

    Names are compared literally: a quota on `requests.cpu` applies to jobs whose `minResources` contain `requests.cpu`.
    The scopes of a quota are ignored.

Difference from the original:
    A quota without a status counts as unused; in Volcano it allows everything. The message lists `name: quantity` pairs
    by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.api.quantity import format_amount
from kilauea.engine.extension import PERMIT, REJECT, Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.limits import Quota
from kilauea.engine.model.resources import Amounts, add, order_of
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session


class ResourceQuota(Plugin):
    """See the module."""

    name = "resourcequota"
    depends_on_time = False

    def on_session_open(self, session: Session) -> None:
        self._quotas: dict[str, list[Quota]] = {}
        for _, quota in sorted(session.state.quotas.items()):
            self._quotas.setdefault(quota.namespace, []).append(quota)
        self._admitted: dict[str, dict[str, float]] = {}
        """By namespace: the minima of jobs admitted in this session."""
        session.add_job_enqueueable(self.name, self._enqueueable)
        session.add_job_enqueued(self.name, self._enqueued)

    def _enqueueable(self, job: Job) -> tuple[int, Refusal | None]:
        quotas = self._quotas.get(job.namespace)
        if job.min_resources is None or not quotas:
            return PERMIT, None
        asked, admitted = minimum(job), self._admitted.get(job.namespace, {})
        for quota in quotas:
            beyond = [
                name
                for name, amount in asked.items()
                if name in quota.hard and taken(quota, admitted, name) + amount > quota.hard[name]
            ]
            if beyond:
                return REJECT, refusal(job, quota, asked, admitted, sorted(beyond, key=order_of))
        return PERMIT, None

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None and job.namespace in self._quotas:
            add(self._admitted.setdefault(job.namespace, {}), minimum(job))


def minimum(job: Job) -> dict[str, float]:
    """The minimum of a job, under all names that quotas may use."""
    return {**(job.min_resources or {}), **job.uncounted_minimum}


def taken(quota: Quota, admitted: Amounts, name: str) -> float:
    """Return the usage of a resource in the namespace, now or once admitted groups run."""
    return quota.used.get(name, 0) + admitted.get(name, 0)


def refusal(job: Job, quota: Quota, asked: Amounts, admitted: Amounts, beyond: list[str]) -> Refusal:
    """Return the reason why the quota rejects the job, with the numbers of the first insufficient resource."""
    parts = (("requested", asked), ("used", quota.used), ("limited", quota.hard))
    texts = [f"{word}: {listed(amounts, sorted(beyond))}" for word, amounts in parts]
    message = f"resource quota insufficient, {', '.join(texts)}"
    first = beyond[0]
    left = max(quota.hard[first] - taken(quota, admitted, first), 0)
    return Refusal("ResourceQuotaInsufficient", message, job.queue, first, asked[first], left)


def listed(amounts: Mapping[str, float], names: list[str]) -> str:
    """`name: quantity` pairs."""
    return ", ".join(f"{name}: {format_amount(name, amounts.get(name, 0))}" for name in names)
