"""Comparisons with the remaining quota of a queue, shared by the queue plugins.

Only requested resources are compared, without pod slots, and exactly (spec of the queue plugins, 1.1 `leDims`).
"""

from __future__ import annotations

from kilauea.api.quantity import format_amount
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import EPSILON, PODS, Amounts, add, insufficient
from kilauea.engine.plan import Refusal


def closed(queue: Queue) -> Refusal | None:
    """Return the reason why a queue does not accept work; None while it is open."""
    return None if queue.open else Refusal("QueueClosed", f"queue {queue.name} is {queue.state}", queue.name)


def beyond(queue: Queue, limit: Amounts, wanted: Amounts, total: Amounts, message: str) -> Refusal | None:
    """Return the reason why additional amounts exceed the limit of a queue; None if they do not.

    Args:
        queue: the queue.
        limit: the maximum amounts that it may hold.
        wanted: the additional amounts.
        total: the total of all nodes; the reason mentions it if that is the limit.
        message: the reason, formatted with `queue` and `resource`.
    """
    allocated = queue.allocated
    for name, amount in wanted.items():
        if amount < EPSILON or name == PODS:
            continue
        held, most = allocated.get(name, 0), limit.get(name, 0)
        if held + amount > most:
            text = message.format(queue=queue.name, resource=name)
            if 0 < total.get(name, 0) <= most:
                text += f"; all nodes together have {format_amount(name, total[name])} {name}"
            return Refusal("QueueQuotaExceeded", text, queue.name, name, amount, max(most - held, 0))
    return None


def no_room_for_minimum(queue: Queue, limit: Amounts, job: Job) -> Refusal | None:
    """Return the reason why a job is not admitted: its minimum does not fit beside held and admitted amounts."""
    minimum = job.min_resources or {}
    wanted: dict[str, float] = dict(minimum)
    add(wanted, queue.allocated)
    add(wanted, queue.inqueue)
    add(wanted, queue.elastic, -1)
    short = insufficient(wanted, limit, minimum)
    if not short:
        return None
    message = "queue resource quota insufficient: " + ", ".join(f"insufficient {name}" for name in short)
    name = short[0]
    left = max(limit.get(name, 0) - (wanted[name] - minimum[name]), 0)
    return Refusal("QueueQuotaInsufficient", message, queue.name, name, minimum[name], left)
