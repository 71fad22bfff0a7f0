"""`kilauea controllers`: Volcano's controllers, and optionally Kubernetes' own, for any Kubernetes API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kilauea.api.times import SECOND
from kilauea.cli.daemon import (
    daemon_options,
    health,
    logging_options,
    master,
    pace,
    run_daemon,
    scheduler_names,
    start_log,
    version,
)
from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Usage
from kilauea.cli.leader_election import leader_election
from kilauea.cli.options import access, switch
from kilauea.cli.original_flags import CONTEXT, CONTROLLERS, without_effect

if TYPE_CHECKING:
    from kilauea.runtime.manager.process import ManagerOptions

EXAMPLES = """\b
Examples:
  kilauea controllers --kubeconfig ~/.kube/config --leader-elect=false
  kilauea controllers --controllers=*,-pg-controller
  kilauea controllers --kubernetes-controllers='*'   # beside an API server that has no controller manager
"""
SHARES = ("volcano:volcano:0.0:0.6:false:2:100", "agent-scheduler:agent:0.7:1.0:true:2:100")
"""Default division of nodes among schedulers."""


@click.command(short_help="Run controllers for a cluster.", epilog=EXAMPLES, context_settings=CONTEXT)
@access
@click.option(
    "--controllers",
    "volcano",
    default="*,-sharding-controller",
    show_default=True,
    metavar="LIST",
    help="Volcano's controllers, separated by commas: * for all, NAME for one, -NAME to exclude one.",
)
@click.option(
    "--kubernetes-controllers",
    "kubernetes",
    default="",
    metavar="LIST",
    help="Kubernetes' own controllers, for clusters without a controller manager. [default: none]",
)
@scheduler_names("Create PodGroups for plain pods with this schedulerName.")
@click.option(
    "--scheduler-configs",
    "shares",
    multiple=True,
    default=SHARES,
    show_default=True,
    metavar="SHARE",
    help="Nodes of a scheduler, for the sharding-controller: name:type:min_util:max_util:prefer_warmup:min_nodes:"
    "max_nodes. Repeatable. The ConfigMap, if there is one, wins.",
)
@click.option(
    "--shard-sync-period",
    "shard_period",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Time between two runs of the sharding-controller.",
)
@switch("--enable-node-event-trigger", True, "Share out nodes again whenever a node comes, goes or changes.")
@click.option(
    "--sharding-configmap",
    default="volcano-sharding-configmap",
    show_default=True,
    metavar="NAME",
    help="ConfigMap that defines how nodes are divided among schedulers.",
)
@click.option(
    "--sharding-configmap-namespace",
    default="volcano-system",
    show_default=True,
    metavar="NAMESPACE",
    help="Namespace of that ConfigMap.",
)
@switch("--inherit-owner-annotations", True, "Copy the annotations of pod owners to their PodGroups.")
@pace(qps=2000, burst=2000)
@health
@switch("--enable-metrics", False, "Serve /metrics at --listen-address.")
@click.option("--listen-address", default="127.0.0.1:8081", show_default=True, help="Address of /metrics, if enabled.")
@leader_election("vc-controller-manager", "Run the controllers only while holding the lease.")
@master
@logging_options
@version
@without_effect(CONTROLLERS)
def controllers(**given: Any) -> None:
    """Run Volcano's controllers until SIGTERM or Ctrl-C.

    They manage jobs with their pods and PodGroups, flows, cron jobs and the clean-up of finished jobs, PodGroups for
    plain pods, states and counts of Queues, HyperNodes from node labels or by UFM, colocation settings of pods, and
    the NodeShards of several schedulers.

    With --kubernetes-controllers, run those of the Kubernetes controller manager too: ReplicaSets, Deployments,
    StatefulSets, Jobs, disruption budgets, volumes, and the lifecycle of nodes.
    """
    from kilauea.runtime.manager.process import run_manager

    start_log(given)
    options = _options(given)
    run_daemon(lambda stop: run_manager(options, stop))


def _options(given: Mapping[str, Any]) -> ManagerOptions:
    """Return the options of the process.

    Raises:
        Usage: an option is invalid.
    """
    from kilauea.api.ports import Key
    from kilauea.controllers.sharding.configuration import ShardingError, of_flags
    from kilauea.runtime.manager.process import ManagerOptions, selected_controllers

    if given["shard_period"] < SECOND:
        raise Usage("--shard-sync-period must be at least 1s")
    try:
        sharing = of_flags(given["shares"], given["shard_period"], on_nodes=given["enable_node_event_trigger"])
    except ShardingError as error:
        raise Usage(f"--scheduler-configs: {error}") from error
    release = os.environ.get("HELM_RELEASE_NAME") or "volcano"
    options = ManagerOptions(
        daemon=daemon_options(given),
        volcano=_names(given["volcano"]),
        kubernetes=_names(given["kubernetes"]),
        schedulers=given["schedulers"],
        inherit=given["inherit_owner_annotations"],
        discovery=Key(os.environ.get("KUBE_POD_NAMESPACE") or "volcano-system", f"{release}-controller-configmap"),
        sharding=Key(given["sharding_configmap_namespace"], given["sharding_configmap"]),
        sharing=sharing,
    )
    try:
        if not selected_controllers(options, lambda now: 0):
            raise Usage("--controllers selects no controller: use * or a name, for example queue-controller")
    except ValueError as error:
        raise Usage(f"--controllers: {error}") from error
    return options


def _names(text: str) -> tuple[str, ...]:
    """Return the entries of a list."""
    return tuple(filter(None, (each.strip() for each in text.split(","))))
