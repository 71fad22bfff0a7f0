"""The schedulers among which nodes are divided, and their policies, from a ConfigMap or flags.

schedulerConfigs:
- name: volcano                        # of the scheduler's NodeShard
  policies:
  - name: allocation-rate              # nodes of which so much of the cpu is requested
    arguments: {minCPUUtil: 0, maxCPUUtil: 0.6}
  - name: node-limit
    arguments: {maxNodes: 100}
shardSyncPeriod: 60s
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kilauea.api.numbers import plural
from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, parse_duration
from kilauea.api.yamltext import YamlError, load_yaml

FILE = "sharding.yaml"
"""The key of the configuration in the ConfigMap."""
RATE, WARMUP, LIMIT = "allocation-rate", "warmup", "node-limit"
ARGUMENTS = {
    RATE: ("minCPUUtil", "maxCPUUtil"),
    WARMUP: ("warmupLabel", "warmupLabelValue"),
    LIMIT: ("minNodes", "maxNodes"),
}
"""Policies with their arguments."""
PERIOD = 60 * SECOND
SHORTEST_PERIOD = SECOND


class ShardingError(ValueError):
    """An invalid configuration; the message names the field and the fix."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy of one scheduler, with its arguments and the weight of its score."""

    name: str
    weight: float
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchedulerShare:
    """A scheduler, and the policies that choose its nodes."""

    name: str
    policies: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """The schedulers in order; earlier ones choose first.

    Attributes:
        schedulers: the schedulers; without any, nodes are not divided.
        period: microseconds between two reconciliations.
        on_nodes: True to reconcile also when a node is added, removed or changes its labels or capacity.
    """

    schedulers: tuple[SchedulerShare, ...] = ()
    period: int = PERIOD
    on_nodes: bool = True


def of_flags(flags: Iterable[str], period: int = PERIOD, *, on_nodes: bool = True) -> SharingPlan:
    """Read the values of `--scheduler-configs`, seven fields each.

    Raises:
        ShardingError: a value is invalid.
    """
    shares = []
    for flag in flags:
        fields = flag.split(":")
        if len(fields) != 7:
            form = "name:type:min_util:max_util:prefer_warmup:min_nodes:max_nodes"
            raise ShardingError(f"{flag}: has {plural(len(fields), 'field')} instead of 7: use {form}")
        low, high, warm, least, most = fields[2:]
        if warm not in ("true", "false"):
            raise ShardingError(f"{flag}: prefer_warmup is {warm}: use true or false")
        try:
            numbers = {"cpuUtilizationMin": float(low), "cpuUtilizationMax": float(high)}
            limits = {"minNodes": int(least), "maxNodes": int(most)}
        except ValueError as error:
            raise ShardingError(
                f"{flag}: {error}: use numbers, for example volcano:volcano:0.0:0.6:false:2:100"
            ) from error
        given = {"name": fields[0], "preferWarmupNodes": warm == "true", **numbers, **limits}
        shares.append(_scheduler(given, flag))
    return SharingPlan(_distinct(shares), period, on_nodes)


def of_config_map(config_map: Obj) -> SharingPlan:
    """Read a ConfigMap.

    Raises:
        ShardingError: the configuration is invalid.
    """
    text = (config_map.get("data") or {}).get(FILE)
    if not isinstance(text, str):
        raise ShardingError(f"data has no {FILE}: put the configuration there")
    try:
        document = load_yaml(text.encode())
    except YamlError as error:
        raise ShardingError(f"{FILE}: {error}") from error
    if not isinstance(document, Mapping):
        raise ShardingError(f"{FILE}: expected fields such as schedulerConfigs, got {type(document).__name__}")
    given = document.get("schedulerConfigs")
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ShardingError("schedulerConfigs: name at least one scheduler")
    shares = [_scheduler(each, f"schedulerConfigs[{number}]") for number, each in enumerate(given)]
    on_nodes = document.get("enableNodeEventTrigger", True)
    if not isinstance(on_nodes, bool):
        raise ShardingError(f"enableNodeEventTrigger: {on_nodes}: use true or false")
    return SharingPlan(_distinct(shares), _period(document.get("shardSyncPeriod")), on_nodes)


