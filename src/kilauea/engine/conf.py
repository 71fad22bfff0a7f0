"""The scheduler configuration: actions, tiers of plugins with their flags and arguments, and arguments of actions.

The file is Volcano's. It is read as a whole: what is wrong is collected with its place and the nearest right name, and
a configuration with errors is never used (`ConfError`). Wrong types of single arguments and unknown keys are warnings;
the default stays, as it does in the original.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kilauea.api.wellknown import parse_bool

T = TypeVar("T")

DEFAULT_CONF: dict[str, Any] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {
            "plugins": [
                {"name": "overcommit"},
                {"name": "drf"},
                {"name": "predicates"},
                {"name": "proportion"},
                {"name": "nodeorder"},
            ]
        },
    ],
}
"""The configuration that holds when none is given."""

OFF_BY_DEFAULT = frozenset({"hierarchy", "clusterorder"})

FLAG_NAMES = (
    "enableJobOrder",
    "enableHierarchy",
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "enabledClusterOrder",
    "enablePredicate",
    "enableBestNode",
    "enableNodeOrder",
    "enableTargetJob",
    "enableReservedNodes",
    "enableJobEnqueued",
    "enabledVictim",
    "enableJobStarving",
    "enabledOverused",
    "enabledAllocatable",
    "enabledHyperNodeOrder",
    "enabledSubJobReady",
    "enabledSubJobPipelined",
    "enabledSubJobOrder",
    "enabledHyperNodeGradient",
)
"""Enable flags as the original spells them; here `enable` and `enabled` and upper and lower case mean the same."""


def flag_of(key: str) -> str:
    """The one form of an enable flag: lower case, without `enable` or `enabled`."""
    return re.sub(r"^enabled?", "", key.lower())


FLAGS = {flag_of(name): name for name in FLAG_NAMES}
ALIASES = {"numaaware": "numa-aware", "topology": "task-topology", "capacity_card": "capacity-card"}
KNOWN_ELSEWHERE = frozenset(
    "deviceshare resource-strategy-fit tdm sla task-topology numa-aware cdp rescheduling usage pdb nodegroup "
    "network-topology-aware capacity capacity-card extender resourcequota".split()
)
"""Plugins of the original; those that this build does not have yet are passed over with a warning."""
ACTIONS_ELSEWHERE = frozenset("preempt reclaim shuffle gangpreempt gangreclaim".split())
MOVED_KEYS = {
    "predicate.GPUSharingEnable": "deviceshare.GPUSharingEnable",
    "predicate.GPUNumberEnable": "deviceshare.GPUNumberEnable",
    "predicate.ProportionalEnable": "proportional.enable of plugin resource-strategy-fit",
    "predicate.resources": "proportional.resources of plugin resource-strategy-fit",
}
"""Arguments that live elsewhere now, with the new key."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a configuration: where (`tiers[0].plugins[1]`), what, and whether it forbids its use."""

    where: str
    message: str
    error: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class ConfError(ValueError):
    """A configuration that cannot be used; `findings` say why."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("; ".join(str(f) for f in findings if f.error))
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class PluginConf:
    """One plugin in a tier."""

    name: str
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Enable flags by `flag_of`."""
    arguments: Mapping[str, object] = field(default_factory=dict)

    def is_enabled(self, *flags: str) -> bool:
        """Whether any of the flags is on; true without flags. A flag that is not set is on, but for a few."""
        return not flags or any(self.flags.get(flag, flag not in OFF_BY_DEFAULT) for flag in flags)


