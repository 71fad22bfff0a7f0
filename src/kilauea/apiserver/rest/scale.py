"""Scale: the replicas of a workload in a format common to all kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from kilauea.api.ages import age
from kilauea.apiserver import status
from kilauea.apiserver.fields import check_not_negative, invalid_value
from kilauea.apiserver.negotiation import PARTIAL, TABLE, check_form, partial_object
from kilauea.apiserver.patch import (
    check_applied,
    entries_of_parent,
    entries_of_scale,
    full_kind,
    json_patch,
    merge_patch,
    server_side_apply,
    strategic_merge,
    track_update,
)
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.answers import encode_table, view_of
from kilauea.apiserver.rest.body import check_kind, read_document, tell, typed
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.objects import decode, metadata_of
from kilauea.apiserver.rest.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    parse_applied,
    parse_patch,
    patch_form,
    tell_repeated,
)
from kilauea.apiserver.rest.update import change_object, check_body_name
from kilauea.apiserver.rest.versions import served_value
from kilauea.apiserver.schema import Schema, builtin_schema, unknown_field
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.stored_forms.paths import set_at, value_at
from kilauea.apiserver.tables.columns import AGE, Column, selector_text, simple

API_VERSION, KIND = "autoscaling/v1", "Scale"
_SCALE = "scale"
_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def get_scale(call: Call) -> ApiResponse:
    """Answer a get of `scale`."""
    return _response(call, decode(await served_value(call, read_stored(call).value)))


async def update_scale(call: Call) -> ApiResponse:
    """Answer an update of `scale`."""
    body = read_document(call, KIND, API_VERSION)
    check_kind(body, API_VERSION, KIND)
    check_body_name(call, body)
    _tell_unknown(call, typed(_schema(), body, KIND))
    return await _change(call, partial(_tracked, call, lambda _: body))


async def patch_scale(call: Call) -> ApiResponse:
    """Answer a patch of `scale`."""
    form = patch_form(call)
    if form == APPLY_PATCH:
        return await _apply(call)
    document = parse_patch(call)

    def change(scale: Object) -> Object:
        if form == JSON_PATCH:
            new = dict(json_patch(scale, document))
        elif form == MERGE_PATCH:
            new = merge_patch(scale, document)
        else:
            new = strategic_merge(scale, document, _schema())
        shown = {"apiVersion": API_VERSION, **{key: value for key, value in new.items() if key != "apiVersion"}}
        text = msgspec.json.encode(shown).decode()
        try:
            _tell_unknown(call, typed(_schema(), new, KIND))
        except ApiFault as fault:
            why = str(fault).partition(f"cannot be handled as a {KIND}: ")[2]
            raise status.invalid("", "", "", [invalid_value("patch", text, why)]) from fault
        return new

    return await _change(call, partial(_tracked, call, change))


async def _apply(call: Call) -> ApiResponse:
    """Answer a server-side apply of `scale`."""
    applied, repeated = parse_applied(call)
    if (applied.get("apiVersion"), applied.get("kind")) != (API_VERSION, KIND):
        raise status.bad_request(f"invalid object type: {full_kind(applied)}")
    tell_repeated(call, repeated)
    check_applied(applied, API_VERSION, _schema())
    check_body_name(call, applied)
    force = call.request.flag("force") is True

    def change(scale: Object) -> Object:
        now = call.backend.timestamp()
        manager = call.field_manager()
        new = server_side_apply(scale, applied, manager, force, _schema(), API_VERSION, now, _SCALE)
        typed(_schema(), new, KIND)
        return new

    return await _change(call, change)


def _tracked(call: Call, change: Callable[[Object], Object], scale: Object) -> Object:
    """Return a scale after a change by other means than an apply, with its managers."""
    before, now = msgspec.json.decode(msgspec.json.encode(scale)), call.backend.timestamp()
    scale["metadata"].pop("managedFields")
    new = change(scale)
    tracked = track_update(before, new, call.field_manager(), _schema(), API_VERSION, now, subresource=_SCALE)
    metadata_of(new)["managedFields"] = tracked
    return new


def _schema() -> Schema:
    return builtin_schema("autoscaling", "v1", KIND)


def _tell_unknown(call: Call, unknown: list[str]) -> None:
    """Warn about fields that a Scale does not have or reject them, as requested."""
    tell(call, [unknown_field(path, custom=False) for path in unknown], KIND, "v1")


async def _change(call: Call, change: Callable[[Object], Object]) -> ApiResponse:
    """Change the scale of an object, and so its replicas."""
    paths = call.resource.strategy.scale
    steps = tuple(f"f:{each}" for each in paths.replicas.strip(".").split("."))

    def changed(obj: Object) -> Object:
        entries = obj["metadata"].get("managedFields") or []
        scale = scale_of(call, obj)
        scale["metadata"]["managedFields"] = entries_of_scale(entries, call.resource.group, steps)
        scale = change(scale)
        tracked = metadata_of(scale).pop("managedFields", None)
        obj["metadata"]["managedFields"] = entries_of_parent(entries, tracked, call.resource.api_version, steps)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if replicas < 0 and not call.resource.is_custom:  # custom resources are checked against their definition
            raise status.invalid(KIND, "autoscaling", call.info.name, check_not_negative("spec.replicas", replicas))
        obj["metadata"]["resourceVersion"] = metadata_of(scale).get("resourceVersion") or ""
        set_at(obj, paths.replicas, replicas)
        return obj

    value = await change_object(call, changed, track=False)
    return _response(call, decode(value))


def scale_of(call: Call, obj: Object) -> Object:
    """Return the Scale of an object."""
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
    check_form(view, "autoscaling", KIND, of_list=False)
    if view.form == PARTIAL:
        value = partial_object(value, view.api_version)
    elif view.form == TABLE:
        version = {"resourceVersion": scale["metadata"]["resourceVersion"]}
        return ApiResponse(200, encode_table(call, [value], version, form=_FORM))
    return ApiResponse(200, value, view.media)


def _cells(scale: Object, now: int) -> list[Any]:
    return [scale["spec"].get("replicas", 0), scale["status"]["replicas"], age(scale, now)]


_COLUMNS = simple([Column("Desired", "integer"), Column("Available", "integer"), AGE], _cells)
_FORM = replace(_COLUMNS, columns=(_COLUMNS.columns[0]._replace(format=""), *_COLUMNS.columns[1:]))
