"""`kilauea explain`: why a job, a pod group or a pod waits, on a live cluster or in files."""

from __future__ import annotations

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
    from kilauea.engine.state import ClusterState
    from kilauea.runtime.planning import Cluster

KINDS = {"job": "job", "vcjob": "job", "podgroup": "podgroup", "pg": "podgroup", "pod": "pod"}
"""What can be explained, by the names that people have for it."""

EXAMPLES = """\b
Examples:
  kilauea explain job train-7
  kilauea explain job train-7 -n research -o json
  kilauea explain pod train-7-worker-0 --kubeconfig ./cluster/kubeconfig
  kilauea explain podgroup train-7 -f cluster.yaml
"""


@click.command(short_help="Show why a job waits, and what would let it start.", epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True, metavar="NS", help="Its namespace.")
@objects_option
@kubeconfig_option
@conf_option
@plugins_option
@now_option
@output_option
def explain(
    kind: str,
    name: str,
    namespace: str,
    paths: tuple[str, ...],
    kubeconfig: Path | None,
    scheduler_conf: str | None,
    folders: tuple[str, ...],
    at: str | None,
    output: str,
) -> None:
    """Show why the KIND (job, podgroup or pod) called NAME waits: the rule that decides, with numbers, the smallest
    change that would let it start, who is ahead of it, and who holds what it lacks.

    Nothing is changed anywhere: the next cycle of the scheduler is worked out here, for the cluster as it is now.
    """  # noqa: D205 - the first line of the help is the sentence
    from kilauea.cli.explain_output import render_explanation
    from kilauea.runtime.planning import explain_group, plan_cycles

    started = time.perf_counter()
    inputs = read_inputs(paths, kubeconfig, scheduler_conf, folders, at)
    result = plan_cycles(inputs.cluster, inputs.conf, inputs.now, None, 1, inputs.extensions)
    load = time.perf_counter() - started - result.cycle_seconds
    warn(inputs, result.plan, folders)
    group = _group(KINDS[kind], f"{namespace}/{name}", inputs.cluster, result.state)
    explanation, seconds = explain_group(result, inputs.conf, inputs.now, None, group, inputs.extensions)
    sys.stdout.write(render_explanation(explanation, output, (load, result.cycle_seconds, seconds)))


def _group(kind: str, key: str, cluster: Cluster, state: ClusterState) -> str:
    """The pod group that is meant.

    Raises:
        Failure: there is none.
    """
    from kilauea.engine.conf import nearest

    found: str | None
    if kind == "job":
        found, names = cluster.groups_of_jobs.get(key), list(cluster.groups_of_jobs)
    elif kind == "pod":
        task = state.tasks.get(key)
        found, names = task.group if task else None, list(state.tasks)
    else:
        names = [name for name, job in state.jobs.items() if job.group]
        found = key if key in names else None
    if found is None or found not in state.jobs:
        raise Failure(f"{kind} {key} does not exist{nearest(key, names)}")
    return found
