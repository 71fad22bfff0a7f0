"""`kilauea scheduler`: schedule the pods of a cluster. The flags are spelled as Volcano's scheduler spells them."""

from __future__ import annotations

import os
from typing import Any

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
from kilauea.cli.durations import Duration
from kilauea.cli.inputs import Failure, Usage
from kilauea.cli.leader_election import leader_election, lease_of
from kilauea.cli.options import access, switch

EXAMPLES = """\b
Examples:
  kilauea scheduler --kubeconfig ~/.kube/config --leader-elect=false
  kilauea scheduler --scheduler-conf /etc/volcano/volcano-scheduler.conf --enable-healthz --enable-metrics
"""


NO_EFFECT = """
resync-period minimum-feasible-nodes minimum-percentage-nodes-to-find percentage-nodes-to-find enable-pprof cache-dumper
cache-dump-dir node-worker-threads gate-removal-worker-num ignored-provisioners resource-sync-timeout feature-gates
scheduler-sharding-name log-flush-frequency logtostderr leader-elect-resource-lock
""".split()
"""Flags of the original that are taken, so that its manifests can be used, and have nothing to act on here."""


@click.command(short_help="Schedule the pods of a cluster.", epilog=EXAMPLES)
@access
@scheduler_names("Schedule pods with this schedulerName; pods of default-scheduler need no PodGroup.")
@click.option("--scheduler-conf", metavar="FILE", help="Configuration; read again when it changes.")
@click.option("--plugins-dir", "folders", multiple=True, metavar="DIR", help="Folder with plugins of your own.")
@click.option(
    "--schedule-period", type=Duration(), default="1s", show_default=True, help="Pause between cycles if all is quiet."
)
@click.option("--default-queue", default="default", show_default=True, help="Queue of PodGroups that name none.")
@click.option("--listen-address", default=":8080", show_default=True, help="Where /metrics and the others are.")
@health
@switch("--enable-metrics", True, "Serve the pages at --listen-address.")
@pace(qps=2000, burst=2000)
@switch("--priority-class", True, "Read PriorityClasses.")
@switch("--csi-storage", True, "Read CSIDrivers and CSIStorageCapacities.")
@switch("--disable-default-scheduler-config", False, "Without a good --scheduler-conf, do not start.")
@leader_election("volcano", "Schedule only while the lease is held.")
@click.option("--seed", type=click.IntRange(min=0), help="Break ties between nodes at random, repeatably.")
@master
@verbosity
@original_flags(NO_EFFECT)
def scheduler(folders: tuple[str, ...], scheduler_conf: str | None, verbosity: int, **given: Any) -> None:
    """Schedule pods of the cluster until SIGTERM or Ctrl-C.

    Nothing is decided before everything has been read; /readyz says what is missing. Compatible with Volcano: the same
    PodGroups, Queues, configuration, flags and metrics.
    """
    import asyncio

    from kilauea.client.access import AccessError
    from kilauea.client.lease import LeaseLost
    from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
    from kilauea.runtime.inputs.files import SourceError
    from kilauea.runtime.scheduler.process import StartError

    start_log(verbosity)
    options = _options(scheduler_conf, **given)
    try:
        extensions = load_extensions(folders, installed=scheduler_conf is not None)
        asyncio.run(_run(options, extensions))
    except (ExtensionError, SourceError, AccessError) as error:
        raise Usage(f"kilauea scheduler: {error}") from error
    except (StartError, LeaseLost) as error:
        raise Failure(f"kilauea scheduler: {error}") from error


async def _run(options: Any, extensions: Any) -> None:

    from kilauea.runtime.scheduler.process import run_scheduler
    from kilauea.runtime.tasks import stopped_by_signals

    await run_scheduler(options, stopped_by_signals(), extensions)


def _options(scheduler_conf: str | None, **given: Any) -> Any:
    """The options of the process.

    Raises:
        Usage: some of them cannot be used.
    """
    from kilauea.runtime.scheduler.live import LiveOptions
    from kilauea.runtime.scheduler.process import Options

    lease, terms = lease_of(given)
    pages = []
    if given["enable_metrics"]:
        pages.append(address_of(given["listen_address"], "--listen-address"))
    if given["enable_healthz"]:
        pages.append(address_of(given["healthz_address"], "--healthz-address"))
    if given["schedule_period"] <= 0:
        raise Usage("--schedule-period: must be longer than nothing, such as 1s")
    live = LiveOptions(
        names=given["schedulers"],
        default_queue=given["default_queue"],
        period=given["schedule_period"],
        priority_classes=given["priority_class"],
        storage=given["csi_storage"],
        seed=given["seed"],
    )
    return Options(
        kubeconfig=given["kubeconfig"],
        master=given["master"],
        environment=dict(os.environ),
        scheduler_conf=scheduler_conf,
        strict=given["disable_default_scheduler_config"],
        pages=tuple(pages),
        qps=given["qps"],
        burst=given["burst"],
        lease=lease,
        terms=terms,
        live=live,
    )
