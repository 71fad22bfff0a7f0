"""Tables of custom resources, from the printer columns of their definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from kilauea.api.ages import since
from kilauea.apiserver.crd.jsonpath import JsonPathError, found_at, parse_json_path
from kilauea.apiserver.crd.jsonpath_steps import Budget, Step
from kilauea.apiserver.go_json import go_json
from kilauea.apiserver.tables.columns import Column, TableForm, simple

Object = dict[str, Any]

_CREATED = ".metadata.creationTimestamp"
_AGE = {"name": "Age", "type": "date", "jsonPath": _CREATED}
_INTEGERS = range(-(2**63), 2**63)


def table_form(columns: Sequence[Mapping[str, Any]]) -> TableForm:
    """Return the table form of a definition's columns; only the age if it has none.

    As in Kubernetes, the table ends before the first column whose path is invalid.
    """
    readable = takewhile(lambda each: path_fault(each) is None, columns)
    specified = list(readable) if columns else [_AGE]
    # The cache of paths may be smaller than the number of columns.
    paths = [(each["type"], parse_json_path(each["jsonPath"])) for each in specified]

    def cells(obj: Object, now: int) -> list[Any]:
        budget = Budget()
        return [_cell(kind, path, obj, now, budget) for kind, path in paths]

    return simple([_column(each) for each in specified], cells)


def path_fault(column: Mapping[str, Any]) -> str | None:
    """Return the error in the path of a column; None if valid."""
    try:
        parse_json_path(column["jsonPath"])
    except JsonPathError as error:
        return str(error)
    return None


def column_warnings(definition: Object) -> Iterator[str]:
    """Yield a warning for each version whose table ends before an invalid column."""
    for index, version in enumerate(definition["spec"].get("versions") or ()):
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            fault = path_fault(column)
            if fault is not None:
                place = f"spec.versions[{index}].additionalPrinterColumns[{number}].jsonPath"
                yield f"{place}: {fault}; tables do not show this column and those after it"
                break


def _column(column: Mapping[str, Any]) -> Column:
    message = (
        column.get("description") or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    )
    return Column(column["name"], column["type"], column.get("priority", 0), column.get("format", ""), message)


def _cell(kind: str, path: Sequence[Step], obj: Object, now: int, budget: Budget) -> Any:
    """Return the first value at a path; null if missing or not of the column's type."""
    found = found_at(path, obj, budget)
    if not found:
        return None
    value = found[0]
    if kind == "string":
        return _text(value)
    if kind == "date":
        return since(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _integer(value) if kind == "integer" else _number(float(value))


def _integer(value: float) -> int:
    """Truncate a number to an integer; one beyond Go's int64 becomes its minimum."""
    return int(value) if int(value) in _INTEGERS else _INTEGERS.start


def _number(value: float) -> int | float:
    """Return a number as Go writes it in JSON: whole numbers without a fraction."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _text(value: Any) -> str:
    """Format a value as Go does: strings unchanged, objects and lists as JSON."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(_number(value))
    if isinstance(value, str | int):
        return str(value)
    return go_json(value, order="sorted")
