"""A write to the store, with its effects in admission."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kilauea.apiserver.admission import Effect, cancel_all
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.storage import Store, Stored


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
