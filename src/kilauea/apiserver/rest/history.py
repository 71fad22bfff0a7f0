"""The history of jobs (`history.kilauea.dev`): told by what records it, and never stored here.

Who may list the Jobs of Volcano in a namespace may read its history (`rbac/authorizer.py`).
"""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.rbac.authorizer import HISTORY_GROUP
from kilauea.apiserver.request import JSON, ApiResponse
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.call import Call

VERSION = "v1alpha1"
LINES = "application/x-ndjson"
"""The media type of records: an object of JSON on each line."""
HISTORY = (
    ResourceType(HISTORY_GROUP, VERSION, "jobhistories", "JobHistory", verbs=("get", "list"), described=False),
    ResourceType(HISTORY_GROUP, VERSION, "usagereports", "UsageReport", verbs=("list",), described=False),
    ResourceType(HISTORY_GROUP, VERSION, "historyrecords", "HistoryRecord", verbs=("list",), described=False),
)
"""The kinds of the history, served where something records it."""


async def history(call: Call) -> ApiResponse:
    """Answer a get or list of the history."""
    source = call.backend.history
    if source is None:
        raise status.no_such_resource()
    resource = call.resource
    query = dict(call.request.query)
    try:
        body = await source.answer(resource.kind, resource.plural, call.namespace, call.info.name, query)
    except ValueError as error:
        raise status.bad_request(str(error)) from None
    except LookupError as error:
        raise status.internal(str(error)) from None
    if body is None:
        raise call.not_found()
    return ApiResponse(200, body, JSON if isinstance(body, bytes) else LINES)
