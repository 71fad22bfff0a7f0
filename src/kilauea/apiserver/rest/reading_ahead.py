"""Large bodies are read before any other processing, and outside the event loop if that takes long."""

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
"""Bytes of a body up to which it is read at once, in whatever form; a dense YAML text of this size takes 50 ms."""
LIGHT_JSON = 64 * 1024
"""The same for JSON and protobuf."""
LARGEST_VALUE = 3 * 1024 * 1024
"""Bytes of the JSON that a YAML text may stand for: aliases can make much of little."""


async def read_ahead(request: ApiRequest, heavy: Heavy, large_writes: LargeWrites | None = None) -> None:
    """Read a body that is not small; sets `parsed`.

    Args:
        request: whose body is read.
        heavy: reads what takes long.
        large_writes: looks at whether that is needed; None to do so in the event loop.

    Raises:
        ApiFault: it stands for too much (413).
        TooHeavy: it cannot be read in time.
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
    if len(found) > LARGEST_VALUE * 2:  # one that is as large as its body may be a little larger in another form
        raise status.too_large(LARGEST_VALUE)
    request.parsed = msgspec.json.decode(found, type=Parsed)
    if request.parsed.has_too_many:
        message = f"the body has more than {MOST_CONTAINERS} lists and objects: send fewer at a time"
        raise status.ApiFault(413, "RequestEntityTooLarge", message)
