"""`kilauea scheduler`: schedule the pods of a cluster. Its flags are those of Volcano's scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
from kilauea.cli.original_flags import CONTEXT, SCHEDULER, without_effect
from kilauea.cli.sharding import sharding_of, sharding_options

if TYPE_CHECKING:
    import asyncio

    from kilauea.runtime.scheduler.live import LiveOptions

EXAMPLES = """\b
Examples:
  kilauea scheduler --kubeconfig ~/.kube/config --leader-elect=false
  kilauea scheduler --scheduler-conf /etc/volcano/volcano-scheduler.conf --enable-healthz --enable-metrics
"""


@click.command(short_help="Schedule the pods of a cluster.", epilog=EXAMPLES, context_settings=CONTEXT)
@access
@scheduler_names("Schedule pods with this schedulerName; pods of default-scheduler do not need a PodGroup.")
@click.option("--scheduler-conf", metavar="FILE", help="Scheduler configuration; reloaded when it changes.")
@click.option("--plugins-dir", "folders", multiple=True, metavar="DIR", help="Folder with your own plugins.")
@click.option(
    "--schedule-period",
    type=Duration(),
    default="1s",
    show_default=True,
    help="Time between cycles when idle.",
)
@click.option("--default-queue", default="default", show_default=True, help="Queue for PodGroups without one.")
@click.option(
    "--listen-address",
    default="127.0.0.1:8080",
    show_default=True,
    help="Address of /metrics and the health endpoints.",
)
@health
@switch("--enable-metrics", True, "Serve /metrics at --listen-address.")
@pace(qps=2000, burst=2000)
@switch("--priority-class", True, "Read PriorityClasses.")
@switch("--csi-storage", True, "Read CSIDrivers and CSIStorageCapacities.")
@switch("--disable-default-scheduler-config", False, "Do not start without a valid --scheduler-conf.")
@sharding_options
@click.option(
    "--node-selector",
    "node_labels",
    multiple=True,
    metavar="KEY:VALUE",
    help="Use only nodes with this label, or with one of several. Repeatable. [default: all nodes]",
)
@leader_election("volcano", "Schedule only while holding the lease.")
@switch("--tracing", False, 'Send OpenTelemetry spans to a collector; needs pip install "kilauea[tracing]".')
@click.option(
    "--history",
    "history",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep a history of jobs in this folder, for `kilauea history` and `kilauea report`. [default: none]",
)
@click.option("--seed", type=click.IntRange(min=0), help="Break ties between nodes at random, with this seed.")
@master
@logging_options
@version
@without_effect(SCHEDULER)
def scheduler(folders: tuple[str, ...], scheduler_conf: str | None, history: Path | None, **given: Any) -> None:
    """Schedule pods of the cluster until SIGTERM or Ctrl-C.

    Scheduling starts once all kinds of objects are listed; /readyz shows which are missing. The scheduler is compatible
    with Volcano: it uses the same PodGroups, Queues, configuration, flags and metrics.
    """
    from kilauea.runtime.inputs.extensions import load_extensions
    from kilauea.runtime.scheduler.process import SchedulerOptions, run_scheduler

    start_log(given)
    strict = given["disable_default_scheduler_config"]
    options = SchedulerOptions(daemon_options(given), scheduler_conf, strict, _live(given), history)

    async def start(stop: asyncio.Event) -> None:
        extensions = load_extensions(folders, installed=scheduler_conf is not None)
        await run_scheduler(options, stop, extensions)

    run_daemon(start)


def _live(given: Mapping[str, Any]) -> LiveOptions:
    """Return the settings of the scheduler.

    Raises:
        Usage: an option is invalid.
    """
    from kilauea.runtime.scheduler.live import LiveOptions
    from kilauea.runtime.scheduler.node_selector import labels_of

    if given["schedule_period"] <= 0:
        raise Usage("--schedule-period must be positive, for example 1s")
    try:
        labels = labels_of(given["node_labels"])
    except ValueError as error:
        raise Usage(f"--node-selector: {error}") from error
    return LiveOptions(
        names=given["schedulers"],
        default_queue=given["default_queue"],
        period=given["schedule_period"],
        priority_classes=given["priority_class"],
        storage=given["csi_storage"],
        seed=given["seed"],
        sharding=sharding_of(given["sharding_mode"], given["sharding_name"]),
        node_labels=labels,
    )
