"""The JSONPath of printer columns, and the cells that come of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver.crd.columns import column_warnings, table_form
from kilauea.apiserver.crd.jsonpath import JsonPathError, find, parse_json_path

OBJECT: dict[str, Any] = {
    "metadata": {
        "name": "a",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app.kubernetes.io/name": "x"},
        "annotations": {"html": "<b>"},
    },
    "spec": {
        "n": 3,
        "list": [{"k": "a", "v": 1}, {"k": "b", "v": 2, "sub": {"on": True}}],
        "map": {"y": 1, "x": 2},
        "nested": [[1, 2], [3, 4]],
        "f": 2.5,
        "b": True,
        "null": None,
    },
}

COLUMNS = (("N", ".spec.n"), ("Broken", ".spec.list[x].v"), ("After", ".spec.n"))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.n", [3]),
        (".spec.list[*].k", ["a", "b"]),
        (".spec.list[0].v", [1]),
        (".spec.list[-1].v", [2]),
        (".spec.list[0:1].v", [1]),
        ('.spec.list[?(@.k=="b")].v', [2]),
        (".spec.list[?(@.v>1)].k", ["b"]),
        (".spec.list[?(@.k)].v", [1, 2]),
        (r".metadata.labels.app\.kubernetes\.io/name", ["x"]),
        (r".metadata.labels['app\.kubernetes\.io/name']", ["x"]),
        (".metadata.labels['app.kubernetes.io/name']", []),
        (".spec.list[-2:].k", ["a", "b"]),
        (".spec.list[::2].k", ["a"]),
        (".spec.list[1:9].k", []),
        (".spec.list[9].k", []),
        (".spec.list[::0].k", []),
        (".spec.list[::-1].k", []),
        (".spec.list[].k", ["a"]),
        (".spec.list[0,1].k", ["a", "b"]),
        (".spec.list.[0].k", []),
        (".spec.map[*]", []),
        (".spec.n[0]", []),
        (".spec.nope[0]", []),
        (".spec.nope[*].x", []),
        (".spec.null", [None]),
        (".spec.null[0]", []),
        (".spec.nested[*][0]", [1, 3]),
        (".spec.nested[*][*]", [1, 2, 3, 4]),
        (".spec.list[?(@['k']=='b')].v", [2]),
        ('.spec.list[?("b"==@.k)].v', [2]),
        (".spec.list[?(@.sub.on==true)].k", ["b"]),
        (".spec.list[?(@.sub.on)].k", ["b"]),
        (".spec.list[?(@.v==1.0)].k", []),
        (".spec.list[?(@.v=='1')].k", []),
        ('.spec.list[?(@.k in "a")].k', ["a", "b"]),
        (".spec.n[?(@.a==1)]", []),
        (".spec.list.k", []),
        (".", []),
        (".spec. n", []),
        (".spec.n ", [3]),
        (".spec.nope.deeper", []),
        ("..k", ["a", "b"]),
        (".spec.map.*", [1, 2]),
    ],
)
def test_a_path_finds_its_values(path: str, values: list[Any]) -> None:
    assert find(path, OBJECT) == values


@pytest.mark.parametrize(
    "path",
    [
        ".spec[*",
        ".spec.list[a]",
        ".spec.list[ 0 ]",
        '.spec["map"]',
        ".spec.list[(@.length-1)]",
        ".spec.list[?(@.k==a b",
        ".spec.list[?(@.k=~'a.*')]",
        ".spec.list[?(@.k=='a' && @.v==1)]",
        ".spec....k",
        ".spec{.n}",
        ".a\nb",
        ".list[99999999999999999999]",
        "[?(" * 2000,
        ".a" * 501,
    ],
)
def test_a_path_that_cannot_be_read_is_an_error(path: str) -> None:
    with pytest.raises(JsonPathError):
        parse_json_path(path)


def test_a_path_that_multiplies_values_finds_none() -> None:
    nested: dict[str, Any] = {}
    for _ in range(200):
        nested = {"a": nested}
    assert find("...*" * 20, nested) == []


@pytest.mark.parametrize(
    "path",
    [
        ".a[*]" + " 1" * 490,  # a constant for each value, again and again
        ".a[?(@" + "[0,0,0,0]" * 8 + ")]",  # filters that find much for each item
        ".a[?(@" + "[0,0,0,0]" * 8 + "==1)]",
        ".a[*]" + "[0,0]" * 100,
    ],
)
def test_a_path_does_no_more_than_a_limited_amount_of_work(path: str) -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    obj = {"a": [deep] * 1000}
    begin = time.process_time()
    assert len(find(path, obj)) == 0
    assert time.process_time() - begin < 1


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
        ("string", ".spec.null", "<no value>"),
        ("integer", ".spec.null", None),
        ("string", ".spec.b", "true"),
        ("string", ".spec.f", "2.5"),
        ("string", ".spec.list[?(@.k=='b')].sub", '{"on":true}'),
        ("string", ".metadata.annotations.html", "<b>"),
        ("string", ".metadata.annotations", '{"html":"\\u003cb\\u003e"}'),
        ("integer", ".spec.f", 2),
        ("number", ".spec.n", 3),
        ("date", ".metadata.name", "<invalid>"),
        ("date", ".spec.list[*].k", "<invalid>"),
    ],
)
def test_a_cell_is_of_the_type_of_its_column_or_empty(kind: str, path: str, cell: Any) -> None:
    form = table_form([{"name": "X", "type": kind, "jsonPath": path}])
    now = parse_time("2026-01-01T00:00:00Z") + 90 * SECOND
    assert form.row(OBJECT, now).cells == ["a", cell]


def test_a_table_ends_before_a_column_that_cannot_be_read() -> None:
    columns = [{"name": name, "type": "integer", "jsonPath": path} for name, path in COLUMNS]
    form = table_form(columns)
    assert [each.name for each in form.columns] == ["Name", "N"]
    assert form.row(OBJECT, 0).cells == ["a", 3]
    (warning,) = column_warnings({"spec": {"versions": [{"additionalPrinterColumns": columns}]}})
    assert warning == (
        "spec.versions[0].additionalPrinterColumns[1].jsonPath: invalid array index x; "
        "tables do not show this column and those after it"
    )


def test_a_kind_without_columns_shows_its_age() -> None:
    assert [each.name for each in table_form([]).columns] == ["Name", "Age"]


def test_all_columns_of_a_row_together_find_only_so_many_values() -> None:
    tree: Any = "leaf"
    for _ in range(14):
        tree = [tree, tree]
    paths = [".spec" + "[*]" * 14, ".spec" + "[*]" * 14, ".spec" + "[*]" * 14, ".metadata.name"]
    form = table_form([{"name": f"C{at}", "type": "string", "jsonPath": path} for at, path in enumerate(paths)])
    assert form.row({"metadata": {"name": "a"}, "spec": tree}, 0).cells == ["a", "leaf", "leaf", None, None]
