"""The scheduler configuration: actions, tiers of plugins with their flags and arguments, and arguments of actions.

The file has Volcano's format. It is read as a whole: errors are collected with their path and the most similar valid
name, and a configuration with errors is never used (`ConfError`). Wrong types of single arguments and unknown keys are
warnings; the default applies, as in Volcano.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kilauea.api.wellknown import parse_bool
from kilauea.engine.conf.lacking import LACKING_ACTIONS, LACKING_PLUGINS
from kilauea.engine.conf.metrics import FIELDS as METRICS_KEYS
from kilauea.engine.conf.metrics import NO_METRICS, MetricsConf, read_metrics
from kilauea.engine.conf.moved import NEW_KEY, NEW_PLUGIN, moved_arguments

T = TypeVar("T")

LARGEST = 1 << 53
"""Maximum value of an argument: up to here floats are exact, and scores stay finite."""

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
                {"name": "network-topology-aware"},
            ]
        },
    ],
}
"""The default configuration."""

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
"""Enable flags in Volcano's spelling; here, `enable` and `enabled`, and upper and lower case, mean the same."""


def flag_of(key: str) -> str:
    """The normalized form of an enable flag: lower case, without `enable` or `enabled`."""
    return re.sub(r"^enabled?", "", key.lower())


FLAGS = {flag_of(name): name for name in FLAG_NAMES}
ALIASES = {"numaaware": "numa-aware", "topology": "task-topology", "capacity_card": "capacity-card"}
QUEUE_PLUGINS = ("proportion", "capacity", "capacity-card")
"""Each computes the shares of queues, so only one of them can be used."""
DEVICE_KEYS = {
    "predicate.GPUSharingEnable": "deviceshare.GPUSharingEnable",
    "predicate.GPUNumberEnable": "deviceshare.GPUNumberEnable",
}
"""Arguments of predicates that now belong to deviceshare, to which they are passed on."""


Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a configuration: the place (`tiers[0].plugins[1]`), the message, and True if it is an error."""

    where: str
    """Path in the document, in words."""
    message: str
    """The problem, and the fix."""
    error: bool = False
    """True if the configuration cannot be used."""
    code: str = ""
    """The code, for programs: `unknown-plugin`, `wrong-type` and so on."""
    path: Path = ()
    """Keys and indices of its path in the document."""
    hint: str = ""
    """The name that was probably intended."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class ConfError(ValueError):
    """An invalid configuration; `findings` contain the reasons."""

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
    path: Path = field(default=(), compare=False)
    """The path in the document."""

    def is_enabled(self, *flags: str) -> bool:
        """True if any of the flags is on, or if there are none. Flags are on by default, except a few."""
        return not flags or any(self.flags.get(flag, flag not in OFF_BY_DEFAULT) for flag in flags)


