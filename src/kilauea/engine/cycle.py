"""One cycle, from state to plan: `cycle(state, conf, now, seed)`.

The same state, configuration, time, seed and backoff result in the same plan. The state is unchanged afterwards. If a
plugin or an action raises an exception, the plan reports it and the cycle is repeated without it; the same applies to
custom ones that exceed the time of the watchdog.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import DEFAULT_CONF, Finding, SchedulerConf, parse_conf
from kilauea.engine.explain.plan_builder import conclude, outline
from kilauea.engine.extension import PluginFault
from kilauea.engine.extension.guard import UNWATCHED, ActionFault, Watchdog
from kilauea.engine.extension.observer import UNOBSERVED, Observer
from kilauea.engine.extension.outside import NO_OUTSIDE, Outside
from kilauea.engine.model.attempts import NO_BACKOFF, AdmissionBackoff
from kilauea.engine.opening import close_plugins, execute, open_plugins
from kilauea.engine.placement.admission_backoff import after_cycle
from kilauea.engine.placement.promises import drop_vain_promises, hold_promises
from kilauea.engine.plan import Plan
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.services import joined, services_placed
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState


def default_conf() -> SchedulerConf:
    """Return the built-in configuration, which is used if none is given."""
    return parse_conf(DEFAULT_CONF, PLUGINS, ACTIONS)


def cycle(
    state: ClusterState,
    conf: SchedulerConf,
    now: int,
    seed: int | None = None,
    *,
    plugins: Mapping[str, type[Plugin]] = PLUGINS,
    actions: Mapping[str, type[Action]] = ACTIONS,
    watchdog: Watchdog = UNWATCHED,
    brief: bool = False,
    reasons: bool = True,
    observer: Observer = UNOBSERVED,
    backoff: AdmissionBackoff = NO_BACKOFF,
    outside: Outside = NO_OUTSIDE,
) -> Plan:
    """Decide on binds, nominations and evictions.

    Args:
        state: the cluster; unchanged when this returns.
        conf: actions and plugins, all of them among `plugins` and `actions`.
        now: microseconds since 1970.
        seed: breaks ties between equally good nodes; without one, the first node in order is used.
        plugins: plugins by name.
        actions: actions by name.
        watchdog: limits the time of calls to custom plugins and actions.
        brief: the plan has only binds, nominations and evictions, without reasons; this is faster.
        reasons: the plan has the reason of each pending task; otherwise, only of nominated ones.
        observer: measures the times of its parts.
        backoff: groups that could not be placed after admission, from the previous plan, at the time of this cycle.
        outside: sends requests of plugins to servers.
    """
    with services_placed(state, now, seed, brief=brief, reasons=reasons) as services:
        decided = _decide(
            state, conf, now, seed, plugins, actions, watchdog, observer, backoff, outside, brief=brief, reasons=reasons
        )
        return joined(services, decided)


def _decide(
    state: ClusterState,
    conf: SchedulerConf,
    now: int,
    seed: int | None,
    plugins: Mapping[str, type[Plugin]],
    actions: Mapping[str, type[Action]],
    watchdog: Watchdog,
    observer: Observer,
    backoff: AdmissionBackoff,
    outside: Outside,
    *,
    brief: bool,
    reasons: bool,
) -> Plan:
    """Return the plan for everything except services. Arguments as for `cycle`."""
    faults: list[Finding] = []
    while True:
        started = observer.now()
        session = Session(state, conf, now, seed, observer, backoff=backoff, outside=outside, brief=brief)
        session.findings.extend(faults)
        try:
            opened = open_plugins(session, conf, plugins, watchdog)
            observer.took("session", "open", observer.now() - started)
            hold_promises(session)
            for name in conf.actions:
                execute(session, actions[name], conf.action_arguments.get(name, {}), watchdog)
            drop_vain_promises(session)
            if brief:
                return outline(session)
            close_plugins(session, opened)
            plan = conclude(session, reasons=reasons)
            after = after_cycle(backoff, session, plan.groups)
            remembered = dataclasses.replace(
                after.backoff, turns={**backoff.turns, **session.turns}, tried=session.tried
            )
            return dataclasses.replace(plan, groups={**plan.groups, **after.given_back}, backoff=remembered)
        except PluginFault as fault:
            faults.append(
                Finding(f"plugin {fault.plugin}", f"{fault.what}; the cycle continues without it", error=True)
            )
            conf = conf.without(plugin=fault.plugin)
        except ActionFault as fault:
            faults.append(
                Finding(f"action {fault.action}", f"{fault.what}; the cycle continues without it", error=True)
            )
            conf = conf.without(action=fault.action)
        finally:
            session.close()
