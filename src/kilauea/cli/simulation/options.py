"""Options of the simulating commands, and their interpretation.

@click.command()
@simulation_options
def simulate(options: Options) -> None:
    given = read_inputs(options)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilauea.api.times import SECOND
from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Usage, objects_option, plugins_option

if TYPE_CHECKING:
    from kilauea.api.meta import Object
    from kilauea.engine.conf import SchedulerConf
    from kilauea.runtime.trials.running import Candidate, Conditions
    from kilauea.simulator.extensions import Extensions
    from kilauea.simulator.replay.trace import Trace

BUILT_IN_NAME = "built-in"


@dataclass(frozen=True)
class Given:
    """The inputs given by the options.

    Attributes:
        trace: the jobs.
        candidates: clusters and configurations.
        conditions: the common conditions.
        findings: oddities in the files.
    """

    trace: Trace
    candidates: Sequence[Candidate]
    conditions: Conditions
    findings: Sequence[str]


OPTIONS = (
    objects_option,
    click.option(
        "--trace",
        required=True,
        metavar="FILE",
        help="Jobs: CSV, Standard Workload Format, openb, Philly, Muri, DLRM, exported history; - is standard input.",
    ),
    click.option(
        "--nodes",
        metavar="FILE",
        help="Table of nodes (CSV): name, cpu, memory and gpu, or that of openb or Philly.",
    ),
    click.option(
        "--conf",
        "--scheduler-conf",
        "confs",
        multiple=True,
        metavar="FILE",
        help="Scheduler configuration. Repeatable: each is tried. [default: the built-in one]",
    ),
    click.option(
        "--variant",
        "variants",
        multiple=True,
        metavar="NAME=PATH",
        help="Also try the cluster with the objects of PATH, which replace those of the same name. Repeatable.",
    ),
    click.option(
        "--from",
        "start",
        type=Duration(),
        default="0s",
        help="Skip the trace before this time since its start.",
        metavar="DURATION",
    ),
    click.option(
        "--for",
        "length",
        type=Duration(),
        help="Simulate only this length of the trace, such as 24h.",
        metavar="DURATION",
    ),
    click.option(
        "--load",
        type=click.FloatRange(0.01, 100),
        default=1.0,
        show_default=True,
        help="Make arrivals this many times as frequent.",
    ),
    click.option(
        "--seeds",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        help="Number of traces to simulate: the given one, and others resampled from it.",
    ),
    click.option(
        "--failures-every",
        type=Duration(),
        default="0s",
        metavar="DURATION",
        help="Mean time between failures of a node, such as 720h. [default: no failures]",
    ),
    click.option(
        "--repair",
        type=Duration(),
        default="1h",
        show_default=True,
        metavar="DURATION",
        help="Mean time to repair a failed node.",
    ),
    click.option(
        "--period",
        type=Duration(),
        default="1s",
        show_default=True,
        metavar="DURATION",
        help="Minimum time between two scheduling cycles.",
    ),
    plugins_option,
)
"""The common options of commands that simulate, in the order of their help."""


@dataclass(frozen=True)
class Options:
    """The values of `OPTIONS`; times are in microseconds.

    Attributes:
        paths: files and folders with the cluster.
        trace: the file of the jobs.
        nodes: a table of nodes, or None.
        confs: configurations of the scheduler; empty for the built-in one.
        variants: variants such as `NAME=PATH`.
        start: time before which the trace is left out.
        length: length of the used part of the trace; None for no limit.
        load: factor of the arrivals.
        seeds: number of traces.
        failures_every: mean time between failures of a node; 0 for no failures.
        repair: mean time until a failed node returns.
        period: shortest time between two cycles.
        folders: folders with plugins.
    """

    paths: tuple[str, ...]
    trace: str
    nodes: str | None
    confs: tuple[str, ...]
    variants: tuple[str, ...]
    start: int
    length: int | None
    load: float
    seeds: int
    failures_every: int
    repair: int
    period: int
    folders: tuple[str, ...]


def simulation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command; it gets their values as its first argument."""

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        values = {field.name: given.pop(field.name) for field in fields(Options)}
        command(Options(**values), **given)

    decorated: Callable[..., None] = with_options
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    return decorated


