"""Warnings about a valid configuration that may not work as intended.

`kilauea.engine.conf` reads the document and checks names and types. This module opens the plugins over an empty cluster
to learn at which points they register. This shows plugins that are never asked, and parts of the configuration that
need a missing part. `kilauea config check` prints the warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kilauea.api.meta import ObjectMeta
from kilauea.api.scheduling import Queue
from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import (
    FLAGS,
    Finding,
    Path,
    PluginConf,
    SchedulerConf,
    flag_of,
    inspect_conf,
    read_arguments,
    where_of,
)
from kilauea.engine.events import Changed
from kilauea.engine.eviction.policy import POLICIES
from kilauea.engine.extension import FLAGS as POINTS
from kilauea.engine.extension import PluginFault
from kilauea.engine.extension.guard import UNWATCHED, Watchdog
from kilauea.engine.opening import open_plugins
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState

ERROR, WARNING, NOTE = SEVERITIES = ("error", "warning", "note")
"""Levels: the configuration is invalid; it does not do what it seems to do; it is good to know."""

DECIDERS = {
    "job_enqueueable": frozenset("overcommit proportion capacity capacity-card resourcequota".split()),
    "job_pipelined": frozenset({"gang", "tdm"}),
    "sub_job_pipelined": frozenset({"gang"}),
}
"""Plugins that never abstain from a vote, by voting point; the scheduler does not ask the tiers after them."""

EVICTING = {
    "preemptable": frozenset({"preempt"}),
    "reclaimable": frozenset({"reclaim"}),
    "unified_evictable": frozenset({"gangpreempt", "gangreclaim"}),
}
"""Actions that request victims, by extension point."""

KNOW_STARVING = ("gang", "priority", "tdm")
"""Plugins that report starving jobs."""

SUBJECTS = {
    "job_enqueueable": "the admission of jobs",
    "job_pipelined": "nominations of gangs",
    "sub_job_pipelined": "nominations of sub-gangs",
}

WHY = {
    "yaml": "The scheduler can read only valid YAML.",
    "config-map": "The scheduler reads the text in the ConfigMap, not the ConfigMap itself.",
    "wrong-type": "A value of the wrong type is ignored, and the default is used.",
    "wrong-value": "A value out of range is ignored, and the default is used.",
    "unknown-plugin": "A typo must not change the behaviour of the scheduler, so the file is not used.",
    "left-out": "Volcano has or had it, but Kilauea does not; the rest of the file is used.",
    "unknown-action": "Without the intended action the cycle behaves differently, so the file is not used.",
    "unknown-key": "Unknown keys are ignored, so the intended setting has no effect.",
    "unknown-argument": "Unknown arguments are ignored, so the default is used.",
    "moved-argument": "The argument has moved to another plugin.",
    "translated-argument": "The argument has moved to another plugin, where it is read.",
    "empty-action": "A cycle is a list of actions, so each entry needs a name.",
    "unused-arguments": "The arguments of an action that does not exist have no effect.",
    "rival-plugins": "Shares and order of queues would come from different plugins, or from whichever is last.",
    "duplicate-plugin": "The entries share one set of functions, so the last entry's arguments apply at both places.",
    "duplicate-action": "The action runs once for each entry.",
    "no-plugins": "Plugins filter and score nodes, keep gangs together and share the cluster; nothing else does so.",
    "no-allocate": "Enqueue admits jobs, and backfill places pods without requests; no action places the other pods.",
    "action-order": "Jobs that are admitted after the placement wait for the next cycle without need.",
    "enqueue-without-votes": "Without a vote, enqueue admits every job at once, so it only costs time.",
    "unused-plugin": "The plugin only votes on the admission of jobs, and only enqueue asks for votes.",
    "hidden-voter": "Once a tier permits or rejects, the scheduler does not ask later tiers.",
    "powerless-voter": "Within a tier, a rejection overrides a permit; a permit in an earlier tier would win.",
    "hidden-starving": "The scheduler asks only the first tier with a plugin that reports starving jobs.",
    "no-starving": "These actions evict only for jobs that a plugin reports as starving; without one they do nothing.",
    "hidden-victims": "The first tier that returns victims decides; later tiers are asked only if it returns none.",
    "flag-spelling": "Kilauea accepts any spelling, but Volcano only this one.",
    "plugin-fault": "The cycle runs without a plugin that fails.",
    "plugin-warning": "The plugin itself reports it.",
}
"""The consequence of each finding, by code."""

FORM = "A document of the wrong form is invalid, so the file is not used."


@dataclass(frozen=True, slots=True)
class Issue:
    """A finding about a configuration."""

    severity: str
    code: str
    path: Path
    where: str
    message: str
    hint: str = ""
    """The most similar valid name."""
    why: str = ""


def check_conf(
    document: object,
    plugins: Mapping[str, type[Plugin]],
    actions: Mapping[str, type[Action]],
    watchdog: Watchdog = UNWATCHED,
) -> list[Issue]:
    """All findings about a configuration document, in its order."""
    conf = inspect_conf(document, plugins, actions)
    issues = [_of_finding(finding) for finding in conf.findings]
    if isinstance(document, Mapping):
        issues += _spellings(conf, document)
        issues += _arguments(conf, document, plugins, actions)
        issues += _duplicates(conf)
    if not any(issue.severity == ERROR for issue in issues):
        issues += _workings(conf, plugins, watchdog)
    return issues


def _of_finding(finding: Finding, path: Path = ()) -> Issue:
    severity = ERROR if finding.error else WARNING
    why = FORM if finding.error and finding.code == "wrong-type" else WHY.get(finding.code, "")
    return Issue(severity, finding.code, (*path, *finding.path), finding.where, finding.message, finding.hint, why)


def _issue(severity: str, code: str, at: Path | PluginConf, message: str, hint: str = "") -> Issue:
    path, where = (at, where_of(at)) if isinstance(at, tuple) else (at.path, _where(at))
    return Issue(severity, code, path, where, message, hint, WHY[code])


def _where(entry: PluginConf) -> str:
    return f"{where_of(entry.path)} ({entry.name})"


def _entries(conf: SchedulerConf) -> Iterator[PluginConf]:
    return (entry for tier in conf.tiers for entry in tier)


# --- what the document says


def _spellings(conf: SchedulerConf, document: Mapping[object, object]) -> Iterator[Issue]:
    """Enable flags that only this scheduler understands."""
    for entry in _entries(conf):
        for key in _at(document, entry.path):
            right = FLAGS.get(flag_of(str(key)), key)
            if key != right:
                path, message = (*entry.path, str(key)), f"{key} is {right} in Volcano"
                yield Issue(NOTE, "flag-spelling", path, _where(entry), message, str(right), WHY["flag-spelling"])


def _at(document: object, path: Path) -> Mapping[object, object]:
    for step in path:
        document = document[step]  # type: ignore[index]  # the path was made while reading the document
    return document if isinstance(document, Mapping) else {}


def _arguments(
    conf: SchedulerConf,
    document: Mapping[object, object],
    plugins: Mapping[str, type[Plugin]],
    actions: Mapping[str, type[Action]],
) -> Iterator[Issue]:
    for entry in _entries(conf):
        _, findings = read_arguments(plugins[entry.name].Arguments, entry.arguments, _where(entry))
        for finding in findings:
            yield _of_finding(finding, (*entry.path, "arguments"))
    entries = document.get("configurations")
    for i, configured in enumerate(entries if isinstance(entries, list) else ()):
        name = configured.get("name") if isinstance(configured, Mapping) else None
        if isinstance(name, str) and name in actions:
            path: Path = ("configurations", i)
            where = f"{where_of(path)} ({name})"
            _, findings = read_arguments(actions[name].Arguments, conf.action_arguments[name], where)
            for finding in findings:
                yield _of_finding(finding, (*path, "arguments"))


def _duplicates(conf: SchedulerConf) -> Iterator[Issue]:
    for name in dict.fromkeys(conf.actions):
        if conf.actions.count(name) > 1:
            yield _issue(
                NOTE, "duplicate-action", ("actions",), f"action {name} is named {conf.actions.count(name)} times"
            )


# --- what it does


class _Workings:
    """The points at which plugins registered, and the issues that follow."""

    def __init__(self, conf: SchedulerConf, session: Session) -> None:
        self._conf = conf
        self._entries = {entry.name: entry for entry in reversed(list(_entries(conf)))}
        self._points = {point: _names(session.points.tiers_of(point)) for point in POINTS}
        evicting = [name for name in dict.fromkeys(conf.actions) if name in POLICIES]
        self._for_starving = [name for name in evicting if not POLICIES[name](session).serves_pending(session)]
        """Actions that serve only jobs that plugins find starving."""

    def check(self) -> Iterator[Issue]:
        """Everything."""
        yield from self._actions()
        for point, deciders in DECIDERS.items():
            if point != "job_enqueueable" or "enqueue" in self._conf.actions:
                yield from self._votes(point, deciders)
        if self._for_starving:
            yield from self._starving()
        for point, actions in EVICTING.items():
            yield from self._victims(point, self._asking(*actions))

    def said(self, finding: Finding) -> Issue:
        """A warning of the plugin itself."""
        entry = self._entries.get(finding.where.removeprefix("plugin "))
        return _issue(WARNING, "plugin-warning", entry or (), finding.message)

    def _asking(self, *actions: str) -> list[str]:
        return [name for name in dict.fromkeys(self._conf.actions) if name in actions]

    def _actions(self) -> Iterator[Issue]:
        names, at = self._conf.actions, ("actions",)
        if "allocate" not in names and all(name in ACTIONS for name in names):
            yield _issue(WARNING, "no-allocate", at, "allocate is not among the actions", "allocate")
        if "enqueue" in names:
            if not self._points["job_enqueueable"]:
                message = "enqueue is among the actions, but no plugin votes on the admission of jobs"
                yield _issue(WARNING, "enqueue-without-votes", at, message)
            first = next(name for name in names if name in ("enqueue", "allocate", "backfill"))
            if first != "enqueue":
                yield _issue(WARNING, "action-order", at, f"enqueue comes after {first}: put it first")
            return
        for entry in self._entries.values():
            points = {point for point, tiers in self._points.items() if entry.name in _flat(tiers)}
            if points and points <= {"job_enqueueable", "job_enqueued"}:
                message = f"{entry.name} is configured, but enqueue is not among the actions"
                yield _issue(WARNING, "unused-plugin", entry, message, "enqueue")

    def _votes(self, point: str, deciders: frozenset[str]) -> Iterator[Issue]:
        for number, tier in enumerate(self._points[point]):
            deciding = [plugin for plugin in tier if plugin in deciders]
            if not deciding:
                continue
            for entry in self._later(point, number):
                message = f"{entry.name} is never asked about {SUBJECTS[point]}: decided by {self._those(deciding)}"
                yield _issue(WARNING, "hidden-voter", entry, message)
            if "sla" in tier:
                message = f"sla cannot speed up {SUBJECTS[point]} against {_and(deciding)}: put it into an earlier tier"
                yield _issue(NOTE, "powerless-voter", self._entries["sla"], message)
            return

    def _starving(self) -> Iterator[Issue]:
        if not self._points["job_starving"]:
            off = [entry for name in KNOW_STARVING if (entry := self._entries.get(name)) is not None]
            serve = "serves" if len(self._for_starving) == 1 else "serve"
            message = (
                f"{_and(self._for_starving)} {serve} only starving jobs, and no plugin says which jobs are starving"
            )
            if off:
                message += f": enableJobStarving is false for {_and([entry.name for entry in off])}"
            yield _issue(WARNING, "no-starving", off[0] if off else ("actions",), message)
        for entry in self._later("job_starving"):
            first = self._those(self._points["job_starving"][0])
            message = f"{entry.name} is never asked which jobs starve: decided by {first}"
            yield _issue(WARNING, "hidden-starving", entry, message)

    def _victims(self, point: str, asking: list[str]) -> Iterator[Issue]:
        for entry in self._later(point) if asking else ():
            first = self._those(self._points[point][0])
            message = f"{entry.name} is asked about the victims of {_and(asking)} only if {first} names none"
            # Plain drf is meant as the second choice; the others protect pods.
            yield _issue(NOTE if entry.name == "drf" else WARNING, "hidden-victims", entry, message)

    def _later(self, point: str, than: int = 0) -> list[PluginConf]:
        """Plugins of the tiers after one, except those that are also in an earlier one."""
        tiers = self._points[point]
        earlier = set(_flat(tiers[: than + 1]))
        return [self._entries[plugin] for plugin in dict.fromkeys(_flat(tiers[than + 1 :])) if plugin not in earlier]

    def _those(self, plugins: list[str]) -> str:
        return f"{_and(plugins)} in {where_of(self._entries[plugins[0]].path[:2])}"


def _empty_cluster() -> ClusterState:
    """A cluster with only the default queue."""
    state = ClusterState()
    state.apply(Changed(Queue(kind="Queue", metadata=ObjectMeta(name=ROOT_QUEUE))))
    return state


def _workings(conf: SchedulerConf, plugins: Mapping[str, type[Plugin]], watchdog: Watchdog) -> list[Issue]:
    """Issues that show only once plugins have registered."""
    issues: list[Issue] = []
    if not any(conf.tiers):
        issues.append(_issue(WARNING, "no-plugins", ("tiers",), "no tier has a plugin"))
    while True:
        session = Session(_empty_cluster(), conf, 0, None)
        try:
            open_plugins(session, conf, plugins, watchdog)
            workings = _Workings(conf, session)
            issues += [workings.said(f) for f in session.findings if not f.code]
            return [*issues, *workings.check()]
        except PluginFault as fault:
            entry = next(entry for entry in _entries(conf) if entry.name == fault.plugin)
            message = f"{fault.plugin} cannot be opened over an empty cluster: it {fault.what}"
            issues.append(_issue(WARNING, "plugin-fault", entry, message))
            conf = conf.without(plugin=fault.plugin)
        finally:
            session.close()


def _names(tiers: list[list[tuple[str, Any]]]) -> list[list[str]]:
    return [[plugin for plugin, _ in tier] for tier in tiers]


def _flat(tiers: Iterable[list[str]]) -> Iterator[str]:
    return (plugin for tier in tiers for plugin in tier)


def _and(names: list[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
