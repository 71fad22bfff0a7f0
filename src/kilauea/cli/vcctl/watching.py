"""Watches of objects: one that should reach a state, and lists that follow changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from kilauea.api.ports import ApiError, Key, Obj, Resource, Seen, key_of
from kilauea.cli.vcctl.cluster import decoded
from kilauea.cli.vcctl.command import CommandError

if TYPE_CHECKING:
    from kilauea.api.ports import Api

AGAIN_SECONDS = 1.0
"""Pause before the next request to a server that could not be reached."""
_GONE = 410
_PASSING = (0, 429, 500, 502, 503, 504)
"""Codes of temporary errors, for example while a server restarts."""

T = TypeVar("T")
Events = AsyncGenerator[Seen | Sequence[Obj], None]
Lost = Callable[[ApiError], Awaitable[None]]


async def states_of(
    api: Api, resource: Resource, key: Key, lost: Lost | None = None
) -> AsyncGenerator[Obj | None, None]:
    """The object now and after each change; None while it does not exist.

    Args:
        api: the API server.
        resource: the kind.
        key: key of the object.
        lost: called when a server stops responding, after which requests are retried; without it, that is an error.
    """
    only = f"metadata.name={key.name}"
    async with aclosing(_followed(api, resource, key.namespace, fields=only, lost=lost)) as events:
        async for seen in events:
            if isinstance(seen, Seen):
                yield None if seen.type == "DELETED" else decoded(seen.object)
            else:
                yield next(iter(seen), None)


async def changes_of(
    api: Api, resource: Resource, namespace: str, labels: str = "", lost: Lost | None = None
) -> AsyncGenerator[list[tuple[bool, Obj]], None]:
    """All objects of a kind, then each changed object, with True if it still exists; `lost` as for `states_of`."""
    known: dict[Key, Obj] = {}
    async with aclosing(_followed(api, resource, namespace, labels, lost=lost)) as events:
        async for seen in events:
            if isinstance(seen, Seen):
                obj = decoded(seen.object)
                known[key_of(obj)] = obj
                if seen.type == "DELETED":
                    del known[key_of(obj)]
                yield [(seen.type != "DELETED", obj)]
            else:
                fresh = {key_of(obj): obj for obj in seen}
                gone = [(False, known[key]) for key in sorted(known.keys() - fresh.keys())]
                known = fresh
                yield [*gone, *((True, fresh[key]) for key in sorted(fresh))]


async def _followed(
    api: Api, resource: Resource, namespace: str, labels: str = "", fields: str = "", lost: Lost | None = None
) -> Events:
    """A list, then events; a new list when the server ends the watch."""
    has_answered = False
    while True:
        try:
            listed = await api.list(resource, namespace, labels, fields)
        except ApiError as error:
            if lost is None or not has_answered or error.code not in _PASSING:
                raise
            await lost(error)
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        has_answered = True
        yield [decoded(item) for item in listed.items]
        version = listed.version
        try:
            while True:
                batches = api.watch(resource, version, namespace, labels, fields)
                async with aclosing(batches):  # type: ignore[type-var]  # clients give generators
                    async for batch in batches:
                        for seen in batch:
                            version = seen.version
                            if seen.type != "BOOKMARK":
                                yield seen
        except ApiError as error:
            if error.code not in (0, _GONE) and (lost is None or error.code not in _PASSING):
                raise
        await asyncio.sleep(AGAIN_SECONDS)


@contextmanager
def left_running(job: Key) -> Iterator[None]:
    """A block that follows a job; on Ctrl-C, it says that the job keeps running and how to stop it."""
    try:
        yield
    except asyncio.CancelledError:
        where = f"-n {job.namespace} -N {job.name}"
        click.echo(f"\nStopped waiting; job {job.name} is still in the cluster.", err=True)
        click.echo(f"See it:   vcctl job view {where}\nStop it:  vcctl job delete {where}", err=True)
        raise


async def within(timeout: int, work: Awaitable[T], late: Callable[[], str]) -> T:
    """The result of an awaitable with a timeout in microseconds; 0 for none.

    Raises:
        CommandError: it takes longer; the message ends with `late()`.
    """
    try:
        async with asyncio.timeout(timeout / 1_000_000 if timeout > 0 else None):
            return await work
    except TimeoutError:
        raise CommandError(f"timed out after {timeout / 1_000_000:g}s: {late()}") from None
