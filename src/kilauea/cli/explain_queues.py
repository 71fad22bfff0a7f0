"""The queues and evictions that affect a waiting group: tables for people, plain data for programs."""

from __future__ import annotations

from typing import Any

from kilauea.api.numbers import plural
from kilauea.api.quantity import format_amount
from kilauea.cli.group_names import Owners, short
from kilauea.cli.table import table
from kilauea.engine.explain.formatting import human
from kilauea.engine.explain.group import Explanation
from kilauea.engine.explain.levels import Borrower, Level
from kilauea.engine.explain.queue_position import Ahead, Holder
from kilauea.engine.explain.victim_diagnosis import Attempt

BORROWERS_SHOWN = 8
"""Maximum number of borrowers in the text."""

AHEAD_SHOWN, HOLDERS_SHOWN = 5, 5
"""Maximum number of groups ahead, and of groups that hold a resource."""

REASONS_SHOWN = 12
"""Maximum number of reasons for each action in the text."""

INDENTATION = "  "

PREEMPTION = "pods of the same queue"
RECLAIM = "pods of other queues"
WHERE = {"preempt": PREEMPTION, "gangpreempt": PREEMPTION, "reclaim": RECLAIM, "gangreclaim": RECLAIM}


# --- for programs


def level_data(level: Level) -> dict[str, Any]:
    """A level as plain data; amounts are Kubernetes quantities, None for no limit."""
    return {
        "queue": level.queue,
        "depth": level.depth,
        "resource": level.resource,
        "allocated": format_amount(level.resource, level.allocated),
        "asked": format_amount(level.resource, level.asked),
        "inqueue": format_amount(level.resource, level.inqueue),
        "elastic": format_amount(level.resource, level.elastic),
        "deserved": _limit(level.resource, level.deserved),
        "guarantee": format_amount(level.resource, level.guarantee),
        "mayUse": _limit(level.resource, level.may_use),
        "blocks": level.blocks,
    }


def _limit(resource: str, amount: float | None) -> str | None:
    return None if amount is None or amount == float("inf") else format_amount(resource, amount)


def borrower_data(borrower: Borrower) -> dict[str, Any]:
    """A borrower as plain data."""
    return {
        "queue": borrower.queue,
        "resource": borrower.resource,
        "allocated": format_amount(borrower.resource, borrower.allocated),
        "deserved": format_amount(borrower.resource, borrower.deserved),
        "borrowed": format_amount(borrower.resource, borrower.borrowed),
        "distance": borrower.distance,
    }


def attempt_data(attempt: Attempt) -> dict[str, Any]:
    """An attempt to evict, as plain data."""
    return {
        "action": attempt.action,
        "pod": attempt.pod,
        "refusal": attempt.refusal,
        "considered": attempt.considered,
        "spared": [
            {
                "code": s.code,
                "why": s.why,
                "plugin": s.plugin,
                "queue": s.queue,
                "pods": s.pods,
                "podGroups": s.groups,
                "examples": list(s.examples),
            }
            for s in attempt.spared
        ],
    }


def ahead_data(ahead: Ahead) -> dict[str, Any]:
    """A group ahead, as plain data."""
    return {
        "podGroup": ahead.group,
        "queue": ahead.queue,
        "why": ahead.why,
        "starting": ahead.starting,
        "waiting": ahead.waiting,
    }


def _pods(ahead: Ahead) -> dict[str, int]:
    return {"starting": ahead.starting, "nominated": ahead.nominated, "waiting": ahead.waiting}


def holder_data(holder: Holder) -> dict[str, Any]:
    """A group that holds some of a missing resource, as plain data."""
    amount = format_amount(holder.resource, holder.amount)
    return {"podGroup": holder.group, "queue": holder.queue, "resource": holder.resource, "amount": amount}


# --- for people


def queue_lines(explanation: Explanation, owners: Owners) -> list[str]:
    """The tables, each after an empty line and a title."""
    admission = any(b.code == "QueueQuotaInsufficient" for b in explanation.blockers)
    parts = [_levels(explanation.levels, admission=admission), _borrowers(explanation)]
    parts += [_ahead(explanation.ahead, owners), _holders(explanation.holders, owners)]
    parts += [_attempt(attempt) for attempt in explanation.attempts]
    return [line for part in parts if part for line in ("", *part)]


