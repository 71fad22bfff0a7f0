"""The history of jobs (`history.kilauea.dev`): provided by the recorder, and not stored here.

Users who may list the Volcano Jobs of a namespace may read its history (`rbac/authorizer.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kilauea.apiserver import status
from kilauea.apiserver.rbac.authorizer import HISTORY_GROUP
from kilauea.apiserver.request import JSON, ApiResponse
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.computed_schemas import JOB_HISTORY, RECORD, USAGE_REPORT

VERSION = "v1alpha1"
LINES = "application/x-ndjson"
"""The media type of records for clients that request it: one JSON object per line."""
HISTORY = (
    ResourceType(HISTORY_GROUP, VERSION, "jobhistories", "JobHistory", verbs=("get", "list"), told_schema=JOB_HISTORY),
    ResourceType(HISTORY_GROUP, VERSION, "usagereports", "UsageReport", verbs=("list",), told_schema=USAGE_REPORT),
    ResourceType(HISTORY_GROUP, VERSION, "historyrecords", "HistoryRecord", verbs=("list",), told_schema=RECORD),
)
"""The kinds of the history, served if a recorder exists."""


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
    if isinstance(body, bytes):
        return ApiResponse(200, body, JSON)
    if LINES in call.request.headers.get("accept", ""):
        return ApiResponse(200, body, LINES)
    return ApiResponse(200, _as_list(resource, body), JSON)


def _as_list(resource: ResourceType, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines of records as a list of objects, for other clients; each name is the number of its line."""
    version, kind = resource.api_version.encode(), resource.kind.encode()
    yield b'{"kind":"%sList","apiVersion":"%s","metadata":{},"items":[' % (kind, version)
    form = b'%%s{"kind":"%s","apiVersion":"%s","metadata":{"name":"%%d"},"record":%%s}' % (kind, version)
    number = 0
    for piece in pieces:
        lines = piece.splitlines()
        yield b"".join(form % (b"," if at else b"", at, line) for at, line in enumerate(lines, number))
        number += len(lines)
    yield b"]}"