@dataclass(frozen=True, slots=True)
class SchedulerConf:
    """A valid configuration."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConf, ...], ...]
    action_arguments: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    """Warnings, and errors in a configuration that is only inspected."""
    metrics: MetricsConf = NO_METRICS
    """The monitoring system that provides the loads of nodes."""

    @property
    def plugins(self) -> frozenset[str]:
        """Names of all plugins in the tiers."""
        return frozenset(entry.name for tier in self.tiers for entry in tier)

    def without(self, *, plugin: str = "", action: str = "") -> SchedulerConf:
        """Return a copy without a plugin or an action."""
        return dataclasses.replace(
            self,
            actions=tuple(a for a in self.actions if a != action),
            tiers=tuple(tuple(p for p in tier if p.name != plugin) for tier in self.tiers),
        )


def parse_conf(document: object, plugins: Collection[str], actions: Collection[str]) -> SchedulerConf:
    """Read a configuration document (the parsed YAML file).

    Raises:
        ConfError: it is invalid; contains all errors.
    """
    conf = inspect_conf(document, plugins, actions)
    if any(f.error for f in conf.findings):
        raise ConfError(conf.findings)
    return conf


def inspect_conf(document: object, plugins: Collection[str], actions: Collection[str]) -> SchedulerConf:
    """As `parse_conf`, but errors are among the findings; invalid parts are left out."""
    return _Reader(plugins, actions).read(document)


class _Reader:
    def __init__(self, plugins: Collection[str], actions: Collection[str]) -> None:
        self._plugins = plugins
        self._actions = actions
        self.findings: list[Finding] = []

    def _error(
        self, path: Path, message: str, code: str = "wrong-type", hint: str = "", where: str | None = None
    ) -> None:
        place = where_of(path) if where is None else where
        self.findings.append(Finding(place, message + _meant(hint), True, code, path, hint))

    def _warn(self, path: Path, where: str, message: str, code: str = "wrong-type", hint: str = "") -> None:
        self.findings.append(Finding(where, message + _meant(hint), False, code, path, hint))

    def _unknown_keys(self, path: Path, where: str, keys: Iterable[object], known: Collection[str]) -> None:
        for key in keys:
            if key not in known:
                name = str(key)
                self._warn((*path, name), where, f"unknown key {name!r}", "unknown-key", nearest_name(name, known))

    def read(self, document: object) -> SchedulerConf:
        if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
            message = "this is a ConfigMap: pass the text under its data as a separate file"
            self._error((), message, "config-map")
            return SchedulerConf((), (), findings=tuple(self.findings))
        if not isinstance(document, Mapping):
            self._error((), f"a scheduler configuration is a map with actions and tiers, this is {_kind(document)}")
            return SchedulerConf((), (), findings=tuple(self.findings))
        self._unknown_keys((), "", document, ("actions", "tiers", "configurations", "metrics"))
        actions = self._read_actions(document.get("actions"))
        tiers = tuple(self._read_tier(i, t) for i, t in enumerate(self._list(("tiers",), document.get("tiers"))))
        tiers = translated(tiers)
        self._warn_of_rivals(tiers)
        self._warn_of_duplicates(tiers)
        arguments = self._read_action_arguments(document)
        metrics = self._read_metrics(document.get("metrics"))
        return SchedulerConf(actions, self._with_moved(tiers), arguments, tuple(self.findings), metrics)

    def _list(self, path: Path, value: object) -> list[object]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._error(path, f"expected a list, got {_kind(value)}")
            return []
        return value

    def _read_actions(self, text: object) -> tuple[str, ...]:
        path: Path = ("actions",)
        if not isinstance(text, str):
            self._error(path, f'expected names separated by commas, such as "enqueue, allocate", got {_kind(text)}')
            return ()
        chosen = []
        for name in (part.strip() for part in text.split(",")):
            if name in self._actions:
                chosen.append(name)
            elif not name:
                what = "there is a comma too many" if text.strip() else "no action is named, so nothing would be done"
                self._error(path, what, "empty-action")
            elif name in LACKING_ACTIONS:
                self._warn(path, where_of(path), f"action {name} is left out: {LACKING_ACTIONS[name]}", "left-out")
            else:
                self._error(path, f"unknown action {name!r}", "unknown-action", nearest_name(name, self._actions))
        return tuple(chosen)

    def _read_tier(self, number: int, tier: object) -> tuple[PluginConf, ...]:
        path: Path = ("tiers", number)
        if not isinstance(tier, Mapping):
            self._error(path, f"expected a map with plugins, got {_kind(tier)}")
            return ()
        self._unknown_keys(path, where_of(path), tier, ("plugins",))
        out = []
        for i, entry in enumerate(self._list((*path, "plugins"), tier.get("plugins"))):
            plugin = self._read_plugin((*path, "plugins", i), entry)
            if plugin is not None:
                out.append(plugin)
        names = {p.name for p in out}
        if "proportion" in names and any(p.name == "drf" and p.is_enabled("hierarchy") for p in out):
            self._error(path, "proportion and drf with hierarchy enabled conflicts", "rival-plugins")
        return tuple(out)

    def _with_moved(self, tiers: tuple[tuple[PluginConf, ...], ...]) -> tuple[tuple[PluginConf, ...], ...]:
        """The tiers, with moved arguments of predicates passed to the plugin that reads them now."""
        olds = [p for tier in tiers for p in tier if p.name == "predicates" and moved_arguments(p.arguments).keys]
        if not olds or NEW_PLUGIN not in self._plugins:
            return tiers
        new = next((p for tier in tiers for p in tier if p.name == NEW_PLUGIN), None)
        out = []
        for tier in tiers:
            entries: list[PluginConf] = []
            for entry in tier:
                moved = moved_arguments(entry.arguments) if entry in olds else None
                entries.append(entry if moved is None else dataclasses.replace(entry, arguments=moved.kept))
                if moved is not None:
                    self._warn_of_moved(entry, moved.keys, moved.proportional, new)
                if moved is not None and new is None:
                    # Its scores stay off: no configuration requests them.
                    arguments = {"resourceStrategyFitWeight": 0, NEW_KEY: moved.proportional}
                    entries.append(PluginConf(NEW_PLUGIN, entry.flags, arguments, entry.path))
            out.append(tuple(entries))
        if new is None or NEW_KEY in new.arguments:
            return tuple(out)
        whole = {**new.arguments, NEW_KEY: moved_arguments(olds[-1].arguments).proportional}
        changed = dataclasses.replace(new, arguments=whole)
        return tuple(tuple(changed if entry is new else entry for entry in tier) for tier in out)

    def _warn_of_moved(
        self, old: PluginConf, keys: Sequence[str], proportional: Mapping[str, object], new: PluginConf | None
    ) -> None:
        named = keys[0] if len(keys) == 1 else f"{', '.join(keys[:-1])} and {keys[-1]}"
        used = new is None or NEW_KEY not in new.arguments
        done = f"read as {NEW_KEY}: {dict(proportional)!r}" if used else f"not used, as {NEW_KEY} is given there"
        message = f"moved to {NEW_KEY} of plugin {NEW_PLUGIN}: {named}; {done}"
        path = (*old.path, "arguments", keys[0])
        self._warn(path, f"{where_of(old.path)} ({old.name})", message, "translated-argument")

    def _warn_of_rivals(self, tiers: Sequence[Sequence[PluginConf]]) -> None:
        used = [p for tier in tiers for p in tier if p.name in QUEUE_PLUGINS]
        names = list(dict.fromkeys(p.name for p in used))
        if len(names) > 1:
            last = next(p for p in used if p.name == names[-1])
            message = f"{' and '.join(names)} both decide what queues get, and overwrite each other: keep one"
            self._warn(last.path, where_of(last.path), message, "rival-plugins")

    def _warn_of_duplicates(self, tiers: Sequence[Sequence[PluginConf]]) -> None:
        entries: dict[str, list[PluginConf]] = {}
        for entry in (entry for tier in tiers for entry in tier):
            entries.setdefault(entry.name, []).append(entry)
        for name, (first, *others) in entries.items():
            if others:
                second, *more = (where_of(other.path) for other in others)
                rest = f", {more[0]}" if len(more) == 1 else f" and {len(more)} more, up to {more[-1]}" if more else ""
                message = f"plugin {name} is also at {where_of(first.path)}{rest}: keep one of them"
                self._warn(others[0].path, f"{second} ({name})", message, "duplicate-plugin")

    def _read_plugin(self, path: Path, entry: object) -> PluginConf | None:
        where = where_of(path)
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(name, str):
            self._error(path, "expected a map with a name")
            return None
        name = self._plugin_name(name)
        if name not in self._plugins and name in LACKING_PLUGINS:
            message = f"plugin {name} is left out: {LACKING_PLUGINS[name]}"
            self._warn((*path, "name"), where, message, "left-out")
            return None
        if name not in self._plugins:
            hint = nearest_name(name, self._plugins)
            own = "" if hint else "; load your own, written in Python, with --plugins-dir; remove one built for Volcano"
            self._error((*path, "name"), f"unknown plugin {name!r}{own}", "unknown-plugin", hint, where)
            return None
        where = f"{where} ({name})"
        flags: dict[str, bool] = {}
        for key, value in entry.items():
            if key in ("name", "arguments"):
                continue
            flag = flag_of(str(key))
            if flag not in FLAGS:
                self._unknown_keys(path, where, [key], (*FLAG_NAMES, "name", "arguments"))
            elif not isinstance(value, bool):
                message = f"{key} takes true or false, not {value!r}; its default is kept"
                self._warn((*path, str(key)), where, message)
            else:
                flags[flag] = value
        return PluginConf(name, flags, self._arguments(path, where, entry), path)

    def _plugin_name(self, name: str) -> str:
        """The plugin with a name: as spelled, case-insensitively, or by another of its names."""
        if name in self._plugins:
            return name
        lower = name.lower()
        meant = ALIASES.get(lower, lower)
        return next((known for known in self._plugins if known.lower() == meant), name)

    def _arguments(self, path: Path, where: str, entry: Mapping[Any, Any]) -> dict[str, object]:
        arguments = entry.get("arguments") or {}
        if not isinstance(arguments, Mapping):
            message = f"arguments is a map, not {_kind(arguments)}; defaults are kept"
            self._warn((*path, "arguments"), where, message)
            return {}
        return {str(k): v for k, v in arguments.items()}

    def _read_action_arguments(self, document: Mapping[Any, Any]) -> dict[str, dict[str, object]]:
        out: dict[str, dict[str, object]] = {}
        for i, entry in enumerate(self._list(("configurations",), document.get("configurations"))):
            path: Path = ("configurations", i)
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if not isinstance(entry, Mapping) or not isinstance(name, str):
                self._error(path, "expected a map with the name of an action")
                continue
            if name not in self._actions:
                message = f"unknown action {name!r}; its arguments are not used"
                self._warn(
                    (*path, "name"), where_of(path), message, "unused-arguments", nearest_name(name, self._actions)
                )
            self._unknown_keys(path, where_of(path), entry, ("name", "arguments"))
            out[name] = self._arguments(path, where_of(path), entry)
        return out

    def _read_metrics(self, section: object) -> MetricsConf:
        path: Path = ("metrics",)
        if section is None:
            return NO_METRICS
        if not isinstance(section, Mapping):
            self._warn(path, "metrics", f"expected a map, got {_kind(section)}; no loads of nodes are read")
            return NO_METRICS
        self._unknown_keys(path, "metrics", section, METRICS_KEYS)
        conf, faults = read_metrics(section)
        for fault in faults:
            self._warn((*path, fault.key), "metrics", fault.message, fault.code)
        return conf


def translated(tiers: tuple[tuple[PluginConf, ...], ...]) -> tuple[tuple[PluginConf, ...], ...]:
    """Return the tiers with the GPU switches that former versions had under predicates moved to deviceshare.

    The arguments of deviceshare itself take precedence. Without an entry, it is added next to predicates.
    """
    given = {
        DEVICE_KEYS[key]: value
        for tier in tiers
        for entry in tier
        if entry.name == "predicates"
        for key, value in entry.arguments.items()
        if key in DEVICE_KEYS
    }
    if not given:
        return tiers
    if any(entry.name == "deviceshare" for tier in tiers for entry in tier):
        return tuple(
            tuple(
                dataclasses.replace(entry, arguments={**given, **entry.arguments})
                if entry.name == "deviceshare"
                else entry
                for entry in tier
            )
            for tier in tiers
        )
    if not any(_is_on(value) for value in given.values()):
        return tiers
    return tuple(
        (*tier, PluginConf("deviceshare", {}, given, next(e.path for e in tier if e.name == "predicates")))
        if any(entry.name == "predicates" for entry in tier)
        else tier
        for tier in tiers
    )


def _is_on(value: object) -> bool:
    return value is True or (isinstance(value, str) and bool(parse_bool(value)))


def where_of(path: Path) -> str:
    """A path in its usual form: `tiers[0].plugins[1]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


# --- typed arguments


def argument(
    key: str,
    default: T,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
    values: type = int,
    numbers: bool = False,
) -> T:
    """A field of an `Arguments` dataclass, read from `key`.

    A default of type dict means a map: if `key` ends with a dot, of all keys with this prefix, by the rest of the key;
    otherwise of that one key, whose value is a map. Its values are of the type `values`. A default of type tuple stands
    for a list of names, which may also be a text with commas; with `values=object` for a list of anything. A default
    that is a dataclass of arguments, or such a class as `values`, stands for a map with those keys. A value below
    `minimum` or above `maximum`, or that is none of the `choices`, is refused with a warning. With `numbers`, a text
    may be written as an integer too.
    """
    metadata = {
        "key": key,
        "doc": doc,
        "minimum": minimum,
        "maximum": maximum,
        "choices": tuple(choices),
        "values": values,
        "numbers": numbers,
    }
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)  # type: ignore[return-value]
    return field(default=default, metadata=metadata)


def read_arguments(of: type[T], given: Mapping[str, object], where: str) -> tuple[T, list[Finding]]:
    """Create an `Arguments` dataclass from the configuration.

    Wrong types and values keep the default with a warning; unknown keys are warnings, too.
    """
    if not given:
        return of(), []
    values: dict[str, Any] = {}
    findings: list[Finding] = []
    fields = {f.metadata["key"]: f for f in dataclasses.fields(of)}  # type: ignore[arg-type]
    families = {key: f for key, f in fields.items() if f.default_factory is not dataclasses.MISSING}
    for key, value in given.items():
        if (nested := fields.get(key)) is not None and dataclasses.is_dataclass(nested.default):
            values[nested.name], found = _read_nested(type(nested.default), key, value, where)
            findings.extend(found)
            continue
        family = next((f for f in families if key == f or (f.endswith(".") and key.startswith(f))), None)
        known = fields.get(key)
        if known is not None and family is None:
            read = _typed(value, _type_of(known))
            if read is None and known.metadata["numbers"] and _typed(value, int) is not None:
                read = str(value)
            problem = _problem(key, value, read, known)
            if problem:
                code = "wrong-type" if read is None else "wrong-value"
                findings.append(Finding(where, problem, False, code, (key,)))
            else:
                values[known.name] = read
        elif family is not None:
            entries, found = _read_family(family, families[family], key, value, where)
            if entries:
                values.setdefault(families[family].name, {}).update(entries)
            findings.extend(found)
        elif key in DEVICE_KEYS:
            done = (
                "it is passed on to plugin deviceshare: write it there"
                if _is_on(value)
                else "off is its default: remove it"
            )
            message = f"{key} has moved to {DEVICE_KEYS[key]}; {done}"
            findings.append(Finding(where, message, False, "moved-argument", (key,), DEVICE_KEYS[key]))
        else:
            hint = nearest_name(key, fields)
            message = f"unknown argument {key!r}{_meant(hint)}"
            findings.append(Finding(where, message, False, "unknown-argument", (key,), hint))
    return of(**values), findings


def _read_nested(of: type[Any], key: str, value: object, where: str) -> tuple[Any, list[Finding]]:
    """The arguments in a map that is the value of a key."""
    if not isinstance(value, Mapping):
        message = f"{key} takes a map, not {_kind(value)}; its default is kept"
        return of(), [Finding(where, message, False, "wrong-type", (key,))]
    read, findings = read_arguments(of, {str(k): v for k, v in value.items()}, where)
    return read, [dataclasses.replace(f, message=f"{key}: {f.message}", path=(key, *f.path)) for f in findings]


def _read_family(
    family: str, known: dataclasses.Field[Any], key: str, value: object, where: str
) -> tuple[dict[str, Any], list[Finding]]:
    """Entries of a map: the value of one of its keys, or the map itself."""
    wanted, choices = known.metadata["values"], known.metadata["choices"]
    given: Mapping[Any, object]
    if family.endswith("."):
        given = {key[len(family) :]: value}
    elif isinstance(value, Mapping):
        given = value
    else:
        message = f"{key} takes a map, not {_kind(value)}; its default is kept"
        return {}, [Finding(where, message, False, "wrong-type", (key,))]
    out: dict[str, Any] = {}
    findings = []
    for name, entry in given.items():
        path, shown = ((key,), key) if family.endswith(".") else ((key, str(name)), f"{key}.{name}")
        if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
            out[str(name)], found = _read_nested(wanted, shown, entry, where)
            findings += [dataclasses.replace(f, path=(*path, *f.path[1:])) for f in found]
            continue
        if not isinstance(name, str):
            message = f"{key} takes names as keys, not {name!r}; write it in quotes"
            findings.append(Finding(where, message, False, "wrong-type", path))
            continue
        read = _typed(entry, wanted)
        if read is None:
            message = f"{shown} takes {_TYPE_NAMES[wanted]}, not {entry!r}; its default is kept"
            findings.append(Finding(where, message, False, "wrong-type", path))
        elif choices and read not in choices:
            meant = nearest(str(entry), choices)
            message = f"{shown} takes {' or '.join(choices)}, not {entry!r}{meant}; it is not used"
            findings.append(Finding(where, message, False, "wrong-value", path))
        elif outside := _outside(read, known):
            message = f"{shown} cannot be {outside}, but is {entry!r}; its default is kept"
            findings.append(Finding(where, message, False, "wrong-value", path))
        else:
            out[name] = read
    return out, findings


def _problem(key: str, value: object, read: object, known: dataclasses.Field[Any]) -> str:
    default = known.default
    if read is None:
        return f"{key} takes {_TYPE_NAMES[_type_of(known)]}, not {value!r}; {default!r} is kept"
    choices = known.metadata["choices"]
    if choices and read not in choices:
        words = " or ".join(filter(None, choices))
        return f"{key} takes {words}, not {value!r}{nearest(str(value), choices)}; {default!r} is kept"
    outside = _outside(read, known)
    return f"{key} cannot be {outside}, but is {value!r}; {default!r} is kept" if outside else ""


def _outside(read: object, known: dataclasses.Field[Any]) -> str:
    """The bound that a number exceeds, in words; empty if it is within both."""
    minimum, maximum = known.metadata["minimum"], known.metadata["maximum"]
    if not isinstance(read, (int, float)):
        return ""
    if minimum is not None and read < minimum:
        return f"less than {minimum}"
    return f"more than {maximum}" if maximum is not None and read > maximum else ""


_TYPE_NAMES = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple: "a list of names",
    list: "a list",
}


def _type_of(known: dataclasses.Field[Any]) -> type:
    """The type of an argument: tuple for a list of names, list for a list of anything."""
    of = type(known.default)
    return list if of is tuple and known.metadata["values"] is object else of


def _typed(value: object, wanted: type) -> Any:
    """The value if it has the type (spec 3.3.2: numbers accept integers, booleans the usual words), else None."""
    if wanted is tuple:
        return _names(value.split(",") if isinstance(value, str) else value)
    if wanted is list:
        return tuple(value) if isinstance(value, list) else None
    if wanted is bool:
        return value if isinstance(value, bool) else parse_bool(value) if isinstance(value, str) else None
    if isinstance(value, bool) or (isinstance(value, (int, float)) and not abs(value) <= LARGEST):  # NaN too
        return None
    if wanted is float and isinstance(value, int):
        return float(value)
    return value if isinstance(value, wanted) else None


def _names(value: object) -> tuple[str, ...] | None:
    """A list of names; None if it is anything else."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return None
    return tuple(name.strip() for name in value if name.strip())


def nearest(name: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?` if there is a similar name, otherwise empty."""
    return _meant(nearest_name(name, known))


def nearest_name(name: str, known: Collection[str]) -> str:
    """The most similar known name, or empty. Names in namespaces are first compared without them."""
    by_fold = {k.lower(): k for k in sorted(known)}
    namespace, _, own = name.lower().rpartition("/")
    if namespace:
        here = [k.rpartition("/")[2] for k in by_fold if k.startswith(f"{namespace}/")]
        for alike in difflib.get_close_matches(own, here, n=1, cutoff=0.6):
            return by_fold[f"{namespace}/{alike}"]
        by_fold = {k: v for k, v in by_fold.items() if not k.startswith(f"{namespace}/")}
        for key in by_fold:
            if key.endswith(f"/{own}"):
                return by_fold[key]
    close = difflib.get_close_matches(name.lower(), list(by_fold), n=1, cutoff=0.6)
    return by_fold[close[0]] if close else ""


def _meant(hint: str) -> str:
    return f"; did you mean {hint!r}?" if hint else ""


def _kind(value: object) -> str:
    return {type(None): "nothing", list: "a list", dict: "a map", str: f"the text {value!r}"}.get(
        type(value), repr(value)
    )
