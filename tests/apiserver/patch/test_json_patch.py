"""JSON patches: RFC 6902 with the leniencies of the real server."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.patch import json_patch
from kilauea.apiserver.patch.values import copied
from kilauea.apiserver.status import ApiFault

PLAIN = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3)
KEYS = st.text("ab/~", min_size=1, max_size=3)
VALUES = st.recursive(PLAIN, lambda each: st.lists(each, max_size=3) | st.dictionaries(KEYS, each, max_size=3))
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def op(op: str, path: str, *value: Any, **more: Any) -> dict[str, Any]:
    """One operation."""
    return {"op": op, "path": path, **({"value": value[0]} if value else {}), **more}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (op("add", "/c", 1), {"a": {"x": 1}, "b": [1, 2], "c": 1}),
        (op("add", "/b/0", 0), {"a": {"x": 1}, "b": [0, 1, 2]}),
        (op("add", "/b/-", 3), {"a": {"x": 1}, "b": [1, 2, 3]}),
        (op("add", "/b/2", 3), {"a": {"x": 1}, "b": [1, 2, 3]}),
        (op("add", "/b/-1", 3), {"a": {"x": 1}, "b": [1, 2, 3]}),
        (op("add", "/c"), {"a": {"x": 1}, "b": [1, 2], "c": None}),
        (op("add", "/a/y~1z~0", 1), {"a": {"x": 1, "y/z~": 1}, "b": [1, 2]}),
        (op("remove", "/a/x"), {"a": {}, "b": [1, 2]}),
        (op("remove", "/b/-1"), {"a": {"x": 1}, "b": [1]}),
        (op("replace", "/a", 1), {"a": 1, "b": [1, 2]}),
        (op("replace", "/missing", 1), {"a": {"x": 1}, "b": [1, 2], "missing": 1}),
        (op("replace", "", {"new": 1}), {"new": 1}),
        (op("move", "/c", **{"from": "/a/x"}), {"a": {}, "b": [1, 2], "c": 1}),
        (op("copy", "/c", **{"from": "/b"}), {"a": {"x": 1}, "b": [1, 2], "c": [1, 2]}),
        (op("copy", "/c", **{"from": "/missing"}), {"a": {"x": 1}, "b": [1, 2], "c": None}),
        (op("test", "/a/x", 1), {"a": {"x": 1}, "b": [1, 2]}),
        (op("test", "/missing", None), {"a": {"x": 1}, "b": [1, 2]}),
    ],
    ids=str,
)
def test_an_operation_changes_the_document(operation: dict[str, Any], expected: Any) -> None:
    assert json_patch({"a": {"x": 1}, "b": [1, 2]}, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/missing/x", 1),
        op("add", "/b/3", 1),
        op("add", "/b/x", 1),
        op("add", "", {}),
        op("add", "/a/x/y", 1),
        op("remove", "/missing"),
        op("remove", "/b/2"),
        op("replace", "/b/2", 1),
        op("replace", "", 1),
        op("move", "/c", **{"from": "/missing"}),
        op("test", "/a/x", True),
        op("test", "/a/x", 2),
        op("test", "/missing", 1),
        op("mend", "/a", 1),
        {"path": "/a"},
        {"op": "add"},
    ],
    ids=str,
)
def test_an_operation_that_does_not_fit_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(ApiFault) as refused:
        json_patch({"a": {"x": 1}, "b": [1, 2]}, [operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert str(refused.value) == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        (
            {"op": "add"},
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            ["add"],
            400,
            "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            [op("test", "/a", 1)] * 10_001,
            413,
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
    ],
    ids=["object", "string", "many"],
)
def test_what_is_no_json_patch_is_refused(operations: Any, code: int, message: str) -> None:
    with pytest.raises(ApiFault) as refused:
        json_patch({"a": 1}, operations)
    assert (refused.value.code, str(refused.value)) == (code, message)


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_of_two_documents_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    assert json_patch(copied(old), jsonpatch.make_patch(old, new).patch) == new
