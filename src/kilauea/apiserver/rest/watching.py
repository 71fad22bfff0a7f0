"""Watch: changes to selected objects, starting at a revision, as a stream of frames.

Each batch of events becomes a batch of frames. A watcher has no buffer: it reads the store's history, and must list
again if it falls behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.heavy import TooManyWaiting
from kilauea.apiserver.heavy_tasks import write_protobuf
from kilauea.apiserver.negotiation import PARTIAL, TABLE, header_of, partial_object
from kilauea.apiserver.protobuf import PROTOBUF, watch_event
from kilauea.apiserver.request import Frame, WatchStream
from kilauea.apiserver.rest.answers import encode_table, view_of
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.list_options import ListOptions, read_options, wait_for_revision
from kilauea.apiserver.rest.listing import TURN, find
from kilauea.apiserver.rest.reading_ahead import LIGHT_JSON
from kilauea.apiserver.rest.versions import served_items
from kilauea.apiserver.selection import Selection, selection_of
from kilauea.apiserver.storage import Event, Expired, Stored, Watcher
from kilauea.apiserver.turns import TimeSlice

CHUNK, OWN_CHUNK = 48 * 1024, 128 * 1024
"""Bytes of events to send at a time, up to one object more: what a watcher that reads nothing keeps in memory.

