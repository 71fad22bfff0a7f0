"""Options of the commands that simulate, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Usage

if TYPE_CHECKING:
    from kilauea.api.meta import Object
    from kilauea.engine.conf import SchedulerConf
    from kilauea.runtime.trials.running import Candidate, Conditions
    from kilauea.simulator.extensions import Extensions
    from kilauea.simulator.replay.trace import Trace

Command = TypeVar("Command", bound=Callable[..., Any])
BUILT_IN_NAME = "built-in"


@dataclass(frozen=True)
class Given:
    """The inputs that the options name.

    Attributes:
        trace: the jobs.
        candidates: clusters and configurations.
        conditions: what they have in common.
        findings: what is strange about the files.
    """

    trace: Trace
    candidates: Sequence[Candidate]
    conditions: Conditions
    findings: Sequence[str]


def trace_options(command: Command) -> Command:
    """Options for the trace, the cluster and the configurations."""
    for option in (
        click.option(
            "--load",
            type=click.FloatRange(0.01, 100),
            default=1.0,
            show_default=True,
            help="Make arrivals this many times as frequent.",
        ),
        click.option(
            "--for", "length", type=Duration(), help="Take only the jobs of so long, such as 24h.", metavar="DURATION"
        ),
        click.option(
            "--from",
            "start",
            type=Duration(),
            default="0s",
            help="Leave out the trace before this time since its start.",
            metavar="DURATION",
        ),
        click.option(
            "--variant",
            "variants",
            multiple=True,
            metavar="NAME=PATH",
            help="Also try the cluster with the objects of PATH, which replace those of the same name. Repeatable.",
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
            "--nodes",
            metavar="FILE",
            help="Table of nodes (CSV): name, cpu, memory and gpu, or that of openb or Philly.",
        ),
        click.option(
            "--trace",
            required=True,
            metavar="FILE",
            help="Jobs: CSV, Standard Workload Format, openb, Philly, Muri, exported history; - is standard input.",
        ),
    ):
        command = option(command)
    return command


def period_options(command: Command) -> Command:
    """Options for random variation and for the scheduler's pace."""
    for option in (
        click.option(
            "--period",
            type=Duration(),
            default="1s",
            show_default=True,
            metavar="DURATION",
            help="Shortest time between two cycles of the scheduler.",
        ),
        click.option(
            "--repair",
            type=Duration(),
            default="1h",
            show_default=True,
            metavar="DURATION",
            help="Mean time until a failed node is back.",
        ),
        click.option(
            "--failures-every",
            type=Duration(),
            default="0s",
            metavar="DURATION",
            help="Mean time between failures of a node, such as 720h. [default: no failures]",
        ),
        click.option(
            "--seeds",
            type=click.IntRange(1, 1000),
            default=1,
            show_default=True,
            help="Simulate the trace, and others drawn from it, so many in all.",
        ),
    ):
        command = option(command)
    return command


def inputs_of(
    paths: Sequence[str],
    trace: str,
    nodes: str | None,
    confs: Sequence[str],
    variants: Sequence[str],
    load: float,
    seeds: int,
    start: int,
    length: int | None,
    failures_every: int,
    repair: int,
    period: int,
    folders: Sequence[str],
) -> Given:
    """Read what the options name.

    Raises:
        Usage: something cannot be used.
    """
    from kilauea.api.times import SECOND
    from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
    from kilauea.runtime.inputs.files import SourceError
    from kilauea.runtime.inputs.traces.reading import read_nodes, read_trace
    from kilauea.runtime.trials.running import Conditions
    from kilauea.simulator.replay.trace import cut

    if period < SECOND // 1000:
        raise Usage("--period: use 1ms or more")
    if failures_every < 0 or repair <= 0 or start < 0 or (length is not None and length <= 0):
        raise Usage("--failures-every, --repair, --from and --for: durations cannot be negative, such as 24h")
    try:
        extensions = load_extensions(folders, installed=bool(confs))
        jobs = cut(read_trace(trace), start, length)
        if not jobs.jobs:
            raise Usage(f"{trace}: no job is submitted between --from and --for")
        objects: list[Object] = []
        findings = list(jobs.findings)
        if nodes is not None:
            found, told = read_nodes(nodes)
            objects += found
            findings += told
        objects, warnings = _objects(paths, objects)
        findings += warnings
        candidates, more = _candidates(objects, jobs, confs, variants, extensions, paths[0] if paths else "cluster")
    except (SourceError, ExtensionError) as error:
        raise Usage(str(error)) from error
    conditions = Conditions(load, seeds, period, failures_every, repair, extensions)
    return Given(jobs, candidates, conditions, [*findings, *more])


def _objects(paths: Sequence[str], first: Sequence[Object]) -> tuple[list[Object], list[str]]:
    """The objects of files, added to others, which those of the same name replace.

    Raises:
        Usage: parts of the files cannot be used.
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
    objects: Sequence[Object],
    trace: Trace,
    confs: Sequence[str],
    variants: Sequence[str],
    extensions: Extensions,
    source: str,
) -> tuple[list[Candidate], list[str]]:
    """Each configuration with the cluster and with each of its variants."""
    from kilauea.engine.conf import ConfError
    from kilauea.runtime.inputs.conf_file import read_conf
    from kilauea.runtime.trials.running import Candidate, complete

    named: list[tuple[str, SchedulerConf]] = []
    findings: list[str] = []
    for name, path in zip(_names_of(confs), confs, strict=True):
        try:
            named.append((name, read_conf(path, extensions)))
        except ConfError as error:
            lines = [f"  {finding}" for finding in error.findings if finding.error]
            raise Usage("\n".join([f"{path}: this configuration cannot be used:", *lines])) from error
    if not named:
        named.append((BUILT_IN_NAME, read_conf(None)))
    findings += [str(finding) for _, conf in named for finding in conf.findings]
    clusters: list[tuple[str, Sequence[Object]]] = [("", objects)]
    for text in variants:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise Usage(f"--variant: {text!r} is not NAME=PATH, such as more-research=research.yaml")
        changed, warnings = _objects([path], objects)
        clusters.append((name, changed))
        findings += warnings
    out = []
    for conf_name, conf in named:
        for variant, found in clusters:
            completed, told = complete(found, trace, source)
            findings += told
            single = variant if len(named) == 1 else f"{conf_name}, {variant}"
            out.append(Candidate(single if variant else conf_name, completed, conf))
    names = [each.name for each in out]
    for name in names:
        if names.count(name) > 1:
            raise Usage(f"two configurations are called {name}: give each --variant and --conf a name of its own")
    return out, list(dict.fromkeys(findings))


def _names_of(paths: Sequence[str]) -> list[str]:
    """Names of configurations, by their files: as short as they are different."""
    stems = [Path(path).stem for path in paths]
    return [stem if stems.count(stem) == 1 else path for stem, path in zip(stems, paths, strict=True)]
