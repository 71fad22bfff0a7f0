"""The forms in which a plan is shown: tables for people, JSON and YAML for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import yaml

from kilauea.api.decode import encode_json
from kilauea.api.quantity import Unit, format_amount, format_resources, unit_of
from kilauea.cli.table import table
from kilauea.engine.outcome import counts_of
from kilauea.engine.plan import Pending, Plan, QueueOutcome
from kilauea.engine.state import ClusterState
from kilauea.runtime.planning import Result


def render(result: Result, output: str, load_seconds: float) -> str:
    """The text of a plan in one of the forms `table`, `wide`, `json`, `yaml`."""
    if output == "json":
        return encode_json(as_data(result, load_seconds)).decode() + "\n"
    if output == "yaml":
        return yaml.safe_dump(as_data(result, load_seconds), sort_keys=True, allow_unicode=True)
    return "\n".join(_tables(result, wide=output == "wide")) + "\n"


# --- for programs


def as_data(result: Result, load_seconds: float) -> dict[str, Any]:
    """The plan as plain data; amounts are Kubernetes quantities, what is unlimited is absent."""
    plan, state = result.plan, result.state
    return {
        "binds": {bind.pod: bind.node for bind in plan.binds},
        "pipelined": {nomination.pod: nomination.node for nomination in plan.nominations},
        "evictions": [{"pod": e.pod, "node": e.node, "by": e.by, "action": e.action} for e in plan.evictions],
        "podGroups": _groups(plan, state),
        "queues": {name: _queue(queue) for name, queue in plan.queues.items()},
        "pending": [_pending(p) for p in plan.pending],
        "timing": {"load": round(load_seconds, 6), "cycle": round(result.cycle_seconds, 6)},
    }


def _groups(plan: Plan, state: ClusterState) -> dict[str, Any]:
    out = {}
    for key, job in sorted(state.jobs.items()):
        if job.group:
            outcome = plan.groups.get(key)
            phase, tasks = (outcome.phase, dict(outcome.counts)) if outcome else (job.phase, counts_of(job))
            out[key] = {"queue": job.queue, "phase": phase, "tasks": tasks}
    return out


def _queue(queue: QueueOutcome) -> dict[str, Any]:
    return {
        "parent": queue.parent,
        "capability": _limited(queue.capability),
        "deserved": _limited(queue.deserved),
        "guarantee": _limited(queue.guarantee),
        "realCapacity": _limited(queue.real_capability),
        "allocated": _limited(queue.allocated),
        "request": _limited(queue.request),
        "inqueue": _limited(queue.inqueue),
        "elastic": _limited(queue.elastic),
        "share": None if queue.share is None else round(queue.share, 6),
    }


def _limited(amounts: Mapping[str, float] | None) -> dict[str, str]:
    limited = {name: amount for name, amount in (amounts or {}).items() if amount != float("inf")}
    return format_resources(limited)


def _pending(p: Pending) -> dict[str, Any]:
    asked, left = (format_amount(p.resource, p.asked), format_amount(p.resource, p.left)) if p.resource else ("", "")
    return {
        "pod": p.pod,
        "podGroup": p.group,
        "code": p.code,
        "message": p.message,
        "queue": p.queue,
        "resource": p.resource,
        "asked": asked,
        "left": left,
    }


# --- for people


def _tables(result: Result, wide: bool) -> list[str]:
    plan, state = result.plan, result.state
    lines = [_totals(plan, state), ""]
    if plan.binds:
        lines += [*_binds_by_queue(plan, state), ""]
    if wide and plan.binds:
        lines += [*table(["POD", "NODE"], [[b.pod, b.node] for b in plan.binds]), ""]
    if plan.evictions:
        rows = [[e.pod, e.node, e.by, e.action] for e in plan.evictions]
        lines += [*table(["EVICTED", "NODE", "FOR", "ACTION"], rows), ""]
    if plan.pending:
        lines += [*_pending_by_reason(plan, wide), ""]
    lines += _queue_figures(plan, state)
    while not lines[-1]:
        lines.pop()
    return lines


def _totals(plan: Plan, state: ClusterState) -> str:
    bound, waiting = len(plan.binds), len(plan.pending)
    parts = [
        f"{len(state.nodes)} nodes",
        f"{len(state.tasks)} pods",
        f"{sum(1 for job in state.jobs.values() if job.group)} pod groups",
    ]
    outcome = [f"{bound} pods start", f"{waiting} wait"]
    if plan.nominations:
        outcome.append(f"{len(plan.nominations)} of them for room that is being freed")
    if plan.evictions:
        outcome.append(f"{len(plan.evictions)} are evicted")
    return f"{', '.join(parts)}: {', '.join(outcome)}."


def _binds_by_queue(plan: Plan, state: ClusterState) -> list[str]:
    pods: Counter[str] = Counter()
    groups: dict[str, set[str]] = {}
    nodes: dict[str, set[str]] = {}
    for bind in plan.binds:
        job = state.jobs[state.tasks[bind.pod].group]
        pods[job.queue] += 1
        groups.setdefault(job.queue, set()).add(job.key)
        nodes.setdefault(job.queue, set()).add(bind.node)
    rows = [[q, str(len(groups[q])), str(n), str(len(nodes[q]))] for q, n in sorted(pods.items())]
    return table(["QUEUE", "POD GROUPS", "PODS STARTING", "ON NODES"], rows)


def _pending_by_reason(plan: Plan, wide: bool) -> list[str]:
    grouped: dict[tuple[str, str, str], list[Pending]] = {}
    for p in plan.pending:
        grouped.setdefault((p.queue, p.code, _reason(p)), []).append(p)
    order = sorted(grouped.items(), key=lambda item: (item[0][0], -len(item[1]), item[0]))
    rows = [[queue or "-", str(len(pods)), code, pods[0].pod, reason] for (queue, code, reason), pods in order]
    if wide:
        rows = [[p.queue or "-", "1", p.code, p.pod, p.message] for p in plan.pending]
    return table(["QUEUE", "WAITING", "CODE", "FOR EXAMPLE", "REASON"], rows)


def _reason(p: Pending) -> str:
    """The message without what differs between pods that wait for the same thing."""
    message = p.message
    if p.code == "GangWaiting" and ": " in message:
        message = "its gang waits: " + message.split(": ", 1)[1]
    if p.resource:
        message += f" (asked {human(p.resource, p.asked)}, left {human(p.resource, p.left)})"
    return message


def _queue_figures(plan: Plan, state: ClusterState) -> list[str]:
    shown = ["cpu", "memory", *sorted(n for n in state.axis.names if "gpu" in n or "/" in n)]
    rows = []
    for name, queue in plan.queues.items():
        if not (queue.allocated or queue.request or name not in ("root", "default")):
            continue
        cells = [_cell(figures, shown) for figures in (queue.deserved, queue.allocated, queue.request)]
        rows.append([name, *cells, "-" if queue.share is None else f"{queue.share:.2f}"])
    return table(["QUEUE", "DESERVED", "ALLOCATED", "REQUEST", "SHARE"], rows) if rows else []


def _cell(figures: Mapping[str, float] | None, shown: list[str]) -> str:
    present = [n for n in shown if figures and figures.get(n)]
    return ", ".join(human(n, (figures or {})[n]) for n in present) or "-"


def human(name: str, amount: float) -> str:
    """An amount for people: at most one digit after the point, memory in its largest fitting unit."""
    if unit_of(name) is Unit.BYTES:
        size, suffix = amount, ""
        for suffix in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
            if abs(size) < 1024 or suffix == "Pi":
                break
            size /= 1024
        return f"{_short(size)}{suffix} {name}"
    return f"{_short(amount / 1000 if unit_of(name) is Unit.MILLI else amount)} {name}"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
