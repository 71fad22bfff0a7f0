"""Expiry of events: an event is deleted one hour after its last write, as with etcd's leases.

The server does this: an event has a time to live from the write that stored it, even without a controller manager.
"""

from __future__ import annotations

import asyncio
from array import array
from contextlib import suppress

import msgspec

from kilauea.api.ports import Clock
from kilauea.api.remembered import remembered
from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.storage import Conflict, Missing, Stored, WriteFailed

EVENTS = "/core/events/"
LIFETIME_SECONDS = 3600
PERIOD_SECONDS = 60.0
"""Seconds between two checks for expired events."""
TURN, READ = 200, 1000
"""Events to delete, and to read, before other tasks have their turn."""


class _Entry(msgspec.Struct):
    time: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str
    managed_fields: list[_Entry] = []


class _Event(msgspec.Struct):
    metadata: _Metadata


_read = msgspec.json.Decoder(_Event).decode


async def expire_events(backend: Backend, clock: Clock) -> None:
    """Delete expired events until cancelled."""
    expiry = EventExpiry(backend)
    while True:
        with suppress(WriteFailed):  # retried the next time
            await expiry.delete_expired()
        await clock.sleep(PERIOD_SECONDS)


class EventExpiry:
    """Tracks the expiry of events, reading only new and rewritten ones."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._read_to = 0
        """The newest revision of the events read."""
        self._due: dict[int, array[int]] = {}
        """Revisions of events by their time of expiry, in microseconds since 1970.

        Many events expire at the same time: this uses a tenth of the memory of one time per event.
        """

    async def delete_expired(self) -> None:
        """Delete expired events.

        Raises:
            WriteFailed: one could not be deleted.
        """
        store = self._backend.store
        page = store.list(EVENTS)
        new = [each for each in page.items if each.revision > self._read_to]
        for number, each in enumerate(new, 1):
            self._due.setdefault(_due_of(each), array("q")).append(each.revision)
            if number % READ == 0:
                await asyncio.sleep(0)
        self._read_to = page.revision
        now = self._backend.now()
        due = [time for time in self._due if time <= now]
        over = {revision for time in due for revision in self._due[time]}
        expired = [(each.key, each.revision) for each in page.items if each.revision in over] if over else []
        for number, (key, revision) in enumerate(expired, 1):
            with suppress(Conflict, Missing):  # rewritten or deleted meanwhile
                await store.write(key, revision, None)
            if number % TURN == 0:
                await asyncio.sleep(0)
        for time in due:
            del self._due[time]


def _due_of(stored: Stored) -> int:
    metadata = _read(stored.value).metadata
    times = (metadata.creation_timestamp, *(each.time for each in metadata.managed_fields if each.time))
    return max(map(_expiry, times))


@remembered(1024)
def _expiry(time: str) -> int:
    """Return the time of expiry for a time; cached, so that events of the same second share the number."""
    return parse_time(time) + LIFETIME_SECONDS * SECOND
