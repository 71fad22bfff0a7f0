"""Output formats of an explanation: sentences for people, JSON and YAML for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kilauea.api.decode import encode_json
from kilauea.api.printing import printable
from kilauea.api.quantity import format_amount
from kilauea.cli.data_text import escaped_json, yaml_text
from kilauea.cli.expected_output import expected_data, expected_text
from kilauea.cli.explain_queues import (
    ahead_data,
    attempt_data,
    borrower_data,
    holder_data,
    level_data,
    queue_lines,
)
from kilauea.cli.group_names import Owners, title
from kilauea.cli.remedy import heading, no_change, sentence
from kilauea.cli.table import table
from kilauea.engine.explain.formatting import numbers
from kilauea.engine.explain.group import Blocker, Change, Explanation
from kilauea.engine.explain.levels import Level
from kilauea.engine.model.resources import EPSILON

if TYPE_CHECKING:
    from kilauea.simulator.expected_start import ExpectedStart

AT_ITS_TURN = " when its turn came"
VERDICTS = {
    "starts": "starts in this cycle.",
    "starts in part": "has its minimum; pods beyond it wait.",
    "runs": "is running; no pod of it waits.",
    "waits": "waits.",
    "ended": "has ended: none of its pods runs or waits.",
}


def render_explanation(
    explanation: Explanation,
    output: str,
    seconds: tuple[float, float, float],
    owners: Owners,
    start: ExpectedStart | None = None,
    now: int = 0,
) -> str:
    """The text of an explanation.

    Args:
        explanation: the explanation to show.
        output: `table`, `wide`, `json` or `yaml`.
        seconds: durations of loading, of the cycle and of the explanation.
        owners: the workloads that own pod groups; messages use their names.
        start: its expected start; None to leave that out.
        now: the time, in microseconds since 1970.
    """
    if output == "json":
        return escaped_json(encode_json(as_data(explanation, seconds, start)).decode()) + "\n"
    if output == "yaml":
        return yaml_text(as_data(explanation, seconds, start), sort_keys=True)
    lines = _text(explanation, owners)
    if start is not None:
        lines += ["", f"Expected start: {expected_text(start, now, owners)}."]
    return "\n".join(map(printable, lines)) + "\n"


def as_data(
    explanation: Explanation, seconds: tuple[float, float, float], start: ExpectedStart | None = None
) -> dict[str, Any]:
    """The explanation as plain data; amounts are Kubernetes quantities."""
    load, cycle, explain = (round(s, 6) for s in seconds)
    return {
        "podGroup": explanation.group,
        "verdict": explanation.verdict,
        "blockers": [_blocker(b) for b in explanation.blockers],
        "nodes": [{"reason": n.reason, "count": n.count, "example": n.example} for n in explanation.nodes],
        "change": None if explanation.change is None else _change(explanation.change),
        "queues": [level_data(level) for level in explanation.levels],
        "borrowers": [borrower_data(borrower) for borrower in explanation.borrowers],
        "ahead": [ahead_data(each) for each in explanation.ahead],
        "holders": [holder_data(each) for each in explanation.holders],
        "attempts": [attempt_data(attempt) for attempt in explanation.attempts],
        "timing": {"load": load, "cycle": cycle, "explain": explain},
        **({"expectedStart": expected_data(start)} if start is not None else {}),
    }


def _blocker(b: Blocker) -> dict[str, Any]:
    asked, left = (format_amount(b.resource, b.asked), format_amount(b.resource, b.left)) if b.resource else ("", "")
    return {
        "code": b.code,
        "rule": b.rule,
        "queue": b.queue,
        "node_class": b.node_class,
        "resource": b.resource,
        "asked": asked,
        "left": left,
        "message": b.message,
    }


def _change(c: Change) -> dict[str, Any]:
    by = format_amount(c.resource, c.by) if c.resource else str(int(c.by))
    return {
        "what": c.what,
        "object": c.object,
        "resource": c.resource,
        "by": by,
        "to": c.to or None,
        "minResources": dict(c.min_resources) or None,
        **({"also": _change(c.also)} if c.also is not None else {}),
    }


def _text(explanation: Explanation, owners: Owners) -> list[str]:
    lines = [f"{title(explanation.group, owners)} {VERDICTS[explanation.verdict]}"]
    for number, b in enumerate(explanation.blockers):
        lines += ["", f"{'It waits' if number == 0 else 'Also'} because: {b.message}"]
        if b.resource:
            lines.append(f"  {numbers(b)}{AT_ITS_TURN if _taken_since(b, explanation.levels) else ''}")
        lines.append(f"  rule: {b.rule} ({b.code})")
        where = [
            f"queue {b.queue}" if b.queue else "",
            b.node_class,
            f"{b.pods} pod{'s' * (b.pods > 1)}" if b.pods else "",
        ]
        if any(where):
            lines.append("  " + ", ".join(part for part in where if part))
    if explanation.nodes:
        rows = [[str(n.count), n.reason, n.example] for n in explanation.nodes]
        lines += ["", *table(["NODES", "REASON", "FOR EXAMPLE"], rows)]
    lines += queue_lines(explanation, owners)
    if explanation.change is not None:
        lines += ["", f"{heading(explanation)}: {sentence(explanation.change, owners)}."]
    elif explanation.nominated:
        lines += ["", f"Nothing has to change: {_nominated(explanation)} when those resources are free."]
    elif none := no_change(explanation):
        lines += ["", f"{none[0].upper()}{none[1:]}."]
    return lines


def _nominated(explanation: Explanation) -> str:
    """The part of a group that starts without a change."""
    if explanation.verdict == "starts in part":
        return "its other pods start"
    return "it starts" if all(b.code == "Nominated" for b in explanation.blockers) else "its minimum starts"


def _taken_since(b: Blocker, levels: Sequence[Level]) -> bool:
    """True if the queue has different free resources after the cycle than when the group was considered.

    The shown amounts of a queue are those after the cycle, and later groups may have taken resources that a gang did
    not use.
    """
    limits = [
        (limit, level.allocated)
        for level in levels
        if b.code == "QueueQuotaExceeded" and (level.queue, level.resource) == (b.queue, b.resource)
        for limit in (level.deserved, level.may_use)
        if limit is not None
    ]
    return bool(limits) and all(abs(limit - allocated - b.left) > EPSILON for limit, allocated in limits)
