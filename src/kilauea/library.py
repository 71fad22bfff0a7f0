"""The Python API: plan a cycle of the scheduler, explain why a pod group waits, simulate a cluster over time.

    import kilauea
    import yaml

    with open("cluster.yaml") as file:
        objects = list(yaml.safe_load_all(file))

    for bind in kilauea.plan(objects).binds:
        print(bind.pod, "->", bind.node)

The functions do not change the objects or any cluster. The same arguments return the same plan. The commands `kilauea
plan`, `kilauea explain` and `kilauea queues` call `simulate`, too.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from typing import Any

from kilauea.api.decode import Decoded, decode_trees
from kilauea.api.errors import kind_of
from kilauea.api.meta import Object
from kilauea.api.times import parse_time
from kilauea.api.wellknown import ALL_SCHEDULERS
from kilauea.engine.conf import ConfError, SchedulerConf, nearest, parse_conf
from kilauea.engine.cycle import default_conf
from kilauea.engine.explain.group import Explanation
from kilauea.engine.model.shards import Sharding
from kilauea.engine.plan import Plan
from kilauea.runtime.inputs.conf_file import conf_file, conf_in
from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
from kilauea.runtime.inputs.files import SourceError
from kilauea.runtime.inputs.objects import Cluster, assemble_cluster
from kilauea.simulator.extensions import BUILT_IN, Extensions
from kilauea.simulator.planning import Result, plan_cycles

__all__ = ["Explanation", "InvalidInput", "Plan", "Result", "explain", "plan", "simulate"]

Objects = Iterable[Object | Mapping[str, Any]] | Object | Mapping[str, Any] | Cluster
Conf = Mapping[str, Any] | str | SchedulerConf | None
Moment = datetime | str | int | None

SOURCE = "objects"
"""The name of the first argument, in messages."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class InvalidInput(ValueError):
    """An argument cannot be used.

    Attributes:
        problems: the problems, one line each: the object, the field, the value, and the fix.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def plan(
    objects: Objects,
    conf: Conf = None,
    *,
    now: Moment = None,
    seed: int | None = None,
    plugins_dirs: Sequence[str | PathLike[str]] = (),
) -> Plan:
    """Plan one cycle of the scheduler: which pods start where, which are evicted, and why the others wait.

    Args:
        objects: the cluster: nodes, pods, pod groups, queues and other objects that scheduling reads, as dicts in the
            form of their manifests (`yaml.safe_load_all`, `json.load`) or as decoded objects (`kilauea.api.decode`).
            Lists are expanded. Jobs, deployments and other workloads are replaced by the pods that would be created for
            them. Of objects with the same kind and name, the last one applies.
        conf: the scheduler's configuration, as a dict or as YAML text; None for the built-in one.
        now: the time of the cycle: RFC 3339 text, a datetime with a time zone, or microseconds since 1970; None for the
            newest `creationTimestamp` among the objects.
        seed: breaks ties between equally good nodes at random, repeatably; None selects the first in order.
        plugins_dirs: folders with your own plugins and actions, one per file; the configuration must name them.

    Returns:
        The plan. Pods and groups are named `namespace/name`. Amounts are in the engine's units: cpu and extended
            resources in thousandths, memory and storage in bytes.

    Raises:
        InvalidInput: an object, the configuration or another argument cannot be used.
    """
    return simulate(objects, conf, cycles=1, now=now, seed=seed, plugins_dirs=plugins_dirs).plan


def explain(
    objects: Objects,
    group: str,
    conf: Conf = None,
    *,
    now: Moment = None,
    seed: int | None = None,
    plugins_dirs: Sequence[str | PathLike[str]] = (),
) -> Explanation:
    """Explain why a pod group waits: the rules that decide, with numbers, and the smallest change that would start it.

    To explain several groups of a cluster, call `simulate` once with `cycles=1`, and then `explain` on its result for
    each group.

    Args:
        objects: the cluster, as in `plan`.
        group: the pod group, as `namespace/name`.
        conf: the scheduler's configuration, as in `plan`.
        now: the time of the cycle, as in `plan`.
        seed: breaks ties, as in `plan`.
        plugins_dirs: folders with plugins, as in `plan`.

    Returns:
        The verdict (`starts`, `starts in part`, `runs`, `waits` or `ended`), the blockers with the most binding one
        first, and the change.

    Raises:
        InvalidInput: an argument cannot be used, or the group does not exist.
    """
    return explain_group(simulate(objects, conf, cycles=1, now=now, seed=seed, plugins_dirs=plugins_dirs), group)


def simulate(
    objects: Objects,
    conf: Conf = None,
    *,
    cycles: int = 100,
    until_rest: bool = True,
    now: Moment = None,
    seed: int | None = None,
    plugins_dirs: Sequence[str | PathLike[str]] = (),
    schedulers: Sequence[str] = ALL_SCHEDULERS,
    extensions: Extensions | None = None,
    sharding: Sharding | None = None,
) -> Result:
    """Simulate cycles of the scheduler, one second apart, until the cluster is at rest.

    Bound pods run at once. Evicted pods keep their resources for one cycle per second of their
    terminationGracePeriodSeconds, 0 if it is not set; then pods that a controller owns return as new pending pods.

    Args:
        objects: the cluster, as in `plan`.
        conf: the scheduler's configuration, as in `plan`.
        cycles: the maximum number of cycles, at least 1.
        until_rest: stop after the first cycle that changes nothing while no pod is terminating.
        now: the time of the first cycle, as in `plan`.
        seed: breaks ties, as in `plan`.
        plugins_dirs: folders with plugins, as in `plan`.
        schedulers: the `schedulerName` of the pods to place.
        extensions: loaded plugins and actions, instead of plugins_dirs.
        sharding: the part of the cluster that the scheduler works on; None for all of it.

    Returns:
        All cycles as `steps`, the plan of the last one, the objects after it, `at_rest_after`, and `warnings` about
            skipped objects.

    Raises:
        InvalidInput: an argument cannot be used.
    """
    _check_whole("cycles", cycles, 1)
    if seed is not None:
        _check_whole("seed", seed, 0)
    if extensions is None:
        extensions = _extensions(plugins_dirs, installed=conf is not None)
    decided_by = _conf(conf, extensions)
    cluster = objects if isinstance(objects, Cluster) else _cluster(objects)
    scenario = cluster.scenario(decided_by, _microseconds(now), seed, extensions, schedulers, sharding)
    result = plan_cycles(scenario, cycles, time.perf_counter, until_rest=until_rest)
    if result.problems and cluster is not objects:
        raise InvalidInput(*result.problems)
    return result


def explain_group(result: Result, group: str) -> Explanation:
    """Explain why a pod group of a result waits.

    Raises:
        InvalidInput: the group does not exist.
    """
    explanation = result.explain(group)
    if explanation.verdict == "unknown":
        meant = nearest(group, result.state.jobs)
        raise InvalidInput(f"pod group {group} does not exist; give it as namespace/name{meant}")
    return explanation


def _cluster(objects: Objects) -> Cluster:
    """Return the cluster that objects describe, without changing them.

    Raises:
        InvalidInput: some of them cannot be used.
    """
    if isinstance(objects, str | bytes | PathLike):
        raise InvalidInput(f"{SOURCE}: got {objects!r}: give the objects themselves, as yaml.safe_load_all reads them")
    given = [objects] if isinstance(objects, Mapping | Object) else objects
    if not isinstance(given, Iterable):
        raise InvalidInput(f"{SOURCE}: expected dicts or decoded objects, got {objects!r}")
    cluster = assemble_cluster((SOURCE, decoded) for decoded in _decoded(given))
    if cluster.errors:
        raise InvalidInput(*(error.removesuffix("; left out") for error in cluster.errors))
    return cluster


def _decoded(objects: Iterable[object]) -> Iterator[Decoded]:
    """Return the objects in their order: dicts are decoded, decoded ones copied."""
    trees: list[object] = []
    for obj in objects:
        if not isinstance(obj, Object):
            trees.append(obj)
            continue
        yield decode_trees(trees, SOURCE)
        trees.clear()
        copied = copy.deepcopy(obj)
        copied.kind = kind_of(obj)
        yield Decoded([copied])
    yield decode_trees(trees, SOURCE)


def _conf(conf: Conf, extensions: Extensions) -> SchedulerConf:
    """Return the configuration.

    Raises:
        InvalidInput: it cannot be used.
    """
    if isinstance(conf, SchedulerConf):
        return conf
    try:
        if conf is None:
            return default_conf()
        if isinstance(conf, str):
            return conf_in(conf_file("conf", conf.encode()), extensions)
        return parse_conf(conf, extensions.plugins, extensions.actions)
    except SourceError as error:
        raise InvalidInput(str(error)) from error
    except ConfError as error:
        raise InvalidInput(
            *(f"conf: {f}".replace("conf: conf:", "conf:") for f in error.findings if f.error)
        ) from error


def _extensions(folders: Sequence[str | PathLike[str]], *, installed: bool) -> Extensions:
    """Return the plugins and actions that a configuration can name; the built-in configuration names only ours.

    Raises:
        InvalidInput: one of them cannot be loaded.
    """
    if not folders and not installed:
        return BUILT_IN
    try:
        return load_extensions([fspath(folder) for folder in folders], installed=installed)
    except ExtensionError as error:
        raise InvalidInput(*str(error).split("\n")) from error


def _microseconds(now: Moment) -> int | None:
    """Microseconds since 1970.

    Raises:
        InvalidInput: it is not a time, or has no time zone.
    """
    if isinstance(now, str):
        try:
            return parse_time(now)
        except ValueError as error:
            raise InvalidInput(f"now: {error}") from error
    if isinstance(now, datetime):
        if now.tzinfo is None:
            raise InvalidInput(f"now: {now.isoformat()} has no time zone: give one, as datetime.now(UTC) does")
        return (now - EPOCH) // timedelta(microseconds=1)
    if now is not None:
        _check_whole("now", now, 0)
    return now


def _check_whole(name: str, value: object, least: int) -> None:
    """Check that an argument is a whole number.

    Raises:
        InvalidInput: it is not a whole number, or too small.
    """
    if not isinstance(value, int) or value < least:
        raise InvalidInput(f"{name}: must be a whole number, {least} or more; got {value!r}")
