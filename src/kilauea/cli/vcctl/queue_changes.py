"""Changes to queues and queue trees: queues are closed after the queues below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kilauea.api.kinds import QUEUES
from kilauea.api.ports import ApiError, Key, Obj
from kilauea.api.wellknown import CASCADE, PAUSED, parse_bool
from kilauea.cli.vcctl import options, orders
from kilauea.cli.vcctl.cluster import objects
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.queue_list import Entry
from kilauea.cli.vcctl.queue_tree import forest
from kilauea.cli.vcctl.tables import part

if TYPE_CHECKING:
    from kilauea.api.ports import Api

ACTIONS = {"open": "OpenQueue", "close": "CloseQueue"}
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
"""Annotation of a queue that opens again with its parent."""


def spec_of(
    parent: str,
    capability: str,
    deserved: str,
    guarantee: str,
    priority: int | None,
    reclaimable: str,
    dequeue_strategy: str,
) -> dict[str, Any]:
    """The fields of a queue's spec that options give.

    Raises:
        CommandError: an option is invalid.
    """
    taken = parse_bool(reclaimable)
    if reclaimable and taken is None:
        raise CommandError(f'--reclaimable: invalid value "{reclaimable}": use true or false')
    reserved = options.resources(guarantee)
    fields = {
        "parent": parent or None,
        "capability": options.resources(capability) or None,
        "deserved": options.resources(deserved) or None,
        "guarantee": {"resource": reserved} if reserved else None,
        "priority": priority,
        "reclaimable": taken,
        "dequeueStrategy": dequeue_strategy or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


async def update(api: Api, name: str, spec: dict[str, Any]) -> None:
    """Change fields of a queue's spec."""
    await api.patch(QUEUES, Key("", name), {"spec": spec})


async def pause(api: Api, name: str, *, resume: bool) -> None:
    """Start no more pods in a queue and in those below it, or start them again."""
    await api.patch(QUEUES, Key("", name), {"metadata": {"annotations": {PAUSED: None if resume else "true"}}})


async def change_state(api: Api, name: str, action: str, cascade: bool, wait: bool, timeout: int) -> None:
    """Request that a queue opens (on request with the queues that were closed with it) or closes.

    With --wait, the queues below it are closed first, leaves first.
    """
    if not wait:
        await _order(api, name, action, cascade)
    elif action == "open":
        await _ordered(api, name, action, timeout, cascade)
    else:
        await _close_tree(api, name, timeout)


async def _order(api: Api, name: str, action: str, cascade: bool) -> None:
    annotations = {CASCADE: "true"} if cascade and action == "open" else {}
    await orders.order(api, QUEUES, Key("", name), ACTIONS[action], annotations)


async def _ordered(api: Api, name: str, action: str, timeout: int, cascade: bool = False) -> None:
    """Send the command, wait, and print the new state."""
    key = Key("", name)
    await _order(api, name, action, cascade)

    def done(queue: Obj | None) -> bool:
        return queue is not None and (state_of(queue) == "Open") == (action == "open")

    queue = await orders.until(api, QUEUES, key, done, timeout, state_of)
    click.echo(f"queue {name} is {state_of(queue or {})}")


async def _close_tree(api: Api, name: str, timeout: int) -> None:
    """Close a queue after the queues below it, which then open again with it."""
    below = await queues_below(api, name)
    opened = [queue["metadata"]["name"] for queue in below if state_of(queue) == "Open"]
    order = [*opened, name]
    for number, each in enumerate(order):
        try:
            await _ordered(api, each, "close", timeout)
        except (ApiError, CommandError) as error:
            left = f"\nnot closed yet: {', '.join(order[number:])}" if len(order) > 1 else ""
            raise CommandError(f"{error}{left}") from error
    # Only now: with this mark, a queue below an open one would be opened at once.
    for each in opened:
        await api.patch(QUEUES, Key("", each), {"metadata": {"annotations": {CLOSED_BY_PARENT: "true"}}})


async def queues_below(api: Api, name: str) -> list[Obj]:
    """The queues below one, leaves first.

    Raises:
        ApiError: the queue does not exist.
    """
    entries = [Entry(queue, {}) for queue in await objects(api, QUEUES)]
    node = forest(entries).find(name)
    if node is None:
        await api.get(QUEUES, Key("", name))
        return []
    return [each.entry.queue for each in node.leaves_first() if each is not node]


def state_of(queue: Obj) -> str:
    """The state of a queue; Open if it has none yet."""
    return str(part(queue, "status", "state") or "Open")
