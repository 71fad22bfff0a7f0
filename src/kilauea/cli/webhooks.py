"""`kilauea webhooks`: Volcano's admission for any Kubernetes, with Volcano's flags."""

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
from kilauea.cli.options import access, switch
from kilauea.cli.original_flags import CONTEXT, WEBHOOKS, without_effect

if TYPE_CHECKING:
    from kilauea.admission.review import Settings
    from kilauea.runtime.webhooks.certificates import Files
    from kilauea.runtime.webhooks.configurations import Where
    from kilauea.runtime.webhooks.process import WebhookOptions

EXAMPLES = """\b
Examples:
  kilauea webhooks --webhook-namespace volcano-system --webhook-service-name volcano-admission-service
  kilauea webhooks --kubeconfig ~/.kube/config --webhook-url https://192.0.2.7:8443
"""
GATE = "SchedulingGatesQueueAdmission"


@click.command(short_help="Validate and default objects for a cluster.", epilog=EXAMPLES, context_settings=CONTEXT)
@access
@master
@pace(qps=50, burst=100)
@click.option(
    "--listen-address", "host", default="", metavar="HOST", help="Address to listen on. [default: all addresses]"
)
@click.option("--port", type=int, default=8443, show_default=True)
@click.option("--tls-cert-file", "certificate", type=click.Path(path_type=Path), metavar="FILE", help="Certificate.")
@click.option(
    "--tls-private-key-file",
    "key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Private key of the certificate.",
)
@click.option(
    "--ca-cert-file",
    "authority",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificate of the authority. [default: without these three, a self-signed one, stored in a Secret]",
)
@click.option(
    "--tls-secret-name",
    "secret",
    default="volcano-admission-secret",
    show_default=True,
    metavar="NAME",
    help="Secret of the self-signed certificate.",
)
@click.option("--webhook-namespace", "namespace", default="", help="Namespace of the service for the webhooks.")
@click.option("--webhook-service-name", "service", default="", help="Name of that service.")
@click.option("--webhook-url", "url", default="", metavar="URL", help="URL of the webhooks, instead of a service.")
@click.option(
    "--enabled-admission",
    "enabled",
    metavar="PATHS",
    help="Paths of the webhooks to enable, separated by commas. [default: all]",
)
@scheduler_names("Admit pods with this schedulerName; the first is the default for jobs without one.")
@click.option(
    "--admission-conf",
    "conf",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with resource groups; reloaded when it changes.",
)
@health
@click.option("--graceful-shutdown-time", "grace", type=Duration(), default="30s", show_default=True)
@switch("--enable-queue-allocated-pods-check", False, "Refuse to delete queues with allocated pods.")
@click.option(
    "--max-queue-depth",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Maximum depth of the queue tree.",
)
@switch("--enable-root-queue-protection", True, "Refuse changes to the resources of the root queue.")
@click.option(
    "--feature-gates", "gates", default="", metavar="NAME=BOOL", help=f"Feature gates; {GATE} is the only one."
)
@logging_options
@version
@without_effect(WEBHOOKS)
def webhooks(**given: Any) -> None:
    """Validate and default the jobs, queues, pod groups, pods and hyper nodes of a cluster.

    The command serves until SIGTERM or Ctrl-C, and registers its webhooks with the API server.
    """
    from kilauea.runtime.webhooks.process import run_webhooks

    start_log(given)
    options = _options(given)

    def ready(address: str) -> None:
        click.echo(f"webhooks are ready at {address}")

    run_daemon(lambda stop: run_webhooks(options, stop, ready))


def _options(given: Mapping[str, Any]) -> WebhookOptions:
    """Return the options of the process.

    Raises:
        Usage: an option is invalid.
    """
    from kilauea.api.times import SECOND
    from kilauea.runtime.webhooks.process import WebhookOptions

    if not 1 <= given["port"] <= 65535:
        raise Usage("Configured port is invalid: the port should be in the range of 1 and 65535")
    return WebhookOptions(
        daemon=daemon_options(given),
        where=_where(given["namespace"], given["service"], given["url"]),
        host=given["host"],
        port=given["port"],
        paths=_paths(given["enabled"]),
        settings=_settings(given),
        admission_conf=given["conf"],
        secret=given["secret"],
        files=_files(given["certificate"], given["key"], given["authority"]),
        grace=given["grace"] / SECOND,
    )


def _settings(given: Mapping[str, Any]) -> Settings:
    from kilauea.admission.review import Settings
    from kilauea.runtime.inputs.template_rules import template_errors

    return Settings(
        scheduler_names=given["schedulers"],
        max_queue_depth=given["max_queue_depth"],
        protect_root=given["enable_root_queue_protection"],
        check_allocated_pods=given["enable_queue_allocated_pods_check"],
        queue_allocation_gate=_gate(given["gates"]),
        check_template=template_errors,
    )


def _where(namespace: str, service: str, url: str) -> Where:
    from kilauea.runtime.webhooks.configurations import Where

    if not url and not (namespace and service):
        raise Usage(
            "failed to start webhooks as both 'url' and 'namespace/name' of webhook are empty: "
            "give --webhook-namespace and --webhook-service-name, or --webhook-url"
        )
    if url and not url.startswith("https://"):
        raise Usage(f'--webhook-url: invalid URL "{url}": must begin with https://')
    return Where(namespace, service, url)


def _paths(enabled: str | None) -> tuple[str, ...]:
    from kilauea.admission.registry import HOOKS

    known = tuple(hook.path for hook in HOOKS)
    if enabled is None:
        return known
    wanted = tuple(path for each in enabled.split(",") if (path := each.strip()))
    for path in wanted:
        if path not in known:
            message = f"enabled admission {path} not found on the admission registered map"
            raise Usage(f"--enabled-admission: {message}: use any of {', '.join(known)}")
    return wanted


def _files(certificate: Path | None, key: Path | None, authority: Path | None) -> Files | None:
    from kilauea.runtime.webhooks.certificates import Files

    if certificate and key and authority:
        return Files(certificate, key, authority)
    if certificate or key or authority:
        raise Usage("--tls-cert-file, --tls-private-key-file and --ca-cert-file: give all three, or none")
    return None


def _gate(text: str) -> bool:
    """Return True if the gate is on."""
    from kilauea.api.wellknown import parse_bool

    on = False
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, _, word = entry.partition("=")
        value = parse_bool(word)
        if value is None:
            raise Usage(f'--feature-gates: invalid feature gate "{entry}": use {GATE}=true')
        if name == GATE:
            on = value
        else:
            click.echo(f"warning: --feature-gates: {name} has no effect here", err=True)
    return on
