"""The page about metrics, from the registries that the processes serve."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from generators.markdown import BLANK, code, page, table
from kilauea.telemetry.controller_metrics import ControllerMetrics
from kilauea.telemetry.metrics import SchedulerMetrics
from kilauea.telemetry.webhook_metrics import WebhookMetrics


def metrics_page() -> str:
    """All metrics of the scheduler, the controllers and the webhooks."""
    introduction = (
        "`/metrics` of the scheduler, the controllers and the webhooks has these, in the format of Prometheus; "
        "`--listen-address` says where, for the webhooks `--healthz-address`. "
        "Names that begin with `volcano_` are those of Volcano's dashboards and alerts. "
        "Histograms have `_bucket`, `_sum` and `_count`."
    )
    none = dict.fromkeys(("queues", "jobs", "flows", "pods"), list)
    return page(
        "Metrics",
        introduction,
        _registry("The scheduler", SchedulerMetrics().registry),
        _registry("The controllers", ControllerMetrics(**none).registry),
        _registry("The webhooks", WebhookMetrics().registry),
    )


def _registry(title: str, registry: CollectorRegistry) -> Iterator[str]:
    labels = {
        name: names
        for collector, registered in registry._collector_to_names.items()
        for name in registered
        if (names := getattr(collector, "_labelnames", ()))
    }
    rows = []
    for family in sorted(registry.collect(), key=lambda each: each.name):
        known = labels.get(family.name) or getattr(family, "_labelnames", None) or ()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append([code(name), family.type, ", ".join(code(label) for label in known), f"{family.documentation}."])
    yield from (f"## {title}", BLANK)
    yield from table(["metric", "type", "labels", "meaning"], rows)