def _levels(levels: tuple[Level, ...], *, admission: bool) -> list[str]:
    """One row for each queue and resource, without empty columns.

    Resources reserved for admitted groups, and those held beyond minima, count only if the group itself waits for
    admission.
    """
    if not levels:
        return []
    rows = []
    before = ""
    for level in levels:
        name = INDENTATION * level.depth + level.queue if level.queue != before else ""
        kept_for = level.inqueue if admission and level.inqueue else None
        beyond = level.elastic if admission and level.elastic else None
        guarantee = level.guarantee or None
        figures = (level.allocated, level.asked, kept_for, beyond, guarantee, level.deserved, level.may_use)
        rows.append([name, level.resource, *(_cell(level.resource, f) for f in figures), "yes" * level.blocks])
        before = level.queue
    heading = ["QUEUE", "RESOURCE", "ALLOCATED", "REQUESTED", "INQUEUE", "ELASTIC", "GUARANTEE", "DESERVED"]
    heading += ["MAY USE", "BLOCKS"]
    kept = [i for i in range(len(heading)) if i in (0, 1, 2) or any(row[i] not in ("", "-") for row in rows)]
    title = "Its queue:" if levels[-1].depth == 0 else "Its queue, and the queues above it:"
    return [title, *table([heading[i] for i in kept], [[row[i] for i in kept] for row in rows])]


def _cell(resource: str, amount: float | None) -> str:
    """An amount without the name of its resource; `-` for no limit."""
    if amount is None or amount == float("inf"):
        return "-"
    return human(resource, amount).removesuffix(f" {resource}")


def _borrowers(explanation: Explanation) -> list[str]:
    borrowers = explanation.borrowers
    if not borrowers:
        return []
    rows = []
    for b in borrowers[:BORROWERS_SHOWN]:
        rows.append([b.queue, b.resource, *(_cell(b.resource, a) for a in (b.allocated, b.deserved, b.borrowed))])
    shown = table(["QUEUE", "RESOURCE", "ALLOCATED", "DESERVED", "BORROWED"], rows)
    more = len(borrowers) - BORROWERS_SHOWN
    full = [level.queue for level in explanation.levels if level.blocks]
    where = f" below {full[0]}" if full else ""
    title = f"Queues{where} above their deserved share, the nearest first:"
    return [title, *shown, *([f"... and {more} more; -o json has them all"] if more > 0 else [])]


def _ahead(ahead: tuple[Ahead, ...], owners: Owners) -> list[str]:
    """The groups that the scheduler considers earlier."""
    if not ahead:
        return []
    rows = [[short(a.group, owners), a.queue, *map(str, _pods(a).values()), a.why] for a in ahead[:AHEAD_SHOWN]]
    more = len(ahead) - AHEAD_SHOWN
    return [
        "Groups ahead of it:",
        *table(["GROUP", "QUEUE", "PODS STARTING", "NOMINATED", "WAITING", "FIRST BECAUSE"], rows),
        *([f"... and {more} more; -o json has them all"] if more > 0 else []),
    ]


def _holders(holders: tuple[Holder, ...], owners: Owners) -> list[str]:
    """The largest holders of each missing resource."""
    rows, left = [], 0
    for resource in dict.fromkeys(each.resource for each in holders):
        of_it = [each for each in holders if each.resource == resource]
        left += max(len(of_it) - HOLDERS_SHOWN, 0)
        rows += [[resource, short(h.group, owners), h.queue, _cell(resource, h.amount)] for h in of_it[:HOLDERS_SHOWN]]
    if not rows:
        return []
    return [
        "Largest holders of the missing resource:",
        *table(["RESOURCE", "GROUP", "QUEUE", "ALLOCATED"], rows),
        *([f"... and {left} more; -o json has them all"] if left else []),
    ]


def _attempt(attempt: Attempt) -> list[str]:
    """The pods that one action considered, and the reasons why none was evicted."""
    where = WHERE[attempt.action]
    if attempt.refusal:
        return [f"The action {attempt.action} evicts no pod for {attempt.pod}: {attempt.refusal}."]
    if not attempt.considered:
        return [f"The action {attempt.action} finds no pod to evict for {attempt.pod}: there are no {where}."]
    rows = [
        [str(s.pods), str(s.groups), s.queue, s.why + (f" ({s.plugin})" if s.plugin else ""), s.examples[0]]
        for s in attempt.spared[:REASONS_SHOWN]
    ]
    more = len(attempt.spared) - REASONS_SHOWN
    count = f"{plural(attempt.considered, 'pod')} {where.removeprefix('pods ')}"
    return [
        f"The action {attempt.action} considers {count} for {attempt.pod} and evicts none:",
        *table(["PODS", "OF GROUPS", "QUEUE", "NOT EVICTED BECAUSE", "FOR EXAMPLE"], rows),
        *([f"... and {plural(more, 'more reason')}; -o json has them all"] if more > 0 else []),
    ]
