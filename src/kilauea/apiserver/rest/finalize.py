"""Finalize: removes finalizers from a namespace's specification, so that its deletion can complete."""

from __future__ import annotations

import msgspec

from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.body import read_object
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.rest.update import change_object, check_body_name


async def finalize(call: Call) -> ApiResponse:
    """Answer an update of `finalize`."""
    body = read_object(call)
    check_body_name(call, body)
    text = msgspec.json.encode(body)
    return object_response(call, await change_object(call, lambda _: decode(text), whole=True))
