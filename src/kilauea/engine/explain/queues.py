"""The queues that affect a waiting group: levels that block it, borrowers, holders, and attempts to evict.

It uses a replayed session after the plan (`kilauea.engine.explain.replay`), so that cycles do not have to compute it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kilauea.engine.explain.group import Blocker, Explanation
from kilauea.engine.explain.levels import Borrower, borrowers, levels
from kilauea.engine.explain.queue_position import holders
from kilauea.engine.explain.victim_diagnosis import attempts
from kilauea.engine.model.cards import EITHER
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.resources import ALWAYS, PODS, add, order_of
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session

QUOTAS = frozenset(
    {
        "QueueQuotaInsufficient",
        "QueueQuotaExceeded",
        "InsufficientCPUQuota",
        "InsufficientMemoryQuota",
        "InsufficientScalarQuota",
        "QueueMayNotReclaim",
        "QueueOverused",
    }
)
"""Codes of reasons that are about the resources of a queue."""

CARDS = "capacity-card"
"""The plugin with which a queue may only use resources that its own capability names."""


def with_queues(explanation: Explanation, plan: Plan, session: Session) -> Explanation:
    """The explanation of a waiting group, with levels of queues, borrowers, holders and attempts to evict.

    Args:
        explanation: the explanation from the plan.
        plan: the plan.
        session: the session after the plan (`kilauea.engine.explain.replay`); it cannot be used afterwards.

    Raises:
        PluginFault: a plugin fails.
    """
    job = session.state.jobs[explanation.group]
    if job.queue not in session.queues:
        return explanation
    lacking = _lacking(job)
    tried = attempts(session, plan, job) if explanation.verdict == "waits" else ()
    blocking = {
        (b.queue, part): b.asked for b in explanation.blockers if _of_queue(b) for part in b.resource.split(EITHER)
    }
    named = [part for b in explanation.blockers if b.resource for part in b.resource.split(EITHER)]
    resources = list(dict.fromkeys(named)) or sorted(lacking, key=order_of)
    asked = {name: lacking.get(name, 0) for name in resources}
    way = [queue.name for queue in (*session.queues[job.queue].figures.ancestors[::-1], session.queues[job.queue])]
    own = any(plugin.name == CARDS for tier in session.conf.tiers for plugin in tier)
    found = levels(plan.queues, way, asked, blocking, own_capability=own)
    full = [level.queue for level in found if level.blocks]
    lent = _lent(session, plan, job, full, resources)
    hold = holders(session, job, full, resources)
    return dataclasses.replace(explanation, levels=found, borrowers=lent, holders=hold, attempts=tried)


def _lacking(job: Job) -> dict[str, float]:
    """The requests of the waiting pods that are missing to the group's minimum, without pod slots; cards by name.

    For a group without pods, its minResources.
    """
    waiting = sorted(job.pending(), key=lambda task: task.order)
    if not waiting:
        return {name: amount for name, amount in (job.min_resources or {}).items() if name != PODS}
    out: dict[str, float] = {}
    for task in waiting[: max(job.min_available - job.ready_count, 1)]:
        add(out, {name: amount for name, amount in task.spec.requests.items() if name != PODS and amount})
        if task.spec.cards is not None:
            amount = max((a for n, a in task.spec.requests.items() if n not in (*ALWAYS, PODS)), default=0)
            add(out, dict.fromkeys(task.spec.cards.names, amount))
    return out


def _of_queue(blocker: Blocker) -> bool:
    """True if the group waits for resources of a queue, and not for the queue to exist or open."""
    return blocker.code in QUOTAS


def _lent(
    session: Session, plan: Plan, job: Job, blocking: Sequence[str], resources: Sequence[str]
) -> tuple[Borrower, ...]:
    """Queues that borrowed the missing resource: those below the uppermost blocking queue, else all.

    If the group's own queue blocks, no other queue borrowed it.
    """
    if blocking and blocking[0] == job.queue:
        return ()
    found = borrowers(session, plan.queues, job.queue, blocking[0] if blocking else "")
    return tuple(b for b in found if b.resource in resources)
