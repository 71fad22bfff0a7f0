"""Finalize: takes finalizers out of a namespace's specification, which lets a namespace go that is being deleted."""

from __future__ import annotations

from kilauea.apiserver.negotiation import object_response
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.body import read_object
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.update import change_object, check_body_name
from kilauea.apiserver.strategies.base import spec_of


async def finalize(call: Call) -> ApiResponse:
    """Answer an update of `finalize`."""
    body = read_object(call)
    check_body_name(call, body)
    return object_response(call, await change_object(call, lambda obj: _with_finalizers(obj, body)))


def _with_finalizers(obj: Object, body: Object) -> Object:
    """The namespace as it is, with the finalizers that the body names."""
    obj["spec"] = {**spec_of(obj), "finalizers": spec_of(body).get("finalizers") or []}
    obj["metadata"]["resourceVersion"] = body["metadata"].get("resourceVersion") or ""
    return obj
