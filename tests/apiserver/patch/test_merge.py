"""Merge patches: RFC 7386."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.patch import merge_patch, merged
from kilauea.apiserver.patch.values import copied
from kilauea.apiserver.status import ApiFault

KEYS = st.sampled_from("abc")
VALUES = st.recursive(
    st.integers(0, 2) | st.booleans(), lambda each: st.lists(each, max_size=2) | st.dictionaries(KEYS, each, max_size=3)
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=3)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b"}, {"x": None}, {"a": "b"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
    ],
)
def test_a_merge_patch_changes_the_document(document: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(document, patch) == expected


def test_a_patch_that_is_no_object_is_refused() -> None:
    with pytest.raises(ApiFault) as refused:
        merge_patch({}, [])
    assert refused.value.code == 400
    assert (
        str(refused.value)
        == "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
    )


def difference(old: Any, new: Any) -> Any:
    """The merge patch from one document to another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {
        key: difference(old.get(key), value) for key, value in new.items() if key not in old or old[key] != value
    }
    return {**{key: None for key in old if key not in new}, **changed}


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_of_two_documents_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    assert merge_patch(copied(old), difference(old, new)) == new


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_a_merge_that_shares_parts_is_the_same_and_leaves_the_document_as_it_is(old: Any, new: Any, more: Any) -> None:
    before = copied(old)
    for patch in (difference(old, new), {**more, "list": [{"a": None}, None], "new": {"b": None}}):
        assert merged(old, patch, nulls=True) == merge_patch(copied(old), copied(patch))
    assert old == before


@given(DOCUMENTS, DOCUMENTS)
def test_merging_twice_is_merging_once(old: Any, patch: Any) -> None:
    once = merge_patch(copied(old), copied(patch))
    assert merge_patch(copied(once), copied(patch)) == once
