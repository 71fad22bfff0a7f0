"""Deletion of queues and queue trees: leaves first, all or none.

The command first checks for obstacles: queues that cannot be deleted, and pods that hold resources. If the server still
rejects a deletion, the command restores the queues that it has already deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from kilauea.api.kinds import POD_GROUPS, PODS, QUEUES
from kilauea.api.ports import ApiError, Key, Obj, key_of
from kilauea.api.wellknown import DEFAULT_QUEUE, GROUP_NAME, ROOT_QUEUE
from kilauea.cli.vcctl import orders
from kilauea.cli.vcctl.cluster import objects
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.queue_changes import change_state, queues_below, state_of
from kilauea.cli.vcctl.tables import part

if TYPE_CHECKING:
    from kilauea.api.ports import Api

KEPT = frozenset({ROOT_QUEUE, DEFAULT_QUEUE})
"""Queues that exist in every cluster."""
HOLDING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that hold resources on a node."""


async def delete_queue(api: Api, name: str, wait: bool, timeout: int) -> None:
    """Delete a queue."""
    await orders.delete(api, QUEUES, Key("", name), wait, timeout)


async def delete_tree(
    api: Api, name: str, *, cascade: bool, dry_run: bool, force: bool, wait: bool, timeout: int
) -> None:
    """Delete a queue after the queues below it, or none of them.

    Args:
        api: the cluster.
        name: name of the queue.
        cascade: True to delete the queues below it, too.
        dry_run: only print what would be deleted.
        force: delete queues even if their pods hold resources.
        wait: wait until each queue is gone.
        timeout: seconds to wait for each queue.

    Raises:
        CommandError: a queue cannot be deleted; the message names it and the state of the others.
    """
    below = await queues_below(api, name)
    if below and not cascade:
        names = ", ".join(each["metadata"]["name"] for each in below)
        raise CommandError(f"queue {name} has queues below it: {names}: use --cascade to delete them first")
    queues = [*below, await api.get(QUEUES, Key("", name))]
    await _check(api, name, [each["metadata"]["name"] for each in queues], force)
    if dry_run:
        for each in queues:
            click.echo(f"queue {each['metadata']['name']} would be deleted")
        return
    await _delete_all(api, queues, wait, timeout)


# --- checks


async def _check(api: Api, top: str, names: Sequence[str], force: bool) -> None:
    """Reject a tree with a queue that cannot be deleted or, unless forced, with pods that hold resources."""
    kept = sorted(KEPT.intersection(names))
    if kept:
        place = f", which is below {top}" if top not in kept else ""
        raise CommandError(
            f"queue {kept[-1]}{place} cannot be deleted: choose a queue without it below; nothing was deleted"
        )
    pods = {} if force else await _pods_by_queue(api, frozenset(names))
    if pods:
        found = ", ".join(f"{pods[name]} of queue {name}" for name in names if name in pods)
        way_out = "wait until they have ended, delete their jobs, or use --force; nothing was deleted"
        raise CommandError(f"pods hold resources: {found}: {way_out}")


async def _pods_by_queue(api: Api, names: frozenset[str]) -> Mapping[str, int]:
    """Number of pods that hold resources, by queue."""
    queues = {
        key_of(group): queue
        for group in await objects(api, POD_GROUPS)
        if (queue := part(group, "spec", "queue") or DEFAULT_QUEUE) in names
    }
    pods = await objects(api, PODS, fields=HOLDING) if queues else []
    groups = (Key(pod["metadata"]["namespace"], part(pod, "metadata", "annotations", GROUP_NAME) or "") for pod in pods)
    return Counter(queues[group] for group in groups if group in queues)


# --- deletion


async def _delete_all(api: Api, queues: Sequence[Obj], wait: bool, timeout: int) -> None:
    """Delete queues in order; if a deletion fails, restore the earlier ones."""
    gone: list[Obj] = []
    for queue in queues:
        name = queue["metadata"]["name"]
        try:
            await delete_queue(api, name, wait, timeout)
        except (ApiError, CommandError) as error:
            raise CommandError(f"{error}{await _undone(api, gone)}") from error
        click.echo(f"queue {name} deleted")
        gone.append(queue)


async def _undone(api: Api, gone: Sequence[Obj]) -> str:
    """Restore queues, parents first, and report it."""
    back, lost = [], []
    for queue in reversed(gone):
        name = queue["metadata"]["name"]
        try:
            await _put_back(api, queue)
            back.append(name)
        except (ApiError, CommandError) as error:
            lost.append(f"\nqueue {name} was deleted and cannot be restored: {error}")
    return (f"\nrestored: {', '.join(back)}" if back else "") + "".join(lost)


async def _put_back(api: Api, queue: Obj) -> None:
    """Create a queue again as it was, and close it if it was closed."""
    kept = {name: queue["metadata"][name] for name in ("name", "labels", "annotations") if name in queue["metadata"]}
    body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": kept, "spec": queue.get("spec") or {}}
    await api.create(QUEUES, "", body)
    if state_of(queue) != "Open":
        await change_state(api, kept["name"], "close", cascade=False, wait=False, timeout=0)
