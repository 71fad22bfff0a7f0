"""What all controllers read and write of objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import LabelSelector
from kilauea.api.selectors import matches, selector_of
from kilauea.apiserver.patch.merge import merge_patch as applied
from kilauea.controllers.objects import matcher, merge_patch

VALUES = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 1), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"b": 2}, {"a": None, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, {"a": {"b": None}}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_a_merge_patch_names_what_differs(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(old, new) == patch


@given(MAPPINGS, MAPPINGS)
def test_a_merge_patch_makes_one_of_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert applied(old, merge_patch(old, new)) == new
    assert merge_patch(new, new) == {}


WORDS = st.sampled_from(("a", "b", "c", "not a label"))
REQUIREMENTS = st.lists(
    st.fixed_dictionaries(
        {"key": WORDS, "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Near"))},
        optional={"values": st.lists(WORDS, max_size=2)},
    ),
    max_size=4,
)
LABELS = st.dictionaries(WORDS, WORDS, max_size=3)


@given(LABELS, REQUIREMENTS, LABELS)
def test_a_matcher_says_what_the_requirements_say_one_by_one(
    wanted: dict[str, str], requirements: list[dict[str, Any]], labels: dict[str, str]
) -> None:
    selector = {"matchLabels": wanted, "matchExpressions": requirements}
    one_by_one = matches(selector_of(msgspec.convert(selector, LabelSelector)), labels)
    if requirements:  # alone, labels are compared as they are
        assert matcher(selector)(labels) == one_by_one


class Looked(dict[str, str]):
    """Labels that count how often one of them is looked at."""

    looks = 0

    def items(self) -> Any:
        for each in super().items():
            self.looks += 1
            yield each


def test_to_match_labels_takes_as_long_as_there_are_labels_not_requirements() -> None:
    requirements = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(10_000)]
    labels = Looked(app="web")
    assert matcher({"matchExpressions": requirements})(labels)
    assert labels.looks == 1


def test_nothing_matches_no_selector_and_everything_an_empty_one() -> None:
    assert (matcher(None)({"a": "b"}), matcher({})({"a": "b"})) == (False, True)
