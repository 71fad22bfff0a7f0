"""`kilauea controllers`: Volcano's controllers, and if wanted Kubernetes' own, for any Kubernetes API."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.daemon import (
    address_of,
    health,
    master,
    original_flags,
    pace,
    scheduler_names,
    start_log,
    verbosity,
)
from kilauea.cli.inputs import Failure, Usage
from kilauea.cli.leader_election import leader_election, lease_of
from kilauea.cli.options import access, switch

if TYPE_CHECKING:
    from kilauea.runtime.manager.process import Options

EXAMPLES = """\b
Examples:
  kilauea controllers --kubeconfig ~/.kube/config --leader-elect=false
  kilauea controllers --controllers=*,-pg-controller
  kilauea controllers --kubernetes-controllers='*'   # beside an API server that has no controller manager
"""
NO_EFFECT = """
worker-threads worker-threads-for-cronjob worker-threads-for-podgroup worker-threads-for-queue worker-threads-for-gc
max-requeue-num feature-gates log-flush-frequency logtostderr leader-elect-resource-lock scheduler-configs
shard-sync-period enable-node-event-trigger sharding-configmap sharding-configmap-namespace ca-cert-file tls-cert-file
tls-private-key-file
""".split()
"""Flags of the original that are taken, so that its manifests can be used, and have nothing to act on here."""
NOT_YET = ("sharding-controller",)
"""Controllers that Volcano has and this build has not yet."""

log = logging.getLogger(__name__)


@click.command(short_help="Run controllers for a cluster.", epilog=EXAMPLES)
@access
@click.option(
    "--controllers",
    "volcano",
    default="*,-sharding-controller",
    show_default=True,
    metavar="LIST",
    help="Volcano's: * for all, NAME for one, -NAME for not that one; with commas.",
)
@click.option(
    "--kubernetes-controllers",
    "kubernetes",
    default="",
    metavar="LIST",
    help="Kubernetes' own, for clusters where nobody else runs them. [default: none]",
)
@scheduler_names("Give PodGroups to plain pods with this schedulerName.")
@switch("--inherit-owner-annotations", True, "PodGroups take over annotations of the pods' owners.")
@pace(qps=2000, burst=2000)
@health
@switch("--enable-metrics", False, "Serve /metrics at --listen-address.")
@click.option("--listen-address", default=":8081", show_default=True, help="Where /metrics is, if enabled.")
@leader_election("vc-controller-manager", "Work only while the lease is held.")
@master
@verbosity
@original_flags(NO_EFFECT)
def controllers(verbosity: int, **given: Any) -> None:
    """Run Volcano's controllers until SIGTERM or Ctrl-C.

    Jobs with their pods and PodGroups, flows, cron jobs and the time to live of jobs; PodGroups for plain pods; states
    and counts of Queues; HyperNodes from labels of nodes; colocation settings of pods.

    With --kubernetes-controllers also what a cluster's own controller manager does: ReplicaSets, Deployments,
    StatefulSets, Jobs, disruption budgets, volumes, and the life of nodes.
    """
    import asyncio

    from kilauea.client.access import AccessError
    from kilauea.client.lease import LeaseLost
    from kilauea.runtime.manager.process import StartError

    start_log(verbosity)
    try:
        asyncio.run(_run(_options(**given)))
    except AccessError as error:
        raise Usage(f"kilauea controllers: {error}") from error
    except (StartError, LeaseLost) as error:
        raise Failure(f"kilauea controllers: {error}") from error


def _options(**given: Any) -> Options:
    """The options of the process.

    Raises:
        Usage: some of them cannot be used.
    """
    from kilauea.api.ports import Key
    from kilauea.runtime.manager.process import Options, wanted_controllers

    lease, terms = lease_of(given)
    pages = []
    if given["enable_healthz"]:
        pages.append(address_of(given["healthz_address"], "--healthz-address"))
    if given["enable_metrics"]:
        pages.append(address_of(given["listen_address"], "--listen-address"))
    release = os.environ.get("HELM_RELEASE_NAME") or "volcano"
    options = Options(
        kubeconfig=given["kubeconfig"],
        environment=dict(os.environ),
        volcano=_names(given["volcano"]),
        kubernetes=_names(given["kubernetes"]),
        schedulers=given["schedulers"],
        inherit=given["inherit_owner_annotations"],
        qps=given["qps"],
        burst=given["burst"],
        lease=lease,
        terms=terms,
        master=given["master"],
        pages=pages,
        discovery=Key(os.environ.get("KUBE_POD_NAMESPACE") or "volcano-system", f"{release}-controller-configmap"),
    )
    try:
        if not wanted_controllers(options, since=0):
            raise Usage("--controllers: none is left: use * or a name such as queue-controller")
    except ValueError as error:
        raise Usage(f"--controllers: {error}") from error
    return options


def _names(text: str) -> tuple[str, ...]:
    """The entries of a list; controllers that there are not yet are left out, and said."""
    kept = []
    for entry in filter(None, (each.strip() for each in text.split(","))):
        if entry.lstrip("+-") not in NOT_YET:
            kept.append(entry)
        elif not entry.startswith("-"):
            log.warning("--controllers: %s is not there yet", entry)
    return tuple(kept)


async def _run(options: Options) -> None:

    from kilauea.runtime.manager.process import run_controllers
    from kilauea.runtime.tasks import stopped_by_signals

    await run_controllers(options, stopped_by_signals())
