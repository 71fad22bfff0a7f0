"""`kilauea explain`: the reason why a job, a pod group or a pod waits, on a live cluster or in files."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kilauea.cli.inputs import (
    Failure,
    conf_option,
    kubeconfig_option,
    now_option,
    objects_option,
    output_option,
    plugins_option,
    read_inputs,
    warn,
)

if TYPE_CHECKING:
    from kilauea.history.estimates import RunTimes

EXAMPLES = """\b
Examples:
  kilauea explain job train-7
  kilauea explain job train-7 -n research -o json
  kilauea explain pod/train-7-worker-0 --kubeconfig ./cluster/kubeconfig
  kilauea explain queue research
  kilauea explain node worker-3
  kilauea explain podgroup train-7 -f cluster.yaml
"""


@click.command(short_help="Show why a job waits, and what would let it start.", epilog=EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="KIND NAME")
@click.option("-n", "--namespace", default="default", show_default=True, metavar="NS", help="Namespace of the object.")
@objects_option
@kubeconfig_option
@conf_option
@plugins_option
@now_option
@click.option(
    "--history",
    "past",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="History in this folder, for expected starts. [default: that of the live cluster]",
)
@output_option
def explain(
    words: tuple[str, ...],
    namespace: str,
    paths: tuple[str, ...],
    kubeconfig: Path | None,
    scheduler_conf: str | None,
    folders: tuple[str, ...],
    at: str | None,
    past: Path | None,
    output: str,
) -> None:
    """Show why KIND NAME (or KIND/NAME) waits: the rule that blocks it, with numbers, the smallest change that would
    let it start, the groups ahead of it, and the largest holders of the missing resource.

    KIND is job, pod, podgroup, deployment, replicaset, statefulset or cronjob, or a short name of one of them. For a
    queue, the command shows its metrics and the groups that wait in it; for a node, its resources and why it accepts no
    pods.

    For a waiting job, it also estimates when it will start, from the run times that jobs declare, or from those of
    similar jobs in the history of the cluster.

    The command changes nothing: it computes the next scheduling cycle here, for the cluster as it is now.
    """  # noqa: D205 - the first line of the help is the sentence
    from kilauea.api.printing import printable
    from kilauea.cli.color import echo
    from kilauea.cli.explain_output import render_explanation
    from kilauea.cli.group_names import owners_of
    from kilauea.cli.places import render_place
    from kilauea.cli.subjects import Answered, concerned, groups_of, subject
    from kilauea.runtime.inputs.expecting import expected, is_foreseeable

    what = subject(words)
    started = time.perf_counter()
    inputs = read_inputs(paths, kubeconfig, scheduler_conf, folders, at)
    result = inputs.plan()
    load = time.perf_counter() - started - result.cycle_seconds
    if what.kind in ("queue", "node"):
        warn(inputs, result.plan, folders, [what.name])
        sys.stdout.write(render_place(what, result, output))
        return
    try:
        groups = groups_of(what, namespace, inputs.cluster, result.state)
    except Answered as answer:
        click.echo(printable(f"{answer}."))
        return
    except Failure:
        warn(inputs, result.plan, folders)
        raise
    warn(inputs, result.plan, folders, concerned(what.name, groups, result.state))
    owners = owners_of(result.objects)
    live = any(obj.metadata.resource_version for obj in result.objects if obj.kind == "Node")
    times = _past(past, kubeconfig, live=live)
    for group in groups:
        started = time.perf_counter()
        explanation = result.explain(group)
        seconds = time.perf_counter() - started
        start = None
        if is_foreseeable(explanation):
            start = expected(result, inputs.cluster.workloads, group, times)
            if start.verdict != "starts" and not live:  # files rarely contain run times
                start = None
        echo(render_explanation(explanation, output, (load, result.cycle_seconds, seconds), owners, start, result.now))


def _past(folder: Path | None, kubeconfig: Path | None, *, live: bool) -> RunTimes | None:
    """Run times of earlier jobs, from the history in a folder or of the cluster; None without one.

    Raises:
        Failure: the folder cannot be read.
    """
    import asyncio

    from kilauea.client.access import AccessError
    from kilauea.client.finding import find_access
    from kilauea.history.errors import HistoryError
    from kilauea.runtime.inputs.expecting import past_in, read_past

    try:
        if folder is not None:
            return past_in(folder)
        return asyncio.run(read_past(find_access(kubeconfig, os.environ))) if live else None
    except HistoryError as error:
        raise Failure(str(error)) from error
    except AccessError:
        return None
