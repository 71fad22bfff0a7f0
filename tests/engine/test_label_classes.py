"""Label classes: numbers for namespaces and labels, from which both can be read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.selectors import INVALID, Requirement, Selector, matches
from kilauea.engine.model.placements import LabelClass, LabelClasses

KEYS = st.sampled_from(["app", "tier", "zone"])
VALUES = st.sampled_from(["", "a", "b", "c"])
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", INVALID])
REQUIREMENTS = st.builds(Requirement, KEYS, OPERATORS, st.lists(VALUES, max_size=3).map(tuple))
SELECTORS = st.none() | st.lists(REQUIREMENTS, max_size=3).map(tuple)
PODS = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.dictionaries(KEYS, VALUES)), max_size=8)


def test_the_same_namespace_and_labels_are_one_class_in_whatever_order() -> None:
    classes = LabelClasses()
    one = classes.id_of("ns", {"app": "web", "tier": "1"})
    assert classes.id_of("ns", {"tier": "1", "app": "web"}) == one
    assert len(classes) == 1


@pytest.mark.parametrize(
    ("namespace", "labels"),
    [
        pytest.param("other", {"app": "web"}, id="another namespace"),
        pytest.param("ns", {"app": "db"}, id="another value"),
        pytest.param("ns", {"web": "app"}, id="key and value exchanged"),
        pytest.param("ns", {}, id="no label"),
        pytest.param("app", {"ns": "web"}, id="a namespace with the text of a key"),
    ],
)
def test_a_class_is_what_it_was_made_of(namespace: str, labels: dict[str, str]) -> None:
    classes = LabelClasses()
    first, other = classes.id_of("ns", {"app": "web"}), classes.id_of(namespace, labels)
    assert first != other
    assert classes.get(first) == LabelClass("ns", {"app": "web"})
    assert classes.get(other) == LabelClass(namespace, labels)


def test_classes_are_found_by_a_label() -> None:
    classes = LabelClasses()
    for namespace, labels in (("ns", {"app": "web"}), ("other", {"app": "web", "zone": "a"}), ("ns", {"app": "db"})):
        classes.id_of(namespace, labels)
    assert classes.selected((Requirement("app", "In", ("web",)),)).tolist() == [True, True, False]
    assert classes.selected((Requirement("app", "In", ("none",)),)).tolist() == [False, False, False]
    assert classes.selected(()).tolist() == [True, True, True]


@given(PODS, SELECTORS, PODS)
def test_the_classes_that_a_selector_matches_are_those_whose_labels_it_matches(
    pods: list[tuple[str, dict[str, str]]], selector: Selector | None, later: list[tuple[str, dict[str, str]]]
) -> None:
    classes = LabelClasses()
    for some in (pods, later):
        for namespace, labels in some:
            classes.id_of(namespace, labels)
        there = [classes.get(number) for number in range(len(classes))]
        assert classes.selected(selector).tolist() == [matches(selector, each.labels) for each in there]
        assert classes.within(["two"]).tolist() == [each.namespace == "two" for each in there]
