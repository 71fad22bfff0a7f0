"""Get: the current version of one object."""

from __future__ import annotations

from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.list_options import revision_of, wait_for_revision
from kilauea.apiserver.rest.versions import served_value
from kilauea.apiserver.storage import Stored


def read_stored(call: Call) -> Stored:
    """Return the object that a call names.

    Raises:
        ApiFault: it does not exist (404).
    """
    stored = call.backend.store.get(call.key)
    if stored is None:
        raise call.not_found()
    return stored


async def get(call: Call) -> ApiResponse:
    """Answer a get."""
    asked = call.request.first("resourceVersion")
    if asked:
        await wait_for_revision(call, revision_of(asked))
    return object_response(call, await served_value(call, read_stored(call).value))
