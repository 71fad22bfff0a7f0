"""Responses with stored objects in the form that a client requests: complete, as a table, or only metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.negotiation import (
    MEDIA,
    PARTIAL,
    TABLE,
    View,
    check_form,
    header_of,
    negotiate,
    negotiate_whole,
    partial_object,
)
from kilauea.apiserver.protobuf import PROTOBUF
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.storage import Stored
from kilauea.apiserver.tables.columns import TableForm
from kilauea.apiserver.tables.kinds import DEFAULT, forms
from kilauea.apiserver.tables.table import table_of

PART, PART_CELLS = 100, 2000
"""Rows of a table to make at once, in a few milliseconds, and their cells: a definition may have thousands of columns.
"""
PART_BYTES = 512 * 1024
"""Bytes of the objects of these rows."""
_INCLUDED = ("Metadata", "Object", "None")


def view_of(call: Call) -> View:
    """The requested form of the response.

    Raises:
        ApiFault: the form is not available (406).
    """
    if call.view is not None:
        return call.view
    view = negotiate(call.request.headers.get("accept", ""))
    if view.media == PROTOBUF and not call.resource.has_protobuf and not view.form:
        raise status.no_such_form(MEDIA)
    if view.form and "get" not in call.resource.verbs and call.subresource is None:
        view = negotiate_whole(call.request.headers["accept"])
    call.view = view
    return view


def object_response(call: Call, value: bytes, code: int = 200) -> ApiResponse:
    """Return one stored object in the requested form; JSON is converted to YAML only when it is sent."""
    view, resource = view_of(call), call.resource
    check_form(view, resource.group, resource.kind, of_list=False, is_custom=resource.is_custom)
    value = call.resource.served(value)
    if view.form == TABLE:
        value = encode_table(call, [value], {"resourceVersion": header_of(value).metadata.resource_version})
    elif view.form == PARTIAL:
        value = partial_object(value, view.api_version)
    return ApiResponse(code, value, view.media)


def encode_table(
    call: Call, values: list[bytes], metadata: dict[str, Any], *, columns: bool = True, form: TableForm | None = None
) -> bytes:
    """Return a `Table` of stored objects; watches omit the columns after the first."""
    table = _table(call, values, form)
    if not columns:
        table["columnDefinitions"] = None
    table["metadata"] = metadata
    return msgspec.json.encode(table)


def long_table(call: Call, items: Sequence[Stored], metadata: dict[str, Any]) -> Iterator[bytes]:
    """Yield the parts of a `Table` of many objects; each part is made when it is sent.

    Raises:
        ApiFault: the client asks for rows that do not exist (400).
    """
    form = _form(call)
    parts = _parts(items, max(1, min(PART, PART_CELLS // len(form.columns))))
    return _encoded_parts(call, _table(call, next(parts), None), parts, metadata)


def _encoded_parts(
    call: Call, first: dict[str, Any], others: Iterator[list[bytes]], metadata: dict[str, Any]
) -> Iterator[bytes]:
    rows = msgspec.json.encode(first.pop("rows"))
    yield b'%b,"rows":%b' % (msgspec.json.encode({**first, "metadata": metadata})[:-1], rows[:-1])
    for values in others:
        yield b",%b" % msgspec.json.encode(_table(call, values, None)["rows"])[1:-1]
    yield b"]}"


def _parts(items: Sequence[Stored], rows: int) -> Iterator[list[bytes]]:
    """Yield the values of objects in batches; at least one batch, which may be empty."""
    values: list[bytes] = []
    size = 0
    for stored in items:
        values.append(stored.value)
        size += len(values[-1])
        if len(values) == rows or size >= PART_BYTES:
            yield values
            values, size = [], 0
    if values or not items:
        yield values


def _form(call: Call) -> TableForm:
    """Return the form of tables of the kind of a call."""
    resource = call.resource
    return resource.table or forms().get((resource.group, resource.plural), DEFAULT)


def _table(call: Call, values: list[bytes], form: TableForm | None) -> dict[str, Any]:
    include = call.request.first("includeObject") or "Metadata"
    if include not in _INCLUDED:
        message = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise status.bad_request(f"Unable to convert to Table as requested: {message}")
    version = view_of(call).api_version
    objects = [partial_object(value, version) if include == "Metadata" else value for value in values]
    table = table_of(form or _form(call), [msgspec.json.decode(value) for value in values], call.backend.now())
    table["apiVersion"] = version
    for row, value in zip(table["rows"], objects, strict=True):
        row["object"] = None if include == "None" else msgspec.Raw(value)
    return table