@dataclass(frozen=True, slots=True)
class SchedulerConf:
    """A configuration that can be used."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConf, ...], ...]
    action_arguments: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    """Warnings."""

    def without(self, *, plugin: str = "", action: str = "") -> SchedulerConf:
        """The same without a plugin or an action."""
        return dataclasses.replace(
            self,
            actions=tuple(a for a in self.actions if a != action),
            tiers=tuple(tuple(p for p in tier if p.name != plugin) for tier in self.tiers),
        )


def parse_conf(document: object, plugins: Collection[str], actions: Collection[str]) -> SchedulerConf:
    """Read a configuration document (what YAML made of the file).

    Raises:
        ConfError: it is not usable; all errors are in it.
    """
    reader = _Reader(plugins, actions)
    conf = reader.read(document)
    if any(f.error for f in reader.findings):
        raise ConfError(reader.findings)
    return conf


class _Reader:
    def __init__(self, plugins: Collection[str], actions: Collection[str]) -> None:
        self._plugins = plugins
        self._actions = actions
        self.findings: list[Finding] = []

    def _error(self, where: str, message: str) -> None:
        self.findings.append(Finding(where, message, error=True))

    def _warn(self, where: str, message: str) -> None:
        self.findings.append(Finding(where, message))

    def read(self, document: object) -> SchedulerConf:
        if not isinstance(document, Mapping):
            self._error("", f"a scheduler configuration is a map with actions and tiers, this is {_kind(document)}")
            return SchedulerConf((), ())
        for key in document:
            if key not in ("actions", "tiers", "configurations", "metrics"):
                self._warn("", f"unknown key {key!r}{nearest(str(key), ('actions', 'tiers', 'configurations'))}")
        actions = self._read_actions(document.get("actions"))
        tiers = tuple(self._read_tier(i, t) for i, t in enumerate(self._list("tiers", document.get("tiers"))))
        return SchedulerConf(actions, tiers, self._read_action_arguments(document), tuple(self.findings))

    def _list(self, where: str, value: object) -> list[object]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._error(where, f"expected a list, got {_kind(value)}")
            return []
        return value

    def _read_actions(self, text: object) -> tuple[str, ...]:
        if not isinstance(text, str):
            self._error(
                "actions", f'expected names separated by commas, such as "enqueue, allocate", got {_kind(text)}'
            )
            return ()
        chosen = []
        for name in (part.strip() for part in text.split(",")):
            if name in self._actions:
                chosen.append(name)
            elif name in ACTIONS_ELSEWHERE:
                self._warn("actions", f"action {name} is not part of this version and is skipped")
            else:
                self._error("actions", f"unknown action {name!r}{nearest(name, self._actions)}")
        return tuple(chosen)

    def _read_tier(self, number: int, tier: object) -> tuple[PluginConf, ...]:
        where = f"tiers[{number}]"
        if not isinstance(tier, Mapping):
            self._error(where, f"expected a map with plugins, got {_kind(tier)}")
            return ()
        out = []
        for i, entry in enumerate(self._list(f"{where}.plugins", tier.get("plugins"))):
            plugin = self._read_plugin(f"{where}.plugins[{i}]", entry)
            if plugin is not None:
                out.append(plugin)
        names = {p.name for p in out}
        if "proportion" in names and any(p.name == "drf" and p.is_enabled("hierarchy") for p in out):
            self._error(where, "proportion and drf with hierarchy enabled conflicts")
        return tuple(out)

    def _read_plugin(self, where: str, entry: object) -> PluginConf | None:
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(name, str):
            self._error(where, "expected a map with a name")
            return None
        name = ALIASES.get(name, name)
        if name not in self._plugins:
            if name in KNOWN_ELSEWHERE:
                self._warn(where, f"plugin {name} is not part of this version and is skipped")
            else:
                known = {*self._plugins, *KNOWN_ELSEWHERE}
                self._error(where, f"unknown plugin {name!r}{nearest(name, known)}")
            return None
        flags: dict[str, bool] = {}
        for key, value in entry.items():
            if key in ("name", "arguments"):
                continue
            flag = flag_of(str(key))
            if flag not in FLAGS:
                self._warn(f"{where} ({name})", f"unknown key {key!r}{nearest(str(key), FLAG_NAMES)}")
            elif not isinstance(value, bool):
                self._warn(f"{where} ({name})", f"{key} takes true or false, not {value!r}; its default is kept")
            else:
                flags[flag] = value
        arguments = entry.get("arguments") or {}
        if not isinstance(arguments, Mapping):
            self._warn(f"{where} ({name})", f"arguments is a map, not {_kind(arguments)}; defaults are kept")
            arguments = {}
        return PluginConf(name, flags, {str(k): v for k, v in arguments.items()})

    def _read_action_arguments(self, document: Mapping[Any, Any]) -> dict[str, dict[str, object]]:
        out: dict[str, dict[str, object]] = {}
        for i, entry in enumerate(self._list("configurations", document.get("configurations"))):
            where = f"configurations[{i}]"
            if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
                self._error(where, "expected a map with the name of an action")
                continue
            arguments = entry.get("arguments") or {}
            if not isinstance(arguments, Mapping):
                self._warn(where, f"arguments is a map, not {_kind(arguments)}; defaults are kept")
                arguments = {}
            out[entry["name"]] = {str(k): v for k, v in arguments.items()}
        return out


# --- typed arguments


def argument(key: str, default: T, doc: str, *, minimum: float | None = None) -> T:
    """A field of an `Arguments` dataclass, read from `key`.

    A default of type dict stands for all keys that begin with `key`, by what follows it; its values are integers.
    A value below `minimum` is refused with a warning.
    """
    metadata = {"key": key, "doc": doc, "minimum": minimum}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)  # type: ignore[return-value]
    return field(default=default, metadata=metadata)


def read_arguments(of: type[T], given: Mapping[str, object], where: str) -> tuple[T, list[Finding]]:
    """Make an `Arguments` dataclass of what the configuration gives.

    Wrong types and values keep the default and are warned about, as are unknown keys.
    """
    values: dict[str, Any] = {}
    findings: list[Finding] = []
    fields = {f.metadata["key"]: f for f in dataclasses.fields(of)}  # type: ignore[arg-type]
    families = {key: f for key, f in fields.items() if f.default_factory is not dataclasses.MISSING}
    for key, value in given.items():
        family = next((prefix for prefix in families if key.startswith(prefix)), None)
        known = fields.get(key)
        if known is not None and family is None:
            read = _typed(value, type(known.default))
            problem = _problem(key, value, read, known)
            if problem:
                findings.append(Finding(where, problem))
            else:
                values[known.name] = read
        elif family is not None:
            read = _typed(value, int)
            if read is None:
                findings.append(Finding(where, f"{key} takes an integer, not {value!r}; its default is kept"))
            else:
                values.setdefault(families[family].name, {})[key[len(family) :]] = read
        elif key in MOVED_KEYS:
            findings.append(Finding(where, f"{key} has moved to {MOVED_KEYS[key]}; it has no effect here"))
        else:
            findings.append(Finding(where, f"unknown argument {key!r}{nearest(key, fields)}"))
    return of(**values), findings


def _problem(key: str, value: object, read: object, known: dataclasses.Field[Any]) -> str:
    default, minimum = known.default, known.metadata["minimum"]
    if read is None:
        return f"{key} takes {_TYPE_NAMES[type(default)]}, not {value!r}; {default!r} is kept"
    if minimum is not None and isinstance(read, (int, float)) and read < minimum:
        return f"{key} cannot be less than {minimum}, but is {value!r}; {default!r} is kept"
    return ""


_TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "text"}


def _typed(value: object, wanted: type) -> Any:
    """The value if it has the type (spec 3.3.2: numbers accept integers, booleans the usual words), else None."""
    if wanted is bool:
        return value if isinstance(value, bool) else parse_bool(value) if isinstance(value, str) else None
    if isinstance(value, bool):
        return None
    if wanted is float and isinstance(value, int):
        return float(value)
    return value if isinstance(value, wanted) else None


def nearest(name: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?` if there is a name like it, else nothing."""
    by_fold = {k.lower(): k for k in sorted(known)}
    close = difflib.get_close_matches(name.lower(), list(by_fold), n=1, cutoff=0.6)
    return f"; did you mean {by_fold[close[0]]!r}?" if close else ""


def _kind(value: object) -> str:
    return {type(None): "nothing", list: "a list", dict: "a map", str: f"the text {value!r}"}.get(
        type(value), repr(value)
    )