def read_inputs(options: Options) -> Given:
    """Read the inputs given by the options.

    Raises:
        Usage: an input is invalid.
    """
    from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
    from kilauea.runtime.inputs.files import SourceError
    from kilauea.runtime.inputs.traces.reading import read_nodes, read_trace
    from kilauea.runtime.trials.running import Conditions
    from kilauea.simulator.replay.trace import cut

    _check_times(options)
    try:
        extensions = load_extensions(options.folders, installed=bool(options.confs))
        trace = cut(read_trace(options.trace), options.start, options.length)
        if not trace.jobs:
            raise Usage(f"{options.trace}: no job is submitted between --from and --for")
        objects, findings = read_nodes(options.nodes) if options.nodes is not None else ([], ())
        objects, warnings = _objects(options.paths, objects)
        candidates, more = _candidates(options, objects, trace, extensions)
    except (SourceError, ExtensionError) as error:
        raise Usage(str(error)) from error
    conditions = Conditions(
        options.load, options.seeds, options.period, options.failures_every, options.repair, extensions
    )
    return Given(trace, candidates, conditions, [*trace.findings, *findings, *warnings, *more])


def _check_times(options: Options) -> None:
    """Check the durations among the options.

    Raises:
        Usage: a duration is invalid; names the option and the fix.
    """
    if options.period < SECOND // 1000:
        raise Usage("--period: use 1ms or more")
    for name, value, least in (
        ("--failures-every", options.failures_every, 0),
        ("--repair", options.repair, 1),
        ("--from", options.start, 0),
        ("--for", options.length, 1),
    ):
        if value is not None and value < least:
            raise Usage(f"{name}: {value / SECOND:g}s is too short: use a duration such as 24h")


def _objects(paths: Sequence[str], first: Sequence[Object]) -> tuple[list[Object], list[str]]:
    """The objects of files, added to others, where equal names are replaced.

    Raises:
        Usage: parts of the files are invalid.
        SourceError: a file cannot be read.
    """
    from kilauea.api.errors import object_label
    from kilauea.runtime.inputs.objects import read_cluster

    cluster = read_cluster(paths)
    if cluster.unusable:
        raise Usage("\n".join(cluster.errors or cluster.warnings))
    known = {(obj.kind, object_label(obj)): obj for obj in first}
    for obj in cluster.objects:
        key = (obj.kind, object_label(obj))
        if key in known and not paths:
            continue
        known[key] = obj
    return list(known.values()), list(cluster.warnings)


def _candidates(
    options: Options, objects: Sequence[Object], trace: Trace, extensions: Extensions
) -> tuple[list[Candidate], list[str]]:
    """Each configuration with the cluster and with each of its variants, and oddities in them.

    Raises:
        Usage: a configuration or a variant is invalid, or two have the same name.
        SourceError: a file cannot be read, or there are no nodes.
    """
    from kilauea.runtime.trials.running import Candidate, complete

    confs = _confs(options.confs, extensions)
    findings = [str(finding) for _, conf in confs for finding in conf.findings]
    clusters, warnings = _clusters(options.variants, objects)
    findings += warnings
    source = options.paths[0] if options.paths else "cluster"
    out = []
    for conf_name, conf in confs:
        for variant, found in clusters:
            completed, told = complete(found, trace, source)
            findings += told
            both = variant if len(confs) == 1 else f"{conf_name}, {variant}"
            out.append(Candidate(both if variant else conf_name, completed, conf))
    names = [each.name for each in out]
    for name in names:
        if names.count(name) > 1:
            raise Usage(f"two configurations are called {name}: give each --variant and --conf a unique name")
    return out, list(dict.fromkeys(findings))


def _confs(paths: Sequence[str], extensions: Extensions) -> list[tuple[str, SchedulerConf]]:
    """Configurations with their names; without any, the built-in one.

    Raises:
        Usage: a configuration is invalid.
    """
    from kilauea.engine.conf import ConfError
    from kilauea.runtime.inputs.conf_file import read_conf

    if not paths:
        return [(BUILT_IN_NAME, read_conf(None))]
    out = []
    for name, path in zip(_names_of(paths), paths, strict=True):
        try:
            out.append((name, read_conf(path, extensions)))
        except ConfError as error:
            lines = [f"  {finding}" for finding in error.findings if finding.error]
            raise Usage("\n".join([f"{path}: this configuration cannot be used:", *lines])) from error
    return out


def _clusters(
    variants: Sequence[str], objects: Sequence[Object]
) -> tuple[list[tuple[str, Sequence[Object]]], list[str]]:
    """The cluster, with an empty name, and its variants; and oddities in their files.

    Raises:
        Usage: a variant is invalid.
    """
    clusters: list[tuple[str, Sequence[Object]]] = [("", objects)]
    findings: list[str] = []
    for text in variants:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise Usage(f"--variant: {text!r} is not NAME=PATH, such as more-research=research.yaml")
        changed, warnings = _objects([path], objects)
        clusters.append((name, changed))
        findings += warnings
    return clusters, findings


def _names_of(paths: Sequence[str]) -> list[str]:
    """Names of configurations, from their files: as short as possible, but distinct."""
    stems = [Path(path).stem for path in paths]
    return [stem if stems.count(stem) == 1 else path for stem, path in zip(stems, paths, strict=True)]