Components of this process get more: they share the stored bytes, and some pause after each part.
"""
SHORTEST_DEFAULT = 1800.0
"""The minimum duration of a watch without a timeout, in seconds; up to twice that, so that not all end together."""
BOOKMARK_SECONDS = 60.0
LONGEST_SELECTOR = 32 * 1024
"""The maximum number of characters of the selectors of a watch."""
LAST_BOOKMARK_FROM = 2.0
"""Seconds from which a watch ends with a bookmark."""
RETRY_SECONDS = 1.0
"""Seconds until a watch retries to get a worker, if too many requests of its user wait for one."""
_END_OF_INITIAL = "k8s.io/initial-events-end"
_NOT_COUNTED = nullcontext()


async def watch(call: Call) -> WatchStream:
    """Answer a watch."""
    options = read_options(call)
    labels, fields = call.request.first("labelSelector"), call.request.first("fieldSelector")
    if len(labels) + len(fields) > LONGEST_SELECTOR:
        raise status.bad_request(
            f"labelSelector and fieldSelector have {len(labels) + len(fields)} characters: a watch takes at most "
            f"{LONGEST_SELECTOR}, as the server keeps them; select more and drop events that are not for you"
        )
    selection = call.backend.matches.shared(selection_of(call.resource, labels, fields))
    view = view_of(call)
    if options.initial_events:
        await wait_for_revision(call, options.revision or 0)
    if view.media == PROTOBUF:
        batches = _in_protobuf(call, _stream(call, options, selection))
        return WatchStream(
            batches, f"{PROTOBUF};stream=watch", line=lambda frame: watch_event(frame.kind, frame.object)
        )
    return WatchStream(_stream(call, options, selection))


async def _in_protobuf(
    call: Call, batches: AsyncGenerator[Sequence[Frame], None]
) -> AsyncGenerator[Sequence[Frame], None]:
    """Yield frames with their objects in protobuf, a few at a time; large ones are encoded outside the event loop."""
    async with aclosing(batches):
        async for batch in batches:
            done: list[Frame] = []
            size = 0
            for frame in batch:
                done.append(await _written(call, frame))
                size += len(frame.object)
                if size >= LIGHT_JSON:
                    yield done
                    done, size = [], 0
                    await call.pause()
            if done:
                yield done
            del batch, done


async def _written(call: Call, frame: Frame) -> Frame:
    """Return a frame with its object in protobuf."""
    if len(frame.object) <= LIGHT_JSON:
        return frame._replace(object=write_protobuf(frame.object))
    while True:
        try:
            return frame._replace(object=await call.backend.heavy.run("write protobuf", frame.object))
        except TooManyWaiting:
            await asyncio.sleep(RETRY_SECONDS)


async def _stream(call: Call, options: ListOptions, selection: Selection) -> AsyncGenerator[Sequence[Frame], None]:
    """Yield all batches of a watch."""
    frames = _Frames(call, selection)
    try:
        start = options.revision or 0
        if options.initial_events or (options.initial_events is None and not start):
            found = await find(call, ListOptions(), selection)
            start = found.revision
            items = await served_items(call, found.items)
            async with aclosing(_batched(call, (frames.added(each) for each in items))) as batches:
                async for batch in batches:
                    yield batch
                    del batch  # it can be large, and the next event can be hours away
            del found, items
            if options.initial_events and options.bookmarks:
                yield [frames.bookmark(start, ends_initial=True)]
        elif not start:
            start = call.backend.store.revision
        watcher = call.backend.store.watch(_prefix(call, selection), start)
        try:
            async with aclosing(_events(call, options, watcher, frames)) as batches:
                async for batch in batches:
                    yield batch
                    del batch
        finally:
            watcher.close()
    except Expired as error:
        yield [frames.error(status.expired(f"too old resource version: {error.asked} ({error.oldest})"))]
    except status.ApiFault as fault:  # the webhook that converts the objects fails
        yield [frames.error(fault)]


def _prefix(call: Call, selection: Selection) -> str:
    """Return the prefix of keys to watch: one object, a namespace, or all."""
    name = call.info.name or selection.only_name()
    if name and (call.namespace or not call.resource.namespaced):
        return call.resource.key(call.namespace, name)
    return call.resource.prefix(call.namespace)


async def _events(
    call: Call, options: ListOptions, watcher: Watcher, frames: _Frames
) -> AsyncGenerator[Sequence[Frame], None]:
    """Yield events as they happen, with bookmarks between them, until the timeout."""
    loop = asyncio.get_running_loop()
    seconds = options.timeout or SHORTEST_DEFAULT * (1.0 + call.backend.rng.random())
    end = loop.time() + seconds
    # One timer for many events: a timeout of each wait would cost as much as sending the event.
    between = BOOKMARK_SECONDS if options.bookmarks else seconds
    alarm = loop.call_at(min(end, loop.time() + between), watcher.interrupt)
    try:
        async for events in watcher:
            if not events:
                if options.bookmarks and (loop.time() < end or seconds > LAST_BOOKMARK_FROM):
                    yield [frames.bookmark(watcher.revision)]
                if loop.time() >= end:
                    return
                alarm = loop.call_at(min(end, loop.time() + between), watcher.interrupt)
                continue
            if watcher.is_behind:
                await call.pause()
            await _room(call)
            events = await _served(call, events)
            if len(events) == 1:
                if (frame := frames.event(events[0])) is not None:
                    with _sending(call, len(frame.object)):
                        yield [frame]
                del events, frame
                continue
            made = (frame for frame in map(frames.event, events) if frame is not None)
            async with aclosing(_batched(call, made)) as batches:
                async for batch in batches:
                    yield batch
                    del batch
            del events, made
    finally:
        alarm.cancel()


async def _served(call: Call, events: list[Event]) -> list[Event]:
    """Return events with their objects in the version of the request."""
    conversion = call.resource.conversion
    if conversion is None or conversion.is_plain:
        return events
    now = await served_items(call, [each.now for each in events])
    earlier = iter(await served_items(call, [each.before for each in events if each.before is not None]))
    return [
        Event(event.kind, new, None if event.before is None else next(earlier))
        for event, new in zip(events, now, strict=True)
    ]


async def _batched(call: Call, frames: Iterable[Frame]) -> AsyncGenerator[Sequence[Frame], None]:
    """Yield frames in batches of moderate size; other requests have their turn between them.

    A table or an object in protobuf takes a hundred times as long as the stored bytes.
    """
    pending: list[Frame] = []
    size, time_slice = 0, TimeSlice(call.pause, TURN)
    most = OWN_CHUNK if call.request.is_ours else CHUNK
    await _room(call)
    for frame in frames:
        pending.append(frame)
        size += len(frame.object)
        if size >= most or time_slice.is_over(len(frame.object)):
            with _sending(call, size):
                yield pending
            pending, size = [], 0
            await time_slice.renew()
            await _room(call)
    if pending:
        with _sending(call, size):
            yield pending


async def _room(call: Call) -> None:
    """Wait while clients of the tenant have too much that they do not read; components of this process always read."""
    if not call.request.is_ours and call.backend.unsent.is_full(call.user.tenant):
        await call.backend.unsent.room(call.user.tenant)


def _sending(call: Call, size: int) -> AbstractContextManager[None]:
    """Count a batch until the next one is requested."""
    return _NOT_COUNTED if call.request.is_ours else call.backend.unsent.sending(call.user.tenant, size)


class _Frames:
    """Converts events to frames in the requested form."""

    def __init__(self, call: Call, selection: Selection) -> None:
        self._call = call
        self._selection = selection
        self._matches = call.backend.matches.matches
        self._view = view_of(call)
        self._everything = selection.is_everything
        self._as_stored = self._everything and not self._view.form and call.resource.is_served_as_stored
        self._columns_sent = False

    def added(self, stored: Stored) -> Frame:
        """Return the frame of an object that existed at the start."""
        return Frame("ADDED", self._form(stored.value), stored.revision)

    def event(self, event: Event) -> Frame | None:
        """Convert an event for the selection, which objects may enter and leave; None if it does not concern that."""
        now, before = event.now, event.before
        if self._as_stored and event.kind != "deleted":
            return Frame("MODIFIED" if before is not None else "ADDED", now.value, now.revision, now)
        is_in, was_in = event.kind != "deleted", before is not None
        if not self._everything:
            is_in = is_in and self._matches(self._selection, now)
            was_in = before is not None and self._matches(self._selection, before)
        if is_in:
            value = now.value
            form = self._form(value)
            return Frame("MODIFIED" if was_in else "ADDED", form, now.revision, now if form is value else None)
        if was_in and before is not None:
            value = at_revision(before.value, before.revision, now.revision)
            return Frame("DELETED", self._form(value), now.revision)
        return None

    def bookmark(self, revision: int, *, ends_initial: bool = False) -> Frame:
        """Return the progress of the watch: an object of the kind with only metadata, in the requested form."""
        metadata: dict[str, object] = {"resourceVersion": str(revision)}
        if ends_initial:
            metadata["annotations"] = {_END_OF_INITIAL: "true"}
        resource = self._call.resource
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return Frame("BOOKMARK", self._form(msgspec.json.encode(obj)), revision)

    def error(self, fault: status.ApiFault) -> Frame:
        """Return the error that ends the watch."""
        return Frame("ERROR", fault.encode(), 0)

    def _form(self, value: bytes) -> bytes:
        """Return a stored object in the requested form."""
        value = self._call.resource.served(value)
        if self._view.form == TABLE:
            metadata = {"resourceVersion": header_of(value).metadata.resource_version}
            value = encode_table(self._call, [value], metadata, columns=not self._columns_sent)
            self._columns_sent = True
        elif self._view.form == PARTIAL:
            value = partial_object(value, self._view.api_version)
        return value


def at_revision(value: bytes, old: int, new: int) -> bytes:
    """Return stored bytes with another resourceVersion: that of the deletion, which the object's last value lacks.

    Metadata comes first in stored bytes, and quotes within text are escaped, so the first match is the right one.
    """
    return value.replace(b'"resourceVersion":"%d"' % old, b'"resourceVersion":"%d"' % new, 1)
