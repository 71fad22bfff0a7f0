"""Flags of Volcano's components: those without effect here, each with the reason, and their spelling.

Volcano's manifests work unchanged: a flag has an effect, or a warning with the reason why it has none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import click

from kilauea.cli.options import Command
from kilauea.runtime.logs import JSON

ONE_STREAM = "the log goes to standard error"
LINES = "the form of its lines is fixed; --logging-format=json has the file and line"
KLOG = {
    **dict.fromkeys(("logtostderr", "alsologtostderr", "stderrthreshold", "one-output"), ONE_STREAM),
    "legacy-stderr-threshold-behavior": ONE_STREAM,
    **dict.fromkeys(("log-dir", "log-file", "log-file-max-size"), f"{ONE_STREAM}; redirect it to a file"),
    **dict.fromkeys(("skip-headers", "skip-log-headers", "add-dir-header", "log-backtrace-at"), LINES),
    "log-flush-frequency": "each message is written at once",
    "vmodule": "all modules have the same level, which -v and --log-level set",
}
"""Flags of klog, which all components of Volcano have."""

ALL_NODES = "all nodes are evaluated"
TLS_PAGES = "health and metrics are served over plain HTTP, at loopback unless an option says otherwise"
LEASES = "the lock is a Lease"
GATES = (
    "what Volcano's gates turn on is always on, except SchedulingGatesQueueAdmission, a gate of the webhooks, and "
    "QueueScopedOvercommit, which Kilauea lacks"
)
DUMPER = "`kubectl get -o yaml` and `kilauea plan` show what the scheduler knows"
SCHEDULER = {
    "resync-period": "watches resume where they end, and the state is listed again when they cannot",
    **dict.fromkeys(
        ("minimum-feasible-nodes", "minimum-percentage-nodes-to-find", "percentage-nodes-to-find"), ALL_NODES
    ),
    "enable-pprof": "that is a profiler of Go programs",
    **dict.fromkeys(("cache-dumper", "cache-dump-dir"), DUMPER),
    "node-worker-threads": "events of nodes are applied in order, in one thread",
    "gate-removal-worker-num": "gates are removed as part of other writes",
    "ignored-provisioners": "volumes are counted by the drivers of CSINodes",
    "resource-sync-timeout": "the first cycle waits until all kinds are listed",
    "feature-gates": GATES,
    "unschedulable-job-cache-max-skip-duration": "there is no such cache: pods that are alike are evaluated once",
    "leader-elect-resource-lock": LEASES,
    **dict.fromkeys(("ca-cert-file", "tls-cert-file", "tls-private-key-file"), TLS_PAGES),
}
"""Flags of vc-scheduler without effect, with the reason."""

WORKERS = "each controller has one worker, which sends its writes concurrently"
CONTROLLERS = {
    **dict.fromkeys(
        (
            "worker-threads",
            "worker-threads-for-cronjob",
            "worker-threads-for-podgroup",
            "worker-threads-for-queue",
            "worker-threads-for-gc",
        ),
        WORKERS,
    ),
    "max-requeue-num": "what fails is tried again with growing pauses, without an end",
    "feature-gates": GATES,
    "leader-elect-resource-lock": LEASES,
    **dict.fromkeys(("ca-cert-file", "tls-cert-file", "tls-private-key-file"), TLS_PAGES),
}
"""Flags of vc-controller-manager without effect, with the reason."""

WEBHOOKS = {
    "enable-cascade-child-queue-close": "closing a queue always closes its children, and a child of a closed queue "
    "is closed",
    "enable-queue-closed-before-delete-check": "a queue may be deleted while it is open",
}
"""Flags of vc-webhook-manager without effect, with the reason."""

GIVEN = "kilauea.flags-without-effect"

log = logging.getLogger(__name__)


def without_effect(flags: Mapping[str, str]) -> Callable[[Command], Command]:
    """Accept flags that have no effect, with their reasons; `warn_without_effect` reports given ones."""

    def take(command: Command) -> Command:
        for name, why in flags.items():
            option = click.option(
                f"--{name}",
                is_flag=False,
                flag_value="true",
                hidden=True,
                expose_value=False,
                help=why,
                callback=_note,
            )
            command = option(command)
        return command

    return take


def _note(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None and isinstance(parameter, click.Option):
        noted = context.meta.setdefault(GIVEN, [])
        noted.append(f"{parameter.opts[0]} has no effect here: {parameter.help}")


def warn_without_effect(form: str) -> None:
    """Warn about the given flags that have no effect, in the form of the log."""
    for words in click.get_current_context().meta.get(GIVEN, ()):
        if form == JSON:
            log.warning("%s", words)
        else:
            click.echo(f"warning: {words}", err=True)


def dashes(name: str) -> str:
    """Return the name of an option with dashes: Volcano's components take underscores as well."""
    return name.replace("_", "-")


CONTEXT = {"token_normalize_func": dashes}
"""Settings of a command whose options may be written with underscores."""
