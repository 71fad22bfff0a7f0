"""Follows all objects of a kind: lists them, then watches from there, and resumes when a watch ends.

class Printing:
    def on_relist(self, items, version): ...   # all objects; others no longer exist
    def on_events(self, batch): ...            # later events, in order; bookmarks have no object

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
"""Objects to reduce in one step."""
log = logging.getLogger(__name__)


class Handler(Protocol):
    """Receives lists and events. Both methods must be fast and not wait."""

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """Receive all objects at this version; others no longer exist."""
        ...

    def on_events(self, batch: Sequence[Seen]) -> None:
        """Receive events since then, including bookmarks; no event is repeated between two lists."""
        ...


class Reflector:
    """Passes all objects of a kind to a handler, as long as it runs.

    Args:
        api: the cluster.
        resource: the kind.
        handler: receives them.
        clock: for pauses.
        rng: jitter of pauses.
        namespace: only objects in it, if set.
        labels: only objects that this selector matches, if set.
        fields: the same for fields.
        complete: set after the first list.
        may_be_refused: `run` raises a 403 instead of retrying, until the first watch.
        may_lack: a kind that the server does not serve counts as empty until it does.
        reduce: returns the part of a listed object that the handler needs; a page is reduced before the next is read.
        in_steps: also reduce what a server in this process keeps, some objects at a time, so that other tasks can run.
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
            ApiError: the server rejects the list or the first watch (403), with `may_be_refused`.
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
        """Watch until the server ends the watch; return True if it sent anything."""
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
        """Return new events: versions of a kind only increase, and a resumed watch can repeat some."""
        last = int(self._version)
        if batch and int(batch[0].version) > last:
            return batch
        return [seen for seen in batch if int(seen.version) > last]

    def _failed(self, error: ApiError) -> None:
        """Decide how to continue."""
        self._failures += 1
        self._asked_to_wait = error.retry_after
        if error.code == 410:
            self._version = ""
            log.info("%s: listed again, the watch was too far behind: %s", self.resource.plural, error)
        elif (
            self._failures & (self._failures - 1) == 0
        ):  # the first, second, fourth and so on, so that a long outage logs little
            # The definition of a custom resource may just have been deleted: a cache of definitions then stops this.
            deleted = error.code == 404 and self._may_lack and self.complete.is_set() and self._failures == 1
            level = logging.DEBUG if error.reported or deleted else logging.WARNING
            words = with_advice(error, self.resource)
            log.log(level, "%s: %s (failure %d in a row)", self.resource.plural, words, self._failures)


async def _close(batches: AsyncIterator[Sequence[Seen]]) -> None:
    """End a watch that was interrupted."""
    aclose = getattr(batches, "aclose", None)
    if aclose is not None:
        await aclose()
