"""The JSONPath of printer columns, and the cells that come of them."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver.crd.columns import table_form
from kilauea.apiserver.crd.jsonpath import JsonPathError, find, parse_json_path

OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app.kubernetes.io/name": "x"}},
    "spec": {"n": 3, "list": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "map": {"y": 1, "x": 2}, "f": 2.5, "b": True},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.n", [3]),
        ("{.spec.n}", [3]),
        (".spec.list[*].k", ["a", "b"]),
        (".spec.list[0].v", [1]),
        (".spec.list[-1].v", [2]),
        (".spec.list[0:1].v", [1]),
        ('.spec.list[?(@.k=="b")].v', [2]),
        (".spec.list[?(@.v>1)].k", ["b"]),
        (".spec.list[?(@.k)].v", [1, 2]),
        (r".metadata.labels.app\.kubernetes\.io/name", ["x"]),
        (".metadata.labels['app.kubernetes.io/name']", ["x"]),
        (".spec.nope.deeper", []),
        ("..k", ["a", "b"]),
        (".spec.map.*", [1, 2]),
    ],
)
def test_a_path_finds_its_values(path: str, values: list[Any]) -> None:
    assert find(path, OBJECT) == values


@pytest.mark.parametrize("path", [".spec[*", ".spec.list[?(@.k=)]", ".spec.list[a]", ".spec[]", ".a b"])
def test_a_path_that_cannot_be_read_is_an_error(path: str) -> None:
    with pytest.raises(JsonPathError):
        parse_json_path(path)


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", ".spec.list[*].k", "a"),
        ("string", ".spec.map", '{"x":2,"y":1}'),
        ("string", ".spec.n", "3"),
        ("integer", ".spec.n", 3),
        ("integer", ".metadata.name", None),
        ("number", ".spec.f", 2.5),
        ("boolean", ".spec.b", True),
        ("integer", ".spec.b", None),
        ("date", ".metadata.creationTimestamp", "90s"),
        ("date", ".spec.n", None),
        ("string", ".spec.nope", None),
    ],
)
def test_a_cell_is_of_the_type_of_its_column_or_empty(kind: str, path: str, cell: Any) -> None:
    form = table_form([{"name": "X", "type": kind, "jsonPath": path}])
    now = parse_time("2026-01-01T00:00:00Z") + 90 * SECOND
    assert form.row(OBJECT, now).cells == ["a", cell]


def test_a_kind_without_columns_shows_its_age() -> None:
    assert [each.name for each in table_form([]).columns] == ["Name", "Age"]
