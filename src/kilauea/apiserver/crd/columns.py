"""Tables of custom resources, from the printer columns of their definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.ages import since
from kilauea.apiserver.crd.jsonpath import find
from kilauea.apiserver.tables.columns import Column, TableForm, simple

Object = dict[str, Any]

_CREATED = ".metadata.creationTimestamp"
_AGE = {"name": "Age", "type": "date", "jsonPath": _CREATED}


def table_form(columns: Sequence[Mapping[str, Any]]) -> TableForm:
    """The form of a definition's columns; the age alone if there are none."""
    specified = columns or [_AGE]

    def cells(obj: Object, now: int) -> list[Any]:
        return [_cell(each, obj, now) for each in specified]

    return simple([_column(each) for each in specified], cells)


def _column(column: Mapping[str, Any]) -> Column:
    message = (
        column.get("description") or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    )
    return Column(column["name"], column["type"], column.get("priority", 0), column.get("format", ""), message)


def _cell(column: Mapping[str, Any], obj: Object, now: int) -> Any:
    """The value of a column: null where there is none, or none of the column's type."""
    found = find(column["jsonPath"], obj)
    if not found or found[0] is None:
        return None
    value, kind = found[0], column["type"]
    if kind == "string":
        return _text(found)
    if kind == "date":
        return since(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else float(value)


def _text(found: Sequence[Any]) -> str:
    """The first value as text: text as it is, all else as JSON."""
    value = found[0]
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
