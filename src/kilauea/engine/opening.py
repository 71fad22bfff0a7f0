"""The plugins of a session: they are created from the configuration, register functions, and are called at the end.

The session stores only the functions that plugins register, not the plugins. The caller that opens a session keeps the
plugins, so they are freed with the last of their functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import PluginConf, SchedulerConf, read_arguments
from kilauea.engine.extension.guard import UNWATCHED, Guard, Watchdog
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session


def open_plugins(
    session: Session, conf: SchedulerConf, plugins: Mapping[str, type[Plugin]], watchdog: Watchdog = UNWATCHED
) -> list[Plugin]:
    """Create the plugins of a configuration and let them register; for duplicates, the last entry applies.

    Raises:
        PluginFault: a plugin fails.
    """
    opened = []
    for name, entry in {entry.name: entry for tier in conf.tiers for entry in tier}.items():
        of = plugins[name]
        if of is not PLUGINS.get(name):
            domains = len(session.domains.tree.names)
            session.points.post_guard(name, Guard(name, of.__module__, watchdog, domains=domains))
        opened.append(_make(session, of, entry))
    for plugin in opened:
        started = session.observer.now()
        with session.points.registering(plugin.name):
            _call(session, "on_session_open", plugin, plugin.on_session_open)
        session.observer.took("opening", plugin.name, session.observer.now() - started)
    return opened


def close_plugins(session: Session, opened: Sequence[Plugin]) -> None:
    """Let the plugins add their findings about the cycle.

    Raises:
        PluginFault: a plugin fails.
    """
    for plugin in opened:
        started = session.observer.now()
        _call(session, "on_session_close", plugin, plugin.on_session_close)
        session.observer.took("closing", plugin.name, session.observer.now() - started)


def _call(session: Session, step: str, plugin: Plugin, method: Callable[[Session], None]) -> None:
    session.points.ask(step, plugin.name, session.points.guarded(step, plugin.name, method), session)


def _make(session: Session, of: type[Plugin], entry: PluginConf) -> Plugin:
    where = f"plugin {of.name}"
    arguments, findings = session.points.ask("Arguments", of.name, read_arguments, of.Arguments, entry.arguments, where)
    session.findings.extend(findings)
    plugin: Plugin = session.points.ask(
        "construction", of.name, session.points.guarded("construction", of.name, of), entry, arguments
    )
    return plugin


def execute(session: Session, of: type[Action], given: Mapping[str, object], watchdog: Watchdog = UNWATCHED) -> None:
    """Run one action on a session.

    Raises:
        PluginFault, ActionFault: a plugin, or the action itself, fails.
    """
    own, started = of is not ACTIONS.get(of.name), session.observer.now()
    guard = Guard(of.name, of.__module__, watchdog if own else UNWATCHED, "action")
    arguments, findings = guard.call("Arguments", read_arguments, of.Arguments, given, f"action {of.name}")
    session.findings.extend(findings)
    action = guard.call("construction", of, arguments)
    for step in (action.on_start, action.execute, action.on_end):
        guard.call(step.__name__, step, session)
    session.observer.took("action", of.name, session.observer.now() - started)
