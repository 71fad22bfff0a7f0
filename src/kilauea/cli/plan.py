"""`kilauea plan`: the outcome of the next scheduling cycle, and the reasons why pods still wait."""

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
from kilauea.cli.sharding import sharding_of, sharding_options

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
    "--cycles", type=click.IntRange(min=1), default=1, show_default=True, help="Plan this many cycles; show the last."
)
@now_option
@click.option("--seed", type=click.IntRange(min=0), help="Break ties between nodes at random, with this seed.")
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
@sharding_options
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
    sharding_mode: str,
    sharding_name: str,
    output: str,
) -> None:
    """Show what the next scheduling cycle would do with the objects in PATH, with a live cluster, or with both.

    The command changes nothing. It reads what `kubectl get nodes,pods,podgroups,queues -A -o yaml` prints, merges
    several files and folders, and expands Volcano jobs into their pods. With --kubeconfig, it adds the objects, as a
    dry run, to the cluster as it is now, and uses the scheduler configuration of that cluster.

    With --cycles, cycles are one second apart. Bound pods run at once. Evicted pods keep their resources for one cycle
    per second of terminationGracePeriodSeconds, 0 if it is not set; then pods that a controller owns return as new
    pending pods. The output lists the changes of each cycle, and the cycle after which nothing changes.
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
    result = inputs.plan(seed, cycles, schedulers or ALL_SCHEDULERS, sharding_of(sharding_mode, sharding_name))
    load = time.perf_counter() - started - result.cycle_seconds if cycles == 1 else read - started
    if group is None:
        warn(inputs, result.plan, folders)
        sys.stdout.write(render(result, output, load))
        if inputs.cluster.unusable:
            raise Usage(_incomplete(inputs.cluster.unusable))
        return
    before = time.perf_counter()
    try:
        explanation = explain_group(result, group)
    except InvalidInput as error:
        warn(inputs, result.plan, folders)
        raise Failure(str(error)) from error
    seconds = time.perf_counter() - before
    warn(inputs, result.plan, folders, concerned(group.partition("/")[2], [group], result.state))
    owners = owners_of(result.objects)
    sys.stdout.write(render_explanation(explanation, output, (load, result.cycle_seconds, seconds), owners))


def _incomplete(parts: int) -> str:
    """The error for files that are partly unusable."""
    from kilauea.api.numbers import plural

    return f"{plural(parts, 'part')} of the files cannot be used; the plan leaves them out: see the warnings above"
