"""Expiry of events: one hour after it was last written, an event is deleted, as the leases of etcd do it.

This belongs to the server: an event has a time to live from the write that stored it, whether or not a controller
manager runs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.storage import Conflict, Missing, Stored, WriteFailed

EVENTS = "/core/events/"
LIFETIME_SECONDS = 3600
PERIOD_SECONDS = 60.0
"""Between two looks for events that have expired."""
TURN = 200
"""Events that are deleted before everything else has its turn."""


class _Entry(msgspec.Struct):
    time: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str
    managed_fields: list[_Entry] = []


class _Event(msgspec.Struct):
    metadata: _Metadata


_read = msgspec.json.Decoder(_Event).decode


async def expire_events(backend: Backend, clock: Clock) -> None:
    """Delete events that have expired, until cancelled."""
    expiry = EventExpiry(backend)
    while True:
        with suppress(WriteFailed):  # they are still there the next time
            await expiry.delete_expired()
        await clock.sleep(PERIOD_SECONDS)


class EventExpiry:
    """Knows when each event expires, and reads only events that are new or were written again."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._due: dict[str, tuple[int, int]] = {}
        """By key: revision, and when that expires, in microseconds since 1970."""

    async def delete_expired(self) -> None:
        """Delete the events that have expired.

        Raises:
            WriteFailed: one could not be deleted.
        """
        store, known = self._backend.store, self._due
        self._due = {each.key: self._due_of(each, known.get(each.key)) for each in store.list(EVENTS).items}
        now = self._backend.now()
        expired = [(key, revision) for key, (revision, due) in self._due.items() if due <= now]
        for number, (key, revision) in enumerate(expired, 1):
            with suppress(Conflict, Missing):  # written again, or deleted, a moment ago
                await store.write(key, revision, None)
            if number % TURN == 0:
                await asyncio.sleep(0)

    @staticmethod
    def _due_of(stored: Stored, known: tuple[int, int] | None) -> tuple[int, int]:
        if known is not None and known[0] == stored.revision:
            return known
        metadata = _read(stored.value).metadata
        times = (metadata.creation_timestamp, *(each.time for each in metadata.managed_fields if each.time))
        return stored.revision, max(map(parse_time, times)) + LIFETIME_SECONDS * SECOND
