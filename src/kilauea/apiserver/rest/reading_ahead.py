"""Large bodies are parsed before any other processing, and outside the event loop if that takes long."""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.heavy import Heavy
from kilauea.apiserver.large_writes import LargeWrites
from kilauea.apiserver.parsing import MOST_CONTAINERS, Parsed, is_json_in_yaml, is_plain_json
from kilauea.apiserver.protobuf import PROTOBUF
from kilauea.apiserver.request import ApiRequest
from kilauea.apiserver.rest.body import media_type

LIGHT = 8 * 1024
"""Bytes of a body up to which it is parsed at once in any format; dense YAML of this size takes 50 ms."""
LIGHT_JSON = 64 * 1024
"""Bytes up to which JSON and protobuf are parsed at once."""
LARGEST_VALUE = 3 * 1024 * 1024
"""Bytes of JSON that YAML may expand to: aliases can make a small text large."""


async def read_ahead(request: ApiRequest, heavy: Heavy, large_writes: LargeWrites | None = None) -> None:
    """Parse a body that is not small, and set `parsed`.

    Args:
        request: the request with the body.
        heavy: parses bodies that take long.
        large_writes: decides if that is needed; None to decide in the event loop.

    Raises:
        ApiFault: its value is too large (413).
        TooHeavy: it cannot be parsed in time.
    """
    form = media_type(request.headers.get("content-type", ""))
    if "yaml" in form:
        if len(request.body) > LIGHT_JSON or not is_json_in_yaml(request.body):
            await _read(request, heavy, "parse yaml")
    elif len(request.body) > LIGHT_JSON and form == PROTOBUF:
        await _read(request, heavy, "parse protobuf")
    elif len(request.body) > LIGHT_JSON:
        look = partial(is_plain_json, request.body)
        if not (look() if large_writes is None else await large_writes.run(look)):
            await _read(request, heavy, "parse json")


async def _read(request: ApiRequest, heavy: Heavy, task: Literal["parse json", "parse protobuf", "parse yaml"]) -> None:
    found = await heavy.run(task, request.body)
    if len(found) > LARGEST_VALUE * 2:  # JSON may be a little larger than the same value in another format
        raise status.too_large(LARGEST_VALUE)
    request.parsed = msgspec.json.decode(found, type=Parsed)
    if request.parsed.has_too_many:
        message = f"the body has more than {MOST_CONTAINERS} lists and objects: send fewer at a time"
        raise status.ApiFault(413, "RequestEntityTooLarge", message)
