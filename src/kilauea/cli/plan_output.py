"""Output formats of a plan: tables for people, JSON and YAML for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kilauea.api.decode import encode_json
from kilauea.api.numbers import plural
from kilauea.api.quantity import format_amount, format_resources
from kilauea.api.unserved import left_to
from kilauea.api.wellknown import DEFAULT_QUEUE, ROOT_QUEUE
from kilauea.cli.data_text import escaped_json, yaml_text
from kilauea.cli.devices_output import devices_data, devices_table
from kilauea.cli.group_names import Owners, owners_of, short
from kilauea.cli.table import table
from kilauea.engine.explain.formatting import human, in_words
from kilauea.engine.explain.group import rank, with_hint, with_hints
from kilauea.engine.model.devices import GivenCard, cards_in
from kilauea.engine.model.resources import PODS, order_of
from kilauea.engine.plan import Pending, Plan, QueueOutcome
from kilauea.engine.report import counts_of
from kilauea.engine.state import ClusterState
from kilauea.simulator.planning import Result

REASONS_SHOWN = 20
"""Maximum number of reasons in the table."""

NAMES_SHOWN = 3
"""Maximum number of names in a cell."""

CARDS_SHOWN = 8
"""Maximum number of cards of a pod."""

CYCLES_SHOWN = 40
"""Maximum number of cycles in the table."""


def render(result: Result, output: str, load_seconds: float) -> str:
    """The text of a plan in one of the forms `table`, `wide`, `json`, `yaml`."""
    if output == "json":
        return escaped_json(encode_json(as_data(result, load_seconds)).decode()) + "\n"
    if output == "yaml":
        return yaml_text(as_data(result, load_seconds), sort_keys=True)
    return "\n".join(_tables(result, wide=output == "wide")) + "\n"


# --- for programs


def as_data(result: Result, load_seconds: float) -> dict[str, Any]:
    """The plan as plain data; amounts are Kubernetes quantities, unlimited ones are omitted."""
    plan, state = result.plan, result.state
    return {
        **_decisions(plan),
        **_cycles(result),
        "podGroups": _groups(plan, state),
        "queues": {name: queue_data(queue) for name, queue in plan.queues.items()},
        "pending": [_pending(p) for p in plan.pending],
        "notCreated": {
            key: {"pods": missing.pods, "reason": missing.message} for key, missing in result.not_created.items()
        },
        "otherSchedulers": {
            key: {"pods": of.pods, "schedulerName": of.scheduler} for key, of in result.elsewhere.items()
        },
        "submitted": [_submitted(result, key) for key in result.submitted],
        "timing": {"load": round(load_seconds, 6), "cycle": round(result.cycle_seconds, 6)},
    }


def _decisions(plan: Plan) -> dict[str, Any]:
    volumes = _volumes(plan)
    return {
        "binds": {bind.pod: bind.node for bind in plan.binds},
        "pipelined": {nomination.pod: nomination.node for nomination in plan.nominations},
        "evictions": [{"pod": e.pod, "node": e.node, "by": e.by, "action": e.action} for e in plan.evictions],
        **({"volumes": volumes} if volumes else {}),
        **devices_data(plan),
        **_cards(plan),
    }


def _volumes(plan: Plan) -> list[dict[str, str]]:
    """The volumes of claims of pods that start, without repeats, in the order of the pods."""
    out = {
        volume.claim: {
            "claim": volume.claim,
            "volume": volume.volume,
            "storageClass": volume.class_name,
            "pod": bind.pod,
            "node": bind.node,
        }
        for bind in reversed(plan.binds)
        for volume in reversed(bind.volumes)
    }
    return list(reversed(out.values()))


def _cards(plan: Plan) -> dict[str, Any]:
    """The parts of cards assigned to pods; empty without any."""
    given = {bind.pod: parts for bind in plan.binds if (parts := cards_in(bind.annotations))}
    return {"cards": {pod: [part._asdict() for part in parts] for pod, parts in given.items()}} if given else {}


def _cycles(result: Result) -> dict[str, Any]:
    """The decisions of each cycle."""
    if len(result.steps) < 2:
        return {}
    return {"cycles": [_decisions(step.plan) for step in result.steps], "atRestAfter": result.at_rest_after}


def _groups(plan: Plan, state: ClusterState) -> dict[str, Any]:
    out = {}
    for key, job in sorted(state.jobs.items()):
        if job.group:
            outcome = plan.groups.get(key)
            phase, tasks = (outcome.phase, dict(outcome.counts)) if outcome else (job.phase, counts_of(job))
            out[key] = {"queue": job.queue, "phase": phase, "tasks": tasks}
    return out


def _submitted(result: Result, key: str) -> dict[str, Any]:
    """The outcome of a submitted pod group."""
    plan, state = result.plan, result.state
    job = state.jobs[key]
    waiting = [p for p in plan.pending if p.group == key]
    starting = [bind for bind in plan.binds if state.tasks[bind.pod].group == key]
    why = min(waiting, key=lambda p: (p.code == "GangWaiting", rank(p.code)), default=None)
    return {
        "podGroup": key,
        "queue": job.queue,
        "starting": len(starting),
        "waiting": len(waiting),
        "nodes": sorted({bind.node for bind in starting}),
        "evicts": [e.pod for e in plan.evictions if e.by == key],
        "code": why.code if why else "",
        "reason": in_words(with_hint(why, state, plan)) if why else "",
    }


def queue_data(queue: QueueOutcome) -> dict[str, Any]:
    """The metrics of a queue as plain data."""
    return {
        "parent": queue.parent,
        "capability": limited(queue.capability),
        "deserved": limited(queue.deserved),
        "guarantee": limited(queue.guarantee),
        "realCapacity": limited(queue.real_capability),
        "allocated": limited(queue.allocated),
        "request": limited(queue.request),
        "inqueue": limited(queue.inqueue),
        "elastic": limited(queue.elastic),
        "share": None if queue.share is None else round(queue.share, 6),
        "conditions": [{"type": c.type, "reason": c.reason, "message": c.message} for c in queue.conditions],
    }


def limited(amounts: Mapping[str, float] | None) -> dict[str, str]:
    """Amounts as quantities, without unlimited ones."""
    return format_resources({name: amount for name, amount in (amounts or {}).items() if amount != float("inf")})


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
    plan, state, owners = result.plan, result.state, owners_of(result.objects)
    parts = [
        _history(result),
        [_totals(plan, state)],
        _submissions(result, owners),
        table(
            ["PODS NOT CREATED", "OF GROUP", "REASON"],
            [[str(missing.pods), short(key, owners), missing.message] for key, missing in result.not_created.items()],
        ),
        table(
            ["PODS OF OTHER SCHEDULERS", "OF GROUP", "REASON"],
            [
                [str(of.pods), short(key, owners), left_to(of.scheduler, state.scheduler_names, runs=of.runs)]
                for key, of in result.elsewhere.items()
            ],
        ),
        _starting(plan, state, owners, wide),
        _claims(plan, wide),
        devices_table(plan, wide=wide),
        _shared_cards(plan),
        table(
            ["EVICTED", "NODE", "FOR", "ACTION"],
            [[e.pod, e.node, short(e.by, owners), e.action] for e in plan.evictions],
        ),
        _every_pending(plan, state) if wide else _pending_by_reason(plan, state, owners),
        _queue_figures(plan),
    ]
    lines: list[str] = []
    for part in parts:
        lines += ["", *part] if lines and part else part
    return lines


def _history(result: Result) -> list[str]:
    """A row for each cycle with decisions, and the time when the cluster came to rest."""
    if len(result.steps) < 2:
        return []
    rows = []
    for number, step in enumerate(result.steps, 1):
        decided = [step.plan.binds, step.plan.evictions, step.plan.nominations]
        if any(decided) and not step.quiet:
            rows.append([str(number), *(str(len(part)) for part in decided)])
    shown = table(["CYCLE", "PODS STARTING", "EVICTED", "NOMINATED"], rows[:CYCLES_SHOWN])
    if len(rows) > CYCLES_SHOWN:
        shown.append(f"... and {plural(len(rows) - CYCLES_SHOWN, 'more cycle')}")
    rest = result.at_rest_after
    if rest is None:
        end = f"not at rest after {plural(len(result.steps), 'cycle')}; the last one:"
    else:
        end = (f"at rest after cycle {rest}" if rest else "at rest from the first cycle on") + "; the last one:"
    return [*shown, *([""] if shown else []), end]


def _totals(plan: Plan, state: ClusterState) -> str:
    groups = sum(1 for job in state.jobs.values() if job.group and not job.service)
    there = [plural(len(state.nodes), "node"), plural(len(state.tasks), "pod"), plural(groups, "pod group")]
    outcome = [f"{plural(len(plan.binds), 'pod')} start{'s' * (len(plan.binds) == 1)}"]
    outcome.append(f"{len(plan.pending)} wait{'s' * (len(plan.pending) == 1)}")
    if plan.nominations:
        outcome.append(f"{len(plan.nominations)} of them nominated to a node")
    if plan.evictions:
        outcome.append(f"{len(plan.evictions)} {'is' if len(plan.evictions) == 1 else 'are'} evicted")
    nothing = not (plan.binds or plan.pending or plan.evictions)
    return f"{', '.join(there)}: {'nothing to do' if nothing else ', '.join(outcome)}."


def _submissions(result: Result, owners: Owners) -> list[str]:
    """The outcome of each group submitted to a live cluster."""
    rows = []
    for key in result.submitted:
        of = _submitted(result, key)
        rows.append(
            [
                short(key, owners),
                of["queue"],
                str(of["starting"]),
                str(of["waiting"]),
                _some(set(of["nodes"])) or "-",
                _some(set(of["evicts"])) or "-",
                f"{of['code']}: {of['reason']}" if of["code"] else "-",
            ]
        )
    return table(["SUBMITTED", "QUEUE", "PODS STARTING", "WAITING", "ON NODES", "EVICTS", "WAITS BECAUSE"], rows)


def _starting(plan: Plan, state: ClusterState, owners: Owners, wide: bool) -> list[str]:
    """The pods that start: by queue, or in the wide form one by one."""
    if wide:
        rows = [[state.jobs[state.tasks[b.pod].group].queue, b.pod, b.node] for b in plan.binds]
        return table(["QUEUE", "STARTING POD", "NODE"], rows)
    pods: Counter[str] = Counter()
    groups: dict[str, set[str]] = {}
    nodes: dict[str, set[str]] = {}
    for bind in plan.binds:
        job = state.jobs[state.tasks[bind.pod].group]
        pods[job.queue] += 1
        groups.setdefault(job.queue, set()).add(short(job.key, owners))
        nodes.setdefault(job.queue, set()).add(bind.node)
    rows = [
        [q or "-", str(n), str(len(groups[q])), str(len(nodes[q])), _some(groups[q])] for q, n in sorted(pods.items())
    ]
    return table(["QUEUE", "PODS STARTING", "OF GROUPS", "ON NODES", "GROUPS"], rows)


def _claims(plan: Plan, wide: bool) -> list[str]:
    """The volumes of the claims of pods that start."""
    given = _volumes(plan)
    shown = given if wide else given[:REASONS_SHOWN]
    rows = [[v["claim"], v["pod"], v["node"], v["volume"] or f"a new one of class {v['storageClass']}"] for v in shown]
    lines = table(["CLAIM", "FOR POD", "ON NODE", "VOLUME"], rows)
    more = len(given) - len(shown)
    return [*lines, f"... and {plural(more, 'more claim')}; -o wide shows every claim"] if more else lines


def _shared_cards(plan: Plan) -> list[str]:
    """The parts of cards assigned to pods."""
    rows = []
    for bind in plan.binds:
        parts = cards_in(bind.annotations)
        shown = ", ".join(f"{part.card}{_amounts(part)}" for part in parts[:CARDS_SHOWN])
        more = f" and {len(parts) - CARDS_SHOWN} more" if len(parts) > CARDS_SHOWN else ""
        rows += [[bind.pod, bind.node, shown + more]] if parts else []
    table_rows = rows[:REASONS_SHOWN]
    lines = table(["POD WITH CARDS", "ON NODE", "CARDS"], table_rows)
    more_pods = len(rows) - len(table_rows)
    return [*lines, f"... and {plural(more_pods, 'more pod')}; -o json shows all"] if more_pods else lines


def _amounts(part: GivenCard) -> str:
    """Memory and cores of a part of a card; empty for cards without amounts."""
    amounts = [f"{part.memory} MiB"] * bool(part.memory) + [f"{part.cores}% of cores"] * bool(part.cores)
    return f" ({', '.join(amounts)})" if amounts else ""


def _evicted(plan: Plan, owners: Owners) -> list[str]:
    rows = [[e.pod, e.node, short(e.by, owners), e.action] for e in plan.evictions]
    return table(["EVICTED", "NODE", "FOR", "ACTION"], rows)


def _some(names: set[str]) -> str:
    """The first few names."""
    shown = sorted(names)[:NAMES_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _pending_by_reason(plan: Plan, state: ClusterState, owners: Owners) -> list[str]:
    """One row for each reason why groups wait."""
    by_group: dict[str, list[Pending]] = {}
    for p in plan.pending:
        by_group.setdefault(p.group or p.pod, []).append(p)
    rows: dict[tuple[str, str, str], list[tuple[str, Pending, int]]] = {}
    for name, pods in by_group.items():
        why = min(pods, key=lambda p: (p.code == "GangWaiting", rank(p.code)))
        rows.setdefault((why.queue, why.code, _kind_of_reason(why)), []).append((name, why, len(pods)))
    cells = []
    for (queue, code, _), groups in sorted(rows.items(), key=lambda item: (not item[0][0], item[0][0], -len(item[1]))):
        name, why, _ = groups[0]
        waiting = sum(count for _, _, count in groups)
        words = in_words(with_hint(why, state, plan))
        cells.append([queue or "-", str(waiting), str(len(groups)), code, short(name, owners), words])
    shown = table(["QUEUE", "PODS WAITING", "OF GROUPS", "CODE", "FOR EXAMPLE", "REASON"], cells[:REASONS_SHOWN])
    more = len(cells) - REASONS_SHOWN
    return [*shown, f"... and {plural(more, 'more reason')}; -o wide shows every pod"] if more > 0 else shown


def _every_pending(plan: Plan, state: ClusterState) -> list[str]:
    order = sorted(plan.pending, key=lambda p: (not p.queue, p.queue, p.group, p.pod))
    hinted = with_hints(state, plan)
    rows = [[p.queue or "-", p.pod, p.code, in_words(hinted(p))] for p in order]
    return table(["QUEUE", "WAITING POD", "CODE", "REASON"], rows)


def _kind_of_reason(p: Pending) -> str:
    """The key of a reason: equal for groups that wait for the same thing."""
    return ", ".join(sorted(n.reason for n in p.nodes)) or f"{p.resource} {p.code}"


def _queue_figures(plan: Plan) -> list[str]:
    """One row for each resource that a queue requests or uses, for queues in use and queues that users created."""
    rows = []
    for name, queue in plan.queues.items():
        if not (queue.allocated or queue.request or name not in (ROOT_QUEUE, DEFAULT_QUEUE)):
            continue
        share = "-" if queue.share is None else f"{queue.share:.2f}"
        columns = (queue.deserved, queue.allocated, queue.request, queue.guarantee, queue.capability)
        used = {name for column in columns for name, held in (column or {}).items() if held} - {PODS}
        for number, resource in enumerate(sorted(used, key=order_of)):
            cells = [cell(resource, column) for column in columns]
            rows.append([name if not number else "", resource, *cells, share if not number else ""])
    return table(["QUEUE", "RESOURCE", "DESERVED", "ALLOCATED", "REQUEST", "GUARANTEE", "CAPABILITY", "SHARE"], rows)


def cell(resource: str, column: Mapping[str, float] | None) -> str:
    """An amount without the name of its resource; `-` for none and for unlimited."""
    value = (column or {}).get(resource)
    return "-" if not value or value == float("inf") else human(resource, value).removesuffix(f" {resource}")
