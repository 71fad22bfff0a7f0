"""Explanations of a queue and of a node: metrics, problems, and groups that wait."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.core import Node
from kilauea.api.decode import encode_json
from kilauea.api.numbers import plural
from kilauea.api.printing import printable
from kilauea.api.quantity import format_resources
from kilauea.cli.data_text import escaped_json, yaml_text
from kilauea.cli.group_names import owners_of, short
from kilauea.cli.inputs import Failure
from kilauea.cli.plan_output import cell, queue_data
from kilauea.cli.subjects import Subject
from kilauea.cli.table import table
from kilauea.engine.conf import nearest
from kilauea.engine.explain.formatting import in_words
from kilauea.engine.explain.group import binding_reasons, with_hints
from kilauea.engine.model.resources import PODS, order_of
from kilauea.engine.model.status import ENDED
from kilauea.simulator.planning import Result

GROUPS_SHOWN = 20
"""Maximum number of rows for groups that wait in a queue."""

KEPT_AWAY = ("NoSchedule", "NoExecute")


def render_place(what: Subject, result: Result, output: str) -> str:
    """The text about a queue or a node.

    Raises:
        Failure: it does not exist.
    """
    known = result.plan.queues if what.kind == "queue" else result.state.nodes.row_of
    if what.name not in known:
        raise Failure(f"{what.kind} {what.name} does not exist{nearest(what.name, known)}")
    data = _queue_data(what.name, result) if what.kind == "queue" else _node_data(what.name, result)
    if output == "json":
        return escaped_json(encode_json(data).decode()) + "\n"
    if output == "yaml":
        return yaml_text(data, sort_keys=True)
    lines = _queue_lines(what.name, data, result) if what.kind == "queue" else _node_lines(what.name, data)
    return "\n".join(map(printable, lines)) + "\n"


# --- a queue


def _queue_data(name: str, result: Result) -> dict[str, Any]:
    queue, jobs = result.state.queues.get(name), result.state.jobs
    hinted = with_hints(result.state, result.plan)
    waits = [
        {"podGroup": key, "code": p.code, "reason": in_words(hinted(p))}
        for key, p in sorted(binding_reasons(result.plan).items())
        if key in jobs and jobs[key].queue == name
    ]
    state = "Open" if queue is None or queue.open else queue.state
    if queue is not None and queue.paused:
        state = "Paused"
    return {"queue": name, "state": state, **queue_data(result.plan.queues[name]), "waiting": waits}


def _queue_lines(name: str, data: dict[str, Any], result: Result) -> list[str]:
    outcome, waiting = result.plan.queues[name], data["waiting"]
    lines = [f"Queue {name} is {data['state']}; {plural(len(waiting), 'group')} of it wait{'s' * (len(waiting) == 1)}."]
    lines += [f"  {c['type']}: {c['message']}" for c in data["conditions"]]
    columns = (outcome.deserved, outcome.allocated, outcome.request, outcome.guarantee, outcome.real_capability)
    used = {n for column in columns for n, held in (column or {}).items() if held} - {PODS}
    rows = [[resource, *(cell(resource, column) for column in columns)] for resource in sorted(used, key=order_of)]
    parts = [table(["RESOURCE", "DESERVED", "ALLOCATED", "REQUEST", "GUARANTEE", "MAY USE"], rows)]
    owners = owners_of(result.objects)
    listed = [[short(w["podGroup"], owners), w["code"], w["reason"]] for w in waiting[:GROUPS_SHOWN]]
    parts.append(table(["GROUP", "CODE", "WAITS BECAUSE"], listed))
    lines += [line for part in parts if part for line in ("", *part)]
    if len(waiting) > GROUPS_SHOWN:
        lines.append(f"... and {len(waiting) - GROUPS_SHOWN} more; -o json has them all")
    return lines


# --- a node


def _node_data(name: str, result: Result) -> dict[str, Any]:
    state = result.state
    nodes, row = state.nodes.all(), state.nodes.row_of[name]
    obj = next(o for o in result.objects if isinstance(o, Node) and o.name == name)
    figures = {"allocatable": nodes.allocatable, "used": nodes.used, "free": nodes.idle}
    taints = [t for t in (obj.spec.taints if obj.spec else None) or () if t.effect in KEPT_AWAY]
    pods = [task for task in state.tasks.values() if task.node == name and task.status not in ENDED]
    return {
        "node": name,
        "cordoned": bool(obj.spec and obj.spec.unschedulable),
        "taints": [msgspec.to_builtins(taint) for taint in taints],
        "pods": len(pods),
        "starting": sum(1 for bind in result.plan.binds if bind.node == name),
        **{title: format_resources(state.axis.amounts(figure[:, row])) for title, figure in figures.items()},
    }


def _node_lines(name: str, data: dict[str, Any]) -> list[str]:
    starting = f", and {plural(data['starting'], 'pod')} of this cycle" if data["starting"] else ""
    lines = [f"Node {name} has {plural(data['pods'], 'pod')}{starting}."]
    if data["cordoned"]:
        lines.append(f"It takes no new pods: it is cordoned (`kubectl uncordon {name}`).")
    for taint in data["taints"]:
        value = f"={taint['value']}" if taint.get("value") else ""
        lines.append(f"It takes only pods that tolerate the taint {taint['key']}{value}:{taint['effect']}.")
    names = sorted(data["allocatable"], key=order_of)
    rows = [[n, *(data[title].get(n, "0") for title in ("allocatable", "used", "free"))] for n in names]
    return [*lines, "", *table(["RESOURCE", "ALLOCATABLE", "USED", "FREE"], rows)]
