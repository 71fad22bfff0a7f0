"""`kilauea plan`: what the next scheduling cycle would do with a cluster, and why what waits still waits."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from kilauea.cli.inputs import (
    Failure,
    Usage,
    conf_option,
    kubeconfig_option,
    now_option,
    objects_option,
    output_option,
    plugins_option,
    read_inputs,
    warn,
)

EXAMPLES = """\b
Examples:
  kilauea plan -f cluster.yaml
  kilauea plan -f cluster.yaml --explain team/training-7
  kilauea plan --kubeconfig ./cluster/kubeconfig -f new-job.yaml
  kubectl get nodes,pods,podgroups,queues -A -o yaml | kilauea plan -f - --scheduler-conf scheduler.conf
"""


@click.command(short_help="Show what the next scheduling cycle would do.", epilog=EXAMPLES)
@objects_option
@kubeconfig_option
@conf_option
@plugins_option
@click.option(
    "--cycles", type=click.IntRange(min=1), default=1, show_default=True, help="Plan this many; show the last."
)
@now_option
@click.option("--seed", type=click.IntRange(min=0), help="Break ties between nodes at random, repeatably.")
@click.option(
    "--explain",
    "group",
    metavar="NS/PODGROUP",
    help="Show why a pod group waits, and the smallest change that admits it.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    metavar="NAME",
    help="schedulerName of the pods to place. Repeatable. [default: volcano, kilauea and default-scheduler]",
)
@output_option
def plan(
    paths: tuple[str, ...],
    kubeconfig: Path | None,
    scheduler_conf: str | None,
    folders: tuple[str, ...],
    cycles: int,
    at: str | None,
    seed: int | None,
    group: str | None,
    schedulers: tuple[str, ...],
    output: str,
) -> None:
    """Show what the next scheduling cycle would do with the objects in PATH, with a live cluster, or with both.

    Nothing is changed anywhere. Objects are what `kubectl get nodes,pods,podgroups,queues -A -o yaml` prints; several
    files and folders add up, and Volcano's jobs count as the pods that they would get. With --kubeconfig they are
    submitted, as a dry run, to the cluster as it is now, with the scheduler configuration that it has.

    With --cycles, cycles are a second apart. Pods that were bound run at once. Evicted pods hold their room for as many
    cycles as their terminationGracePeriodSeconds says, none if they do not say; then those that a controller owns come
    back as new pending pods. What each cycle changed is listed, and after which one the cluster is at rest.
    """
    from kilauea.api.wellknown import ALL_SCHEDULERS
    from kilauea.cli.explain_output import render_explanation
    from kilauea.cli.group_names import owners_of
    from kilauea.cli.plan_output import render
    from kilauea.cli.subjects import concerned
    from kilauea.library import InvalidInput, explain_group

    started = time.perf_counter()
    inputs = read_inputs(paths, kubeconfig, scheduler_conf, folders, at)
    read = time.perf_counter()
    result = inputs.plan(seed, cycles, schedulers or ALL_SCHEDULERS)
    load = time.perf_counter() - started - result.cycle_seconds if cycles == 1 else read - started
    if group is None:
        warn(inputs, result.plan, folders)
        sys.stdout.write(render(result, output, load))
        if inputs.cluster.unusable:
            raise Usage(_incomplete(inputs.cluster.unusable))
        return
    begun = time.perf_counter()
    try:
        explanation = explain_group(result, group)
    except InvalidInput as error:
        warn(inputs, result.plan, folders)
        raise Failure(str(error)) from error
    seconds = time.perf_counter() - begun
    warn(inputs, result.plan, folders, concerned(group.partition("/")[2], [group], result.state))
    owners = owners_of(result.objects)
    sys.stdout.write(render_explanation(explanation, output, (load, result.cycle_seconds, seconds), owners))


def _incomplete(parts: int) -> str:
    """The error after a plan of files of which parts cannot be used."""
    from kilauea.cli.plan_output import plural

    return f"{plural(parts, 'part')} of the files cannot be used; the plan leaves them out: see the warnings above"
