"""`kilauea controllers`: Volcano's controllers, and if wanted Kubernetes' own, for any Kubernetes API."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Failure, Usage
from kilauea.cli.scheduler import switch

if TYPE_CHECKING:
    from kilauea.runtime.controllers import Options

EXAMPLES = """\b
Examples:
  kilauea controllers --kubeconfig ~/.kube/config --leader-elect=false
  kilauea controllers --controllers=*,-pg-controller
  kilauea controllers --kubernetes-controllers='*'   # beside an API server that has no controller manager
"""
NOT_YET = (
    "job-controller",
    "sharding-controller",
)
"""Controllers that Volcano has and this build has not yet."""

log = logging.getLogger(__name__)


@click.command(short_help="Run controllers for a cluster.", epilog=EXAMPLES)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Access to the cluster. [default: KUBECONFIG, the pod's own, ~/.kube/config]",
)
@click.option(
    "--controllers",
    "volcano",
    default="*",
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
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    default=("volcano",),
    show_default=True,
    metavar="NAME",
    help="Give PodGroups to plain pods with this schedulerName. Repeatable.",
)
@switch("--inherit-owner-annotations", True, "PodGroups take over annotations of the pods' owners.")
@click.option(
    "--kube-api-qps", "qps", type=click.FloatRange(min=1), default=2000, show_default=True, help="Requests/s."
)
@click.option("--kube-api-burst", "burst", type=click.IntRange(min=1), default=2000, show_default=True, help="At once.")
@switch("--leader-elect", True, "Work only while the lease is held.")
@click.option("--leader-elect-lease-duration", "duration", type=Duration(), default="15s", show_default=True)
@click.option("--leader-elect-renew-deadline", "renew", type=Duration(), default="10s", show_default=True)
@click.option("--leader-elect-retry-period", "retry", type=Duration(), default="2s", show_default=True)
@click.option("--leader-elect-resource-name", "lease_name", default="vc-controller-manager", show_default=True)
@click.option("--leader-elect-resource-namespace", "lease_namespace", default="volcano-system", show_default=True)
def controllers(**given: Any) -> None:
    """Run controllers until SIGTERM or Ctrl-C: PodGroups for plain pods, states and counts of Queues.

    With --kubernetes-controllers also what a cluster's own controller manager does: ReplicaSets, Deployments,
    StatefulSets, Jobs, disruption budgets, volumes, and the life of nodes.
    """
    import asyncio

    from kilauea.client.access import AccessError
    from kilauea.client.lease import LeaseLost

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(name)s: %(message)s")
    try:
        asyncio.run(_run(_options(**given)))
    except AccessError as error:
        raise Usage(f"kilauea controllers: {error}") from error
    except LeaseLost as error:
        raise Failure(f"kilauea controllers: {error}") from error


def _options(**given: Any) -> Options:
    """The options of the process.

    Raises:
        Usage: some of them cannot be used.
    """
    from kilauea.api.ports import Key
    from kilauea.api.times import SECOND
    from kilauea.client.lease import Terms
    from kilauea.runtime.controllers import Options, wanted_controllers

    try:
        terms = Terms(given["duration"] / SECOND, given["renew"] / SECOND, given["retry"] / SECOND)
    except ValueError as error:
        raise Usage(f"--leader-elect: {error}") from error
    options = Options(
        kubeconfig=given["kubeconfig"],
        environment=dict(os.environ),
        volcano=_names(given["volcano"]),
        kubernetes=_names(given["kubernetes"]),
        schedulers=given["schedulers"],
        inherit=given["inherit_owner_annotations"],
        qps=given["qps"],
        burst=given["burst"],
        lease=Key(given["lease_namespace"], given["lease_name"]) if given["leader_elect"] else None,
        terms=terms,
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

    from kilauea.runtime.controllers import run_controllers
    from kilauea.runtime.tasks import stopped_by_signals

    await run_controllers(options, stopped_by_signals())
