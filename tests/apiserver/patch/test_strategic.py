"""Strategic merge patches: a table of what each order does, and the law that a difference leads to its target."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.patch import strategic_merge
from kilauea.apiserver.patch.values import copied
from kilauea.apiserver.schema import from_openapi
from kilauea.apiserver.status import ApiFault

TEXT = {"type": "string"}
PART = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "size": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": TEXT},
    },
}
SCHEMA = from_openapi(
    {
        "properties": {
            "labels": {"type": "object", "additionalProperties": TEXT},
            "words": {"type": "array", "items": TEXT},
            "marks": {"type": "array", "items": TEXT, "x-kubernetes-patch-strategy": "merge"},
            "parts": {
                "type": "array",
                "items": PART,
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
            },
            "whole": {"type": "object", "additionalProperties": TEXT, "x-kubernetes-patch-strategy": "replace"},
        }
    }
)


def parts(*names: str) -> list[dict[str, Any]]:
    """Items with these names."""
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"labels": {"a": "1"}}, {"labels": {"a": None}}, {"labels": {}}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"$retainKeys": ["b"]}}, {"labels": {"b": "2"}}),
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, {"whole": {"b": "2"}}),
        ({"words": ["a"]}, {"words": ["b"]}, {"words": ["b"]}),
        ({"marks": ["a", "b"]}, {"marks": ["c", "a"]}, {"marks": ["c", "a", "b"]}),
        ({"marks": ["a", "b", "a"]}, {"$deleteFromPrimitiveList/marks": ["a"]}, {"marks": ["b"]}),
        ({}, {"$deleteFromPrimitiveList/marks": ["a"]}, {}),
        ({"marks": ["a", "b"]}, {"$setElementOrder/marks": ["b", "a"]}, {"marks": ["b", "a"]}),
        ({}, {"$setElementOrder/marks": ["b", "a"], "marks": ["a"]}, {"marks": ["a"]}),
        (
            {"parts": [{"name": "a", "size": 1}, {"name": "b"}]},
            {"parts": [{"name": "a", "size": 2}]},
            {"parts": [{"name": "a", "size": 2}, {"name": "b"}]},
        ),
        ({"parts": parts("a", "b")}, {"parts": parts("c", "b")}, {"parts": parts("c", "a", "b")}),
        ({"parts": parts("a", "b")}, {"parts": [{"$patch": "delete", "name": "a"}]}, {"parts": parts("b")}),
        ({"parts": parts("a", "b")}, {"parts": [{"$patch": "replace"}, *parts("c")]}, {"parts": parts("c")}),
        (
            {"parts": parts("server", "a", "b")},
            {"$setElementOrder/parts": parts("b", "a")},
            {"parts": parts("server", "b", "a")},
        ),
        ({}, {"parts": [{"$patch": "delete", "name": "a"}, {"name": "b", "size": None}]}, {"parts": parts("b")}),
        ({}, {"labels": {"$patch": "delete"}}, {}),
        ({"parts": []}, {"parts": []}, {"parts": []}),
    ],
    ids=str,
)
def test_a_patch_changes_the_document(document: Any, patch: Any, expected: Any) -> None:
    assert strategic_merge(document, patch, SCHEMA) == expected


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ([], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ({"parts": [{"size": 1}]}, 500, "map: map[size:1] does not contain declared merge key: name"),
        ({"parts": [{"$patch": "delete"}]}, 500, "map: map[$patch:delete] does not contain declared merge key: name"),
        ({"parts": [{"$patch": "x"}]}, 500, "unknown patch type: x in map: map[$patch:x]"),
        ({"parts": [{"$patch": "merge"}]}, 500, "merging lists cannot yet be specified in the patch"),
        ({"parts": [[1]]}, 422, "the server rejected our request due to an error in our request"),
        ({"labels": {"$patch": "merge"}}, 500, "unknown patch type: merge in map: map[$patch:merge]"),
        ({"labels": {"$retainKeys": "a"}}, 400, "invalid patch format of retainKeys"),
        ({"labels": {"$retainKeys": ["a"], "b": "1"}}, 400, "invalid patch format of retainKeys"),
        ({"$deleteFromPrimitiveListmarks": []}, 400, "invalid patch format of primitive list"),
        ({"$setElementOrdermarks": []}, 400, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/marks": 1}, 500, "expected a []interface {}, but received a int64"),
    ],
    ids=str,
)
def test_a_patch_of_the_wrong_form_is_refused(patch: Any, code: int, message: str) -> None:
    with pytest.raises(ApiFault) as refused:
        strategic_merge({"parts": parts("a"), "marks": ["a"], "labels": {"c": "d"}}, patch, SCHEMA)
    assert (refused.value.code, str(refused.value)) == (code, message)


# --- the difference of two documents

_WORDS = st.sampled_from("abcd")
_LABELS = st.dictionaries(_WORDS, _WORDS, max_size=3)
_PARTS = st.lists(
    st.fixed_dictionaries({"name": _WORDS}, optional={"size": st.integers(0, 2), "labels": _LABELS}),
    max_size=4,
    unique_by=lambda part: part["name"],
)
_MARKS = st.lists(_WORDS, max_size=4, unique=True)
DOCUMENTS = st.fixed_dictionaries(
    {"labels": _LABELS, "words": st.lists(_WORDS, max_size=2), "marks": _MARKS, "parts": _PARTS}
)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The strategic merge patch from one document (or item) to another."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before: Any = old.get(key)
        if key == "parts":
            patch["parts"] = part_changes(before or [], value)
            patch["$setElementOrder/parts"] = [{"name": part["name"]} for part in value]
        elif key == "marks":
            patch["marks"] = [mark for mark in value if mark not in before]
            patch["$deleteFromPrimitiveList/marks"] = [mark for mark in before if mark not in value]
            patch["$setElementOrder/marks"] = value
        elif isinstance(before, dict):
            patch[key] = difference(before, value)
        elif before != value:
            patch[key] = value
    return patch


def part_changes(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a patch."""
    before = {part["name"]: part for part in old}
    after = {part["name"]: part for part in new}
    changed = [{**difference(before.get(name, {}), part), "name": name} for name, part in after.items()]
    return changed + [{"$patch": "delete", "name": name} for name in before if name not in after]


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_of_two_documents_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    assert strategic_merge(copied(old), difference(old, new), SCHEMA) == new


@given(DOCUMENTS, DOCUMENTS)
def test_merging_twice_is_merging_once(old: Any, new: Any) -> None:
    patch = difference(old, new)
    once = strategic_merge(copied(old), copied(patch), SCHEMA)
    assert strategic_merge(copied(once), copied(patch), SCHEMA) == once
