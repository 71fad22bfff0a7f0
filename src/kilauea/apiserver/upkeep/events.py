"""Events are news, not records: an hour after it was last written one goes, as those of the real server do."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.storage import Stored
from kilauea.apiserver.upkeep.client import NotStored, SelfClient

EVENTS = "/core/events/"
LIFETIME_SECONDS = 3600
LOOK_SECONDS = 60.0
"""Between two looks for events whose time is over."""
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


async def expire_events(api: ApiServer) -> None:
    """Let old events go, for as long as the server runs."""
    expiry = Expiry(api)
    while True:
        with suppress(NotStored):  # they are still there at the next look
            await expiry.look()
        await asyncio.sleep(LOOK_SECONDS)


class Expiry:
    """Knows when each event goes; is read from events that are new or were written again."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._client = SelfClient(api, "event-expiry")
        self._due: dict[str, tuple[int, int]] = {}
        """By key: revision, and when that is too old, in microseconds since 1970."""

    async def look(self) -> None:
        """Delete the events whose time is over.

        Raises:
            NotStored: one could not be deleted.
        """
        found = self._api.backend.store.list(EVENTS).items
        known = self._due
        self._due = {each.key: self._due_of(each, known.get(each.key)) for each in found}
        now = self._api.backend.now()
        over = [key for key, (_, due) in self._due.items() if due <= now]
        for number, key in enumerate(over, 1):
            namespace, _, name = key.removeprefix(EVENTS).partition("/")
            conditions = {"preconditions": {"resourceVersion": str(self._due[key][0])}}
            await self._client.ask("DELETE", f"/api/v1/namespaces/{namespace}/events/{name}", conditions)
            if number % TURN == 0:
                await asyncio.sleep(0)

    @staticmethod
    def _due_of(stored: Stored, known: tuple[int, int] | None) -> tuple[int, int]:
        if known is not None and known[0] == stored.revision:
            return known
        metadata = _read(stored.value).metadata
        times = (metadata.creation_timestamp, *(each.time for each in metadata.managed_fields if each.time))
        return stored.revision, max(map(parse_time, times)) + LIFETIME_SECONDS * SECOND
