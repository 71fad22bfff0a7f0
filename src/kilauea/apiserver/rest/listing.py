"""List: objects as of one revision, complete or in pages.

Stored bytes are joined while the response is sent, so that a list of a hundred thousand objects neither decodes them
nor blocks the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.negotiation import PARTIAL, PARTIAL_LIST, TABLE, View, check_form, partial_object
from kilauea.apiserver.request import YAML, ApiResponse, Listing, TextStream
from kilauea.apiserver.rest.answers import long_table, view_of
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.list_options import EXACT, ListOptions, encode_token, read_options, wait_for_revision
from kilauea.apiserver.rest.versions import served_items
from kilauea.apiserver.selection import Selection, selection_of
from kilauea.apiserver.storage import Expired, Page, Stored, TooNew, values_of
from kilauea.apiserver.turns import TimeSlice

CHUNK = 256 * 1024
"""Bytes of a list to send at a time; with half of it, a list takes a tenth more CPU time."""
PART = 64 * 1024
"""Bytes of JSON that are converted to YAML at a time."""
LONG_SELECTOR = 16 * 1024
"""Characters of selectors from which they are parsed outside the event loop."""
TURN = 0.02
"""Seconds of CPU time for which objects are matched with a selector before other requests have their turn."""
EVENTS = 2_000
"""Events to read in a turn for a list of the past, in a few milliseconds."""

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Found:
    """A page of the requested objects."""

    def __init__(self, items: list[Stored], revision: int, token: str = "", remaining: int | None = None) -> None:
        self.items = items
        self.revision = revision
        self.token = token
        self.remaining = remaining

    def metadata(self) -> dict[str, Any]:
        """Return the `metav1.ListMeta` of the page."""
        out: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.token:
            out["continue"] = self.token
            if self.remaining is not None:
                out["remainingItemCount"] = self.remaining
        return out


async def list_objects(call: Call) -> ApiResponse | TextStream:
    """Answer a list."""
    options = read_options(call)
    selection = await asked_selection(call)
    view_of(call)
    await wait_for_revision(call, options.revision or 0)
    found = await find(call, options, selection)
    found.items = await served_items(call, found.items)
    return await list_response(call, found)


async def asked_selection(call: Call) -> Selection:
    """Return the selection of a call. Parsing long selectors takes up to 0.1 seconds, outside the event loop.

    Raises:
        ApiFault: a selector cannot be parsed, or has a field that is not selectable (400).
    """
    labels, fields = call.request.first("labelSelector"), call.request.first("fieldSelector")
    if len(labels) + len(fields) > LONG_SELECTOR:
        return await asyncio.to_thread(selection_of, call.resource, labels, fields)
    return selection_of(call.resource, labels, fields)


async def list_response(call: Call, found: Found) -> ApiResponse | TextStream:
    """Return a page of objects in the requested form."""
    view, resource = view_of(call), call.resource
    check_form(view, resource.group, resource.kind_of_list, of_list=True, is_custom=resource.is_custom)
    if view.form == TABLE:
        return ApiResponse(200, long_table(call, found.items, found.metadata()), view.media)
    partial = view if view.form == PARTIAL else None
    if view.media != YAML:
        as_stored = call.resource.is_served_as_stored and not partial and not found.token
        listing = Listing(found.items, found.revision) if as_stored else None
        return ApiResponse(200, _chunks(call, found, partial), view.media, listing=listing)
    if sum(len(each.value) for each in found.items) > CHUNK:
        return TextStream(_in_yaml(call, found, partial), YAML)
    return ApiResponse(200, b"".join(_chunks(call, found, partial)), YAML)


async def _in_yaml(call: Call, found: Found, partial: View | None) -> AsyncGenerator[bytes, None]:
    """Yield a list in YAML, some items at a time, with keys in their original order."""
    head = _head(call, found, partial)
    yield f"apiVersion: {head['apiVersion']}\nitems:\n".encode()
    pending, size = [], 0
    for value in _values(call, found, partial):
        pending.append(value)
        size += len(value)
        if size >= PART:
            yield await call.backend.heavy.run("write yaml", b"[%b]" % b",".join(pending))
            pending, size = [], 0
    if pending:
        yield await call.backend.heavy.run("write yaml", b"[%b]" % b",".join(pending))
    rest = {"kind": head["kind"], "metadata": head["metadata"]}
    yield await call.backend.heavy.run("write yaml", msgspec.json.encode(rest))


async def find(call: Call, options: ListOptions, selection: Selection) -> Found:
    """Return the objects of a list request."""
    prefix = call.resource.prefix(call.namespace)
    name = call.info.name or selection.only_name()
    if name and (call.namespace or not call.resource.namespaced):
        return await _single(call, name, selection)
    if selection.is_everything:
        page = await _page(call, options, prefix, options.after_key, options.limit)
        token = encode_token(page.revision, page.next_key, prefix) if page.next_key else ""
        return Found(page.items, page.revision, token, page.remaining)
    return await _selected(call, options, selection, prefix)


async def _single(call: Call, name: str, selection: Selection) -> Found:
    """Return a list that selects a single name."""
    revision = call.backend.store.revision
    stored = call.backend.store.get(call.resource.key(call.namespace, name))
    if stored is None:
        return Found([], revision)
    seen = await _in_version_of_fields(call, selection, [stored])
    return Found([each for each in seen if selection.matches(each.key, each.value)], revision)


async def _in_version_of_fields(call: Call, selection: Selection, items: list[Stored]) -> list[Stored]:
    """Return objects in the version of the selected fields, which a conversion webhook may add to the stored one."""
    return await served_items(call, items) if selection.has_fields else items


async def _selected(call: Call, options: ListOptions, selection: Selection, prefix: str) -> Found:
    """Return objects that match a selection; read pages until the limit is reached."""
    page = await _page(call, options, prefix, options.after_key, 0)
    seen = await _in_version_of_fields(call, selection, page.items)
    items: list[Stored] = []
    time_slice = TimeSlice(call.pause, TURN)
    for stored, value in zip(seen, values_of(seen), strict=True):
        if time_slice.is_over(len(value)):
            await time_slice.renew()
        if selection.matches(stored.key, value):
            if options.limit and len(items) == options.limit:
                return Found(items, page.revision, encode_token(page.revision, items[-1].key, prefix))
            items.append(stored)
    return Found(items, page.revision)


async def _page(call: Call, options: ListOptions, prefix: str, after_key: str, limit: int) -> Page:
    """Return one page from the store, at the requested revision."""
    at = options.revision if options.match == EXACT else None
    if options.at_revision > 0:
        at = options.at_revision
    store, earlier = call.backend.store, None
    try:
        if at is not None and at < store.revision:
            earlier = store.earlier(prefix, after_key, at)
            while earlier.read(EVENTS):
                await call.pause()
        return store.list(prefix, limit=limit or None, after_key=after_key or None, at_revision=at, earlier=earlier)
    except Expired as error:
        if options.at_revision > 0:
            raise status.expired(_TOO_OLD, encode_token(-1, after_key, prefix)) from error
        raise status.expired("The resourceVersion for the provided list is too old.") from error
    except TooNew as error:
        raise status.revision_ahead(error.asked, error.current) from error


def _head(call: Call, found: Found, partial: View | None) -> dict[str, Any]:
    """Return a list without its items."""
    kind, version = call.resource.kind_of_list, call.resource.api_version
    if partial:
        kind, version = PARTIAL_LIST, partial.api_version
    return {"kind": kind, "apiVersion": version, "metadata": found.metadata()}


def _values(call: Call, found: Found, partial: View | None) -> Iterator[bytes]:
    """Yield the items of a list; those of built-in kinds omit apiVersion and kind, as in the real server."""
    resource = call.resource
    cut = 0 if resource.is_custom or partial else len(resource.head)
    for stored in found.items:
        served = resource.served(stored.value)
        if partial:
            yield partial_object(served, partial.api_version)
        else:
            yield b"{" + served[cut:] if cut else served


def _chunks(call: Call, found: Found, partial: View | None) -> Iterator[bytes]:
    """Yield the bytes of a list."""
    head = msgspec.json.encode(_head(call, found, partial))
    if partial and not found.items:
        yield head[:-1] + b',"items":null}'
        return
    resource = call.resource
    if found.items and resource.is_served_as_stored and not partial:
        yield from _joined(head, found.items, 0 if resource.is_custom else len(resource.head))
        return
    pending, size = [head[:-1] + b',"items":['], len(head)
    comma = b""
    for stored, value in zip(found.items, _values(call, found, partial), strict=True):
        pending += (comma, value)
        comma = b","
        size += max(len(value), stored.length)  # the cost of extracting metadata grows with the object
        if size >= CHUNK:
            yield b"".join(pending)
            pending, size = [], 0
    pending.append(b"]}")
    yield b"".join(pending)


def _joined(head: bytes, items: Sequence[Stored], cut: int) -> Iterator[bytes]:
    """Yield the bytes of a list of stored objects, without the first bytes of each; performance-critical."""
    between = b",{" if cut else b","
    before = head[:-1] + b',"items":[' + between[1:]
    pending: list[bytes] = []
    size = 0
    for value in values_of(items):
        pending.append(value[cut:])
        size += len(value)
        if size >= CHUNK:
            pending[0] = before + pending[0]
            yield between.join(pending)
            before = between
            pending.clear()
            size = 0
    if not pending:
        yield b"]}"
        return
    pending[0] = before + pending[0]
    pending[-1] += b"]}"
    yield between.join(pending)
