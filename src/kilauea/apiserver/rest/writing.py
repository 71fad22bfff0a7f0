"""A write to the store, with its effects in admission, within the share of the memory that its namespace may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.admission import Effect, cancel_all
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Store, Stored
from kilauea.apiserver.storage.usage import CREATES, OVERHEAD, UPDATES, Usage, namespace_of


async def write_admitted(
    call: Call,
    attributes: Attributes,
    key: str,
    expected: int,
    encode: Callable[[int], bytes] | None,
    decoded: dict[str, Any] | None = None,
) -> Stored:
    """Call `Store.write` and apply the effects in admission."""
    backend = call.backend
    effects = backend.admission.begin(attributes)
    change = None if backend.dynamic is None else backend.dynamic.begin(attributes)
    if change is not None:
        effects.insert(0, change)
    if not effects:
        return await backend.store.write(key, expected, encode, decoded)
    # If the caller disconnects, neither the write nor its effects are cancelled.
    writing = asyncio.ensure_future(_write(backend.store, effects, key, expected, encode, decoded))
    writing.add_done_callback(_retrieve)
    try:
        return await asyncio.shield(writing)
    finally:
        del writing  # an error refers to this frame, and would be garbage with it and the object


def within_share(call: Call, key: str, before: Stored | None, encode: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return an encoder that rejects an object for which its namespace has no room.

    Args:
        call: the write.
        key: the key of the object.
        before: the stored object; None for a new one.
        encode: the encoder.
    """
    usage = call.backend.store.usage
    if usage.limit is None:
        return encode

    def encoded(revision: int) -> bytes:
        value = encode(revision)
        more = len(value) + OVERHEAD if before is None else len(value) - before.length
        namespace = namespace_of(key)
        if not usage.has_room(namespace, more, CREATES if before is None else UPDATES):
            raise _no_room(call, key, usage, namespace)
        return value

    return encoded


def _no_room(call: Call, key: str, usage: Usage, namespace: str) -> ApiFault:
    """Return the error for an object that its namespace has no room for."""
    whose = f"the objects of namespace {namespace}" if namespace else "cluster-scoped objects"
    message = (
        f"{whose} take {_size(usage.of(namespace))}, and may take {_size(usage.share(namespace))} of the "
        f"{_size(usage.limit or 0)} that this server has for all: delete some of them, or give it more memory and disk"
    )
    return status.forbidden(call.resource.plural, call.resource.group, key.rpartition("/")[2], message)


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


async def _write(
    store: Store,
    effects: Sequence[Effect],
    key: str,
    expected: int,
    encode: Callable[[int], bytes] | None,
    decoded: dict[str, Any] | None,
) -> Stored:
    try:
        stored = await store.write(key, expected, encode, decoded)
    except BaseException:
        cancel_all(effects)
        raise
    for effect in effects:
        await effect.settle(stored)
    return stored


def _retrieve(writing: asyncio.Future[Stored]) -> None:
    """Retrieve the error of a write whose caller may have disconnected, as asyncio logs unretrieved errors."""
    if not writing.cancelled():
        writing.exception()
