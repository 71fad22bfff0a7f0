"""Changes that might help, to try on a trace: weights and deserved amounts of queues, backfill, binpack.

Advice is not based on theory: each proposal is a candidate for `run_trials`, and counts only if it improves the results
on the same traces.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec.structs import replace as changed

from kilauea.api.meta import Object, ResourceMap
from kilauea.api.quantity import amount, format_amount
from kilauea.api.scheduling import Queue, QueueSpec
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import PluginConf, SchedulerConf, parse_conf
from kilauea.engine.plugins import PLUGINS
from kilauea.runtime.trials.running import Candidate

MORE_WEIGHT, MORE_DESERVED = 1.5, 1.2
"""Factors by which weights and deserved amounts are raised."""
QUEUES = 3
"""Number of queues to consider, those that wait longest first."""
BINPACK_WEIGHT = 10


class Proposal(NamedTuple):
    """A change to try.

    Attributes:
        candidate: the cluster and the configuration with the change.
        fix: how to make the change: a command, or an entry of the configuration.
    """

    candidate: Candidate
    fix: str


def proposals(base: Candidate, run: Mapping[str, Any]) -> list[Proposal]:
    """Return the changes to try, the most promising first.

    Args:
        base: the current cluster and configuration.
        run: the figures of a run with it.
    """
    return [*_queues(base, run), *_actions(base), *_binpack(base, str(run["fragmentation"]["resource"]))]


# --- queues


def _queues(base: Candidate, run: Mapping[str, Any]) -> Iterator[Proposal]:
    waits = {name: queue["wait"]["mean"] or 0.0 for name, queue in run["queues"].items()}
    order = sorted(waits, key=lambda name: (-waits[name], name))
    objects = {obj.name: obj for obj in base.objects if isinstance(obj, Queue)}
    known = [name for name in order if name in objects]
    if len(known) < 2:
        return  # a single queue already has everything
    for name in known[:QUEUES]:
        if waits[name] <= 0:
            continue
        queue = objects[name]
        spec = queue.spec or QueueSpec()
        weight = spec.weight or 1
        more = max(weight + 1, math.ceil(weight * MORE_WEIGHT))
        fix = _patch(name, {"weight": more})
        if "capacity" not in base.conf.plugins:  # capacity only uses amounts
            yield _with_queue(
                base, changed(queue, spec=changed(spec, weight=more)), f"weight of {name}: {weight} to {more}", fix
            )
        elif spec.deserved:
            yield from _deserved(base, objects, name, known)


def _deserved(base: Candidate, objects: Mapping[str, Queue], name: str, order: Sequence[str]) -> Iterator[Proposal]:
    """A fifth more for one queue, taken from the queue that waits least and can spare it."""
    own = objects[name].spec or QueueSpec()
    wanted = {key: _whole(key, amount(key, value) * (MORE_DESERVED - 1)) for key, value in (own.deserved or {}).items()}
    for giver in reversed(order):
        spec = objects[giver].spec
        have = {key: amount(key, value) for key, value in ((spec.deserved if spec else None) or {}).items()}
        if giver == name or not all(have.get(key, 0) >= value for key, value in wanted.items()):
            continue
        queues = []
        for each, sign in ((name, 1), (giver, -1)):
            before = objects[each].spec or QueueSpec()
            after: ResourceMap = dict(before.deserved or {})
            for key, value in wanted.items():
                after[key] = format_amount(key, amount(key, after.get(key, 0)) + sign * value)
            queues.append(changed(objects[each], spec=changed(before, deserved=after)))
        specs = {each.name: each.spec.deserved if each.spec else None for each in reversed(queues)}
        fix = "; ".join(_patch(each, {"deserved": deserved}) for each, deserved in specs.items())
        yield _with_queues(base, queues, f"deserved of {name} 20% more, from {giver}", fix)
        return


def _whole(key: str, value: float) -> int:
    """An amount in common units: whole cores and devices, at least one; MiB of memory."""
    unit = 1 << 20 if key == "memory" else 1000 if key == "cpu" or "/" in key else 1
    return max(unit, round(value / unit) * unit)


def _patch(queue: str, spec: Mapping[str, Any]) -> str:
    """The command that changes fields of a queue."""
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl patch queue {queue} --type merge -p '{patch}'"


def _with_queue(base: Candidate, queue: Queue, words: str, fix: str) -> Proposal:
    return _with_queues(base, [queue], words, fix)


def _with_queues(base: Candidate, queues: Sequence[Queue], words: str, fix: str) -> Proposal:
    new = {queue.name: queue for queue in queues}
    objects: list[Object] = [new.get(obj.name, obj) if isinstance(obj, Queue) else obj for obj in base.objects]
    return Proposal(Candidate(words, objects, base.conf, words), fix)


# --- the configuration


def _actions(base: Candidate) -> Iterator[Proposal]:
    actions = base.conf.actions
    if "backfill" in actions:
        fewer = tuple(name for name in actions if name != "backfill")
        yield _with_actions(base, fewer, "without backfill")
    else:
        yield _with_actions(base, (*actions, "backfill"), "with backfill")


def _with_actions(base: Candidate, actions: tuple[str, ...], words: str) -> Proposal:
    conf = replace(base.conf, actions=actions)
    return Proposal(
        Candidate(words, base.objects, conf, words), f'in the configuration: actions: "{", ".join(actions)}"'
    )


def _binpack(base: Candidate, resource: str) -> Iterator[Proposal]:
    """Fill up nodes, with regard to the scarce resource."""
    tiers = base.conf.tiers
    if "binpack" in base.conf.plugins:
        without = tuple(tuple(each for each in tier if each.name != "binpack") for tier in tiers)
        yield _with_tiers(base, without, "without binpack", "in the configuration: remove the plugin binpack")
        return
    arguments: dict[str, Any] = {"binpack.weight": BINPACK_WEIGHT}
    if "/" in resource:
        arguments |= {"binpack.resources": resource, f"binpack.resources.{resource}": BINPACK_WEIGHT}
    lines = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    with_it = (*tiers[:-1], (*tiers[-1], _entry("binpack", arguments)))
    fix = f"in the configuration, last tier: {{name: binpack, arguments: {{{lines}}}}}"
    yield _with_tiers(base, with_it, f"with binpack, weight {BINPACK_WEIGHT}", fix)


def _entry(name: str, arguments: Mapping[str, Any]) -> PluginConf:
    """A plugin entry of a configuration."""
    plugin = {"name": name, "arguments": dict(arguments)}
    return parse_conf({"actions": "allocate", "tiers": [{"plugins": [plugin]}]}, PLUGINS, ACTIONS).tiers[0][0]


def _with_tiers(base: Candidate, tiers: tuple[tuple[PluginConf, ...], ...], words: str, fix: str) -> Proposal:
    conf: SchedulerConf = replace(base.conf, tiers=tuple(tier for tier in tiers if tier))
    return Proposal(Candidate(words, base.objects, conf, words), fix)
