"""Services: pods of kube-scheduler that do not belong to a group.

If it is the only scheduler of a cluster (`kilauea up`), the scheduler also places these pods, as kube-scheduler does:
one by one by priority, on the nodes with the highest scores that pass its predicates, preempting services of lower
priority if necessary. They do not have a queue or a quota, and nothing else evicts them.

They are placed first, in a separate session with its own configuration. This session stays open during the rest of the
cycle, so the resources of services are in use then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from kilauea.api.meta import ObjectMeta
from kilauea.api.scheduling import Queue as QueueObject
from kilauea.api.scheduling import QueueSpec
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import Finding, SchedulerConf, parse_conf
from kilauea.engine.explain.plan_builder import nominations, pending
from kilauea.engine.extension import PluginFault
from kilauea.engine.extension.guard import ActionFault
from kilauea.engine.model.queues import Queue
from kilauea.engine.opening import close_plugins, execute, open_plugins
from kilauea.engine.placement.promises import drop_vain_promises, hold_promises
from kilauea.engine.plan import Plan
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState

CONF = {
    "actions": "allocate, backfill, preempt",
    "tiers": [{"plugins": [{"name": name} for name in ("priority", "predicates", "nodeorder")]}],
}
"""The configuration that corresponds to kube-scheduler."""


@lru_cache(maxsize=1)
def _conf() -> SchedulerConf:
    return parse_conf(CONF, PLUGINS, ACTIONS)


@contextmanager
def services_placed(
    state: ClusterState, now: int, seed: int | None, *, brief: bool = False, reasons: bool = True
) -> Iterator[Plan]:
    """Yield the plan for pending services; inside the context, they hold their resources in the state.

    Args:
        state: the cluster, unchanged when this ends.
        now: as for `cycle`.
        seed: as for `cycle`.
        brief: as for `cycle`.
        reasons: as for `cycle`.
    """
    state.settle()
    table = state.job_table
    size = len(table)
    if not (table.service[:size] & table.waiting[:size]).any():
        yield Plan()
        return
    queue = Queue(QueueObject("scheduling.volcano.sh/v1beta1", "Queue", ObjectMeta(name=""), QueueSpec(weight=1)))
    queue.row = 0
    session = Session(state, _conf(), now, seed, queues={"": queue}, brief=brief)
    try:
        yield _plan(session, brief=brief, reasons=reasons)
    finally:
        session.close()


def _plan(session: Session, *, brief: bool, reasons: bool) -> Plan:
    try:
        opened = open_plugins(session, session.conf, PLUGINS)
        hold_promises(session)
        for name in session.conf.actions:
            execute(session, ACTIONS[name], {})
        drop_vain_promises(session)
        if not brief:
            close_plugins(session, opened)
    except (PluginFault, ActionFault) as fault:
        message = f"{fault}; services wait until the next cycle"
        return Plan(findings=(Finding("services", message, error=True),))
    promises = nominations(session)
    promised = {promise.pod for promise in promises}
    waiting = [] if brief else [each for each in pending(session) if reasons or each.pod in promised]
    return Plan(
        tuple(session.report.binds),
        promises,
        tuple(session.report.evictions),
        tuple(session.report.released.values()),
        pending=tuple(waiting),
        findings=tuple(session.findings),
    )


def joined(services: Plan, others: Plan) -> Plan:
    """Return two plans as one, with services first."""
    return Plan(
        (*services.binds, *others.binds),
        (*services.nominations, *others.nominations),
        (*services.evictions, *others.evictions),
        (*services.released, *others.released),
        others.groups,
        others.queues,
        (*services.pending, *others.pending),
        (*services.findings, *others.findings),
        others.backoff,
    )
