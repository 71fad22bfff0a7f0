"""Follows all objects of a kind: lists them, then watches from there, and resumes when a watch ends.

class Printing:
    def on_relist(self, items, version): ...     # everything there is; what is not in it is gone
    def on_events(self, batch): ...              # what has happened since, in order; bookmarks have no object to read

await Reflector(client, PODS, Printing(), clock, rng).run()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Protocol

from kilauea.api.ports import Api, ApiError, Clock, Holder, Resource, Seen, Text
from kilauea.client.advice import with_advice
from kilauea.client.backoff import pause

STEP = 250
"""Objects that are reduced in a step."""
log = logging.getLogger(__name__)


class Handler(Protocol):
    """Receives lists and events. Both methods are quick and do not wait."""

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """These are all objects, at this version; whatever else was known is gone."""
        ...

    def on_events(self, batch: Sequence[Seen]) -> None:
        """This happened since; no event comes twice between two lists, and bookmarks are among them."""
        ...


class Reflector:
    """Tells a handler of all objects of a kind, for as long as it runs.

    Args:
        api: where they are.
        resource: the kind.
        handler: is told.
        clock: for pauses.
        rng: for the length of pauses.
        namespace: only objects of it, if given.
        labels: only objects that this selector takes, if given.
        fields: the same for fields.
        complete: set once everything has been listed the first time.
        may_be_refused: `run` raises a 403 instead of trying again, as long as it has never watched.
        may_lack: a kind that the server does not have counts as one without objects, until it has it.
        reduce: returns what the handler needs of an object in a list; a page is reduced before the next is read.
        in_steps: reduce also what a server in this process keeps, some objects at a time, so that others can run.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        handler: Handler,
        clock: Clock,
        rng: Random,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        complete: asyncio.Event | None = None,
        may_lack: bool = False,
        may_be_refused: bool = False,
        reduce: Callable[[bytes], bytes] | None = None,
        in_steps: bool = False,
    ) -> None:
        self._api = api
        self.resource = resource
        self._handler = handler
        self._clock = clock
        self._rng = rng
        self._selection = {"namespace": namespace, "labels": labels, "fields": fields}
        self._version = ""
        self._failures = 0
        self._asked_to_wait = 0.0
        self._may_lack = may_lack
        self._may_be_refused = may_be_refused
        self._reduce = reduce
        self._in_steps = in_steps
        self.complete = complete or asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled.

        Raises:
            ApiError: the server refuses the list or the first watch (403), of a kind that may be refused.
        """
        while True:
            try:
                if not self._version:
                    await self._list()
                told = await self._watch()
                self._may_be_refused = False
                self._failures = 0 if told else self._failures + 1
            except ApiError as error:
                if error.code == 403 and self._may_be_refused:
                    self._version = ""
                    raise
                self._failed(error)
            except Exception:
                log.exception("%s: the list starts over", self.resource.plural)
                self._version = ""
                self._failures += 1
            if self._failures:
                await self._clock.sleep(max(self._asked_to_wait, pause(self._failures, self._rng)))
                self._asked_to_wait = 0.0

    async def _list(self) -> None:
        try:
            listed = await self._api.list(self.resource, **self._selection, reduce=self._reduce)
        except ApiError as error:
            if error.code == 404 and self._may_lack and not self.complete.is_set():
                self._handler.on_relist([], "0")
                self.complete.set()
            raise
        texts = listed.texts
        if self._in_steps and self._reduce is not None and listed.holders:
            texts = await self._reduced(listed.holders, self._reduce)
        self._handler.on_relist(texts, listed.version)
        self._version = listed.version
        self.complete.set()

    async def _reduced(self, holders: Sequence[Holder], reduce: Callable[[bytes], bytes]) -> Sequence[bytes]:
        """Reduce objects in steps."""
        texts = []
        for number, holder in enumerate(holders, 1):
            texts.append(reduce(holder.value))
            if number % STEP == 0:
                await asyncio.sleep(0)
        return texts

    async def _watch(self) -> bool:
        """Watch until the server ends it; returns True if it told anything."""
        told = False
        batches = self._api.watch(self.resource, self._version, **self._selection)
        try:
            async for batch in batches:
                told = True
                self._failures = 0
                self._may_be_refused = False
                news = self._new_events(batch)
                if news:
                    self._handler.on_events(news)
                    self._version = news[-1].version
        finally:
            await _close(batches)
        return told

    def _new_events(self, batch: Sequence[Seen]) -> Sequence[Seen]:
        """The events that are not known yet: versions of a kind only grow, and a resumed watch may repeat some."""
        last = int(self._version)
        if batch and int(batch[0].version) > last:
            return batch
        return [seen for seen in batch if int(seen.version) > last]

    def _failed(self, error: ApiError) -> None:
        """Decide how to go on."""
        self._failures += 1
        self._asked_to_wait = error.retry_after
        if error.code == 410:
            self._version = ""
            log.info("%s: listed again, the watch was too far behind: %s", self.resource.plural, error)
        elif self._failures & (self._failures - 1) == 0:  # the first, the second, the fourth: a long outage says little
            # The definition of a custom resource may just have been deleted: a cache of definitions then stops this.
            deleted = error.code == 404 and self._may_lack and self.complete.is_set() and self._failures == 1
            level = logging.DEBUG if error.reported or deleted else logging.WARNING
            words = with_advice(error, self.resource)
            log.log(level, "%s: %s (failure %d in a row)", self.resource.plural, words, self._failures)


async def _close(batches: AsyncIterator[Sequence[Seen]]) -> None:
    """End a watch that was left in the midst of it."""
    aclose = getattr(batches, "aclose", None)
    if aclose is not None:
        await aclose()
