"""Replays a plan: opens a session on the same state again and applies every decision of the plan.

Explanations use it, so that cycles do not have to compute them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kilauea.engine.conf import SchedulerConf
from kilauea.engine.extension.guard import UNWATCHED, Watchdog
from kilauea.engine.extension.outside import NO_OUTSIDE, Outside
from kilauea.engine.model import status
from kilauea.engine.model.jobs import PENDING
from kilauea.engine.opening import open_plugins
from kilauea.engine.plan import Plan
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState


@contextmanager
def replay(
    state: ClusterState,
    conf: SchedulerConf,
    now: int,
    seed: int | None,
    plan: Plan,
    *,
    plugins: Mapping[str, type[Plugin]] = PLUGINS,
    watchdog: Watchdog = UNWATCHED,
    outside: Outside = NO_OUTSIDE,
) -> Iterator[Session]:
    """The session at the end of the cycle that made a plan; the block restores the state when it ends.

    Args:
        state: the cluster from which the plan was made.
        conf: the configuration, without plugins that failed.
        now: time of the cycle.
        seed: seed of the cycle.
        plan: the plan.
        plugins: plugins by name.
        watchdog: the watchdog of the cycle.
        outside: carries requests of plugins to servers.

    Raises:
        PluginFault: a plugin fails.
    """
    session = Session(state, conf, now, seed, outside=outside)
    try:
        open_plugins(session, conf, plugins, watchdog)
        _admit(session, plan)
        _move(session, plan)
        yield session
    finally:
        session.close()


def _admit(session: Session, plan: Plan) -> None:
    for key, outcome in plan.groups.items():
        job = session.state.jobs.get(key)
        if job is not None and job.is_pending and outcome.phase != PENDING:
            session.admit(job)
            if "enqueue" in session.conf.actions:
                session.job_enqueued(job)


def _move(session: Session, plan: Plan) -> None:
    tasks, row_of = session.state.tasks, session.nodes.row_of
    for eviction in plan.evictions:
        task = tasks[eviction.pod]
        session.ledger.release(task, row_of[task.node])
        session.ledger.served.add(eviction.by)
    for bind in plan.binds:
        session.ledger.place(tasks[bind.pod], row_of[bind.node], status.ALLOCATED)
        session.ledger.bind(tasks[bind.pod])
    for nomination in plan.nominations:
        session.ledger.place(tasks[nomination.pod], row_of[nomination.node], status.PIPELINED)
