"""`kilauea controllers`: Volcano's controllers, and if wanted Kubernetes' own, for any Kubernetes API."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.inputs import Failure, Usage
from kilauea.cli.options import access, leader_election, lease_of, pace, switch

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
    "gc-controller",
    "jobflow-controller",
    "jobtemplate-controller",
    "cronjob-controller",
    "hyperNode-controller",
    "sharding-controller",
    "colocation-config-controller",
)
"""Controllers that Volcano has and this build has not yet."""

log = logging.getLogger(__name__)


@click.command(short_help="Run controllers for a cluster.", epilog=EXAMPLES)
@access
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
@pace
@leader_election("vc-controller-manager", "Work only while the lease is held.")
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
    from kilauea.runtime.controllers import Options, wanted_controllers

    lease, terms = lease_of(given)
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
