"""Which classes of pods a selector matches, for all classes at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.selectors import INVALID, Requirement, Selector, matches
from kilauea.engine.model.placements import LabelClasses

KEYS = st.sampled_from(["app", "tier", "zone"])
VALUES = st.sampled_from(["", "a", "b", "c"])
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", INVALID])
REQUIREMENTS = st.builds(Requirement, KEYS, OPERATORS, st.lists(VALUES, max_size=3).map(tuple))
SELECTORS = st.none() | st.lists(REQUIREMENTS, max_size=3).map(tuple)
PODS = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.dictionaries(KEYS, VALUES)), max_size=8)


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