def _period(given: Any) -> int:
    if given is None:
        return PERIOD
    try:
        period = parse_duration(str(given))
    except ValueError as error:
        raise ShardingError(f"shardSyncPeriod: {error}") from error
    if period < SHORTEST_PERIOD:
        raise ShardingError(f"shardSyncPeriod: {given} is too short: use at least 1s")
    return period


def _distinct(shares: Sequence[SchedulerShare]) -> tuple[SchedulerShare, ...]:
    names = [share.name for share in shares]
    for name in names:
        if names.count(name) > 1:
            raise ShardingError(f"scheduler {name} is listed twice: give each scheduler one entry")
    return tuple(shares)


def _scheduler(given: Any, where: str) -> SchedulerShare:
    if not isinstance(given, Mapping):
        raise ShardingError(f"{where}: expected fields such as name and policies, got {given}")
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise ShardingError(f"{where}.name is missing: name the scheduler's NodeShard")
    listed = given.get("policies") or ()
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ShardingError(f"{where}.policies: expected a list of policies")
    common = given.get("arguments") or {}
    policies = [_policy(each, f"{where}.policies[{number}]", common) for number, each in enumerate(listed)]
    return SchedulerShare(name, tuple(policies) or _scalar_policies(given, where))


def _scalar_policies(given: Mapping[str, Any], where: str) -> tuple[Policy, ...]:
    """The policies of a scheduler without explicit ones, from its other fields."""
    rate = {
        "minCPUUtil": given.get("cpuUtilizationMin", 0.0),
        "maxCPUUtil": given.get("cpuUtilizationMax", 1.0),
    }
    policies = [_policy({"name": RATE, "arguments": rate}, where)]
    if given.get("preferWarmupNodes"):
        policies.append(_policy({"name": WARMUP}, where))
    limits = {name: given[name] for name in ARGUMENTS[LIMIT] if given.get(name)}
    if limits:
        policies.append(_policy({"name": LIMIT, "arguments": limits}, where))
    return tuple(policies)


def _policy(given: Any, where: str, common: Any = None) -> Policy:
    name = given.get("name") if isinstance(given, Mapping) else None
    if name not in ARGUMENTS:
        raise ShardingError(f"{where}: unknown policy {name}: use {', '.join(ARGUMENTS)}")
    own = given.get("arguments") or {}
    for each in (own, common or {}):
        if not isinstance(each, Mapping):
            raise ShardingError(f"{where}.arguments: expected names and values, got {each}")
    unknown = sorted(set(own) - set(ARGUMENTS[name]))
    if unknown:
        raise ShardingError(f"{where}.arguments.{unknown[0]}: {name} takes {', '.join(ARGUMENTS[name])}")
    weight = _number(given.get("weight", 0), f"{where}.weight", math.inf)
    inherited = {key: value for key, value in (common or {}).items() if key in ARGUMENTS[name]}
    return Policy(name, weight or 1.0, _checked(name, {**inherited, **own}, where))


def _checked(name: str, arguments: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Arguments of a policy with their defaults."""
    if name == RATE:
        low = _number(arguments.get("minCPUUtil", 0.0), f"{where}: minCPUUtil", 1.0)
        high = _number(arguments.get("maxCPUUtil", 1.0), f"{where}: maxCPUUtil", 1.0)
        if low > high:
            raise ShardingError(f"{where}: minCPUUtil {low:g} is above maxCPUUtil {high:g}: swap them")
        return {"low": low, "high": high}
    if name == WARMUP:
        label = arguments.get("warmupLabel", "node.volcano.sh/warmup")
        return {"label": str(label), "value": str(arguments.get("warmupLabelValue", "true"))}
    least = _number(arguments.get("minNodes", 0), f"{where}: minNodes", math.inf)
    most = _number(arguments.get("maxNodes", math.inf), f"{where}: maxNodes", math.inf)
    if least > most:
        raise ShardingError(f"{where}: minNodes {least:g} is above maxNodes {most:g}: swap them")
    return {"most": None if most == math.inf else int(most)}


def _number(given: Any, where: str, most: float) -> float:
    """A number from 0 to `most`."""
    right = isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given <= most
    if not right:
        bounds = "a number of at least 0" if most == math.inf else f"a number from 0 to {most:g}"
        raise ShardingError(f"{where}: {given}: use {bounds}")
    return float(given)
