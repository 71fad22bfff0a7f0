"""Scale: the replicas of a workload under one form, whatever the kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kilauea.api.ages import age
from kilauea.apiserver import status
from kilauea.apiserver.fields import check_not_negative
from kilauea.apiserver.negotiation import TABLE, encode_table, view_of
from kilauea.apiserver.patch import json_patch, merge_patch, strategic_merge
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.resources.paths import set_at, value_at
from kilauea.apiserver.rest.body import check_kind, read_document, typed
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.objects import decode, metadata_of
from kilauea.apiserver.rest.patching import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, parse_patch, patch_form
from kilauea.apiserver.rest.update import change_object, check_body_name
from kilauea.apiserver.rest.versions import served_value
from kilauea.apiserver.schema import builtin_schema
from kilauea.apiserver.tables.columns import AGE, Column, selector_text, simple

API_VERSION, KIND = "autoscaling/v1", "Scale"
_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def get_scale(call: Call) -> ApiResponse:
    """Answer a get of `scale`."""
    return _response(call, decode(await served_value(call, read_stored(call).value)))


async def update_scale(call: Call) -> ApiResponse:
    """Answer an update of `scale`."""
    body = read_document(call, KIND, API_VERSION)
    check_kind(body, API_VERSION, KIND)
    check_body_name(call, body)
    return await _change(call, lambda _: body)


async def patch_scale(call: Call) -> ApiResponse:
    """Answer a patch of `scale`."""
    form = patch_form(call)
    document = parse_patch(call)

    def change(scale: Object) -> Object:
        if form == JSON_PATCH:
            return dict(json_patch(scale, document))
        if form in (MERGE_PATCH, APPLY_PATCH):
            return merge_patch(scale, document)
        return strategic_merge(scale, document, builtin_schema("autoscaling", "v1", KIND))

    return await _change(call, change)


async def _change(call: Call, change: Callable[[Object], Object]) -> ApiResponse:
    """Change the scale of an object, and so its replicas."""
    paths = call.resource.strategy.scale

    def changed(obj: Object) -> Object:
        scale = change(scale_of(call, obj))
        typed(builtin_schema("autoscaling", "v1", KIND), scale, KIND)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        causes = check_not_negative("spec.replicas", replicas)
        if causes:
            raise status.invalid(KIND, "autoscaling", call.info.name, causes)
        obj["metadata"]["resourceVersion"] = metadata_of(scale).get("resourceVersion") or ""
        set_at(obj, paths.replicas, replicas)
        return obj

    value = await change_object(call, changed)
    return _response(call, decode(value))


def scale_of(call: Call, obj: Object) -> Object:
    """The Scale of an object."""
    paths = call.resource.strategy.scale
    selector = value_at(obj, paths.selector) if paths.selector else None
    if selector and paths.plain:
        selector = {"matchLabels": selector}
    text = selector if isinstance(selector, str) else selector_text(selector) if selector else ""
    state = {"replicas": value_at(obj, paths.current) or 0, **({"selector": text} if text else {})}
    replicas = value_at(obj, paths.replicas)
    spec = {"replicas": replicas} if replicas else {}
    metadata = {key: obj["metadata"][key] for key in _SHARED if key in obj["metadata"]}
    return {"kind": KIND, "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": state}


def _response(call: Call, obj: Object) -> ApiResponse:
    scale = scale_of(call, obj)
    value, view = msgspec.json.encode(scale), view_of(call)
    if view.form == TABLE:
        version = {"resourceVersion": scale["metadata"]["resourceVersion"]}
        return ApiResponse(200, encode_table(call, [value], version, form=_FORM))
    return ApiResponse(200, value, view.media)


def _cells(scale: Object, now: int) -> list[Any]:
    return [scale["spec"].get("replicas", 0), scale["status"]["replicas"], age(scale, now)]


_FORM = simple([Column("Desired", "integer"), Column("Available", "integer"), AGE], _cells)
