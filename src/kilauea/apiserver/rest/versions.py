"""Conversion between the version of a request and the stored version; only webhooks cause a wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.storage import Stored

AT_ONCE = 256 * 1024
"""Bytes of the objects in one call of a conversion webhook, unless a single one is larger."""


async def served_bytes(call: Call, values: Sequence[bytes]) -> list[bytes]:
    """Return stored objects in the version of a request.

    A conversion webhook converts all in one call, or many in several consecutive calls, because the size of its
    responses is limited and other requests have their turn in between.

    Raises:
        ApiFault: the webhook failed (500).
    """
    conversion = call.resource.conversion
    if conversion is None or conversion.is_plain:
        return list(values)
    head = call.resource.head
    found = list(values)
    other = [index for index, value in enumerate(found) if not value.startswith(head)]
    for batch in _batches(other, found):
        objects = await conversion.convert(
            [msgspec.json.decode(found[each]) for each in batch], call.resource.api_version
        )
        for index, obj in zip(batch, objects, strict=True):
            first = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": obj["metadata"]}
            found[index] = msgspec.json.encode({**first, **obj})
    return found


def _batches(indexes: Sequence[int], values: Sequence[bytes]) -> Iterator[list[int]]:
    """Yield the indexes of values that are converted together."""
    batch: list[int] = []
    size = 0
    for index in indexes:
        if batch and size + len(values[index]) > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += len(values[index])
    if batch:
        yield batch


async def served_value(call: Call, value: bytes) -> bytes:
    """Return one stored object in the version of a request."""
    if call.resource.is_served_as_stored:
        return value
    return call.resource.served((await served_bytes(call, [value]))[0])


async def served_items(call: Call, items: list[Stored]) -> list[Stored]:
    """Return stored objects with their bytes in the version of a request."""
    if call.resource.conversion is None or call.resource.conversion.is_plain:
        return items
    values = await served_bytes(call, [each.value for each in items])
    return [Stored(each.key, value, each.revision, each.created) for each, value in zip(items, values, strict=True)]


async def stored_form(call: Call, obj: Object) -> Object:
    """Convert an object from the version of a request to the stored version."""
    conversion = call.resource.conversion
    if conversion is None or conversion.storage == call.resource.api_version:
        return obj
    copy: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return (await conversion.convert([copy], conversion.storage))[0]
