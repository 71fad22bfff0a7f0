"""`kilauea plan`: what the next scheduling cycle would do with a cluster, and why what waits still waits."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from kilauea.engine.conf import SchedulerConf
    from kilauea.engine.plan import Plan
    from kilauea.runtime.extensions import Extensions
    from kilauea.runtime.planning import Cluster

EXAMPLES = """\b
Examples:
  kilauea plan -f cluster.yaml
  kilauea plan -f cluster.yaml --explain team/training-7
  kubectl get nodes,pods,podgroups,queues -A -o yaml | kilauea plan -f - --scheduler-conf scheduler.conf
"""

OUTPUTS = ("table", "wide", "json", "yaml")


@click.command(short_help="Show what the next scheduling cycle would do.", epilog=EXAMPLES)
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    help="File or folder with objects (YAML or JSON, gzipped or not); - is standard input. Repeatable.",
)
@click.option("--scheduler-conf", metavar="FILE", help="Scheduler configuration; without it the built-in one holds.")
@click.option(
    "--plugins-dir",
    "folders",
    multiple=True,
    metavar="DIR",
    help="Folder with plugins and actions of your own, one a file. Repeatable.",
)
@click.option("--cycles", type=click.IntRange(min=1), default=1, show_default=True, help="Show the last of this many.")
@click.option("--now", "at", metavar="TIME", help="Time of the cycle, RFC 3339. [default: the newest in the input]")
@click.option("--seed", type=click.IntRange(min=0), help="Break ties between nodes at random, repeatably.")
@click.option(
    "--explain",
    "group",
    metavar="NS/PODGROUP",
    help="Show why a pod group waits, and the smallest change that admits it.",
)
@click.option(
    "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="Form of the plan."
)
def plan(
    paths: tuple[str, ...],
    scheduler_conf: str | None,
    folders: tuple[str, ...],
    cycles: int,
    at: str | None,
    seed: int | None,
    group: str | None,
    output: str,
) -> None:
    """Show what the next scheduling cycle would do with the objects in PATH.

    Nothing is changed anywhere. Objects are what `kubectl get nodes,pods,podgroups,queues -A -o yaml` prints; several
    files and folders add up. Between several cycles pods that were bound run at once and evicted pods are gone.
    """
    from kilauea.cli.explain_output import render_explanation
    from kilauea.cli.plan_output import render
    from kilauea.engine.conf import nearest
    from kilauea.runtime.planning import explain_group, plan_cycles

    started = time.perf_counter()
    cluster, conf, extensions, now = read_inputs(paths, scheduler_conf, folders, at)
    read = time.perf_counter()
    result = plan_cycles(cluster, conf, now, seed, cycles, extensions)
    load = time.perf_counter() - started - result.cycle_seconds if cycles == 1 else read - started
    warn(Inputs(cluster, conf, extensions, now), result.plan, folders, scheduler_conf)
    if group is None:
        sys.stdout.write(render(result, output, load))
        return
    explanation, seconds = explain_group(result, conf, now, seed, group, extensions)
    if explanation.verdict == "unknown":
        raise Failure(f"pod group {group} does not exist; give it as namespace/name{nearest(group, result.state.jobs)}")
    sys.stdout.write(render_explanation(explanation, output, (load, result.cycle_seconds, seconds)))


class Inputs(NamedTuple):
    """What a command about a cluster works on."""

    cluster: Cluster
    conf: SchedulerConf
    extensions: Extensions
    now: int
    """Microseconds since 1970."""


def read_inputs(paths: Sequence[str], scheduler_conf: str | None, folders: Sequence[str], at: str | None) -> Inputs:
    """What the options of a command name, read.

    Raises:
        Usage: one of them cannot be used.
    """
    from kilauea.api.times import parse_time
    from kilauea.engine.conf import ConfError
    from kilauea.runtime.extensions import ExtensionError, load_extensions
    from kilauea.runtime.files import SourceError
    from kilauea.runtime.planning import read_cluster, read_conf

    try:
        now = parse_time(at) if at else None
    except ValueError as error:
        raise Usage(f"--now: {error}") from error
    try:
        # The built-in configuration names none of the plugins that are installed.
        extensions = load_extensions(folders, installed=scheduler_conf is not None)
        conf = read_conf(scheduler_conf, extensions)
    except ConfError as error:
        lines = [f"  {finding}" for finding in error.findings if finding.error]
        more = f"`kilauea config check {scheduler_conf}` says more."
        raise Usage("\n".join([f"{scheduler_conf}: this configuration cannot be used:", *lines, more])) from error
    except (ExtensionError, SourceError) as error:
        raise Usage(str(error)) from error
    try:
        # What is read stays until the command ends, so looking for garbage in it would only take time.
        gc.disable()
        cluster = read_cluster(paths, _progress(sys.stderr.isatty()))
        gc.freeze()
        gc.enable()
    except SourceError as error:
        raise Usage(str(error)) from error
    return Inputs(cluster, conf, extensions, cluster.newest if now is None else now)


def warn(inputs: Inputs, plan: Plan, folders: Sequence[str], scheduler_conf: str | None) -> None:
    """Write to standard error what was found wrong with what was read."""
    found = [*map(str, inputs.conf.findings), *map(str, plan.findings)]
    if folders and scheduler_conf is None:
        found.insert(
            0, "--plugins-dir has no effect without --scheduler-conf: the built-in configuration names none of it"
        )
    for warning in (*inputs.extensions.warnings, *inputs.cluster.warnings, *found):
        click.echo(f"warning: {warning}", err=True)


class Failure(click.ClickException):
    """It could not be done: exit code 1."""


class Usage(click.ClickException):
    """Wrong usage or configuration: exit code 2."""

    exit_code = 2


def _progress(shown: bool) -> Callable[[str], None]:
    """Names each source as it is read, if shown."""

    def note(source: str) -> None:
        if shown:
            click.echo(f"reading {source}", err=True)

    return note
