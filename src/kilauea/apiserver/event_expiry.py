"""Expiry of events: an event is deleted one hour after its last write, as with etcd's leases.

This belongs to the server: an event has a time to live from the write that stored it, whether or not a controller
manager runs.
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
"""Between two looks for events that have expired."""
TURN, READ = 200, 1000
"""Events that are deleted, and that are read, before everything else has its turn."""


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
        self._read_to = 0
        """The newest revision of the events that were read."""
        self._due: dict[int, array[int]] = {}
        """Revisions of events by the time at which they expire, in microseconds since 1970.

        Many events expire at once: this takes a tenth of the memory of a time for each of them.
        """

    async def delete_expired(self) -> None:
        """Delete the events that have expired.

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
            with suppress(Conflict, Missing):  # written again, or deleted, a moment ago
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
    """The time at which an event of this time expires: one number for the many events of a second."""
    return parse_time(time) + LIFETIME_SECONDS * SECOND
